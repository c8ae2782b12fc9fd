"""Format values as text, in the same way for the console, the report and exported comments (step 12).

Notation: ``±`` precedes one standard error; ``(a … b)`` is a 95 % interval.
"""

from __future__ import annotations

import math
import shlex
import sys
from typing import TYPE_CHECKING

from autotune.recommend.other_calls import OtherCall, OtherDecision

if TYPE_CHECKING:  # This module is imported early, so it must not import anything heavy.
    from collections.abc import Sequence

    from autotune.campaign.costs import Share
    from autotune.recommend.recommendation import Gain, Recommendation
    from autotune.screening.decision import FactorDecision
    from autotune.space import Point, Value

_WILD = 1000
"""Ratios from this one on are shown as ``>1000``. An interval is not shown if its upper end is above this
ratio and its lower end below the inverse of this ratio."""
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB")


def size_text(n_bytes: int) -> str:
    """Return a message size in the largest binary unit that needs no decimals: ``4 KiB``, ``1000 B``."""
    power = 0
    while n_bytes and n_bytes % 1024 == 0 and power < len(_BINARY) - 1:
        n_bytes //= 1024
        power += 1
    return f"{n_bytes} {_BINARY[power]}"


def calls_text(collective: str, comm_size: int) -> str:
    """Return a collective and its communicator size, such as ``MPI_Allreduce on 16 ranks``; 0 means any."""
    return f"MPI_{collective.capitalize()}" + (f" on {comm_size} ranks" if comm_size else "")


def system_text(nodes: int, ranks: int) -> str:
    """Return a number of nodes and a number of ranks in words; only the number of ranks if ``nodes`` is 0."""
    return f"{nodes} node{'s' * (nodes > 1)}, {ranks} ranks" if nodes else str(ranks)


def figure_text(value: float, sem: float = math.nan, unit: str = "") -> str:
    """Return a value with three digits and, if it is finite, its standard error: ``1.350 ± 0.004 µs``.

    If the standard error is smaller than the third digit, more digits are shown, so that it is not rounded to
    0.
    """
    if not math.isfinite(value):
        return "—"
    has_error = math.isfinite(sem)
    decimals = _decimals(value, 3)
    if has_error and sem > 0:
        decimals = max(decimals, min(_decimals(sem, 1), decimals + 2))
    error = f" ± {sem:.{decimals}f}" if has_error else ""
    return f"{value:.{decimals}f}{error}{' ' if unit else ''}{unit}"


def microseconds_text(seconds: float, sem_s: float = math.nan, unit: str = "") -> str:
    """Return a time in microseconds, formatted by ``figure_text``."""
    return figure_text(seconds * 1e6, sem_s * 1e6, unit)


def ratio_text(ratio: float, interval: tuple[float, float] | None = None) -> str:
    """Return a speed-up, followed by its interval if one is given: ``1.34× (1.31 … 1.37)``."""
    if not math.isfinite(ratio):
        return "—"
    return " ".join(filter(None, (f"{_times(ratio)}×", interval and interval_text(interval))))


def interval_text(interval: tuple[float, float]) -> str:
    """Return the interval of a speed-up: ``(1.31 … 1.37)``; empty if there are too few launches."""
    low, high = interval
    if not math.isfinite(low) or not math.isfinite(high) or (low < 1 / _WILD and high > _WILD):
        return ""
    return f"({_times(low)} … {_times(high)})"


def gain_text(gain: Gain, with_interval: bool = True) -> str:
    """Return a speed-up with its interval; ``~`` replaces the ratio if that contains 1, as in benchstat."""
    interval = interval_text(gain.interval)
    ratio = "~" if interval and verdict(gain) == "even" else ratio_text(gain.ratio)
    return f"{ratio} {interval}".strip() if with_interval else ratio


def other_text(gain: Gain) -> str:
    """Return the speed-up, with its interval, in the probe's other kind of timing loop; a dash if unknown."""
    return ratio_text(gain.other_loop[0], gain.other_loop[1:]) if gain.other_loop else "—"


def other_calls_rows(calls: Sequence[OtherCall]) -> list[tuple[str, ...]]:
    """Return a row (call, size, default, tuned, ratio, decision) for each other call, slower calls first."""
    return [
        (
            f"{call.name}, tight" if call.tight else call.name,
            size_text(call.message_bytes) if call.message_bytes else "—",
            microseconds_text(call.default_s),
            microseconds_text(call.tuned_s),
            ratio_text(call.ratio, (call.low, call.high)),
            str(call.decision),
        )
        for call in sorted(calls, key=lambda call: (call.decision is not OtherDecision.SLOWER, call.ratio))
    ]


def loops_disagree(gain: Gain) -> bool:
    """Return whether the intervals that the two kinds of timing loop give for a speed-up are disjoint."""
    low, high = gain.interval
    return gain.other_loop is not None and (gain.other_loop[1] > high or low > gain.other_loop[2])


def verdict(gain: Gain) -> str:
    """Return ``faster`` or ``slower``, or ``even`` if the interval of the speed-up contains 1."""
    low, high = gain.interval
    return "faster" if low > 1 else "slower" if high < 1 else "even"


def p_text(p_value: float) -> str:
    """Return a p-value with three decimals, or ``<0.001``."""
    if not math.isfinite(p_value):
        return "—"
    return "<0.001" if p_value < 0.001 else f"{p_value:.3f}"


def decision_text(decision: FactorDecision) -> str:
    """Return whether a factor stays in the search: ``stays``, ``stays (undecided)`` or ``fixed at auto``."""
    if decision.verdict == "inert":
        return f"fixed at {decision.value}"
    return "stays" if decision.verdict == "active" else "stays (undecided)"


def duration_text(seconds: float) -> str:
    """Return a duration in its two largest units: ``48 s``, ``3 min 20 s``, ``2 h 5 min``."""
    if not math.isfinite(seconds):
        return "—"
    total_s = max(0, round(seconds))
    minutes, remaining_s = divmod(total_s, 60)
    if minutes == 0:
        return f"{remaining_s} s"
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {remaining_s} s" if minutes < 10 else f"{minutes} min"


def clock_text(seconds: float) -> str:
    """Return a duration in the form of a clock, for columns: ``0:48``, ``12:05``, ``2:05:10``."""
    if not math.isfinite(seconds):
        return "—"
    minutes, remaining_s = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{remaining_s:02}" if hours else f"{minutes}:{remaining_s:02}"


def own_line(*words: str) -> str:
    """Return a line of a shell that starts this program, with the Python that runs it now."""
    return shlex.join([sys.executable or "python3", "-m", "autotune", *words])


def about_text(seconds: float) -> str:
    """Return an estimated duration, such as ``about 40 s`` or ``about 8 minutes``; empty if unknown."""
    if not math.isfinite(seconds):
        return ""
    if seconds < 90:
        return f"about {max(1, math.ceil(seconds))} s"
    minutes = math.ceil(seconds / 60)
    return f"about {minutes} minutes" if minutes < 120 else f"about {math.ceil(minutes / 60)} hours"


def bound_text(seconds: float) -> str:
    """Return a longest duration in the form of a clock: ``≤ 1:12``; a dash if it is infinite."""
    return f"≤ {clock_text(seconds)}" if math.isfinite(seconds) else "—"


def cost_text(phases: Sequence[Share], limit_s: float | None = None) -> str:
    """Return a text on the number of a campaign's launches by phase, their duration, and the time limit."""
    planned, maximum = sum(p.launches for p in phases), sum(p.most for p in phases)
    limited = any(math.isfinite(p.limit_s) for p in phases)
    span = str(maximum) if planned == maximum else f"{planned} to {maximum}"
    total = f"at most {maximum}" if limited else span
    each = ", ".join(
        f"{p.phase} up to {p.count} in {duration_text(p.limit_s)}"
        if math.isfinite(p.limit_s)
        else f"{p.phase} {p.count}"
        for p in phases
        if p.most
    )
    seconds = sum(min(p.launches * p.launch_s, p.limit_s) for p in phases)
    limit = f"; time limit {duration_text(limit_s)}" if limit_s else ""
    return f"{total} launches: {each}\n{duration_text(seconds)} of measuring, without starting ranks{limit}"


def value_text(value: Value | None) -> str:
    """Return a parameter's value as text; None means that the parameter is not active."""
    return "not active" if value is None else str(value) or "(empty)"


def changed_text(point: Point, default: Point) -> str:
    """Return the values of a point that differ from the default: ``UCX_TLS=self,sysv, coll_han=off``."""
    return ", ".join(f"{n}={v}" for n, v in point.items() if n not in default or v != default[n]) or "nothing"


def setting_text(recommendation: Recommendation, default: Point) -> str:
    """Return the settings of a recommendation: ``coll_han=off, 5 rules by message size``; empty if none."""
    changed, n_rules = changed_text(recommendation.point, default), sum(r.sets for r in recommendation.rules)
    rules = [f"{n_rules} rule{'s' if n_rules > 1 else ''} by message size"] if n_rules else []
    return ", ".join(rules if changed == "nothing" else [changed, *rules])


def advice_text(recommendation: Recommendation, default: Point) -> str:
    """Return the changes that a recommendation asks for, in one line."""
    changed = changed_text(recommendation.point, default)
    if changed != "nothing":
        return f"change {changed}"
    if any(rule.choice for rule in recommendation.rules):
        return "change nothing for the whole job, choose per message size"
    return "leave the stack's own defaults as they are"


def _times(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}" if ratio < _WILD else f">{_WILD}"


def _decimals(value: float, digits: int) -> int:
    return max(0, digits - 1 - math.floor(math.log10(abs(value)))) if value else digits - 1


def aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return rows as indented lines with aligned columns."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    cells = ([text.ljust(width) for text, width in zip(row, widths, strict=True)] for row in rows)
    return ["  " + "  ".join(row).rstrip() for row in cells]
