"""Compare two benchmark logs, call by call: find calls that are faster or slower in the second log.

A call is an operation with a number of ranks, a message size and labels (such as a datatype). Rows of one log
with the same call are repeats of this call. If a label has one value in all rows of the first log, and
another value in all rows of the second log, the label says what is compared, and it does not distinguish
calls. If only one of the logs has a label, each value of the label is a separate call.

If both logs have two or more repeats of a call, Welch's interval of the difference between the means of ln t
is computed; otherwise the error of the difference is not known. A call is reported as faster or slower if the
difference is significant after Holm's correction: the probability of any false verdict on two logs is at most
``RATE``.

References:
    Welch: The generalization of "Student's" problem when several different population variances are
    involved. Biometrika 34 (1947) 28–35.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import fmean, variance

from autotune.collectives import COLLECTIVES
from autotune.history.objectives import Slot, ratio_of
from autotune.recommend.guideline_test import n_significant
from autotune.recommend.guidelines import is_figure
from autotune.tables.importers import BenchmarkRow

RATE = 0.05
"""Probability of any false verdict on two logs. The confidence interval of a single call contains the true
value with probability 1 − RATE."""
_STEP_US = 0.01
"""Resolution of times in µs. Benchmarks print two decimals, so repeats may be equal; therefore their variance
is assumed to be at least that of rounding."""

_DATATYPE = "MPI_CHAR"  # Default datatype of OSU's benchmarks.

Call = tuple[Slot, tuple[tuple[str, str], ...]]
"""A call, as (operation, number of ranks or 0 if the number is not known, message size), and the (name,
value) of the labels that distinguish calls."""


class LogVerdict(StrEnum):
    """Verdict on one call: whether it is significantly faster or slower in the second log."""

    FASTER = "faster"
    SLOWER = "slower"
    INCONCLUSIVE = "inconclusive"
    NO_REPEATS = "no repeats"


@dataclass(frozen=True, slots=True)
class LogPair:
    """Times of one call in both logs, and their comparison."""

    call: Call
    first_us: float
    """Geometric mean of the call's time in the first log, in µs; the time of one message if rows have only a
    bandwidth."""
    second_us: float  # Geometric mean of the call's time in the second log, in µs.
    repeats: tuple[int, int]  # Number of rows with this call in the first and in the second log.
    speedup: float  # Ratio of the times, first log / second log.
    interval: tuple[float, float]  # Confidence interval of the speed-up; NaN if a log has no repeats.
    p_value: float  # p-value of the hypothesis that the times do not differ; NaN if a log has no repeats.
    verdict: LogVerdict = LogVerdict.NO_REPEATS


@dataclass(frozen=True, slots=True)
class LabelDifference:
    """A label that separates the logs for one operation.

    It has one value in all rows of the first log, and another value in all rows of the second log.
    """

    collective: str  # Name of the operation.
    name: str
    values: tuple[str, str]
    """Value of the label in the first and in the second log; empty if the log does not have the label."""


@dataclass(frozen=True, slots=True)
class TwoLogs:
    """Comparison of two logs, call by call."""

    pairs: tuple[LogPair, ...]  # Calls that both logs contain, in sorted order.
    only_first: tuple[Call, ...]
    only_second: tuple[Call, ...]
    differences: tuple[LabelDifference, ...] = ()
    """Labels that have one value in all rows of the first log and another value in the second log."""


def compared(first: Iterable[BenchmarkRow], second: Iterable[BenchmarkRow]) -> TwoLogs:
    """Match the calls of two logs, and test for each common call whether its times differ."""
    rows = [_labelled(log) for log in (first, second)]
    rows = [_with_defaults(log, counterpart) for log, counterpart in zip(rows, reversed(rows), strict=True)]
    differences = tuple(_differences(*rows))
    left, right = (_times(log, differences) for log in rows)
    matched = list(_matched(left, right))
    pairs = [_pair(call, left[left_call], right[right_call]) for call, left_call, right_call in matched]
    ordered = sorted((pair for pair in pairs if pair.p_value == pair.p_value), key=lambda pair: pair.p_value)
    n = n_significant([pair.p_value for pair in ordered], RATE)
    verdicts = dict.fromkeys((pair.call for pair in ordered[n:]), LogVerdict.INCONCLUSIVE)
    for pair in ordered[:n]:
        verdicts[pair.call] = LogVerdict.FASTER if pair.speedup > 1 else LogVerdict.SLOWER
    return TwoLogs(
        tuple(replace(pair, verdict=verdicts.get(pair.call, pair.verdict)) for pair in pairs),
        tuple(sorted(left.keys() - {left_call for _, left_call, _ in matched})),
        tuple(sorted(right.keys() - {right_call for *_, right_call in matched})),
        differences,
    )


@dataclass(frozen=True, slots=True)
class _Timed:
    slot: Slot  # Operation, number of ranks (0 if not known) and message size.
    labels: Mapping[str, str]
    """Labels that distinguish settings; ``guidelines.is_figure`` finds the other labels."""
    time_us: float
    """Time in µs. If there is only a bandwidth, the time of one message: bytes divided by MB/s."""
    plain: bool  # Whether the row comes from OSU's benchmarks and its operation is not a reduction.


def _labelled(rows: Iterable[BenchmarkRow]) -> list[_Timed]:
    """Return those rows of a log that have a time or a bandwidth and whose launch did not fail."""
    timed = []
    for row in rows:
        time_us = row.latency_us or (row.bandwidth_MBps and row.message_bytes / row.bandwidth_MBps)
        labels = {name.lower(): value for name, value in row.labels}
        if not time_us or labels.get("status", "ok") != "ok":
            continue
        setting = {name: value for name, value in labels.items() if value and not is_figure(name, value)}
        entry = COLLECTIVES.get(row.collective)
        plain = row.benchmark.startswith("OSU MPI") and entry is not None and not entry.sums
        slot = (row.collective, row.comm_size or 0, row.message_bytes)
        timed.append(_Timed(slot, setting, time_us, plain))
    return timed


def _with_defaults(rows: Sequence[_Timed], counterpart: Sequence[_Timed]) -> list[_Timed]:
    """Add the default datatype of OSU's benchmarks to rows without one if the other log has datatypes.

    Versions before 7.1 use the default datatype without printing it. Reductions of these versions use another
    datatype, so rows of reductions are returned unchanged.
    """
    stated = any("datatype" in row.labels for row in counterpart)
    return [
        replace(row, labels={"datatype": _DATATYPE} | dict(row.labels)) if stated and row.plain else row
        for row in rows
    ]


def _differences(first: Sequence[_Timed], second: Sequence[_Timed]) -> Iterator[LabelDifference]:
    """Yield the labels whose value is the same in all rows of each log but differs between the logs.

    A label that all rows of a log lack has the empty value there.
    """
    for collective in sorted({row.slot[0] for row in first} & {row.slot[0] for row in second}):
        logs = [[row.labels for row in log if row.slot[0] == collective] for log in (first, second)]
        for name in sorted(set().union(*logs[0], *logs[1])):
            values = [{labels.get(name, "") for labels in log} for log in logs]
            if len(values[0]) == len(values[1]) == 1 and values[0] != values[1]:
                yield LabelDifference(collective, name, (values[0].pop(), values[1].pop()))


def _times(rows: Iterable[_Timed], differences: Sequence[LabelDifference]) -> Mapping[Call, list[float]]:
    """Return the times of each call in µs; the labels in ``differences`` do not distinguish calls."""
    ignored = {(difference.collective, difference.name) for difference in differences}
    times: dict[Call, list[float]] = defaultdict(list)
    for row in rows:
        setting = sorted(label for label in row.labels.items() if (row.slot[0], label[0]) not in ignored)
        times[row.slot, tuple(setting)].append(row.time_us)
    return _without_copies(times)


def _matched(left: Iterable[Call], right: Iterable[Call]) -> Iterator[tuple[Call, Call, Call]]:
    """Yield the calls that both logs contain, as (joint call, call in the left log, call in the right log).

    Two calls match if all labels that both logs have are equal. The joint call has the labels of both calls.
    """
    names: dict[tuple[str, int], set[str]] = defaultdict(set)
    for log, calls in enumerate((left, right)):
        for (collective, *_), setting in calls:
            names[collective, log] |= {name for name, _ in setting}

    def shared(call: Call) -> Call:
        common = names[call[0][0], 0] & names[call[0][0], 1]
        return call[0], tuple(label for label in call[1] if label[0] in common)

    right_calls: dict[Call, list[Call]] = defaultdict(list)
    for call in sorted(right):
        right_calls[shared(call)].append(call)
    for call in sorted(left):
        for right_call in right_calls[shared(call)]:
            yield (call[0], tuple(sorted({*call[1], *right_call[1]}))), call, right_call


def _without_copies(times: Mapping[Call, list[float]]) -> Mapping[Call, list[float]]:
    """Return the times without duplicates of runs.

    Runs are duplicates if their times are equal in all of several calls; such runs were printed twice, or
    simulated.
    """
    if len(times) < 2 or len({len(repeats) for repeats in times.values()}) > 1:
        return times
    runs = dict.fromkeys(zip(*times.values(), strict=True))
    return dict(zip(times, map(list, zip(*runs, strict=True)), strict=True))


def _pair(call: Call, first: Sequence[float], second: Sequence[float]) -> LogPair:
    (mean_1, var_1), (mean_2, var_2) = _log_moments(first), _log_moments(second)
    d, sizes = mean_1 - mean_2, (len(first), len(second))
    interval, p_value = (math.nan, math.nan), math.nan
    if min(sizes) > 1:
        from scipy.stats import t

        parts = var_1 / sizes[0], var_2 / sizes[1]
        sem = math.sqrt(sum(parts))
        freedom = sum(parts) ** 2 / sum(part**2 / (n - 1) for part, n in zip(parts, sizes, strict=True))
        half = float(t.isf(RATE / 2, freedom)) * sem
        p_value = 2 * float(t.sf(abs(d) / sem, freedom))
        interval = (ratio_of(d - half), ratio_of(d + half))
    return LogPair(call, math.exp(mean_1), math.exp(mean_2), sizes, ratio_of(d), interval, p_value)


def _log_moments(times: Sequence[float]) -> tuple[float, float]:
    """Return mean and variance of ln t.

    The variance is at least that of rounding; it is NaN if there is a single time.
    """
    logs = [math.log(time) for time in times]
    if len(logs) < 2:
        return logs[0], math.nan
    rounding = (_STEP_US / min(times)) ** 2 / 12
    return fmean(logs), max(variance(logs), rounding)
