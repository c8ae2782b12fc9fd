"""What was in effect as settings were kept, brought back for launches beside those of now."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from autotune.guard.before import (
    FILE,
    Private,
    Restoration,
    keep_private,
    kept_private,
    lost_for_good,
    restoration,
)
from autotune.guard.facts import Facts
from autotune.guard.kept import Kept
from autotune.stacks.ports import Rendering

HERE = SimpleNamespace(mpirun=Path("/opt/mpi/bin/mpirun"), version="5.0.11")


@pytest.fixture
def home(tmp_path, monkeypatch):
    for name in ("UCX_TLS", "OMPI_MCA_pml", "UCX_X_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "home" / ".openmpi").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def facts(environment=(), files=(), **more):
    """Facts of these variables and parameter files."""
    files = {str(path): value for path, value in dict(files).items()}
    return Facts(environment=dict(environment), files=files, parameters=tuple(files), **more)


def kept(of, private=""):
    return Kept("2026-11-01T02:00:00Z", "/opt/tuned", {}, of, {}, private=private)


def test_variables_that_changed_are_as_they_were_and_new_ones_are_taken_away(home, tmp_path):
    then = facts({"prefix": "/opt/mpi", "UCX_TLS": "1a", "UCX_GONE": "2b", "UCX_SAME": "3c", "UCX_KEY": "4d"})
    now = facts({"prefix": "/opt/new", "UCX_TLS": "ff", "UCX_SAME": "3c", "UCX_NEW": "5e", "PRTE_X": "6f"})
    values = Private({"UCX_TLS": "self", "UCX_GONE": "y", "UCX_SAME": "z"})
    change = restoration(kept(then), now, values, HERE, tmp_path)
    assert change.env == {"UCX_TLS": "self", "UCX_GONE": "y"}
    assert change.unset == ("UCX_NEW",)
    assert change.lacking == ("the value of UCX_KEY", "the launcher without PRTE_X")
    amended = change.amended(Rendering(env={"UCX_TLS": "of the settings", "UCX_NEW": "too"}))
    assert amended.env == {"UCX_TLS": "of the settings", "UCX_GONE": "y", "UCX_NEW": "too"}
    assert amended.unset == ()


def test_of_what_somebody_else_kept_new_variables_can_be_taken_away_and_no_more(home, tmp_path):
    then, now = facts({"UCX_TLS": "1a"}), facts({"UCX_TLS": "ff", "UCX_NEW": "5e"})
    change = restoration(kept(then), now, None, HERE, tmp_path)
    assert (change.env, change.unset, change.lacking) == ({}, ("UCX_NEW",), ("the value of UCX_TLS",))
    assert restoration(kept(then), then, None, HERE, tmp_path) == Restoration()


def test_files_at_home_are_read_from_a_home_of_then(home, tmp_path):
    edited, new, gone = home / ".openmpi/mca-params.conf", home / "ucx.conf", home / ".prte/mca-params.conf"
    then = facts(files={edited: "1a", new: "", gone: "2b"})
    now = facts(files={edited: "ff", new: "3c", gone: ""})
    values = Private(files={str(edited): "pml = ob1\n", str(gone): "x = 1\n"})
    change = restoration(kept(then), now, values, HERE, tmp_path)
    place = Path(change.env["HOME"])
    assert (place / ".openmpi/mca-params.conf").read_text() == "pml = ob1\n"
    assert (place / ".prte/mca-params.conf").read_text() == "x = 1\n"
    assert not (place / "ucx.conf").exists()
    assert change.env["XDG_CACHE_HOME"].startswith((str(home), "/"))
    assert change.lacking == ()
    lacking = restoration(kept(then), now, None, HERE, tmp_path).lacking
    assert lacking == (f"{edited} as it was", f"{gone} as it was")


def test_the_systems_parameter_file_is_named_by_a_variable_and_others_cannot_be(home, tmp_path):
    system, override = (Path(f"/opt/mpi/etc/openmpi-mca-params{end}.conf") for end in ("", "-override"))
    then, now = facts(files={system: "", override: ""}), facts(files={system: "1a", override: "2b"})
    change = restoration(kept(then), now, Private(), HERE, tmp_path)
    first, second = change.env["OMPI_MCA_mca_base_param_files"].split(":")
    assert first == f"{home}/.openmpi/mca-params.conf"
    assert Path(second).read_text() == ""
    assert change.lacking == (f"{override} as it was",)


def test_values_are_kept_for_the_user_alone_without_secrets(home, tmp_path, monkeypatch):
    monkeypatch.setenv("UCX_TLS", "self")
    monkeypatch.setenv("UCX_X_TOKEN", "swordfish")
    path = home / "ucx.conf"
    path.write_text("UCX_TLS=tcp\n")
    of = facts(files={path: hashlib.sha256(path.read_bytes()).hexdigest(), home / "none": ""})
    (tmp_path / FILE).write_text("somebody's")
    (tmp_path / FILE).chmod(0o644)
    checksum = keep_private(tmp_path, of)
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600
    assert "swordfish" not in (tmp_path / FILE).read_text()
    found = kept_private(tmp_path, kept(of, checksum))
    assert found.environment["UCX_TLS"] == "self"
    assert found.files == {str(path): "UCX_TLS=tcp\n"}
    assert checksum in kept(of, checksum).meant  # so that the seal vouches for it


@pytest.mark.parametrize("spoilt", ["changed", "writable", "a link", "not named", "gone"])
def test_what_others_could_have_written_is_not_put_into_effect(home, tmp_path, spoilt):
    of = facts()
    checksum, path = keep_private(tmp_path, of), tmp_path / FILE
    document = json.loads(path.read_text())
    if spoilt == "changed":
        path.write_text(json.dumps({**document, "environment": {"LD_PRELOAD": "/elsewhere/evil.so"}}))
    elif spoilt == "writable":
        path.chmod(0o666)
    elif spoilt == "a link":
        path.rename(tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere")
    elif spoilt == "gone":
        path.unlink()
    assert kept_private(tmp_path, kept(of, "" if spoilt == "not named" else checksum)) is None


def test_what_no_launch_can_bring_back_is_named(tmp_path):
    library = tmp_path / "libucp.so.0"
    library.write_bytes(b"new")
    then = facts(machine={"kernel": "5.1"}, stack={"UCX": "1.18", "Open MPI": "5.0.10"})
    now = replace(then, machine={"kernel": "6.1"}, stack={"UCX": "1.20", "Open MPI": "5.0.10"})
    assert list(lost_for_good(kept(then), now, kept_mpi_runs=False)) == ["kernel 5.1", "UCX 1.18"]
    assert list(lost_for_good(kept(then), now, kept_mpi_runs=True)) == ["kernel 5.1"]
    assert list(lost_for_good(kept(then), then, kept_mpi_runs=False)) == []
    swapped = replace(then, files={str(library): "1a"})
    assert list(lost_for_good(kept(swapped), swapped, kept_mpi_runs=False)) == ["libucp.so.0 as kept"]
