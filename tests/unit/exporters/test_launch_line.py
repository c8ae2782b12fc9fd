"""The line that uses exported files: for each format one that puts all of what was recommended into force."""

import re
import shlex
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from autotune.exporters import exporter
from autotune.exporters.files import export_files, how_to_use, notes_on, unused
from autotune.exporters.launch_line import PROGRAM
from autotune.exporters.mpich import MpichSelection
from autotune.history.trial import Rule
from autotune.recommend.recommendation import Provenance, Recommendation
from autotune.space import Point
from tests.golden.test_exports import OPENMPI, OURS, SITE, SMALL_TREE, SUBJECTS

PLACED = "mpirun --map-by ppr:8:node --bind-to core"
MCA = "--mca pml ucx --mca coll_han_priority 0"
DYNAMIC = "--mca coll_tuned_use_dynamic_rules 1"
RULES = f"{DYNAMIC} --mca coll_tuned_dynamic_rules_filename /site/tuning/coll_tuned_rules"
VARIABLES = "-x UCX_TLS=self,sm,rc -x UCX_RNDV_THRESH=64k"
NAMES = "-x UCX_TLS -x UCX_RNDV_THRESH"
HAN_FILE = "--mca coll_han_dynamic_rules_filename /site/tuning/coll_han_rules.conf"
MODULE = f"module use /site/tuning; module load autotune; {PLACED} {NAMES}"

LINES = {
    **dict.fromkeys(
        ("openmpi_mca", "openmpi_mca_list", "coll_tuned"), f"{PLACED} {MCA} {RULES}.conf {VARIABLES}"
    ),
    "coll_tuned_json": f"{PLACED} {MCA} {RULES}.json {VARIABLES}",
    "han_rules": f"mpirun --mca coll_han_use_dynamic_file_rules 1 {HAN_FILE} -x UCX_TLS=rc,self",
    "tune": f"{PLACED} --tune /site/tuning/autotune.tune",
    "ucx_conf": f"UCX_CONFIG_DIR=/site/tuning {PLACED} {MCA} {DYNAMIC} -x UCX_CONFIG_DIR",
    "env_sh": f". /site/tuning/autotune-env.sh; {PLACED} {NAMES}",
    "env_csh": f"source /site/tuning/autotune-env.csh; {PLACED} {NAMES}",
    "slurm": "sbatch /site/tuning/autotune.slurm ./your_program",
    "lmod": MODULE,
    "modulefile": MODULE,
    "mpich_cvars": ". /site/tuning/mpich-env.sh; mpiexec",
    "mpich_json": ". /site/tuning/mpich-env.sh; mpiexec",
    "intel": ". /site/tuning/intel-mpi-env-16.sh; mpiexec -n 16",
    "mvapich2": ". /site/tuning/mvapich2-env.sh; mpiexec",
    "mvapich3": ". /site/tuning/mvapich-env.sh; mpiexec",
    "ucc_conf": "mpirun --mca coll_ucc_enable 1 --mca coll_ucc_priority 100 --mca pml ucx "
    "-x UCX_TLS=rc,self -x UCC_CONFIG_FILE=/site/tuning/ucc.conf",
    "json": "",
    "summary": "",
}


def made(name):
    return MpichSelection(lambda: dict(SMALL_TREE)) if name == "mpich_json" else exporter(name)


@pytest.mark.parametrize("name", OURS)
def test_the_line_of_a_format(name):
    """A list of parameter files would take the place of the site's own, and of the user's on 4.1."""
    texts = [made(name).use(SUBJECTS[name], SITE), *made(name).export(SUBJECTS[name], SITE).values()]
    assert not [text for text in texts if "param_files" in text]
    runs = any(word in LINES[name] for word in ("mpirun", "mpiexec"))
    line = made(name).use(SUBJECTS[name], SITE)
    assert line == (f"{LINES[name]} {PROGRAM}" if runs else LINES[name])


@pytest.mark.parametrize("name", [n for n in OURS if n not in ("json", "summary", "mpich_json", "intel")])
def test_a_file_says_its_own_line(name):
    subject = SUBJECTS[name]
    assert f"use: {made(name).use(subject, SITE)}" in "".join(
        made(name).export(subject, SITE).values()
    ).replace('\\"', '"')


def test_a_line_starts_the_measured_mpi_and_its_notes_stand_outside():
    source = replace(OPENMPI.provenance, mpirun="/opt/my mpi/bin/mpirun", boot=(("NPS", "1"),))
    measured = replace(OPENMPI, provenance=source)
    line = how_to_use(measured, ("openmpi_mca",), SITE)
    words = shlex.split(line)
    assert (words[0], words[-1]) == ("/opt/my mpi/bin/mpirun", PROGRAM)
    assert not any(part in line for part in ("\n", "…", "NPS"))
    assert ["NPS=1" in note for note in notes_on(measured, line)] == [False, True]
    assert notes_on(measured, "") == ()
    intel = SUBJECTS["intel"]
    intel = replace(intel, provenance=replace(intel.provenance, mpirun="/opt/mpi/bin/mpirun"))
    assert "; /opt/mpi/bin/mpiexec -n 16 " in made("intel").use(intel, SITE)


def test_names_with_spaces_stay_one_word():
    line = exporter("openmpi_mca").use(OPENMPI, Path("/my site"))
    assert "/my site/coll_tuned_rules.conf" in shlex.split(line)
    assert shlex.split(exporter("ucx_conf").use(OPENMPI, Path("/my site")))[0] == "UCX_CONFIG_DIR=/my site"


def test_a_comma_in_the_directory_parts_the_list_of_tune_alone():
    there = Path("/c/nodes=4,ppn=8")
    assert "/c/nodes=4,ppn=8/coll_tuned_rules.conf" in exporter("openmpi_mca").use(OPENMPI, there)
    assert how_to_use(OPENMPI, ("tune", "env_sh"), there).startswith(". /c/nodes=4,ppn=8/autotune-env.sh; ")
    assert how_to_use(OPENMPI, ("tune",), there) == ""
    assert "would part it" in unused(OPENMPI, there)


def test_variables_that_no_file_holds_stand_on_the_line():
    source = Provenance("c", env=(("OMP_PLACES", "cores"), ("UCX_TLS", "rc")))
    line = exporter("openmpi_mca").use(Recommendation(Point(), (), provenance=source), SITE)
    assert line == "mpirun -x OMP_PLACES=cores -x UCX_TLS=rc ./your_program"


def test_firmware_is_named_beside_the_line():
    source = Provenance("c", boot=(("NPS", "2"),))
    found = Recommendation(Point(), (), provenance=source)
    line = how_to_use(found, ("openmpi_mca",), SITE)
    assert len(line.splitlines()) == 1
    assert notes_on(found, line)[1:] == ("on nodes with NPS=2, which is firmware: no file sets it",)


@pytest.mark.parametrize("choice", [Point(), Point.of({"algorithm": "default"})])
def test_rules_that_leave_every_size_to_the_stack_set_nothing(choice):
    rules = (Rule("allreduce", 2, 0, choice), Rule("allreduce", 4, 0, Point()))
    found = Recommendation(Point(), rules, provenance=Provenance("c", family="openmpi"))
    text = exporter("openmpi_mca").export(found, SITE)["openmpi-mca-params.conf"]
    assert [line for line in text.splitlines() if line and not line.startswith("#")] == []
    assert how_to_use(found, ("openmpi_mca",), SITE) == ""
    ring = replace(found, rules=(*rules, Rule("allreduce", 4, 64, Point.of({"algorithm": "ring"}))))
    assert how_to_use(ring, ("openmpi_mca",), SITE)


COMMANDS = {"mpirun", "mpiexec", "srun", "sbatch", "module", ".", "source"}


@pytest.mark.parametrize("name", [n for n in OURS if n != "mpich_json"])
def test_a_line_is_a_command_and_the_files_that_it_names_exist(name, tmp_path):
    folder = tmp_path / ("mine" if name == "tune" else "it's mine")  # such a file holds no quotes
    export_files(SUBJECTS[name], (name,), folder)
    line = how_to_use(SUBJECTS[name], (name,), folder)
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";")
    lexer.whitespace_split = True
    words = [word for word in lexer if not re.match(r"[A-Z]\w+=[^/]", word)]
    starts = [word for before, word in pairwise([";", *words]) if before == ";"]
    assert {word for word in starts if "CONFIG_DIR=" not in word} <= COMMANDS
    named = [word.partition("=")[2] or word for word in words if str(tmp_path) in word]
    assert all(Path(word).exists() for word in named)
    assert bool(line) == (name not in ("json", "summary"))


def test_of_files_that_no_mpi_reads_it_is_said():
    assert how_to_use(OPENMPI, ("json", "summary"), SITE) == ""
    assert unused(OPENMPI, SITE) == (
        "no MPI reads these files; the setting in them: UCX_TLS=self,sm,rc, coll_han=off"
    )
