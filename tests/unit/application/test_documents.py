"""A floor beside its recording."""

import json
from dataclasses import asdict, replace

import pytest

from autotune.application.documents import FLOOR as FORMAT
from autotune.application.documents import keep_floor, kept_floor, read_floor
from autotune.application.floor import Floor
from autotune.errors import TableError
from autotune.recommend.recommendation import Gain
from autotune.views.documents import json_text

GAINS = (Gain(("allreduce", 2, 64), 1e-6, 1e-8, 2e-6, 1e-8),)
FLOOR = Floor(GAINS, ("a=b",), ("a=b",), 9, 60.0, "Open MPI", "2026-11-26", 1)


def text(floor=FLOOR, **changes):
    return json_text({"format": FORMAT, **asdict(floor), **changes})


def test_a_floor_is_read_as_it_was_written_and_only_for_its_recording(tmp_path):
    calls = tmp_path / "calls.json"
    calls.write_text("{}")
    assert kept_floor(calls) is None
    keep_floor(FLOOR, calls)
    assert kept_floor(calls) == replace(FLOOR, calls="44136fa355b3678a")
    calls.write_text("{ }")
    assert kept_floor(calls) is None


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ("{", "not JSON"),
        ("[]", "no floor"),
        (json.dumps({"format": "autotune calls 4"}), "no floor"),
        (text(gains=3), "gains"),
        (text(best=[]), "0 choices for 1 slots"),
        (text(replace(FLOOR, gains=(replace(GAINS[0], tuned_s=0.0),))), "damaged floor"),
    ],
)
def test_a_damaged_floor_is_told_so(told, message):
    with pytest.raises(TableError, match=message):
        read_floor(told, "calls.floor.json")
