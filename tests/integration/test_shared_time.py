"""How the collectives of a launch share its time, on a clock on which calls cost what the test says."""

import json
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.asking import probe_request
from tests.integration.mpirun import run

pytestmark = pytest.mark.mpi

SCRIPT = Path(__file__).parent / "scripted_time.py"
THREE = ("allreduce", "alltoall", "bcast")
SIZES = tuple(8 << k for k in range(8))  # up to 1 KiB: they cost the same


def shared(costs, **changes):
    request = probe_request(THREE, changes.pop("sizes", SIZES), ranks=2, **changes)
    done = run([sys.executable, str(SCRIPT), request.to_json(), json.dumps(costs)])
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def timed(found):
    return Counter(name for name, _, _, samples, _ in found["cells"] if samples)


@pytest.mark.parametrize("loop", ["interleaved", "tight"])
@pytest.mark.parametrize("dear", THREE)
def test_a_collective_whose_calls_are_dear_takes_nothing_from_the_others(dear, loop):
    """Its own cells would take more than all of the time; those of the others a thousandth."""
    costs = dict.fromkeys(THREE, 1e-5) | {dear: 4.0}
    found = shared(costs, budget_s=30.0, loop=loop)
    counts = timed(found)
    assert all(counts[name] == len(SIZES) for name in THREE if name != dear), found
    assert 1 <= counts[dear] < len(SIZES)


@pytest.mark.parametrize("loop", ["interleaved", "tight"])
def test_where_the_time_reaches_every_cell_is_timed_before_any_is_timed_again(loop):
    costs = {"allreduce": 0.01, "alltoall": 0.2, "bcast": 0.01}
    first_s = len(SIZES) * sum(costs.values()) * (6 if loop == "interleaved" else 12)
    found = shared(costs, budget_s=first_s, loop=loop, precision=1e-3)
    assert all(samples for *_, samples, _ in found["cells"]), found
    assert not found["notes"] or "not timed" not in " ".join(found["notes"])
    assert found["order"] == ["_time_first"] * 3 * len(SIZES) + ["_sample"] * 3


def test_checks_and_warm_up_count():
    """Each collective has a third; what an end is overrun by is the calls of one cell."""
    found = shared(dict.fromkeys(THREE, 0.1), budget_s=3.0)
    assert found["took_s"] < 3.0 + 3 * 0.6
    assert set(timed(found)) == set(THREE)


def test_what_stays_untimed_names_the_budget_that_would_do():
    costs = dict.fromkeys(THREE, 0.1)
    found = shared(costs, budget_s=2.0)
    untimed = [reason for *_, samples, reason in found["cells"] if not samples]
    assert untimed
    (said,) = (note for note in found["notes"] if "not timed" in note)
    assert said.startswith(f"{len(untimed)} of {3 * len(SIZES)} cells were not timed (")
    enough = said.rpartition("; about ")[2].removesuffix(" would do")
    assert all(f"about probe.budget_s={enough} would do" in reason for reason in untimed)
    again = shared(costs, budget_s=float(enough))
    assert timed(again) == dict.fromkeys(THREE, len(SIZES)), again


def test_larger_messages_are_expected_to_take_longer_than_those_timed():
    costs, sizes = dict.fromkeys(THREE, 0.01), (1024, 2048, 1 << 17, 1 << 20)
    found = shared(costs, budget_s=1.0, sizes=sizes)
    (said,) = (note for note in found["notes"] if "not timed" in note)
    enough = float(said.rpartition("; about ")[2].removesuffix(" would do"))
    again = shared(costs, budget_s=enough, sizes=sizes)
    assert sum(timed(again).values()) == 3 * len(sizes), again


def test_communicators_of_parts_have_their_share_too():
    found = shared(dict.fromkeys(THREE, 0.5), budget_s=4.0, comm_sizes=(1, 2))
    parts = Counter((name, size) for name, size, _, samples, _ in found["cells"] if samples)
    assert all(parts[name, size] for name in THREE for size in (1, 2)), found


def test_ranks_on_which_calls_take_other_times_make_the_same_calls():
    """Blocks of long calls have no warm-up; at 10 ms calls are long on one rank and not on the other."""
    found = shared(dict.fromkeys(THREE, 0.009) | {"skew": 0.3}, budget_s=3.0, precision=0.02)
    assert all(samples > 1 for *_, samples, _ in found["cells"]), found
