"""Exported settings are in force beside a site's and a user's parameter files, which stay in force."""

import json
import os
import shlex
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from autotune.campaign.observing import measurement_of
from autotune.cli import main
from autotune.commands import install
from autotune.commands.hydra_bridge import run_task
from autotune.exporters import export_check
from autotune.exporters.export_check import check_export
from autotune.exporters.files import export_files, how_to_use
from autotune.exporters.launch_line import PROGRAM
from autotune.exporters.user_files import everybodys
from autotune.recommend.recommendation import Checked, Provenance, Recommendation
from autotune.space import Point
from autotune.stacks.knobs.openmpi import NEVER_SET
from tests.integration.mpirun import ROOT, launcher, python_of, untold
from tests.integration.test_exported_files import CALLS, rule
from tests.program import ran
from tests.suites import OPENMPI
from tests.unit.exporters.test_writing import tree

RANKS = 2
LISTING = """
import json, os, sys
from mpi4py import MPI
from autotune.probe.mpit import ToolInterface
found = MPI.COMM_WORLD.gather(ToolInterface(MPI).values())
if MPI.COMM_WORLD.rank == 0:
    open(sys.argv[1], "w").write(json.dumps(found))
"""
OF_A_LAUNCH = {"orte_ess_jobid", "orte_jobfam_session_dir", "orte_ess_vpid", "ess_base_jobid"} | {
    "orte_hnp_uri",
    "orte_local_daemon_uri",
    *NEVER_SET,
}
"""Parameters that differ between any two launches, or ranks."""


@pytest.fixture(scope="module", params=OPENMPI)
def prefix(request, tmp_path_factory):
    """An Open MPI with a site's parameter file and a home with a user's, all of it in awkward places."""
    python = python_of(request.param)
    tools = Path(launcher(python)).parent
    made = tmp_path_factory.mktemp("a site's with blanks") / "prefix"
    shutil.copytree(tools.parent / "etc", made / "etc")
    (made / "bin").mkdir()
    runs = "mpirun ompirun_wrapper orterun_wrapper orterun orted prterun prted prte ompi_info"
    for name in runs.split():
        if (tools / name).exists():
            shutil.copy2(tools / name, made / "bin")
    for name in ("lib", "share"):
        (made / name).symlink_to(tools.parent / name)
    eager = "vader" if request.param else "sm"
    with (made / "etc" / "openmpi-mca-params.conf").open("a") as file:
        file.write(f"\nbtl = self,{eager}\ncoll_basic_priority = 12\nbtl_{eager}_eager_limit = 9000\n")
    own = made.parent / ".openmpi" / "mca-params.conf"
    own.parent.mkdir()
    own.write_text(f"coll_self_priority = 70\nbtl_{eager}_eager_limit = 5000\n")
    return made, python, eager


def in_force(prefix, tmp_path, line):
    """The control variables of each rank of a program that is started as a line says."""
    program, out = tmp_path / "listing.py", tmp_path / "listing.json"
    program.write_text(LISTING)
    started(prefix, line, program, out)
    return json.loads(out.read_text())


def started(prefix, line, *program, **env):
    """What a Python program prints that is started as a line says."""
    made, python, _ = prefix
    words = line.replace("mpirun", f"mpirun --oversubscribe -n {RANKS}").replace(
        PROGRAM, shlex.join([python, *map(str, program)])
    )
    env = untold("OPAL_") | ROOT | env
    env |= {
        "HOME": str(made.parent),
        "PATH": f"{made / 'bin'}{os.pathsep}{env['PATH']}",
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    del env["OMPI_MCA_btl"]
    done = ran(["sh", "-c", words], env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def found(eager):
    """A setting of which each file sets something else, with rules."""
    rules = (rule("allreduce", 0, "default"), rule("allreduce", 1024, "rabenseifner"))
    env = ((f"OMPI_MCA_btl_{eager}_eager_limit", "32768"), ("OMPI_MCA_coll_sync_priority", "40"))
    return Recommendation(Point(), rules, provenance=Provenance("c", env=env, family="openmpi"))


@pytest.mark.parametrize("name", ["openmpi_mca", "openmpi_mca_list", "coll_tuned", "env_sh"])
def test_the_line_sets_what_was_recommended_and_leaves_the_rest_as_it_was(prefix, tmp_path, name):
    """All ranks, all parameters: a list of files that takes the place of the site's swaps its network."""
    untouched = in_force(prefix, tmp_path, f"mpirun {PROGRAM}")
    eager = prefix[2]
    assert [(v[f"btl_{eager}_eager_limit"], v["coll_basic_priority"]) for v in untouched] == [
        ("5000", "12")
    ] * RANKS
    folder = tmp_path / "a site's, tuned"
    export_files(found(eager), (name,), folder)
    under = in_force(prefix, tmp_path, how_to_use(found(eager), (name,), folder))
    wanted = {
        f"btl_{eager}_eager_limit": "32768",
        "coll_sync_priority": "40",
        "coll_tuned_use_dynamic_rules": "1",
        "coll_tuned_dynamic_rules_filename": str(folder / "coll_tuned_rules.conf"),
    }
    assert len(under) == RANKS
    for before, after in zip(untouched, under, strict=True):
        changed = {n: after.get(n) for n in before if after.get(n) != before[n] and n not in OF_A_LAUNCH}
        changed.pop("btl_vader_eager_limit", None)  # Open MPI 5 knows it by both names
        assert changed == {n: v for n, v in wanted.items() if n != "btl_vader_eager_limit"}


def test_the_proof_compares_all_other_parameters_with_an_untouched_launch(prefix, tmp_path, monkeypatch):
    made, _, eager = prefix
    monkeypatch.setenv("HOME", str(made.parent))
    told = []
    words = ("conf=allreduce_local", f"cluster.ranks={RANKS}", "sizes=[8,4096]", "probe.budget_s=0.2")
    run_task(
        lambda scenario, site: told.append((scenario, site)) or 0,
        [*words, f"mpi.mpirun='{str(made / 'bin' / 'mpirun').replace(chr(39), chr(92) + chr(39))}'"],
    )
    ((scenario, site),) = told
    source = replace(found(eager).provenance, both_sides=tuple(site.stack.fixed.items()))
    recommendation, folder = replace(found(eager), provenance=source), tmp_path / "export"
    measurement = measurement_of(scenario, RANKS)

    def check():
        export_files(recommendation, ("openmpi_mca",), folder)
        return check_export(("openmpi_mca",), recommendation, folder, site.observer, measurement, site.space)

    proof = check()
    assert proof.holds, str(proof)
    sound = export_check.exporter("openmpi_mca")

    class Replacing(type(sound)):
        """As a format whose files take the place of the site's."""

        def recipe(self, *args):
            made = super().recipe(*args)

            def under(rendering):
                kept = made.under(rendering)
                names = {"OMPI_MCA_mca_base_param_files": str(folder / "openmpi-mca-params.conf")}
                return replace(kept, env={**kept.env, **names})

            return replace(made, under=under)

    monkeypatch.setattr(export_check, "exporter", lambda _: Replacing())
    proof = check()
    assert proof.refutes, str(proof)
    assert "the files change " in str(proof)


def test_a_site_installed_is_in_force_for_all_who_use_its_mpi_until_it_is_taken_out(
    prefix, tmp_path, monkeypatch
):
    """Open MPI's rules and UCX's variables, which a library reads beside itself, below a path with blanks."""
    made, _, eager = prefix
    alone = tmp_path / "another's prefix", *prefix[1:]
    for name in ("bin", "etc", "lib"):  # files, and no link to an installation that is not of this test
        shutil.copytree(made / name, alone[0] / name, ignore=shutil.ignore_patterns("python*"))
    (alone[0] / "share").symlink_to(made / "share")
    monkeypatch.setenv("PATH", str(alone[0] / "bin"), prepend=os.pathsep)
    before, library, ucx = tree(alone[0]), alone[0] / "lib", everybodys().ucx
    assert ucx is not None
    assert library in ucx.parents
    wanted = found(eager)
    env = (*wanted.provenance.env, ("OMPI_MCA_pml", "ucx"), ("UCX_TLS", "self,posix"))
    recommendation = replace(wanted, provenance=replace(wanted.provenance, env=env, checked=Checked.HOLDS))
    monkeypatch.setattr(install, "for_everybody", lambda *_: recommendation)
    assert main(["install", "--site", "campaign"]) == 0
    assert ucx.exists()
    mpi = {"MPI4PY_LIBMPI": str(library / "libmpi.so.40"), "UCX_LOG_LEVEL": "info"}
    mpi |= {f"OMPI_MCA_opal_common_ucx_{what}": "any" for what in ("tls", "devices")}
    said = started(alone, f"mpirun {PROGRAM}", CALLS, "allreduce:1016", "allreduce:1024", **mpi)
    assert "tag(posix/memory)" in said
    assert "sysv/" not in said
    rules = alone[0] / "etc" / "autotune" / "coll_tuned_rules.conf"
    text = rules.read_text()
    rules.write_text(text.replace("1024 6 ", "1024 99 "))  # refused by the first call that reaches the row
    assert rules.read_text() != text
    said = started(alone, f"mpirun {PROGRAM}", CALLS, "allreduce:1016", "allreduce:1024", **mpi)
    assert "allreduce:1016 SUCCESS" in said
    assert "allreduce:1024 ERR_ARG" in said
    rules.write_text(text)
    assert main(["install", "--remove", "--site"]) == 0
    (copy,) = (alone[0] / "etc").glob("openmpi-mca-params.conf.2*")
    copy.unlink()
    assert tree(alone[0]) == before
