"""How lateness comes is read off what most of the waiting lies in."""

import numpy as np
import pytest

from autotune.application.lateness import SAMPLE, KeptCalls, lateness, waited

N = 200


def stream(late_s):
    """Two ranks that kept all N calls; rank 0 is later by ``late_s``, ``(N,)``, and rank 1 where negative."""
    gap_s = 1e-3
    last_s = np.cumsum(gap_s + np.abs(late_s))
    kept = []
    for rank, sign in enumerate((-1, 1)):
        samples = np.zeros(N, SAMPLE)
        samples["call"], samples["weight"] = np.arange(N), 1
        samples["begin_s"] = last_s - np.maximum(sign * late_s, 0.0)
        samples["end_s"] = last_s + 1e-5
        took_s = samples["end_s"] - samples["begin_s"]
        of_longest = took_s > 5e-3
        longest = samples[of_longest]
        kept.append(KeptCalls(rank, N, 1.0, 5e-3, samples[~of_longest], longest))
    in_all_s = sum(float((s["end_s"] - s["begin_s"]).sum()) for k in kept for s in (k.drawn, k.longest)) / 2
    return lateness([waited("allreduce", 2, kept, 2)], in_all_s, in_all_s)[2]


def periodic():
    late_s = np.zeros(N)
    late_s[19::20] = 20e-3
    return late_s


@pytest.mark.parametrize("wild_s", [0.0, 0.06, 0.15, -0.15], ids=["none", "rank-0", "rank-0-long", "rank-1"])
def test_one_wild_call_hides_no_period(wild_s):
    late_s = periodic()
    late_s[107] = wild_s
    found = stream(late_s)
    assert (found.pattern, found.ranks[0].rank) == ("periodic", 0)
    assert found.period_s == pytest.approx(20 * 1e-3 + 20e-3, rel=0.01)


def test_where_most_waiting_is_in_one_call_there_is_no_period():
    late_s = periodic()
    late_s[107] = 2.0
    assert stream(late_s).pattern != "periodic"
