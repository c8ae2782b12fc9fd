import io
import json
from array import array
from dataclasses import replace

import numpy as np
import pytest

from autotune.errors import UserError
from autotune.probe.protocol import (
    RESULT,
    SAMPLES,
    CellSamples,
    Expectation,
    ProbeRequest,
    ProbeResult,
    SweptChoice,
)
from autotune.probe.rows_file import npy, write_rows
from tests.asking import probe_request

CELL = CellSamples("allreduce", 2, 8, {"algorithm": 3}, np.array([1e-6, 2e-6, 3e-6]))


def test_a_request_comes_back_as_it_was():
    request = probe_request(
        ("allreduce", "bcast"),
        (8, 1024),
        {"bcast": (SweptChoice({"algorithm": "ring"}, {"coll_tuned_bcast_algorithm": 3}),)},
        comm_sizes=(2, 4),
        ranks=4,
        sync="window",
        expect=Expectation("/lib/libmpi.so", {"UCX_TLS": "self"}, {"pml": "ucx"}, ucx=True),
    )
    assert ProbeRequest.from_json(request.to_json()) == request


@pytest.mark.parametrize(
    ("changes", "named"), [({"loop": "tigt"}, "tight"), ({"loop": "tight", "sync": "window"}, "barrier")]
)
def test_an_order_of_calls_that_there_is_not_is_refused_in_the_words_of_the_scenario(changes, named):
    with pytest.raises(UserError, match=r"probe\.options\.loop") as caught:
        probe_request(("allreduce",), (8,), **changes)
    assert named in str(caught.value.hint)


def test_a_result_comes_back_as_it_was(tmp_path):
    coded = CellSamples(
        *("bcast", 2, 8, {}, np.array([1.0, 2.0])),
        validity=np.array([0, 3], np.uint8),
        extra={"ranks_min_s": 0.5, "ranks_avg_s": 0.75},
    )
    refused = CellSamples("bcast", 2, 16, {}, np.empty(0), "not_applied", "refused")
    result = ProbeResult(
        "ok",
        cells=(CELL, coded, refused),
        timing="native",
        overhead_s=2e-8,
        applied={"pml": "ucx"},
    )
    result.write(tmp_path)
    found = ProbeResult.read(tmp_path)
    assert found is not None
    assert [c.samples_s.tolist() for c in found.cells] == [c.samples_s.tolist() for c in result.cells]
    assert [c.status for c in found.cells] == ["ok", "ok", "not_applied"]
    assert [c.extra for c in found.cells] == [c.extra for c in result.cells]
    assert found.cells[0].validity is None
    assert found.cells[1].validity.tolist() == [0, 3]
    assert found.cells[1].valid_s.tolist() == [1.0]
    assert found.cells[0].valid_s.tolist() == CELL.samples_s.tolist()
    assert (found.timing, found.overhead_s, found.applied) == ("native", 2e-8, {"pml": "ucx"})
    assert np.isnan(found.memory_bytes)


def test_without_a_result_there_is_none_and_a_damaged_one_says_so(tmp_path):
    assert ProbeResult.read(tmp_path) is None
    ProbeResult("ok", cells=(CELL,)).write(tmp_path)
    whole = (tmp_path / SAMPLES).read_bytes()
    for damaged in (whole[: len(whole) // 2], b"cut", b""):
        (tmp_path / SAMPLES).write_bytes(damaged)
        with pytest.raises(UserError, match="damaged"):
            ProbeResult.read(tmp_path)
    (tmp_path / RESULT).write_text(json.dumps({"version": 99}))
    with pytest.raises(UserError, match="version 99"):
        ProbeResult.read(tmp_path)


def test_rows_are_written_as_numpy_writes_them(tmp_path):
    rows = {"c0": array("d", [1.5e-6, 2.0]), "v0": array("B", [0, 3]), "r0": np.array([7, 8], np.int32)}
    write_rows(tmp_path / SAMPLES, {**rows, "c1": np.empty(0)})
    with np.load(tmp_path / SAMPLES, allow_pickle=False) as read:
        assert {name: (read[name].dtype.str[1:], read[name].tolist()) for name in read} == {
            "c0": ("f8", [1.5e-6, 2.0]),
            "v0": ("u1", [0, 3]),
            "r0": ("i4", [7, 8]),
            "c1": ("f8", []),
        }
        expected = io.BytesIO()
        np.save(expected, read["c0"])
    assert npy(memoryview(rows["c0"])) == expected.getvalue()


def test_other_calls_are_asked_for_at_sizes_that_cost_no_more_than_the_rest():
    """Blocks for each other rank are together no larger than the largest message of all."""
    also = ("pingpong", "alltoall", "barrier", "bcast")
    request = probe_request(("allreduce",), (8, 1 << 20), comm_sizes=(2,), beside=also)

    def asked(ranks):
        return {one.collectives[0]: one.sizes_of(one.collectives[0]) for one in request.other_calls(ranks)}

    each = (8, 8192, 262144)
    assert asked(2) == {"pingpong": each, "alltoall": each, "barrier": (0,), "bcast": each}
    assert asked(8)["alltoall"] == asked(128)["alltoall"] == (8, 8192)
    assert asked(288)["alltoall"] == asked(10**6)["alltoall"] == (8,)
    assert asked(1) == {}
    for one in request.other_calls(2):
        assert (one.beside, one.comm_sizes, one.loop, one.other_loop) == ((), (), "interleaved", "tight")
    windows = replace(request, sync="window")
    assert {one.other_loop for one in windows.other_calls(2)} == {""}
