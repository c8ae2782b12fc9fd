"""Whatever ranks have recorded, the parts of one document add up to its whole."""

from io import BytesIO

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from autotune.application import rank_file
from autotune.application.diagnosis import diagnose
from autotune.application.rank_files import joined
from autotune.application.recorded_time import FAMILIES
from autotune.application.recording import mean_of

TICK_S = 1e-9
REQUESTS = [("iallreduce", 0, 1), ("irecv", 1, 0), ("isend", 1, 0), ("rput", 2, 0), ("file_iwrite", 3, 0)]
"""Operation, family and kind of what a completion may be for."""
ENDS = ["wait", "waitall", "testsome"]


def cell(draw, name, family, kind=0):
    """Calls of which some were timed each, and of others some were drawn."""
    one = np.zeros(1, rank_file.CELL)
    every, drawn = draw(st.integers(1, 300)), draw(st.integers(0, 50))
    one["name"], one["family"], one["kind"] = name.encode(), family, kind
    one["bin"], one["ranks"] = draw(st.integers(1, 5)), 2 if family == 0 else 0
    one["all"], one["ticks"] = every, every * draw(st.integers(1, 5000))
    one["weight"] = 8 * drawn
    one["weighted"] = 8 * drawn * draw(st.integers(1, 5000))
    one["calls"] = every + max(8 * drawn - draw(st.integers(0, 7)), 0)  # the last block may be cut off
    one["timed"] = one["counted"] = every + drawn
    return one


@st.composite
def ranks(draw):
    """Files of the two ranks of a run; every tick that a completion took for requests is in theirs."""
    files = []
    for rank in range(2):
        begun = [cell(draw, *what) for what in draw(st.lists(st.sampled_from(REQUESTS), unique=True))]
        ends = [cell(draw, name, 4) for name in draw(st.lists(st.sampled_from(ENDS), unique=True))]
        for end in ends if begun else []:
            share = draw(st.sampled_from([0.0, 0.3, 1.0]))
            end["wait"] = share * (end["ticks"] + end["weighted"])
            parts = np.array([draw(st.integers(0, 9)) for _ in begun], float)
            parts = parts / parts.sum() if parts.sum() else np.full(len(begun), 1 / len(begun))
            for one, part in zip(begun, parts, strict=True):
                one["wait"] += part * end["wait"]
        head = np.zeros(1, rank_file.HEAD)
        cells = [*begun, *ends]
        known = {
            "magic": b"autorec5",
            "rank": rank,
            "size": 2,
            "ended": 1,
            "nodes": 1,
            "compact": 1,
            "job": 7,
        }
        known["library"] = b"Open MPI"
        known |= {"cells": len(cells), "end_s": 100.0, "end": 100 / TICK_S, "tick_s": TICK_S, "shift": 20}
        for key, value in known.items():
            head[key] = value
        head["timeline"][0, :, : draw(st.integers(1, 64))] = draw(st.floats(1.0, 1e6))
        runs = np.zeros(rank_file._RUNS, rank_file._RUN)
        files.append(BytesIO(b"".join(part.tobytes() for part in (head, runs, *cells))))
    return files


@given(st.lists(ranks(), min_size=1, max_size=3))
def test_the_parts_of_a_recording_add_up(runs):
    every = [joined(files, ["app"], 100.0, "2026-01-01")[0] for files in runs]
    for found in every:
        spent_s = dict.fromkeys(FAMILIES, 0.0) | found.families_s
        timed_s = {name: sum(values) for name, values in found.timeline.seconds.items()}
        assert timed_s == approx(spent_s, rel=1e-6, abs=1e-12)
    found = mean_of(every)
    ends = [one for one in found.other if one.family == "completion"]
    assert all(one.completing_s <= one.seconds * (1 + 1e-9) for one in ends)
    begun_s = sum(one.completing_s for one in found.other if one.family != "completion")
    waited_s = sum(one.completing_s for one in ends)
    if not found.calls:
        assert begun_s == approx(waited_s, rel=1e-6, abs=1e-12)
    assert begun_s <= waited_s * (1 + 1e-9) + 1e-12
    told = diagnose(found)
    total_s = sum(found.families_s.values())
    assert told.mpi_s[0] == approx(total_s)
    assert sum(one.seconds for one in told.losses) == approx(total_s)
    assert 0 <= told.mpi_s[1] <= total_s * (1 + 1e-9) <= told.mpi_s[2] * (1 + 2e-9)
