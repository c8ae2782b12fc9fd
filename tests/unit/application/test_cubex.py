"""A CubeX profile of known calls, written by Score-P's own library, becomes the recording of these calls."""

from pathlib import Path

import pytest

from autotune.application.cubex import read_cubex
from autotune.application.recording import read_recording
from autotune.application.scenario import of_recording
from autotune.cli import main
from autotune.errors import ExitCode, TableError

PROFILE = Path(__file__).parents[2] / "data" / "applications" / "profile.cubex"
"""Made by profile_cubex.c beside it."""

KNOWN = {
    ("allreduce", "blocking", 4, 64.0): (400, 0.1),
    ("allreduce", "blocking", 4, 4096.0): (200, 0.1),
    ("allreduce", "blocking", 2, 64.0): (20, 0.005),
    ("bcast", "blocking", 4, 256.0): (120, 0.003),
    ("gather", "blocking", 4, 32.0): (80, 0.002),
    ("alltoall", "blocking", 4, 1024.0): (160, 0.02),
    ("scan", "blocking", 4, 8.0): (20, 0.00005),
    ("barrier", "blocking", 4, 0.0): (100, 0.00025),
    ("allreduce", "non-blocking", 4, 0.0): (60, 0.000015),
    ("reduce", "blocking", 4, 128.0): (32, 0.0008),
    ("scatter", "blocking", 4, 512.0): (48, 0.0012),
    ("exscan", "blocking", 4, 16.0): (24, 0.00006),
    ("allgather", "blocking", 4, 2048.0): (36, 0.0009),
    ("allreduce", "persistent", 4, 0.0): (4, 0.000001),
}
"""Calls of all ranks, and seconds of a mean rank."""


def test_calls_sizes_and_times_are_those_of_the_profile():
    found = read_cubex(PROFILE)
    assert (found.ranks, found.nodes, found.run_s, found.ended) == (4, 2, 10.0, "finalized")
    calls = {(c.collective, c.kind, c.comm_size, c.message_bytes): (c.calls, c.seconds) for c in found.calls}
    assert calls == {key: (n, pytest.approx(seconds)) for key, (n, seconds) in KNOWN.items()}
    assert not found.waiting_known


def test_a_profile_is_recorded_and_tuned_for(tmp_path, capsys):
    out = tmp_path / "calls.json"
    assert main(["record", "--trace", str(PROFILE), "--out", str(out)]) == ExitCode.WELL
    said = capsys.readouterr().out
    assert "waiting for others, which no tuning takes away, is not known" in said
    assert "drawn by lot" not in said
    assert read_recording(out.read_text(), "calls.json") == read_cubex(PROFILE)
    filled = of_recording({"calls": str(out)})
    assert filled["cluster"] == {"nodes": 2, "comm_sizes": [4], "ranks": 4}
    assert filled["collective"] == ["allreduce", "alltoall", "bcast"]


def test_what_is_no_profile_is_one_message(tmp_path, capsys, monkeypatch):
    whole = PROFILE.read_bytes()
    for name, data in (("text", b"no profile"), ("half", whole[: len(whole) // 2]), ("empty", b"")):
        damaged = tmp_path / f"{name}.cubex"
        damaged.write_bytes(data)
        with pytest.raises(TableError, match="cannot be read as a CubeX profile"):
            read_cubex(damaged)
    missing = tmp_path / "missing.cubex"
    assert main(["record", "--trace", str(missing), "--out", str(tmp_path / "c.json")]) == ExitCode.MISTAKE
    assert "cannot be read as a CubeX profile" in capsys.readouterr().err
    assert main(["plan", "conf=application", f"calls={PROFILE}"]) == ExitCode.MISTAKE
    assert "record --trace" in capsys.readouterr().err
