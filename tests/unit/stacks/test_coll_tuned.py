"""Names, ids, thresholds and the reach of the tables of ``coll_tuned``."""

import pytest

from autotune.errors import UserError
from autotune.history.objectives import Winner
from autotune.history.trial import Rule
from autotune.recommend.rules import rules_of
from autotune.space import Point
from autotune.stacks import coll_tuned
from autotune.stacks.coll_tuned import TunedRow


def rule(collective, comm_size, min_bytes, **choice):
    return Rule(collective, comm_size, min_bytes, Point.of(choice))


@pytest.mark.parametrize(
    ("collective", "name", "expected"),
    [
        ("allreduce", "ring", 4),
        ("allreduce", "default", 0),
        ("allreduce", "ignore", 0),
        ("allreduce", "", 0),
        ("allreduce", "basic_linear", 1),
        ("allreduce", 6, 6),
        ("allreduce", "6", 6),
        ("allgatherv", "default", 0),
        ("allgatherv", "linear", 1),
        ("bcast", "split_binary_tree", 4),
        ("reduce", "in-order binary", 6),
        ("reduce_scatter", "non-overlapping", 1),
        ("allgather", "direct-messaging", 8),
    ],
)
def test_an_algorithm_is_known_by_our_name_its_own_and_its_id(collective, name, expected):
    assert coll_tuned.algorithm_id(collective, name) == expected


def test_names_and_ids_are_one_to_one():
    for collective, names in coll_tuned.ALGORITHMS.items():
        assert [coll_tuned.algorithm_id(collective, n) for n in names] == list(range(len(names)))
        for i in range(1, len(names)):  # allgatherv's first algorithm has the name of no choice
            if (name := coll_tuned.enumerator(collective, i)) != "default":
                assert coll_tuned.algorithm_id(collective, name) == i


@pytest.mark.parametrize(
    ("collective", "name"), [("allreduce", "rign"), ("allreduce", 8), ("gatherv", "linear")]
)
def test_an_unknown_algorithm_is_refused_with_what_is_allowed(collective, name):
    with pytest.raises(UserError) as caught:
        coll_tuned.algorithm_id(collective, name)
    assert "allowed: " in caught.value.hint


def test_newer_algorithms_are_not_offered_to_older_versions():
    assert coll_tuned.algorithms("allgather", (4, 1))[-1] == "two_proc"
    assert coll_tuned.algorithms("allgather", (5, 0))[-1] == "sparbit"
    assert coll_tuned.algorithms("allgather", (6, 0))[-1] == "direct"


@pytest.mark.parametrize(
    ("expected", "collectives"),
    [
        (100, "allreduce bcast reduce allgatherv"),
        (800, "allgather alltoall gather scatter reduce_scatter reduce_scatter_block"),
        (0, "alltoallv barrier scan exscan"),
    ],
)
def test_thresholds_are_in_the_unit_of_the_collective(expected, collectives):
    for collective in collectives.split():
        assert coll_tuned.threshold_bytes(collective, 100, 8) == expected


def test_a_table_holds_within_a_factor_of_two_of_what_was_measured_and_changes_where_reaches_meet():
    def found(collective, **by_ranks):
        rules = [rule(collective, int(n[1:]), 0, algorithm=name) for n, name in by_ranks.items()]
        return coll_tuned.table(rules)[collective]

    ring, tree, nothing = (TunedRow(0, 4),), (TunedRow(0, 3),), (TunedRow(0, 0),)
    reached = {2: nothing, 5: ring, 16: nothing, 33: tree, 128: nothing}
    assert found("allreduce", n8="ring", n64="recursive_doubling") == reached
    assert list(found("bcast", n8="chain", n12="binomial")) == [2, 5, 12, 24]
    pairs_alone = {2: (TunedRow(0, 5),), 3: nothing}
    assert found("alltoall", n2="two_proc") == pairs_alone


def test_a_chain_gets_the_fan_out_that_it_was_measured_with():
    rows = coll_tuned.table([rule("bcast", 2, 0, algorithm="chain", segsize="64k")])["bcast"][2]
    assert rows == (TunedRow(0, 2, 4, 65536),)
    rows = coll_tuned.table([rule("reduce", 2, 0, algorithm="chain", fanout=2)])["reduce"][2]
    assert rows == (TunedRow(0, 2, 2, 0),)


def test_rows_that_say_the_same_are_joined_and_the_first_starts_at_zero():
    found = coll_tuned.table(
        [
            rule("allgather", 4, 64, algorithm="ring"),
            rule("allgather", 4, 256, algorithm="ring"),
            rule("allgather", 4, 1024, algorithm="default", segsize=4096),
        ]
    )["allgather"]
    assert found[3] == (TunedRow(0, 0), TunedRow(256, 4), TunedRow(4096, 0))


def test_a_collective_that_is_left_to_the_stack_is_left_out():
    rules = [rule("allreduce", 2, 0), rule("bcast", 2, 0, algorithm="default")]
    assert coll_tuned.table(rules) == {}
    assert coll_tuned.rules_file(rules) == ""


def test_where_sizes_cannot_be_told_apart_different_rules_leave_it_to_the_stack():
    rules = [rule("scan", 2, 0, algorithm="linear"), rule("scan", 2, 64, algorithm="recursive_doubling")]
    assert coll_tuned.table(rules) == {}
    assert coll_tuned.table(rules[:1])["scan"][2] == (TunedRow(0, 1),)


@pytest.mark.parametrize(
    "choice",
    [{"algorithm": "ring", "segsize": "many"}, {"algorithm": "ring", "segsize": -1}, {"component": "han"}],
)
def test_what_rules_cannot_say_is_refused(choice):
    with pytest.raises(UserError):
        coll_tuned.table([rule("allreduce", 2, 0, **choice)])


def test_the_file_is_what_open_mpi_reads():
    text = coll_tuned.rules_file(
        [
            rule("allgather", 2, 0),
            rule("allgather", 2, 1024, algorithm="ring"),
            rule("allreduce", 2, 0, algorithm="recursive_doubling"),
            rule("allreduce", 2, 65536, algorithm="segmented_ring", segsize="64k"),
        ],
        ["campaign x", ""],
    )
    assert text.splitlines() == [
        "# campaign x",
        "#",
        "2  # collectives",
        "0  # allgather",
        "2  # communicator sizes",
        "2  # ranks and more",
        "2  # rows: bytes of all blocks, algorithm, fan-out, segment bytes",
        "0 0 0 0  # default",
        "2048 4 0 0  # ring",
        "4  # ranks and more",
        "1  # rows: bytes of all blocks, algorithm, fan-out, segment bytes",
        "0 0 0 0  # default",
        "2  # allreduce",
        "2  # communicator sizes",
        "2  # ranks and more",
        "2  # rows: bytes per rank, algorithm, fan-out, segment bytes",
        "0 3 0 0  # recursive_doubling",
        "65536 5 0 65536  # segmented_ring",
        "4  # ranks and more",
        "1  # rows: bytes per rank, algorithm, fan-out, segment bytes",
        "0 0 0 0  # default",
    ]
    assert text.endswith("\n")


@pytest.mark.parametrize(
    ("slot", "algorithm"),
    [
        (("allgather", 8, 64), 0),
        (("allgather", 8, 128), 4),
        (("allgather", 5, 204), 0),
        (("allgather", 5, 205), 4),
        (("allgather", 4, 4096), 0),
        (("allgather", 16, 4096), 0),
        (("bcast", 8, 4096), 0),
        (("pingpong", 8, 4096), 0),
    ],
)
def test_the_row_that_a_call_reaches(slot, algorithm):
    tables = coll_tuned.table([rule("allgather", 8, 128, algorithm="ring")])
    assert coll_tuned.row_at(tables, slot).algorithm == algorithm


def test_only_algorithms_are_refused_and_small_calls_can_be_spared():
    tables = {"allreduce": {16: (TunedRow(0, 4), TunedRow(65536, 0))}}
    spared = {n: coll_tuned.refusing(tables, n)["allreduce"][16] for n in (0, 1024, 65536)}
    assert spared[0] == (TunedRow(0, 99), TunedRow(65536, 0))
    assert spared[1024] == (TunedRow(0, 4), TunedRow(1024, 99), TunedRow(65536, 0))
    assert spared[65536] == (TunedRow(0, 4), TunedRow(65536, 0))
    assert "0 4 0 0  # ring\n1024 99 0 0  # refused\n" in coll_tuned.text(coll_tuned.refusing(tables, 1024))


@pytest.mark.parametrize(
    ("collective", "algorithm"),
    [("allreduce", "ring"), ("allgather", "ring"), ("alltoall", "pairwise"), ("bcast", "pipeline")],
)
def test_the_library_decides_beyond_what_was_measured(collective, algorithm):
    choice = Point.of({"algorithm": algorithm})
    rules = rules_of({(collective, 4, 8192): {choice: Winner(1.0, 0.0, choice)}})
    tables = coll_tuned.table(rules)
    chosen = {
        size: bool(coll_tuned.row_at(tables, (collective, 4, size)).algorithm)
        for size in (0, 8, 4095, 4096, 8192, 16384, 16385, 1 << 28)
    }
    assert {size for size, own in chosen.items() if own} == {4096, 8192, 16384}
    (rows,) = (rows for start, rows in tables[collective].items() if any(row.algorithm for row in rows))
    assert [bool(row.algorithm) for row in rows] == [False, True, False]
