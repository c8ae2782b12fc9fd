"""Figures in words, the same on the console, in the report and in the exported comments (step 12).

Notation: ``±`` is one standard error; an interval ``(a … b)`` is 95 %.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # words need nothing heavy
    from collections.abc import Sequence

    from autotune.campaign.costs import Share
    from autotune.recommend.recommendation import Gain, Recommendation
    from autotune.screening.decision import FactorDecision
    from autotune.space import Point, Value

_WILD = 1000  # Ratios beyond are as good as infinite: an interval that reaches there both ways bounds nothing
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB")


def size_text(n_bytes: int) -> str:
    """A message size in the largest binary unit that needs no decimals: ``4 KiB``, ``1000 B``."""
    power = 0
    while n_bytes and n_bytes % 1024 == 0 and power < len(_BINARY) - 1:
        n_bytes //= 1024
        power += 1
    return f"{n_bytes} {_BINARY[power]}"


def calls_text(collective: str, comm_size: int) -> str:
    """A collective on a communicator: ``MPI_Allreduce on 16 ranks``."""
    return f"MPI_{collective.capitalize()}" + (f" on {comm_size} ranks" if comm_size else "")


def figure_text(value: float, sem: float = math.nan, unit: str = "") -> str:
    """A value with three digits and, where it is known, its standard error: ``1.350 ± 0.004 µs``.

    More digits are shown where the standard error is smaller than the third one, so that it never reads 0.
    """
    if not math.isfinite(value):
        return "—"
    known = math.isfinite(sem)
    decimals = _decimals(value, 3)
    if known and sem > 0:
        decimals = max(decimals, min(_decimals(sem, 1), decimals + 2))
    error = f" ± {sem:.{decimals}f}" if known else ""
    return f"{value:.{decimals}f}{error}{' ' if unit else ''}{unit}"


def microseconds_text(seconds: float, sem_s: float = math.nan, unit: str = "") -> str:
    """A time in microseconds, as ``figure_text`` words it."""
    return figure_text(seconds * 1e6, sem_s * 1e6, unit)


def ratio_text(ratio: float, interval: tuple[float, float] | None = None) -> str:
    """A speed-up, with its interval where one is given: ``1.34× (1.31 … 1.37)``."""
    if not math.isfinite(ratio):
        return "—"
    return " ".join(filter(None, (f"{_times(ratio)}×", interval and interval_text(interval))))


def interval_text(interval: tuple[float, float]) -> str:
    """The interval of a speed-up: ``(1.31 … 1.37)``; empty where the launches are too few for any bound."""
    low, high = interval
    if not math.isfinite(low) or not math.isfinite(high) or (low < 1 / _WILD and high > _WILD):
        return ""
    return f"({_times(low)} … {_times(high)})"


def other_text(gain: Gain) -> str:
    """The speed-up in the probe's other loop with its interval; a dash where it was not measured."""
    return ratio_text(gain.other_loop[0], gain.other_loop[1:]) if gain.other_loop else "—"


def loops_disagree(gain: Gain) -> bool:
    """Whether the intervals of the two loops have nothing in common."""
    low, high = gain.interval
    return gain.other_loop is not None and (gain.other_loop[1] > high or low > gain.other_loop[2])


def verdict(gain: Gain) -> str:
    """``faster``, ``slower``, or ``even`` where the interval of the speed-up holds 1."""
    low, high = gain.interval
    return "faster" if low > 1 else "slower" if high < 1 else "even"


def p_text(p_value: float) -> str:
    """A p-value with the digits that matter."""
    if not math.isfinite(p_value):
        return "—"
    return "<0.001" if p_value < 0.001 else f"{p_value:.3f}"


def decision_text(decision: FactorDecision) -> str:
    """The decision on a factor: ``stays``, ``stays (undecided)`` or ``fixed at auto``."""
    if decision.verdict == "inert":
        return f"fixed at {decision.value}"
    return "stays" if decision.verdict == "active" else "stays (undecided)"


def duration_text(seconds: float) -> str:
    """A time span in the two units that matter: ``48 s``, ``3 min 20 s``, ``2 h 5 min``."""
    if not math.isfinite(seconds):
        return "—"
    whole = max(0, round(seconds))
    minutes, rest = divmod(whole, 60)
    if minutes == 0:
        return f"{rest} s"
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes < 10 else f"{minutes} min"


def clock_text(seconds: float) -> str:
    """A time span as a clock shows it, for columns: ``0:48``, ``12:05``, ``2:05:10``."""
    if not math.isfinite(seconds):
        return "—"
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def cost_text(phases: Sequence[Share], limit_s: float | None = None) -> str:
    """How many launches a campaign has, in which phases, how long they measure, and what limits them."""
    together, most = sum(one.launches for one in phases), sum(one.most for one in phases)
    limited = any(math.isfinite(one.limit_s) for one in phases)
    total = f"at most {most}" if limited else str(most) if together == most else f"{together} to {most}"
    each = ", ".join(
        f"{one.phase} up to {one.count} in {duration_text(one.limit_s)}"
        if math.isfinite(one.limit_s)
        else f"{one.phase} {one.count}"
        for one in phases
        if one.most
    )
    seconds = sum(min(one.launches * one.launch_s, one.limit_s) for one in phases)
    limit = f"; time limit {duration_text(limit_s)}" if limit_s else ""
    return f"{total} launches: {each}\n{duration_text(seconds)} of measuring, without starting ranks{limit}"


def value_text(value: Value | None) -> str:
    """A value where it stands alone; None: its parameter is not active."""
    return "not active" if value is None else str(value) or "(empty)"


def changed_text(point: Point, default: Point) -> str:
    """The values of a point that differ from the default ones: ``UCX_TLS=self,sysv, coll_han=off``."""
    return ", ".join(f"{n}={v}" for n, v in point.items() if n not in default or v != default[n]) or "nothing"


def setting_text(recommendation: Recommendation, default: Point) -> str:
    """The values of a recommendation: ``coll_han=off, 5 rules by message size``; empty: nothing."""
    changed, rules = changed_text(recommendation.point, default), sum(r.sets for r in recommendation.rules)
    said = [f"{rules} rule{'s' if rules > 1 else ''} by message size"] if rules else []
    return ", ".join(said if changed == "nothing" else [changed, *said])


def advice_text(recommendation: Recommendation, default: Point) -> str:
    """The changes that a recommendation asks for, in one line."""
    changed = changed_text(recommendation.point, default)
    if changed != "nothing":
        return f"change {changed}"
    if any(rule.choice for rule in recommendation.rules):
        return "change nothing for the whole job, choose per message size"
    return "leave the stack's own defaults as they are"


def _times(ratio: float) -> str:
    """A ratio with the digits that matter; where the interval is that wide, its end means nothing."""
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}" if ratio < _WILD else f">{_WILD}"


def _decimals(value: float, digits: int) -> int:
    """Decimals that show so many significant digits, none below zero."""
    return max(0, digits - 1 - math.floor(math.log10(abs(value)))) if value else digits - 1
