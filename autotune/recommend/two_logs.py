"""Two logs of benchmarks against each other, call by call (beside step 10 of the flow).

Rows of the same operation, ranks, size and labels are of the same call; those of one log are its repeats.
A label with one value throughout each log says what is compared, and makes no call another one; of one that a
log lacks, each value that the other log has is a call of its own.
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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import fmean, variance

from autotune.collectives import COLLECTIVES
from autotune.history.objectives import Slot, ratio_of
from autotune.importers import BenchmarkRow
from autotune.recommend.guidelines import is_figure

RATE = 0.05
"""Chance of any false verdict; intervals hold for one call with the chance 1 − RATE."""
_STEP_US = 0.01
"""Benchmarks print two decimals, so repeats can look the same: they scatter at least as rounding does."""

_DATATYPE = "MPI_CHAR"  # Of OSU's benchmarks by default.

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
class LabelDifference:
    """A label that has one value in all rows of a log for an operation, and another one in the second log."""

    collective: str  # The operation.
    name: str  # Of the label.
    values: tuple[str, str]  # In the first log and in the second; empty where it has none.


@dataclass(frozen=True, slots=True)
class TwoLogs:
    """All calls of two logs."""

    pairs: tuple[LogPair, ...]  # Calls of both, ordered by call.
    only_first: tuple[Call, ...]  # Calls that the second log does not have.
    only_second: tuple[Call, ...]  # And the other way round.
    differences: tuple[LabelDifference, ...] = ()  # In which the logs differ throughout.


def compared(first: Iterable[BenchmarkRow], second: Iterable[BenchmarkRow]) -> TwoLogs:
    """Match the calls of two logs and say which differ."""
    rows = [_labelled(log) for log in (first, second)]
    rows = [_with_defaults(log, other) for log, other in zip(rows, reversed(rows), strict=True)]
    differences = tuple(_differences(*rows))
    left, right = (_times(log, differences) for log in rows)
    matched = list(_matched(left, right))
    pairs = [_pair(call, left[one], right[other]) for call, one, other in matched]
    ordered = sorted((pair for pair in pairs if pair.p_value == pair.p_value), key=lambda pair: pair.p_value)
    n = len(ordered)
    held = next((i for i, pair in enumerate(ordered) if pair.p_value > RATE / (n - i)), n)
    verdicts = {pair.call: _direction(pair) for pair in ordered[:held]}
    verdicts |= dict.fromkeys((pair.call for pair in ordered[held:]), LogVerdict.INCONCLUSIVE)
    return TwoLogs(
        tuple(replace(pair, verdict=verdicts.get(pair.call, pair.verdict)) for pair in pairs),
        tuple(sorted(left.keys() - {one for _, one, _ in matched})),
        tuple(sorted(right.keys() - {other for *_, other in matched})),
        differences,
    )


def _direction(pair: LogPair) -> LogVerdict:
    return LogVerdict.FASTER if pair.speedup > 1 else LogVerdict.SLOWER


@dataclass(frozen=True, slots=True)
class _Timed:
    """A row of a log that can be compared."""

    slot: Slot
    labels: Mapping[str, str]  # Without figures.
    time_us: float  # Of a bandwidth the time in which a message passes (bytes/(MB/s) are µs).
    plain: bool  # Whether it is of OSU's benchmarks, and moves data without computing on it.


def _labelled(rows: Iterable[BenchmarkRow]) -> list[_Timed]:
    timed = []
    for row in rows:
        time_us = row.latency_us or (row.bandwidth_MBps and row.message_bytes / row.bandwidth_MBps)
        labels = {name.lower(): value for name, value in row.labels}
        if not time_us or labels.get("status", "ok") != "ok":
            continue
        setting = {name: value for name, value in labels.items() if value and not is_figure(name, value)}
        its = COLLECTIVES.get(row.collective)
        plain = row.benchmark.startswith("OSU MPI") and its is not None and not its.sums
        slot = (row.collective, row.comm_size or 0, row.message_bytes)
        timed.append(_Timed(slot, setting, time_us, plain))
    return timed


def _with_defaults(rows: Sequence[_Timed], others: Sequence[_Timed]) -> list[_Timed]:
    """Rows with the data type that versions before 7.1 use without printing it, where the others name theirs.

    Reductions had another one then.
    """
    named = any("datatype" in row.labels for row in others)
    return [
        replace(row, labels={"datatype": _DATATYPE} | dict(row.labels)) if named and row.plain else row
        for row in rows
    ]


def _differences(first: Sequence[_Timed], second: Sequence[_Timed]) -> Iterator[LabelDifference]:
    """Labels with one value in each log, or none in one of them."""
    for collective in sorted({row.slot[0] for row in first} & {row.slot[0] for row in second}):
        logs = [[row.labels for row in log if row.slot[0] == collective] for log in (first, second)]
        for name in sorted(set().union(*logs[0], *logs[1])):
            values = [{labels.get(name, "") for labels in log} for log in logs]
            if len(values[0]) == len(values[1]) == 1 and values[0] != values[1]:
                yield LabelDifference(collective, name, (values[0].pop(), values[1].pop()))


def _times(rows: Iterable[_Timed], differences: Sequence[LabelDifference]) -> Mapping[Call, list[float]]:
    """Call → times in µs, without the labels in which the logs differ throughout."""
    aside = {(its.collective, its.name) for its in differences}
    times: dict[Call, list[float]] = defaultdict(list)
    for row in rows:
        setting = sorted(its for its in row.labels.items() if (row.slot[0], its[0]) not in aside)
        times[row.slot, tuple(setting)].append(row.time_us)
    return _without_copies(times)


def _matched(left: Iterable[Call], right: Iterable[Call]) -> Iterator[tuple[Call, Call, Call]]:
    """Calls of both logs, each with what it is in either: the labels that one lacks are the other's."""
    names: list[dict[str, set[str]]] = []
    for calls in (left, right):
        of: dict[str, set[str]] = defaultdict(set)
        for (collective, *_), setting in calls:
            of[collective] |= {name for name, _ in setting}
        names.append(of)

    def shared(call: Call) -> Call:
        common = names[0][call[0][0]] & names[1][call[0][0]]
        return call[0], tuple(its for its in call[1] if its[0] in common)

    others: dict[Call, list[Call]] = defaultdict(list)
    for call in sorted(right):
        others[shared(call)].append(call)
    for call in sorted(left):
        for other in others[shared(call)]:
            yield (call[0], tuple(sorted({*call[1], *other[1]}))), call, other


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
