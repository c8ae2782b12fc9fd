"""Runs of an application with files and without: what is said, and how often wrongly."""

import numpy as np
import pytest

from autotune.verification.application import Said, judged
from autotune.verification.sequential import SequentialDesign

DESIGN = SequentialDesign.of(16, 0.05, 0.01, 0.1)


def ended(rng, ratio, noise, more_is_better=False):
    """What a comparison comes to, look by look."""
    runs = [], []
    for look in DESIGN.looks:
        while len(runs[0]) < look:
            runs[0].append(10.0 * np.exp(noise * rng.normal()))
            runs[1].append(10.0 / ratio * np.exp(noise * rng.normal()))
        verdict = judged(*runs, more_is_better, DESIGN)
        if verdict.said is not Said.UNTOLD:
            break
    return verdict


@pytest.mark.parametrize(
    ("ratio", "more_is_better", "said"),
    [(1.3, False, Said.BETTER), (1.3, True, Said.WORSE), (0.8, False, Said.WORSE), (0.8, True, Said.BETTER)],
)
def test_what_is_clear_is_said(ratio, more_is_better, said):
    verdict = ended(np.random.default_rng(1), ratio, 0.01, more_is_better)
    assert verdict.said is said
    assert verdict.low < (1 / ratio if more_is_better else ratio) < verdict.high


def test_no_difference_within_what_matters():
    assert ended(np.random.default_rng(2), 1.0, 0.001).said is Said.SAME


def test_without_a_difference_little_is_claimed():
    """At most 5 % over all looks; of 400 comparisons more than 36 are seen once in 10,000 such tests."""
    rng = np.random.default_rng(3)
    claimed = sum(ended(rng, 1.0, 0.05).said in (Said.BETTER, Said.WORSE) for _ in range(400))
    assert claimed <= 36


def test_what_a_run_saves_is_in_seconds_of_the_default():
    verdict = judged([10.0, 10.1, 9.9, 10.0], [8.0, 8.1, 7.9, 8.0], False, DESIGN)
    saved, low, high = verdict.saved
    assert low < saved < high
    assert saved == pytest.approx(2.0, abs=0.05)
