"""What the table of checked algorithms does not clear is neither tried nor exported nor forced."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from autotune.errors import StackError, UserError
from autotune.exporters import exporter
from autotune.exporters.document import recommendation_of
from autotune.history.trial import Rule
from autotune.recommend.recommendation import Provenance, Recommendation
from autotune.resources import facts, space_text
from autotune.space import Level, Parameter, Point, Space
from autotune.space.loader import load_space
from autotune.stacks.cleared import SERIES, check_forced, clearance, cleared, forced, left_out
from autotune.stacks.installation import Installation
from autotune.stacks.switched import offers

TABLE = facts("stacks/conformance")
CHECKED = [tuple(title.split()) for title in TABLE]
BINOMIAL = Rule("bcast", 4, 0, Point.of({"algorithm": "binomial"}))
SPACES = ["mpich_local", "intelmpi_local", "openmpi_algorithms", "openmpi_ucx_local", "openmpi_ucx_cluster"]


def installed(flavour, version):
    return Installation(flavour, version, Path("mpirun"), Path("libmpi.so"), "site")


def excluded(flavour, version, commutative=False):
    """What is wrong for some program; ``commutative``: for one all of whose operations commute."""
    faults = TABLE[f"{flavour} {version}"]["faults"]
    return {
        (fault["collective"], fault["algorithm"])
        for fault in faults
        if not (commutative and fault["commuting_right"])
    }


def test_the_versions_that_are_promised_are_in_the_table_each_fault_with_its_proof():
    assert {"openmpi 5.0.11", "openmpi 4.1.8", "mpich 5.0.2"} <= set(TABLE)
    assert {"intelmpi 2021.18.1", "intelmpi 2021.19.0"} <= set(TABLE)
    for entry in TABLE.values():
        assert entry["checked"]
        assert all(one["case"] and one["seen"] and one["ranks"] >= 2 for one in entry["faults"])
    assert {("allgather", "recexch_doubling"), ("allgather", "recexch_halving")} <= excluded("mpich", "5.0.2")


@pytest.mark.parametrize(("flavour", "version"), CHECKED)
def test_run_tries_nothing_that_failed_for_mpis_own_operations(flavour, version):
    tried = {
        (name, offer.names[number])
        for name, offer in offers(installed(flavour, version)).items()
        for number in offer.assignments
    }
    assert tried or flavour == "intelmpi"
    assert not tried & excluded(flavour, version, commutative=True)


@pytest.mark.parametrize("commutative", [False, True])
@pytest.mark.parametrize(
    ("name", "flavour", "version"),
    [(name, *one) for name in SPACES for one in CHECKED if name.startswith(one[0])],
)
def test_no_shipped_space_offers_what_failed_and_says_why_it_does_not(name, flavour, version, commutative):
    declared = load_space(space_text(name), name)
    offered = cleared(declared, flavour, version, commutative)
    there, left = (
        {(c, v) for p in space.parameters for c, values in p.collectives.items() for v in values}
        for space in (declared, offered)
    )
    assert left
    assert not left & excluded(flavour, version, commutative)
    named = {(one.parameter.removeprefix("algorithm of "), one.value) for one in offered.dropped}
    assert there - left <= named
    assert all(version in one.reason for one in offered.dropped if (one.parameter, one.value))


def offered_with(flavour, version, variable, value):
    """A space of one parameter that sets a variable to a value for a whole job, as far as it is cleared."""
    declared = Parameter("mine", ("", value), "", level=Level.LAUNCH, apply={"env": {variable: "{value}"}})
    return cleared(Space("mine", (declared,), stack=flavour), flavour, version)


@pytest.mark.parametrize(
    ("name", "value", "pairs"),
    [
        ("OMPI_MCA_coll_tuned_allgather_algorithm", "7", [("allgather", "sparbit")]),
        ("coll_tuned_allgather_algorithm", "sparbit", [("allgather", "sparbit")]),
        ("coll_tuned_allgather_algorithm", "0", []),
        ("coll_tuned_allgather_algorithm_segmentsize", "7", []),
        ("MPIR_CVAR_ALLGATHER_INTRA_ALGORITHM", "auto", []),
        ("MPIR_CVAR_BCAST_POSIX_INTRA_ALGORITHM", "release_gather", [("bcast posix", "release_gather")]),
        ("MPIR_CVAR_BCAST_POSIX_INTRA_ALGORITHM", "auto", []),
        ("MPIR_CVAR_REDUCE_SCATTER_BLOCK_DEVICE_COLLECTIVE", "0", [("reduce_scatter_block device", "0")]),
        ("MPIR_CVAR_BCAST_DEVICE_COLLECTIVE", "1", []),
        ("MPIR_CVAR_ALLREDUCE_COMPOSITION", "4", [("allreduce composition", "4")]),
        ("MPIR_CVAR_ALLREDUCE_COMPOSITION", "0", []),
        (
            "MPIR_CVAR_INEIGHBOR_ALLGATHER_INTRA_ALGORITHM",
            "sched_linear",
            [("ineighbor_allgather", "sched_linear")],
        ),
        ("MPIR_CVAR_BARRIER_INTER_ALGORITHM", "bcast", [("barrier inter", "bcast")]),
        ("MPIR_CVAR_DEVICE_COLLECTIVES", "percoll", []),
        ("MPIR_CVAR_BCAST_TREE_TYPE", "kary", []),
        ("OMPI_MCA_coll_libnbc_iallreduce_algorithm", "ring", [("iallreduce", "ring")]),
        ("coll_libnbc_iallreduce_algorithm", "ignore", []),
        ("coll_adapt_bcast_algorithm", "4", [("bcast adapt", "4")]),
        ("coll_adapt_priority", "90", [("reduce adapt", "1"), ("bcast adapt", "1")]),
        ("coll_adapt_priority", "0", []),
        ("OMPI_MCA_coll_han_priority", "35", []),
        ("I_MPI_ADJUST_BCAST_NODE", "2", [("bcast node", "2")]),
        ("I_MPI_ADJUST_IALLTOALL", "-1", []),
        ("I_MPI_ADJUST_BCAST_KNOMIAL_RADIX", "2", []),
        (
            "I_MPI_ADJUST_ALLGATHER",
            "1:0-4096;3:4097-max",
            [("allgather", "recursive_doubling"), ("allgather", "ring")],
        ),
        ("I_MPI_ADJUST_ALLGATHER", "2", [("allgather", "bruck")]),
        ("UCX_TLS", "tcp", []),
    ],
)
def test_variables_say_which_algorithm_they_force(name, value, pairs):
    assert [pair for flavour in SERIES for pair in forced(flavour, name, value)] == pairs


@pytest.mark.parametrize(
    ("version", "variable", "value", "said", "hint"),
    [
        (
            *("mpich 5.0.2", "MPIR_CVAR_ALLGATHER_INTRA_ALGORITHM", "recexch_doubling"),
            *(r"allgather recexch_doubling gives wrong .*MPICH 5\.0\.2.* ranks", "for allgather: brucks"),
        ),
        (
            "mpich 5.0.2",
            "MPIR_CVAR_ALLTOALL_INTRA_ALGORITHM",
            "k_brucks",
            "alltoall k_brucks gives wrong",
            "",
        ),
        (
            *("mpich 5.0.2", "MPIR_CVAR_ALLREDUCE_COMPOSITION", "4"),
            *(r"allreduce composition 4 gives .*\(MPICH 5\.0\.2, .* ranks", "allreduce composition: 1, 2, 3"),
        ),
        (
            *("openmpi 5.0.11", "coll_tuned_allreduce_algorithm", "ring"),
            *("do not commute", "operations=commutative"),
        ),
    ],
)
def test_who_forces_what_failed_by_hand_is_told_what_was_seen(version, variable, value, said, hint):
    flavour, version = version.split()
    with pytest.raises(StackError, match=said) as refused:
        check_forced(flavour, version, [(variable, value)])
    assert hint in refused.value.hint
    check_forced(flavour, version, [(variable, "")])
    check_forced("command", version, [(variable, value)])  # of a stack that nobody checks nothing is said
    offered = offered_with(flavour, version, variable, value)
    assert not offered.parameters
    assert any(one.value == value and version in one.reason for one in offered.dropped)


@pytest.mark.parametrize(
    ("described", "variable", "value", "said"),
    [
        ("MPICH 5.0.2", "MPIR_CVAR_BCAST_POSIX_INTRA_ALGORITHM", "new_gather", "bcast posix new_gather"),
        ("MPICH 5.0.2", "MPIR_CVAR_BCAST_OFI_INTRA_ALGORITHM", "trigger_rma", "bcast ofi trigger_rma"),
        ("MPICH 5.0.2", "MPIR_CVAR_REDUCE_COMPOSITION", "16", "reduce composition 16"),
        ("MPICH 4.2.3", "MPIR_CVAR_GATHERV_DEVICE_COLLECTIVE", "0", "gatherv device 0"),
        ("MPICH 5.0.2", "MPIR_CVAR_IBCAST_INTRA_ALGORITHM", "sched_binomial", "ibcast sched_binomial"),
        ("Intel MPI 2021.18.1", "I_MPI_ADJUST_GATHER_COMPOSITION", "2", "gather composition 2"),
        ("Open MPI 5.0.11", "OMPI_MCA_coll_libnbc_ibcast_algorithm", "scatter", "ibcast scatter"),
    ],
)
def test_what_else_chooses_how_a_collective_runs_is_refused_where_it_was_never_checked(
    described, variable, value, said, tmp_path
):
    """By hand, in a space and in what is exported."""
    name, version = described.rsplit(" ", 1)
    flavour, format_ = {
        "MPICH": ("mpich", "mpich_cvars"),
        "Open MPI": ("openmpi", "env_sh"),
        "Intel MPI": ("intelmpi", "intel"),
    }[name]
    with pytest.raises(StackError, match=f"{variable}={value}: {said} was never checked"):
        check_forced(flavour, version, [(variable, value)])
    offered = offered_with(flavour, version, variable, value)
    assert not offered.parameters
    assert any(said in one.reason for one in offered.dropped if one.value == value)
    source = Provenance("c", stack=described, family=flavour, env=((variable, value),))
    with pytest.raises(UserError, match=f"{said} was never checked"):
        exporter(format_).export(Recommendation(Point(), (BINOMIAL,), provenance=source), tmp_path)


def test_what_was_checked_beside_the_algorithms_may_be_set_and_another_mpi_does_not_mind():
    known = clearance("mpich", "5.0.2")
    assert {"mpir", "release_gather"} <= known.checked["bcast posix"]
    assert {"1", "2", "3"} <= known.checked["bcast composition"]
    variables = [("MPIR_CVAR_BCAST_POSIX_INTRA_ALGORITHM", "mpir"), ("MPIR_CVAR_DEVICE_COLLECTIVES", "none")]
    check_forced("mpich", "5.0.2", variables)
    check_forced("openmpi", "5.0.11", [("MPIR_CVAR_BCAST_POSIX_INTRA_ALGORITHM", "new_gather")])


@pytest.mark.parametrize("collective", ["allgather", "alltoall"])
def test_leaders_on_several_nodes_that_spoil_types_with_gaps_are_not_tried(collective):
    assert "2 nodes" in clearance("mpich", "5.0.2").refusal(f"{collective} composition", "1")


@pytest.mark.parametrize(
    ("flavour", "version", "nearest"),
    [
        ("openmpi", "5.0.7", "5.0.11"),
        ("openmpi", "5.0.12", "5.0.11"),
        ("openmpi", "5.0.12rc1", "5.0.11"),
        ("openmpi", "4.1.4", "4.1.8"),
        ("mpich", "5.0.1", "5.0.2"),
    ],
)
def test_a_version_that_was_not_checked_goes_by_the_nearest_of_its_series(flavour, version, nearest):
    known, checked = clearance(flavour, version), clearance(flavour, nearest)
    assert nearest in known.note
    assert version in known.note
    assert (known.checked, known.faults) == (checked.checked, checked.faults)
    assert checked.note == ""


@pytest.mark.parametrize(
    ("flavour", "version"), [("openmpi", "6.0.0"), ("openmpi", "5.1.0"), ("mpich", "4.2.3"), ("openmpi", "")]
)
def test_a_series_of_which_none_was_checked_is_left_all_that_failed_anywhere(flavour, version):
    known = clearance(flavour, version)
    assert "left out" in known.note
    for its, checked in CHECKED:
        if its == flavour:
            assert all(known.refusal(*pair) for pair in excluded(its, checked))
    assert "never checked" in known.refusal("allgather", "direct")


@pytest.mark.parametrize(
    ("wanted", "family", "stack", "collective", "algorithm"),
    [
        ("openmpi_mca", "openmpi", "Open MPI 4.1.8", "alltoall", "modified_bruck"),
        ("coll_tuned", "openmpi", "Open MPI 5.0.11", "allgather", "sparbit"),
        ("coll_tuned", "openmpi", "Open MPI 5.0.11", "allgather", "7"),
        ("intel", "intelmpi", "Intel MPI 2021.18.1", "gather", "topology_binomial"),
        ("intel", "intelmpi", "Intel MPI 2021.18.1", "gather", "2"),
        ("coll_tuned_json", "openmpi", "Open MPI 5.0.11", "allgather", "sparbit"),
        ("env_sh", "openmpi", "Open MPI 5.0.9, UCX 1.20.1", "bcast", "split_binary"),
        ("mpich_cvars", "mpich", "MPICH 5.0.2", "allgather", "recexch_halving"),
        ("mpich_json", "mpich", "MPICH 5.0.2", "reduce_scatter", "pairwise"),
    ],
)
def test_an_export_of_what_failed_is_refused_with_the_proof(
    wanted, family, stack, collective, algorithm, tmp_path
):
    rule = Rule(collective, 4, 0, Point.of({"algorithm": algorithm}))
    recommendation = Recommendation(Point(), (rule,), provenance=Provenance("c", stack=stack, family=family))
    with pytest.raises(
        UserError, match=f"no rule for {collective} {algorithm}: .*gives wrong results or fails"
    ):
        exporter(wanted).export(recommendation, tmp_path)
    if family == "openmpi":
        other = replace(rule, choice=Point.of({"algorithm": "linear"}))
        exporter(wanted).export(replace(recommendation, rules=(other,)), tmp_path)


RINGS = tuple(
    Rule("allreduce", 4, size, Point.of({"algorithm": name}))
    for size, name in ((0, "recursive_doubling"), (4096, "ring"))
)
"""Rules of which one is wrong for operations that do not commute."""


@pytest.mark.parametrize("format_", ["coll_tuned", "openmpi_mca", "env_sh", "coll_tuned_json", "tune"])
def test_what_is_wrong_for_operations_that_do_not_commute_is_exported_for_those_who_have_none(
    format_, tmp_path
):
    check_forced("openmpi", "5.0.11", [("coll_tuned_allreduce_algorithm", "ring")], commutative=True)
    source = Provenance("c", stack="Open MPI 5.0.11", family="openmpi")
    recommended = Recommendation(Point(), RINGS, provenance=source)
    with pytest.raises(UserError, match=r"allreduce ring gives wrong .* that do not commute") as refused:
        exporter(format_).export(recommended, tmp_path)
    assert "operations=commutative" in refused.value.hint
    theirs = replace(recommended, provenance=replace(source, commutative=True))
    texts = exporter(format_).export(theirs, tmp_path).values()
    remark = "operations=commutative: wrong for operations of users that do not commute (MPI_Op_create)"
    assert any(f"{remark}: allreduce ring" in text for text in texts)
    read = recommendation_of(exporter("json").export(theirs, tmp_path)["recommendation.json"])
    assert read.provenance.commutative
    with pytest.raises(UserError, match="modified_bruck"):  # what is wrong for every program stays out
        alltoall = Rule("alltoall", 4, 0, Point.of({"algorithm": "modified_bruck"}))
        old = replace(theirs.provenance, stack="Open MPI 4.1.8")
        exporter(format_).export(replace(theirs, rules=(alltoall,), provenance=old), tmp_path)


def test_one_sentence_says_what_was_left_out_and_when_it_may_be_tried():
    declared = load_space(space_text("openmpi_algorithms"), "openmpi_algorithms")
    described = "Open MPI 5.0.11, UCX 1.20.1, pml ucx"
    text = left_out(cleared(declared, "openmpi", "5.0.11"), described)
    assert re.match(r"\d algorithms were left out, .* do not commute: ", text)
    assert "allreduce ring" in text
    assert "scatter_allgather" not in text
    assert "operations=commutative" in text
    few = left_out(cleared(declared, "openmpi", "5.0.11"), described, ["allreduce", "bcast"])
    assert few.startswith("2 algorithms were left out, ")
    assert "reduce binomial" not in few
    assert left_out(cleared(declared, "openmpi", "5.0.11", commutative=True), described) == ""
    assert left_out(declared, described) == ""


@pytest.mark.parametrize(
    ("format_", "family", "stack", "variable"),
    [
        ("openmpi_mca", "openmpi", "Open MPI 5.0.11", ("OMPI_MCA_coll_tuned_allgather_algorithm", "sparbit")),
        ("env_sh", "openmpi", "Open MPI 4.1.8", ("OMPI_MCA_coll_tuned_alltoall_algorithm", "3")),
        ("mpich_cvars", "mpich", "MPICH 5.0.2", ("MPIR_CVAR_ALLGATHER_INTRA_ALGORITHM", "recexch_doubling")),
    ],
)
def test_a_job_wide_variable_that_forces_what_failed_is_not_exported(
    format_, family, stack, variable, tmp_path
):
    """Such as one that a discovery chose."""
    source = Provenance("c", stack=stack, family=family, env=(variable,))
    recommended = Recommendation(Point(), (BINOMIAL,), provenance=source)
    with pytest.raises(UserError, match="gives wrong results or fails"):
        exporter(format_).export(recommended, tmp_path)
    exporter(format_).export(replace(recommended, provenance=replace(source, env=())), tmp_path)
