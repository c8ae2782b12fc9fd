"""Traps of libraries that are not here, each planted once; what is right is left alone."""

from pathlib import PurePath

import pytest

from autotune.lint.files import kind_of, lint
from tests.golden.test_exports import exported


def found(files, mpi="openmpi5"):
    return [(f.line, f.effect) for f in lint({PurePath(n): t for n, t in files.items()}, mpi)]


@pytest.mark.parametrize("name", ["ucc_conf", "mvapich2", "mvapich3", "mpich_cvars", "intel"])
def test_nothing_is_wrong_with_what_is_exported(name):
    assert found(exported(name)) == []


def test_the_rules_for_open_mpi_6_are_right_there():
    assert found(exported("coll_tuned_json"), "openmpi6") == []


TUNE = "UCC_TL_UCP_TUNE="
UCC = [
    ("a map with a typing error", f"{TUNE}alreduce:@0\n", 1, "refuses the map"),
    ("a comment behind a value", f"{TUNE}allreduce:@0 # small\n", 1, "refuses the map"),
    ("an entry that does nothing", f"{TUNE}allreduce:0-4k\n", 1, "changes nothing"),
    ("an algorithm of another library", f"UCC_A=1\n{TUNE}bcast:@ring\n", 2, "has no algorithm 'ring'"),
    ("an id too large", f"{TUNE}bcast:@3\n", 1, "has no algorithm '3'"),
    ("sizes of a v-variant", f"{TUNE}alltoallv:0-4k:@pairwise\n", 1, "does not know the sizes of alltoallv"),
    ("a variable of another layer", "[nnodes=1]\nUCC_CL_BASIC_TLS=ucp\n", 2, "ignored in it"),
    ("an open end", "[team_size=8-inf]\nUCC_A=1\n", 1, "is no range"),
    ("an indented line", "UCC_A=1\n UCC_B=1\n", 2, "goes on with the value"),
    (
        "sections that overlap",
        f"[team_size=4-8]\n{TUNE}allreduce:@0\n[team_size=8-16]\n{TUNE}allreduce:@1\n",
        3,
        "not defined",
    ),
]


@pytest.mark.parametrize(("text", "line", "words"), [u[1:] for u in UCC], ids=[u[0] for u in UCC])
def test_a_trap_in_a_ucc_conf(text, line, words):
    seen = found({"ucc.conf": text})
    assert [at for at, effect in seen if words in effect] == [line], seen


def test_sections_that_do_not_overlap_and_ids_are_left_alone():
    text = f"[team_size=4-8 nnodes=1]\n{TUNE}allreduce:@0\n[team_size=4-8 nnodes=2]\n{TUNE}bcast:@2\n"
    assert found({"x.conf": text}) == []
    assert kind_of(PurePath("x.conf"), text) == "ucc"


SCRIPTS = [
    ("a name for a number", "export MV2_INTER_ALLREDUCE_TUNING=ring\n", "takes the number"),
    (
        "two MVAPICHs",
        "export MV2_IBA_EAGER_THRESHOLD=9 MVP_ALLREDUCE_INTRA_ALGORITHM=ring\n",
        "ignore MV2_IBA",
    ),
    ("an algorithm of MPICH", "export MPIR_CVAR_BCAST_INTRA_ALGORITHM=knomial\n", "MPI_Init aborts"),
    ("an algorithm of MVAPICH", "export MVP_BCAST_INTRA_ALGORITHM=os_pairwise\n", "MPI_Init aborts"),
    ("sizes and ranks", "export I_MPI_ADJUST_BCAST='1:0-9@2-3;2:10-99'\n", "sizes are forgotten"),
    ("a large bound", "export I_MPI_ADJUST_BCAST=1:0-4294967295\n", "crashes as it starts"),
    ("a name of old", "export I_MPI_INTRANODE_EAGER_THRESHOLD=8192\n", "does not know it"),
    ("a deprecated one", "export FI_EFA_SHM_MAX_MEDIUM_SIZE=8192\n", "since 1.20"),
    ("a map in a script", "export UCC_TL_UCP_TUNE=alltoallv:0-4k:@0\n", "does not know the sizes"),
    ("not exported", "MPIR_CVAR_BCAST_INTRA_ALGORITHM=binomial\nsrun ./a\n", "not exported"),
]


@pytest.mark.parametrize(("text", "words"), [s[1:] for s in SCRIPTS], ids=[s[0] for s in SCRIPTS])
def test_a_trap_in_a_script(text, words):
    seen = lint({PurePath("job.sh"): text})
    assert [f for f in seen if words in f"{f.effect} {f.remedy}"], seen


def test_the_environment_wins_over_a_ucc_conf():
    files = {"ucc.conf": f"[nnodes=1]\n{TUNE}bcast:@0\n", "a.sh": f"export {TUNE}bcast:@1\n"}
    ((line, effect),) = found(files)
    assert line == 1
    assert "the environment wins" in effect


def test_a_name_of_open_mpi_5_is_void_in_rules_for_6():
    rules = '{"module": "tuned", "collectives": {"allgather": [{"rules": [{"alg": "%s"}]}]}}'
    assert "no algorithm 'bruck'" in str(found({"r.json": rules % "bruck"}, "openmpi6"))
    assert found({"r.json": rules % "bruck-k-fanout"}, "openmpi6") == []
