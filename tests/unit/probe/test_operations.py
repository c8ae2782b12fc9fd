"""The declarations against an interpreter of MPI's own words, without MPI."""

import pytest

from autotune.collectives import COLLECTIVES, MEASURED, PATTERNS, Pattern, Size
from autotune.probe.loops import partners
from autotune.probe.operations import OPERATIONS

GATHERS = ("allgather", "allgatherv")
EXCHANGES = ("alltoall", "alltoallv")
SCATTERED_SUMS = ("reduce_scatter", "reduce_scatter_block")


def as_sets(blocks):
    return [(sorted(sources), to) for sources, to in blocks]


def test_every_collective_of_the_wire_format_is_declared_in_its_order():
    assert tuple(OPERATIONS) == MEASURED


@pytest.mark.parametrize("name", MEASURED)
def test_what_ranks_know_of_a_collective_is_what_the_table_says(name):
    operation, entry = OPERATIONS[name], COLLECTIVES[name]
    between = (Pattern.PAIR, Pattern.PAIRS, Pattern.NEIGHBOURS, Pattern.ONE_SIDED)
    assert operation.between == (entry.pattern in between)
    assert operation.overlaps == bool(entry.overlaps)
    assert operation.sized == (entry.size is not Size.NONE)


@pytest.mark.parametrize("name", MEASURED)
@pytest.mark.parametrize("size", [2, 3, 8])
def test_what_is_received_was_sent(name, size):
    operation = OPERATIONS[name]
    sent = {(rank, to) for rank in range(size) for to in operation.sends(rank, size)}
    for rank in range(size):
        for sources, to in operation.receives(rank, size):
            assert {(source, to) for source in sources} <= sent


@pytest.mark.parametrize("size", [1, 2, 5])
def test_receives(size):
    everyone = list(range(size))
    for rank in everyone:

        def of(name, rank=rank):
            return as_sets(OPERATIONS[name].receives(rank, size))

        assert of("allreduce") == [(everyone, 0)]
        assert of("reduce") == ([] if rank else [(everyone, 0)])
        assert of("bcast") == ([([0], 0)] if rank else [])
        assert of("scatter") == [([0], rank)]
        assert of("gather") == ([] if rank else [([s], 0) for s in everyone])
        assert of("scan") == [(everyone[: rank + 1], 0)]
        assert of("exscan") == ([(everyone[:rank], 0)] if rank else [])
        for name in GATHERS:
            assert of(name) == [([s], 0) for s in everyone]
        for name in EXCHANGES:
            assert of(name) == [([s], rank) for s in everyone]
        for name in SCATTERED_SUMS:
            assert of(name) == [(everyone, rank)]


def test_only_the_first_rank_of_a_pair_is_timed():
    for name in ("pingpong", "put", "get", "accumulate", "put_lock", "get_lock", "accumulate_lock"):
        shares = [OPERATIONS[name].share(rank) for rank in range(4)]
        assert shares == [0.5 if name == "pingpong" else 1.0, 0, 0, 0]
        assert OPERATIONS[name].least_ranks == 2


@pytest.mark.parametrize("name", [name for name in PATTERNS if OPERATIONS[name].peers(0, 2)])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 6, 8, 12, 13, 27])
def test_what_one_rank_sends_its_peer_receives(name, size):
    operation = OPERATIONS[name]
    for rank in range(size):
        peers = operation.peers(rank, size)
        if COLLECTIVES[name].pattern is Pattern.PAIRS:
            assert [operation.peers(peer, size) for peer in peers] == [(rank,)] * len(peers)
            continue
        assert rank not in peers
        for j, peer in enumerate(peers):
            assert operation.peers(peer, size)[j ^ 1] == rank
            assert as_sets(operation.receives(peer, size))[j] == ([rank], j)


@pytest.mark.parametrize(
    ("size", "flat", "solid"), [(1, 0, 0), (2, 2, 2), (4, 4, 4), (6, 4, 4), (8, 4, 6), (13, 2, 2)]
)
def test_a_halo_has_two_neighbours_in_each_dimension_of_several_ranks(size, flat, solid):
    assert len(OPERATIONS["halo"].peers(0, size)) == flat
    assert len(OPERATIONS["halo3d"].peers(0, size)) == solid


def test_what_is_computed_is_the_same_under_every_setting_and_nothing_elsewhere():
    for name in MEASURED:
        computed = [OPERATIONS[name].compute_s(size) for size in (8, 4096)]
        assert (0 < computed[0] < computed[1]) == bool(COLLECTIVES[name].overlaps), name


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 8, 13])
def test_the_dissemination_barrier_lets_nobody_go_before_all_have_come(size):
    rounds = len(partners(0, size))
    heard = [{rank} for rank in range(size)]
    for k in range(rounds):
        assert all(partners(partners(r, size)[k][0], size)[k][1] == r for r in range(size))
        heard = [heard[r] | heard[partners(r, size)[k][1]] for r in range(size)]
    assert heard == [set(range(size))] * size
