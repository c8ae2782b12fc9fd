"""What was kept is read as it was written, whatever happened to the files, and not what others wrote."""

import json
import os
import re
import resource
import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from autotune.errors import UserError
from autotune.guard.facts import Facts, VariableDescription
from autotune.guard.kept import KEPT, NIGHTS, Kept, add_night, read_kept, read_nights, since_kept, write_kept
from tests.unit.guard.nights_of import Machine

VARIABLES = {"ucx": {"UCX_TLS": VariableDescription("list", "all", ("a",))}}
FACTS = Facts({"Open MPI": "5.0.11"}, {}, {"/x": "1"}, "/bin/mpirun", VARIABLES)
WHAT = Kept("2026-11-01T00:00:00Z", "/opt/x", {"format": "autotune recommendation"}, FACTS, {"name": "x"})


def nights(n=3):
    return Machine().nights(n, np.random.default_rng(1), each=4)


def test_it_is_read_as_it_was_written(tmp_path):
    write_kept(tmp_path, WHAT)
    assert read_kept(tmp_path) == WHAT
    for night in nights():
        add_night(tmp_path, night)
    assert read_nights(tmp_path) == tuple(nights())
    assert (tmp_path / NIGHTS).stat().st_mode & 0o444 == 0o444


def test_wherever_a_night_was_cut_the_next_one_is_read(tmp_path):
    first, second, third = nights()
    add_night(tmp_path, first)
    length = (tmp_path / NIGHTS).stat().st_size
    add_night(tmp_path, second)
    whole = (tmp_path / NIGHTS).read_bytes()
    inner = [length + i for i, byte in enumerate(whole[length:-2], start=1) if byte == ord("}")]
    for end in (length + 1, *inner[::50], len(whole) - 1):  # behind an inner brace a line looks complete
        (tmp_path / NIGHTS).write_bytes(whole[:end])
        assert read_nights(tmp_path) == (first,)
        add_night(tmp_path, third)
        assert read_nights(tmp_path) == (first, third)


def test_checks_that_end_at_once_lose_no_night(tmp_path):
    made = [replace(night, date=f"{i:04d}") for i, night in enumerate(nights(1) * 40)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda night: add_night(tmp_path, night), made))
    assert sorted(read_nights(tmp_path), key=lambda night: night.date) == made


def test_a_full_disk_takes_no_earlier_night(tmp_path):
    first, second, _ = nights()
    add_night(tmp_path, first)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, ((tmp_path / NIGHTS).stat().st_size + 100, limit[1]))
    try:
        with pytest.raises(OSError, match="large"):
            add_night(tmp_path, second)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, before)
    assert read_nights(tmp_path) == (first,)
    add_night(tmp_path, second)
    assert read_nights(tmp_path) == (first, second)


@pytest.mark.parametrize(
    "text, said",
    [
        ("{", "damaged"),
        ("[]", "expected a mapping"),
        ("[" * 100_000, "damaged"),
        (json.dumps({"date": "x"}), "lacks"),
        (None, "cannot be read"),
    ],
)
def test_what_is_damaged_is_one_message(tmp_path, text, said):
    if text is not None:
        (tmp_path / KEPT).write_text(text)
    with pytest.raises(UserError, match=said):
        read_kept(tmp_path)


def test_a_newer_version_and_what_others_could_write_are_refused(tmp_path):
    write_kept(tmp_path, replace(WHAT, version=99))
    with pytest.raises(UserError, match="version 99"):
        read_kept(tmp_path)
    write_kept(tmp_path, WHAT)
    (tmp_path / KEPT).chmod(0o666)
    with pytest.raises(UserError, match="another user"):
        read_kept(tmp_path)


def test_no_night_is_added_through_a_link(tmp_path):
    (mine := tmp_path / "mine").write_text("a last line without an end")
    (tmp_path / NIGHTS).symlink_to(mine)
    with pytest.raises(OSError, match="symbolic"):
        add_night(tmp_path, nights(1)[0])
    assert mine.read_text() == "a last line without an end"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_what_belongs_to_somebody_else_is_refused(tmp_path):
    write_kept(tmp_path, WHAT)
    os.chown(tmp_path / KEPT, 12345, 12345)
    with pytest.raises(UserError, match="another user"):
        read_kept(tmp_path)


@pytest.mark.parametrize("seconds", ["NaN", "-1e-6", "0", "null", "Infinity", "1e400"])
def test_a_night_of_times_that_no_clock_shows_is_refused(tmp_path, seconds):
    add_night(tmp_path, nights()[0])
    text = (tmp_path / NIGHTS).read_text()
    (tmp_path / NIGHTS).write_text(re.sub(r'(/8":)[^,}]+', rf"\g<1>{seconds}", text, count=1))
    with pytest.raises(UserError, match=f"{NIGHTS}, line 1"):
        read_nights(tmp_path)


def test_nights_are_in_the_order_of_their_checks_whatever_a_clock_said(tmp_path):
    """The clock was set back after what was kept: a check of that day was taken for an earlier one."""
    (kept,) = nights(1)
    kept = replace(kept, date="2026-11-28T11:00:00Z", kept=True)
    check = replace(kept, date="2026-11-28T09:00:00Z", kept=False)
    for night in (replace(check, date="2026-11-27T02:00:00Z"), kept, check):
        add_night(tmp_path, night)
    assert since_kept(read_nights(tmp_path)) == (kept, check)
