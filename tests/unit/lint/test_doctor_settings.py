"""``doctor`` names the setting under which MPI does not start, whatever library refuses it."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from autotune.cli import main
from autotune.errors import StackError
from autotune.lint.doctor_settings import Setting, breaking, diagnosed, environment
from autotune.stacks.stack import reason
from autotune.stacks.ucx import parse
from tests.schemas import answer


def setting(name, value="1"):
    return Setting(name, name, value)


@pytest.mark.parametrize("bad", [{"a"}, {"h"}, {"d"}, {"b", "g"}, {"a", "b", "c"}, set("abcdefgh")])
def test_every_breaking_setting_is_found_by_halving(bad):
    asked = []

    def under(settings):
        asked.append(settings)
        return ", ".join(one.name for one in settings if one.name in bad)

    found = breaking([setting(name) for name in "abcdefgh"], under)
    assert {one.name for one, _ in found} == bad
    assert [message for _, message in found if message not in bad] == []  # each with its own message
    assert len(asked) <= 1 + 4 * len(bad)


def test_settings_that_break_only_together_lose_one_of_them():
    def under(settings):
        return "both" if {"b", "e"} <= {one.name for one in settings} else ""

    assert [one.name for one, _ in breaking([setting(name) for name in "abcdef"], under)] == ["e"]


def failing(**bad):
    """An attempt that fails while one of these variables has its value."""

    def attempt():
        for name, value in bad.items():
            if os.environ.get(name) == value:
                raise StackError(f"{name} is refused")

    return attempt


@pytest.mark.parametrize(
    ("env", "bad"),
    [
        ({"UCX_TLS": "rc", "UCX_NET_DEVICES": "mlx5_0:1"}, {"UCX_TLS": "rc"}),
        ({"OMPI_MCA_pml": "nonexistent", "UCX_TLS": "tcp"}, {"OMPI_MCA_pml": "nonexistent"}),
        ({"PMIX_MCA_gds": "nope"}, {"PMIX_MCA_gds": "nope"}),
        ({"MPIR_CVAR_NOLOCAL": "1x", "FI_PROVIDER": "tcp"}, {"MPIR_CVAR_NOLOCAL": "1x"}),
        ({"LD_LIBRARY_PATH": "/other/lib", "OMPI_MCA_pml": "ob1"}, {"LD_LIBRARY_PATH": "/other/lib"}),
    ],
)
def test_a_variable_is_named_with_what_the_library_says(tmp_path, env, bad):
    before = dict(os.environ)
    diagnosis = diagnosed(failing(**bad), env, tmp_path, tmp_path)
    ((name, value),) = bad.items()
    assert [(one.label, one.value, said) for one, said in diagnosis.broken] == [
        (name, value, f"{name} is refused")
    ]
    assert diagnosis.environment == {n: v for n, v in env.items() if n != name}
    assert dict(os.environ) == before


@pytest.mark.parametrize(
    ("file", "line", "variable"),
    [
        (".openmpi/mca-params.conf", "btl = tcp", "OMPI_MCA_btl"),
        (".pmix/mca-params.conf", "gds = nope", "PMIX_MCA_gds"),
        (".prte/mca-params.conf", "rmaps = nope", "PRTE_MCA_rmaps"),
        ("ucx.conf", "UCX_TLS=rc", "UCX_TLS"),
    ],
)
def test_a_line_of_a_parameter_file_is_named(tmp_path, file, line, variable):
    home, empty = tmp_path / "home", tmp_path / "empty"
    (home / file).parent.mkdir(parents=True)
    (home / file).write_text(f"# mine\n{line}\n")
    name, value = line.replace(" ", "").split("=")

    def attempt():
        if os.environ.get(variable) == value or os.environ["HOME"] == str(home):
            raise StackError("refused")

    diagnosis = diagnosed(attempt, {"HOME": str(home)}, home, empty)
    assert [one.label for one, _ in diagnosis.broken] == [f"~/{file}: {name}"]
    assert diagnosis.environment["HOME"] == str(empty)


def test_an_mpi_that_starts_under_no_setting_is_nobodys_setting(tmp_path):
    def attempt():
        raise StackError("no MPI")

    assert diagnosed(attempt, {"UCX_TLS": "rc"}, tmp_path, tmp_path) is None


def test_another_environment_lasts_as_long_as_its_block(monkeypatch):
    monkeypatch.setenv("UCX_TLS", "rc")
    with pytest.raises(KeyError), environment({"A": "1"}):
        assert dict(os.environ) == {"A": "1"}
        raise KeyError
    assert os.environ["UCX_TLS"] == "rc" and "A" not in os.environ


def test_an_mpi_that_never_starts_has_its_table_all_the_same(tmp_path, monkeypatch, capsys):
    """An installation whose tools are gone, as after a half upgrade."""
    mpirun = tmp_path / "bin" / "mpirun"
    mpirun.parent.mkdir()
    mpirun.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "mpirun (Open MPI) 5.0.11"\n')
    mpirun.chmod(0o755)
    (tmp_path / "lib").mkdir()
    shutil.copy(sys.executable, tmp_path / "lib" / "libmpi.so.40")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert main(["doctor", "--json", "--mpirun", str(mpirun)]) == 2
    findings = answer(capsys.readouterr().out)["findings"]
    assert findings["MPI"] == "Open MPI 5.0.11"
    assert "ompi_info" in findings["first launch"] and "machine now" in findings


UCX = "[1.5] [n1:1 :0]  ucp_context.c:1381 UCX  {}  {}\n"
LIBRARY = Path("/opt/ucx/lib/libucp.so.0")


def test_what_ucx_refuses_is_whole_and_without_its_time():
    text = "version 1.20.1\n" + UCX.format("WARN", "transport 'rc' is not available, please use: tcp")
    text += 2 * UCX.format("ERROR", "no usable transports/devices (asked rc on all devices)")
    with pytest.raises(StackError) as refused:
        parse(text, LIBRARY)
    assert refused.value.message == (
        f"UCX at {LIBRARY} does not start: no usable transports/devices (asked rc on all devices)"
    )


def test_what_ucx_warns_of_is_kept():
    text = "version 1.20.1\n" + UCX.format("WARN", "network device 'mlx5_0' is not available")
    found = parse(f"{text}#     resource 0  :  md 0  dev 0  flags -- self/memory\n", LIBRARY)
    assert found.transports == ("self",) and found.warnings == ("network device 'mlx5_0' is not available",)


def test_the_first_framed_message_is_the_reason():
    frame = "-" * 74
    text = f"{frame}\nno pml nope\n{frame}\n\0\n{frame}\nprterun has exited\n{frame}\n"
    assert reason(text) == "no pml nope"
    assert reason("a\nb\n\0c\n") == "a\n  b\n  c"
