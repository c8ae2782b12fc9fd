"""OTF2 traces, written here by the library, become the recording that ``record`` would have made."""

import otf2
import pytest
from otf2.enums import CollectiveOp, GroupType, LocationGroupType, LocationType, Paradigm

from autotune.application.recording import read_recording
from autotune.application.scenario import of_recording
from autotune.application.traces import read_trace
from autotune.cli import main
from autotune.errors import ExitCode, TableError

RANKS, US = 4, 1000
NO_ROOT = 2**32 - 1


def counted(operation, block, rank, root, in_place=False):
    """Bytes sent and received by a rank, as Score-P counts them."""
    less = int(in_place)
    if operation in (CollectiveOp.GATHER, CollectiveOp.REDUCE, CollectiveOp.BCAST):
        if rank == root:
            one, many = (0 if in_place else block), (RANKS - less) * block
        else:
            one, many = block, 0
        return (many, one) if operation == CollectiveOp.BCAST else (one, many)
    if operation == CollectiveOp.SCAN:
        return (RANKS - rank) * block, (rank + 1) * block
    return (RANKS - less) * block, (RANKS - less) * block


CALLS = (
    (CollectiveOp.BARRIER, 0, NO_ROOT),
    (CollectiveOp.ALLREDUCE, 64, NO_ROOT),
    (CollectiveOp.ALLTOALL, 4096, NO_ROOT),
    (CollectiveOp.BCAST, 256, 1),
    (CollectiveOp.GATHER, 32, 2),
    (CollectiveOp.SCAN, 8, NO_ROOT),
)


NAMED = {str(operation).rpartition(".")[2].lower(): block for operation, block, _ in CALLS}


@pytest.fixture
def trace(tmp_path):
    """Each of ``CALLS`` by four ranks on two nodes takes 20 µs from when the last, 10 µs late, has come."""
    with otf2.writer.open(str(tmp_path / "scorep"), timer_resolution=10**9) as writer:
        known, kind, places = writer.definitions, {"location_group_type": LocationGroupType.PROCESS}, []
        nodes = [known.system_tree_node(f"node{i}") for i in range(2)]
        for rank in range(RANKS):
            group = known.location_group(f"MPI Rank {rank}", system_tree_parent=nodes[rank // 2], **kind)
            places.append(known.location("Master thread", type=LocationType.CPU_THREAD, group=group))
        of_mpi = {"paradigm": Paradigm.MPI}
        known.group("", group_type=GroupType.COMM_LOCATIONS, members=places, **of_mpi)
        group = known.group("", group_type=GroupType.COMM_GROUP, members=list(range(RANKS)), **of_mpi)
        world = known.comm("MPI_COMM_WORLD", group=group)
        for rank, place in enumerate(places):
            events = writer.event_writer_from_location(place)
            for i, (operation, block, root) in enumerate(CALLS):
                begin = 10**6 + 100 * US * i
                come = begin + (10 * US if rank == RANKS - 1 else 0)
                sent, received = counted(operation, block, rank, root)
                events.mpi_collective_begin(come)
                events.mpi_collective_end(begin + 30 * US, operation, world, root, sent, received)
    return tmp_path / "scorep" / "traces.otf2"


def test_a_trace_becomes_a_recording(trace):
    found = read_trace(trace)
    assert (found.ranks, found.nodes, found.ended) == (RANKS, 2, "finalized")
    assert found.run_s == pytest.approx(530e-6)
    calls = {c.collective: c for c in found.calls}
    assert {name: c.message_bytes for name, c in calls.items()} == NAMED
    for call in calls.values():
        assert (call.calls, call.calls_per_rank, call.comm_size, call.kind) == (RANKS, 1.0, RANKS, "blocking")
        assert call.seconds == pytest.approx((3 * 30e-6 + 20e-6) / RANKS)
        assert (call.timed, call.seconds_se) == (RANKS, 0.0)
    assert calls["allreduce"].waiting_s == pytest.approx(3 * 10e-6 / RANKS)
    assert calls["gather"].waiting_s == pytest.approx(10e-6 / RANKS)  # the root alone needs the last
    assert calls["bcast"].waiting_s == 0


def test_record_writes_what_conf_application_reads(trace, tmp_path, capsys):
    out = tmp_path / "calls.json"
    assert main(["record", "--trace", str(trace), "--out", str(out)]) == ExitCode.WELL
    assert "are in collectives" in capsys.readouterr().out
    assert read_recording(out.read_text(), "calls.json") == read_trace(trace)
    filled = of_recording({"calls": str(out)})
    assert filled["cluster"] == {"nodes": 2, "comm_sizes": [RANKS], "ranks": RANKS}
    assert set(filled["collective"]) <= set(NAMED)
    assert filled["sizes"] == [8, 32, 64, 256, 4096]


def test_traces_of_several_runs_become_one_recording(trace, tmp_path, capsys):
    out = tmp_path / "calls.json"
    assert main(["record", "--trace", str(trace), "--trace", str(trace), "--out", str(out)]) == ExitCode.WELL
    assert "mean of 2 runs" in capsys.readouterr().out
    found, one = read_recording(out.read_text(), "calls.json"), read_trace(trace)
    assert found.collectives_runs_s == pytest.approx((one.collectives_s,) * 2)


def test_what_is_no_trace_is_one_message(trace, tmp_path, capsys):
    damaged = tmp_path / "damaged.otf2"
    damaged.write_text("no trace")
    for path in (damaged, tmp_path / "missing.otf2"):
        with pytest.raises(TableError, match="cannot be read as an OTF2 trace"):
            read_trace(path)
    trace.with_name("traces.def").write_bytes(b"damaged")
    assert main(["record", "--trace", str(trace), "--out", str(tmp_path / "c.json")]) == ExitCode.MISTAKE
    assert "cannot be read" in capsys.readouterr().err
    assert main(["record", "--trace", str(trace), "--", "mpirun"]) == ExitCode.MISTAKE
    assert "and a command as well" in capsys.readouterr().err
    assert main(["record", "--trace", str(trace), "--runs", "2"]) == ExitCode.MISTAKE
    assert "give --trace for each" in capsys.readouterr().err
    assert main(["plan", "conf=application", f"calls={trace}"]) == ExitCode.MISTAKE
    assert "record --trace" in capsys.readouterr().err
