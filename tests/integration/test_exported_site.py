"""A site's tree puts its values into force under the real Open MPI it was measured on, and under no other.

With the script, and with the module where Environment Modules is installed.
"""

import os
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from autotune.exporters.files import export_files
from autotune.exporters.prefix import site_tree
from autotune.exporters.writing import write_files
from autotune.recommend.recommendation import Provenance, Recommendation
from autotune.space import Point
from tests.integration.mpirun import ROOT, launcher, untold
from tests.integration.test_exported_files import CALLS, UCX, rule
from tests.program import ran

pytestmark = pytest.mark.mpi

AWKWARD = 'opt/it\'s "ours", größer & [so'
RULES = [rule("allreduce", 0, "default"), rule("allreduce", 1024, "rabenseifner")]
ENV = UCX | {"UCX_TLS": "self,posix"}


@pytest.fixture(params=["script", pytest.param("module", marks=pytest.mark.debian)])
def way(request):
    """How the tree is used: a line that does it."""
    if request.param == "script":
        return lambda tree: next(f". {shlex.quote(str(p))}" for p in tree.files if p.suffix == ".sh")
    if shutil.which("modulecmd") is None:
        pytest.skip("no modulecmd here (apt-get install environment-modules)")

    def loading(tree):
        module = next(p for p in tree.files if p.parent.name == "autotune" and p.suffix != ".lua")
        modules = shlex.quote(str(module.parent.parent))
        return f'export MODULEPATH={modules}; eval "$(modulecmd sh load autotune/{module.name})"'

    return loading


@pytest.fixture(scope="module")
def version():
    """Of the Open MPI beside this interpreter."""
    said = ran([launcher(), "--version"], check=True).stdout
    return said.split("(Open MPI)")[1].split()[0]


def found(version, ucx):
    stack = f"Open MPI {version}, UCX {ucx}, pml ucx"
    source = Provenance("here", stack=stack, env=tuple(ENV.items()), family="openmpi")
    return Recommendation(Point(), tuple(RULES), provenance=source)


def tree(prefix, version, ucx="1.20.1"):
    made = site_tree(found(version, ucx), prefix, "")
    write_files(made.files, parents=True)
    return made


def shell(line):
    """What a line of ``sh`` ends with, with the ``mpirun`` of these tests and nothing set."""
    root = ROOT | {"UCX_LOG_LEVEL": "info"}
    path = {"PATH": os.pathsep.join([str(Path(launcher()).parent), os.environ["PATH"]])}
    crowded = {"OMPI_MCA_mpi_yield_when_idle": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}
    env = untold("MODULE", "LOADEDMODULES", "_LMFILES") | root | path | crowded
    return ran(["sh", "-c", line], env=env)


def test_the_values_are_in_force(way, version, tmp_path):
    made = tree(tmp_path / AWKWARD, version)
    (rules,) = (path for path in made.files if path.name == "coll_tuned_rules.conf")
    text = rules.read_text()
    rules.write_text(text.replace("1024 6 ", "1024 99 "))  # refused by the first call that reaches the row
    assert rules.read_text() != text
    program = f"mpirun -x UCX_TLS -n 2 {sys.executable} {CALLS} allreduce:1016 allreduce:1024"
    done = shell(f"{way(made)} && {program}")
    said = done.stdout + done.stderr
    assert "allreduce:1016 SUCCESS" in said
    assert "allreduce:1024 ERR_ARG" in said
    assert "tag(posix/memory)" in said
    assert "sysv/" not in said


@pytest.mark.parametrize("other", ["4.1.99", "5.0", "5.0.1", "5.0.110"])
def test_under_another_version_nothing_is_set(way, other, tmp_path):
    line = way(tree(tmp_path / "opt", other))
    done = shell(f"{line}; echo code $?; env")
    assert "code 1\n" in done.stdout
    assert "coll_tuned" not in done.stdout
    assert "UCX_TLS" not in done.stdout
    assert (
        f"measured on Open MPI {other} over UCX 1.20.1, the mpirun in PATH is another one or missing"
        in done.stderr
    )


@pytest.mark.parametrize("other", ["1.20", "1.20.10", "1.19.0", "11.20.1"])
def test_over_another_ucx_nothing_is_set(way, version, other, tmp_path):
    done = shell(f"{way(tree(tmp_path / AWKWARD, version, other))}; echo code $?; env")
    assert "code 1\n" in done.stdout
    assert "UCX_TLS" not in done.stdout
    assert f"measured on Open MPI {version} over UCX {other}, the mpirun in PATH is another" in done.stderr


@pytest.mark.parametrize(("name", "line"), [("env_sh", ". {}"), ("slurm", "set -- env; . {}")])
def test_scripts_ask_as_the_trees_do(name, line, version, tmp_path):
    for over, asked in ((version, "1.20.1"), (version, "1.19.0"), ("4.1.99", "1.20.1")):
        folder = tmp_path / f"{over} {asked}"
        export_files(found(over, asked), (name,), folder)
        script = next(path for path in folder.iterdir() if path.suffix != ".conf")
        done = shell(f"srun() {{ :; }}; {line.format(shlex.quote(str(script)))}; env")
        assert ("UCX_TLS=self,posix" in done.stdout) == ((over, asked) == (version, "1.20.1"))


def test_without_any_mpi_nothing_is_set(way, version, tmp_path):
    bare = tmp_path / "bin"
    bare.mkdir()
    for name in ("sh", "env", "modulecmd", "tclsh"):
        if found := shutil.which(name):
            (bare / name).symlink_to(found)
    done = shell(f"PATH={shlex.quote(str(bare))}; {way(tree(tmp_path / 'opt', version))}; env")
    assert "UCX_TLS" not in done.stdout
    assert "nothing is set" in done.stderr


def test_the_line_that_takes_it_back_leaves_other_versions(version, tmp_path):
    prefix = tmp_path / AWKWARD
    mine, other = tree(prefix, version), tree(prefix, "4.1.8")
    assert shell(mine.back).returncode == 0
    assert {path for path in prefix.rglob("*") if path.is_file()} == set(other.files)
