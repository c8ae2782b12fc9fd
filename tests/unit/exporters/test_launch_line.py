"""The line that uses exported files: for each format one that puts all of what was recommended into force."""

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from autotune.exporters import FORMATS, exporter
from autotune.exporters.files import how_to_use
from autotune.exporters.launch_line import PROGRAM
from autotune.exporters.mpich import MpichSelection
from autotune.history.trial import Rule
from autotune.recommend.front import Provenance, Recommendation
from autotune.space import Point
from tests.golden.test_exports import OPENMPI, SITE, SMALL_TREE, SUBJECTS

PLACED = "mpirun --map-by ppr:8:node --bind-to core"
MCA = "--mca pml ucx --mca coll_han_priority 0"
DYNAMIC = "--mca coll_tuned_use_dynamic_rules 1"
RULES = f"{DYNAMIC} --mca coll_tuned_dynamic_rules_filename /site/tuning/coll_tuned_rules"
VARIABLES = "-x UCX_TLS=self,sm,rc -x UCX_RNDV_THRESH=64k"
NAMES = "-x UCX_TLS -x UCX_RNDV_THRESH"
PARAMETERS = "OMPI_MCA_mca_base_param_files=/site/tuning/openmpi-mca-params.conf"
HAN_FILE = "--mca coll_han_dynamic_rules_filename /site/tuning/coll_han_rules.conf"
SLURM = "into the batch script, the last one in place of its srun"
MODULE = f"module use /site/tuning; module load autotune; {PLACED} {NAMES}"

LINES = {
    "openmpi_mca": f"{PARAMETERS} {PLACED} {VARIABLES}",
    "openmpi_mca_list": f"{PARAMETERS} {PLACED}",
    "coll_tuned": f"{PLACED} {MCA} {RULES}.conf {VARIABLES}",
    "coll_tuned_json": f"{PLACED} {MCA} {RULES}.json {VARIABLES}",
    "han_rules": f"mpirun --mca coll_han_use_dynamic_file_rules 1 {HAN_FILE} -x UCX_TLS=rc,self",
    "tune": f"{PLACED} --tune /site/tuning/autotune.tune",
    "ucx_conf": f"UCX_CONFIG_DIR=/site/tuning {PLACED} {MCA} {DYNAMIC} -x UCX_CONFIG_DIR",
    "env_sh": f". /site/tuning/autotune-env.sh; {PLACED} {NAMES}",
    "env_csh": f"source /site/tuning/autotune-env.csh; {PLACED} {NAMES}",
    "slurm": f"put the lines of /site/tuning/autotune.slurm {SLURM}",
    "lmod": MODULE,
    "modulefile": MODULE,
    "mpich_cvars": ". /site/tuning/mpich-env.sh; mpiexec",
    "mpich_json": ". /site/tuning/mpich-env.sh; mpiexec",
    "intel": ". /site/tuning/intel-mpi-env-16.sh; mpiexec -n 16",
    "mvapich2": ". /site/tuning/mvapich2-env.sh; mpiexec",
    "mvapich3": ". /site/tuning/mvapich-env.sh; mpiexec",
    "cray": ". /site/tuning/cray-mpich-env.sh; MPICH_ENV_DISPLAY=1 srun --network=disable_rdzv_get",
    "ucc_conf": "mpirun --mca coll_ucc_enable 1 --mca coll_ucc_priority 100 --mca pml ucx "
    "-x UCX_TLS=rc,self -x UCC_CONFIG_FILE=/site/tuning/ucc.conf",
    "nccl": "NCCL_TUNER_PLUGIN=…/libnccl-tuner-example.so "
    "NCCL_TUNER_CONFIG_FILE=/site/tuning/nccl_tuner.conf",
    "json": "",
    "summary": "",
}


def made(name):
    return MpichSelection(lambda: dict(SMALL_TREE)) if name == "mpich_json" else exporter(name)


def test_every_format_has_its_line():
    assert set(LINES) == set(FORMATS)


@pytest.mark.parametrize("name", FORMATS)
def test_the_line_of_a_format(name):
    runs = any(word in LINES[name] for word in ("mpirun", "mpiexec", "srun --", "NCCL_"))
    line = made(name).use(SUBJECTS[name], SITE)
    assert line == (f"{LINES[name]} {PROGRAM}" if runs else LINES[name])


@pytest.mark.parametrize(
    "name", [n for n in FORMATS if n not in ("json", "summary", "mpich_json", "slurm", "intel")]
)
def test_a_file_says_its_own_line(name):
    subject = SUBJECTS[name]
    assert f"use: {made(name).use(subject, SITE)}" in "".join(
        made(name).export(subject, SITE).values()
    ).replace('\\"', '"')


def test_names_with_spaces_stay_one_word():
    line = exporter("openmpi_mca").use(OPENMPI, Path("/my site"))
    assert shlex.split(line)[0] == "OMPI_MCA_mca_base_param_files=/my site/openmpi-mca-params.conf"
    assert shlex.split(exporter("ucx_conf").use(OPENMPI, Path("/my site")))[0] == "UCX_CONFIG_DIR=/my site"


def test_a_comma_in_the_directory_leaves_the_script():
    there = Path("/c/nodes=4,ppn=8")
    assert exporter("openmpi_mca").use(OPENMPI, there) == ""
    assert "the comma in" in exporter("openmpi_mca").export(OPENMPI, there)["openmpi-mca-params.conf"]
    assert how_to_use(OPENMPI, ("openmpi_mca", "env_sh"), there).startswith(
        ". /c/nodes=4,ppn=8/autotune-env.sh; "
    )
    assert "would part it" in how_to_use(OPENMPI, ("openmpi_mca", "tune"), there)


def test_variables_that_no_file_holds_stand_on_the_line():
    source = Provenance("c", env=(("OMP_PLACES", "cores"), ("UCX_TLS", "rc")))
    line = exporter("openmpi_mca").use(Recommendation(Point(), (), provenance=source), SITE)
    assert line.startswith(f"{PARAMETERS} OMP_PLACES=cores mpirun ")
    assert "-x UCX_TLS=rc -x OMP_PLACES" in line


def test_firmware_is_named_beside_the_line():
    source = Provenance("c", boot=(("NPS", "2"),))
    said = how_to_use(Recommendation(Point(), (), provenance=source), ("openmpi_mca",), SITE)
    assert said.splitlines()[1:] == ["  on nodes with NPS=2, which is firmware: no file sets it"]


def test_where_nothing_is_set_there_is_nothing_to_use():
    nothing = Recommendation(Point(), (), provenance=Provenance("c", family="openmpi"))
    assert how_to_use(nothing, ("openmpi_mca",), SITE) == ""


@pytest.mark.parametrize("choice", [Point(), Point.of({"algorithm": "default"})])
def test_rules_that_leave_every_size_to_the_stack_set_nothing(choice):
    rules = (Rule("allreduce", 2, 0, choice), Rule("allreduce", 4, 0, Point()))
    found = Recommendation(Point(), rules, provenance=Provenance("c", family="openmpi"))
    text = exporter("openmpi_mca").export(found, SITE)["openmpi-mca-params.conf"]
    assert [line for line in text.splitlines() if line and not line.startswith("#")] == []
    assert how_to_use(found, ("openmpi_mca",), SITE) == ""
    ring = replace(found, rules=(*rules, Rule("allreduce", 4, 64, Point.of({"algorithm": "ring"}))))
    assert how_to_use(ring, ("openmpi_mca",), SITE)
