"""Which library belongs to a launcher."""

import sysconfig

import pytest

from autotune.errors import StackError
from autotune.stacks.installation import find, output, unreached

BANNER = {"mpich": "HYDRA build details:\n    Version:    4.0.2\n", "openmpi": "mpirun (Open MPI) 4.1.4\n"}


@pytest.mark.parametrize(
    ("flavour", "library"), [("mpich", "libmpich.so.12.2.1"), ("openmpi", "libmpi.so.40")]
)
@pytest.mark.parametrize("folder", ["lib", "lib64", "multiarch"])
def test_the_library_is_of_the_launchers_own_family(flavour, library, folder, tmp_path):
    """Both lie side by side, as Debian has them."""
    multiarch = sysconfig.get_config_var("MULTIARCH")
    if folder == "multiarch" and not multiarch:
        pytest.skip("this Python knows no multiarch folder")
    place = tmp_path / (f"lib/{multiarch}" if folder == "multiarch" else folder)
    place.mkdir(parents=True)
    for name in ("libmpi.so.40", "libmpich.so.12.2.1"):
        (place / name).write_bytes(b"\x7fELF")
    assert find(str(launcher(tmp_path, "mpirun", flavour))).library == place / library


def launcher(prefix, name, flavour):
    path = prefix / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{BANNER[flavour]}END\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("script", "said"),
    [("#!/bin/sh\nexec sleep 600\n", "does not answer within 0.5 s"), ("#!/no/such/shell\n", "No such file")],
)
def test_a_program_that_does_not_answer_is_named_in_words(script, said, tmp_path, monkeypatch):
    monkeypatch.setattr("autotune.stacks.installation._TIMEOUT_S", 0.5)
    (program := tmp_path / "mpicc").write_text(script)
    program.chmod(0o755)
    with pytest.raises(StackError, match=said) as error:
        output([str(program), "-show"])
    assert error.value.message.startswith(f"{program} does not answer")
    assert not set("[]") & {*error.value.message.removeprefix(str(program))}


def test_a_family_is_found_under_debians_name_for_its_launcher(tmp_path, monkeypatch):
    (tmp_path / "lib").mkdir()
    for flavour, library in (("mpich", "libmpich.so.12"), ("openmpi", "libmpi.so.40")):
        (tmp_path / "lib" / library).write_bytes(b"\x7fELF")
        launcher(tmp_path, f"mpirun.{flavour}", flavour)
    (tmp_path / "bin" / "mpirun").symlink_to("mpirun.openmpi")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    assert find(stack="mpich", origin="site").library == tmp_path / "lib" / "libmpich.so.12"
    assert find(origin="site").flavour == "openmpi"


def test_who_would_start_another_mpi_is_told_which_one_was_measured(tmp_path, monkeypatch):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mpirun.real").write_text("#!/bin/sh\n")
        (tmp_path / folder / "mpirun.real").chmod(0o755)
        (tmp_path / folder / "mpirun").symlink_to("mpirun.real")
    measured = tmp_path / "a" / "mpirun.real"
    monkeypatch.setenv("PATH", f"{tmp_path / 'a'}:{tmp_path / 'b'}")
    assert unreached(measured) == ""
    monkeypatch.setenv("PATH", str(tmp_path / "b"))
    other = tmp_path / "b" / "mpirun"
    assert unreached(measured).endswith(f"{measured}, which was measured; PATH has {other}")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert unreached(measured).endswith("PATH has none")
