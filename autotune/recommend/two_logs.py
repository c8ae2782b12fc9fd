"""Two logs of benchmarks against each other, call by call (beside step 10 of the flow).

Rows of the same operation, ranks, size and labels are of the same call; those of one log are its repeats.
With two repeats or more on both sides the difference of the means of ln t has Welch's interval; with fewer
nothing is known of the noise. A call is reported as faster or slower where its difference
is significant after Holm's correction: the chance of any false verdict of two logs is at most ``RATE``.

References:
    Welch: The generalization of "Student's" problem when several different population variances are
    involved. Biometrika 34 (1947) 28–35.
    Holm: A simple sequentially rejective multiple test procedure. Scand. J. Stat. 6 (1979) 65–70.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import fmean, variance

from autotune.history.objectives import Slot, ratio_of
from autotune.importers import BenchmarkRow
from autotune.recommend.guidelines import is_figure

RATE = 0.05
"""Chance of any false verdict; intervals hold for one call with the chance 1 − RATE."""
_STEP_US = 0.01
"""Benchmarks print two decimals, so repeats can look the same: they scatter at least as rounding does."""

Call = tuple[Slot, tuple[tuple[str, str], ...]]
"""Operation, ranks (0: not known) and size, and the labels in which rows differ."""


class LogVerdict(StrEnum):
    """Verdict on one call, of the second log against the first."""

    FASTER = "faster"
    SLOWER = "slower"
    INCONCLUSIVE = "inconclusive"
    NO_REPEATS = "no repeats"


@dataclass(frozen=True, slots=True)
class LogPair:
    """One call in both logs."""

    call: Call  # Which.
    first_us: float
    """Geometric mean of its time in the first log; of rows with a bandwidth alone, the time of a message."""
    second_us: float  # In the second.
    repeats: tuple[int, int]  # Rows behind each.
    speedup: float  # Of the second log against the first.
    interval: tuple[float, float]  # Of the speed-up; not numbers without repeats.
    p_value: float  # Of no difference; not a number without repeats.
    verdict: LogVerdict = LogVerdict.NO_REPEATS


@dataclass(frozen=True, slots=True)
class TwoLogs:
    """All calls of two logs."""

    pairs: tuple[LogPair, ...]  # Calls of both, ordered by call.
    only_first: tuple[Call, ...]  # Calls that the second log does not have.
    only_second: tuple[Call, ...]  # And the other way round.


def compared(first: Iterable[BenchmarkRow], second: Iterable[BenchmarkRow]) -> TwoLogs:
    """Match the calls of two logs and say which differ."""
    left, right = _times(first), _times(second)
    pairs = [_pair(call, left[call], right[call]) for call in sorted(left.keys() & right.keys())]
    ordered = sorted((pair for pair in pairs if pair.p_value == pair.p_value), key=lambda pair: pair.p_value)
    n = len(ordered)
    held = next((i for i, pair in enumerate(ordered) if pair.p_value > RATE / (n - i)), n)
    verdicts = {pair.call: _direction(pair) for pair in ordered[:held]}
    verdicts |= dict.fromkeys((pair.call for pair in ordered[held:]), LogVerdict.INCONCLUSIVE)
    return TwoLogs(
        tuple(replace(pair, verdict=verdicts.get(pair.call, pair.verdict)) for pair in pairs),
        tuple(sorted(left.keys() - right.keys())),
        tuple(sorted(right.keys() - left.keys())),
    )


def _direction(pair: LogPair) -> LogVerdict:
    return LogVerdict.FASTER if pair.speedup > 1 else LogVerdict.SLOWER


def _times(rows: Iterable[BenchmarkRow]) -> Mapping[Call, list[float]]:
    """Call → times in µs; of a bandwidth the time in which a message passes (bytes/(MB/s) are µs)."""
    times: dict[Call, list[float]] = defaultdict(list)
    for one in rows:
        time_us = one.latency_us or (one.bandwidth_MBps and one.message_bytes / one.bandwidth_MBps)
        labels = {name.lower(): value for name, value in one.labels}
        if not time_us or labels.get("status", "ok") != "ok":
            continue
        setting = sorted((n, v) for n, v in labels.items() if v and not is_figure(n, v))
        times[(one.collective, one.comm_size or 0, one.message_bytes), tuple(setting)].append(time_us)
    return _without_copies(times)


def _without_copies(times: Mapping[Call, list[float]]) -> Mapping[Call, list[float]]:
    """Each table once: two that agree in all of several calls are one run, printed twice or simulated."""
    if len(times) < 2 or len({len(repeats) for repeats in times.values()}) > 1:
        return times
    runs = dict.fromkeys(zip(*times.values(), strict=True))
    return dict(zip(times, map(list, zip(*runs, strict=True)), strict=True))


def _pair(call: Call, first: Sequence[float], second: Sequence[float]) -> LogPair:
    (mean_1, var_1), (mean_2, var_2) = _of_logs(first), _of_logs(second)
    d = mean_1 - mean_2
    sizes = len(first), len(second)
    if min(sizes) < 2:
        unknown = (math.nan, math.nan)
        return LogPair(call, math.exp(mean_1), math.exp(mean_2), sizes, ratio_of(d), unknown, math.nan)
    from scipy.stats import t

    parts = var_1 / sizes[0], var_2 / sizes[1]
    sem = math.sqrt(sum(parts))
    freedom = sum(parts) ** 2 / sum(part**2 / (n - 1) for part, n in zip(parts, sizes, strict=True))
    half = float(t.isf(RATE / 2, freedom)) * sem
    p_value = 2 * float(t.sf(abs(d) / sem, freedom))
    interval = (ratio_of(d - half), ratio_of(d + half))
    return LogPair(call, math.exp(mean_1), math.exp(mean_2), sizes, ratio_of(d), interval, p_value)


def _of_logs(times: Sequence[float]) -> tuple[float, float]:
    """Mean and variance of ln t; the variance is at least that of rounding, not a number of a single time."""
    logs = [math.log(time) for time in times]
    if len(logs) < 2:
        return logs[0], math.nan
    rounding = (_STEP_US / min(times)) ** 2 / 12
    return fmean(logs), max(variance(logs), rounding)
