"""A screening of anybody's table: which of its columns matter for which others.

A report is a JSON document: ``responses`` → name → ``effects`` (a list of factor, low, high, effect, std_err,
p_value, contribution, active and more), ``aliases``, ``blocks``, ``efficiency``, ``notes``. Beside it stand
the ``aliases`` of the response with the most results, and ``decisions`` on every factor over all responses.
A number that cannot be known is null.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autotune.errors import TableError, UserError, allowed
from autotune.importers.table import Row, read_rows
from autotune.screening import Design, Effect, Effects, Factor, analyse, screened
from autotune.screening.decision import Goal
from autotune.screening.effects import Scale
from autotune.space import size_in_bytes
from autotune.structure import finite
from autotune.views.text import decision_text, p_text

_SCALES: Mapping[str, Scale] = {"linear": "linear", "log": "log"}
_LOW_WORDS = frozenset({"low", "lo", "off", "no", "false", "none", "minus", "-", "−", "disabled", "default"})
"""Of two words, one of these is the low level."""
_MIDDLE = 1e-9
_SHOWN_ALIASES = 6


def screen(
    path: Path,
    factors: Sequence[str],
    responses: Sequence[str],
    block: str | None = None,
    scale: str = "linear",
) -> dict[str, Any]:
    """The report of a screening that was run and written down elsewhere.

    A factor is a column with two values, or one of numbers (or sizes such as ``64k``), whose effect is then
    taken to be linear and given over its range. An empty response is a failed run.

    Args:
        path: CSV or Parquet.
        factors: names of columns.
        responses: names of columns, each with what is better: ``latency:min``, ``bandwidth:max``.
        block: a column whose values are replicates, days or sites.
        scale: ``linear`` compares differences, ``log`` ratios of positive responses.

    Raises:
        TableError: an unknown or doubled column, or a field that is not what its column needs.
        UserError: an unknown scale, or too few runs.
    """
    chosen = _SCALES.get(scale)
    if chosen is None:
        raise UserError(f"--scale {scale}", allowed(scale, _SCALES))
    goals = _goals(responses)
    columns, rows = read_rows(path, "needed: factors and responses")
    table = _Table(path.name, rows)
    _check_columns(table, columns, factors, goals, block)
    design = _design(table, factors, block)
    analyses = [analyse(design, table.response(name, chosen), name=name, scale=chosen) for name in goals]
    return {
        "table": path.name,
        "rows": len(rows),
        "scale": scale,
        "block": block,
        "factors": [{"name": f.name, "low": f.low, "high": f.high} for f in design.factors],
        "aliases": _alias_report(max(analyses, key=lambda found: found.n_runs)),
        "responses": {found.response: _report(found, goals[found.response]) for found in analyses},
        "decisions": [
            {
                "factor": decision.factor,
                "verdict": decision.verdict,
                "better": decision.value,
                "advice": decision_text(decision),
                "reason": decision.reason,
            }
            for decision in screened(design.factors, analyses, goals).decisions
        ],
    }


def render(report: dict[str, Any]) -> str:
    """The report as text for a terminal of any width; aliases only of factors that are active."""
    lines = [f"{report['table']}: {report['rows']} rows, {report['scale']} scale"]
    for name, found in report["responses"].items():
        less = "less" if found["goal"] == "min" else "more"
        lost = f", {found['missing']} without a result" if found["missing"] else ""
        lines += ["", f"{name} ({less} is better; {found['runs']} runs{lost})"]
        rows = [("factor", "low → high", "effect of high", "p", "share")]
        for effect in sorted(found["effects"], key=lambda effect: -(effect["contribution"] or 0)):
            star = " *" if effect["active"] else ""
            span = f"{effect['low']} → {effect['high']}"
            share = _figure(effect["contribution"], "{:.1f} %")
            p_value = p_text(math.nan if effect["p_value"] is None else effect["p_value"])
            rows.append((effect["factor"], span, _effect_text(effect), p_value + star, share))
        lines += _aligned(rows)
        efficiency = found["efficiency"]
        noise = (
            f"a run scatters by {_figure(found['noise']['std_dev'], '{:.3g}')} ({found['noise']['source']})"
        )
        parts = "/".join(f"{efficiency[key]:.0f}" for key in ("d", "a", "g"))
        margin = _figure(found["lenth"]["margin"], "{:.3g}")
        lines.append(f"  {noise}; D/A/G-efficiency {parts} %; Lenth margin {margin}")
        for block in found["blocks"]:
            error = _figure(block["std_err"], "{:.2g}")
            lines.append(f"  block {block['block']}: {block['effect']:+.3g} ± {error}")
        lines += [f"  {note}" for note in found["notes"]]
        active = {effect["factor"] for effect in found["effects"] if effect["active"]}
        leaks = [alias for alias in found["aliases"] if alias["factor"] in active]
        if leaks:
            lines.append(
                "  What an active effect may also be (two-factor interactions, with their coefficients):"
            )
        for factor in sorted({alias["factor"] for alias in leaks}):
            its = [
                f"{'×'.join(a['interaction'])} {a['coefficient']:+.2f}"
                for a in leaks
                if a["factor"] == factor
            ]
            more = f", and {len(its) - _SHOWN_ALIASES} more" if len(its) > _SHOWN_ALIASES else ""
            lines.append(f"    {factor}: {', '.join(its[:_SHOWN_ALIASES])}{more}")
    lines += ["", "* significant at 5 %. What to do:"]
    lines += _aligned([(d["factor"], d["advice"], d["reason"]) for d in report["decisions"]])
    return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class _Table:
    """Rows that know how to complain."""

    name: str
    """Of the file."""
    rows: Sequence[Row]
    """Text by column."""

    def wrong(self, index: int, column: str, what: str, hint: str = "") -> TableError:
        """An error about one field."""
        return TableError(f"{self.name}, row {index + 2}, column {column}: {what}", hint)

    def filled(self, column: str, kind: str) -> list[str]:
        """A column in which nothing may be missing."""
        for index, row in enumerate(self.rows):
            if not row[column]:
                raise self.wrong(index, column, f"a {kind} is missing")
        return [row[column] for row in self.rows]

    def response(self, column: str, scale: Scale) -> NDArray[np.float64]:
        """Numbers, nan where the field is empty."""
        values = np.full(len(self.rows), math.nan)
        for index, row in enumerate(self.rows):
            text = row[column]
            if not text:
                continue
            value = _number(text)
            if value is None:
                raise self.wrong(
                    index, column, f"{text!r} is not a number", "leave it empty if the run failed"
                )
            if not math.isfinite(value):
                raise self.wrong(index, column, f"{text} is not finite", "leave it empty if the run failed")
            if scale == "log" and value <= 0:
                raise self.wrong(index, column, f"{text} is not above 0", "use --scale linear")
            values[index] = value
        return values

    def factor(self, column: str) -> tuple[Factor, list[float], int]:
        """The factor in a column, its code in each row, and how many levels it has."""
        texts = self.filled(column, "level")
        levels = list(dict.fromkeys(texts))
        numbers = _numbers(levels)
        if numbers is None:
            if len(levels) > 2:
                raise self._too_many(column, texts, levels)
            ranks = sorted(levels, key=lambda text: (text.lower() not in _LOW_WORDS, text))
            numbers = {text: float(rank) for rank, text in enumerate(ranks)}
        bad = next((text for text in levels if not math.isfinite(numbers[text])), None)
        if bad is not None:
            raise self.wrong(texts.index(bad), column, f"{bad} is not finite")
        low, high = min(numbers.values()), max(numbers.values())
        if low == high:
            raise TableError(
                f"{self.name}, column {column}: all {len(texts)} rows have {levels[0]!r}",
                "a factor needs two levels",
            )
        ends = [next(text for text in levels if numbers[text] == end) for end in (low, high)]
        codes = [2 * (numbers[text] - low) / (high - low) - 1 for text in texts]
        low_value, high_value = (_value(text) for text in ends)
        return Factor(column, low_value, high_value), codes, len(set(numbers.values()))

    def _too_many(self, column: str, texts: list[str], levels: list[str]) -> TableError:
        """Why a column with words among its three or more levels is no factor."""
        words = [text for text in levels if size_in_bytes(text) is None and _number(text) is None]
        if len(words) == 1 or len(words) < len(levels) / 2:
            return self.wrong(texts.index(words[0]), column, f"{words[0]!r} is not a number like the others")
        return TableError(
            f"{self.name}, column {column}: {len(levels)} levels ({_few(levels)}) that are no numbers; "
            f"{levels[2]!r} in row {texts.index(levels[2]) + 2} is the third",
            "a factor of words has two levels",
        )


def _goals(responses: Sequence[str]) -> dict[str, Goal]:
    goals: dict[str, Goal] = {}
    for word in responses:
        name, _, goal = word.rpartition(":")
        if not name or goal not in ("min", "max"):
            raise UserError(
                f"response {word!r} does not say what is better", f"{name or word}:min or {name or word}:max"
            )
        if name in goals:
            raise UserError(f"response {name!r} is named twice")
        goals[name] = "min" if goal == "min" else "max"
    if not goals:
        raise UserError("no response is named", "--responses latency:min,bandwidth:max")
    return goals


def _check_columns(
    table: _Table,
    columns: Sequence[str],
    factors: Sequence[str],
    goals: Mapping[str, Goal],
    block: str | None,
) -> None:
    if not factors:
        raise UserError("no factor is named", f"--factors, out of: {', '.join(columns)}")
    named = [*factors, *goals, *([] if block is None else [block])]
    for name in named:
        if name not in columns:
            raise TableError(f"{table.name} has no column {name!r}", allowed(name, columns))
        if named.count(name) > 1:
            raise UserError(
                f"column {name!r} is named twice", "it is one of: a factor, a response, the block"
            )


def _design(table: _Table, factors: Sequence[str], block: str | None) -> Design:
    """The table in the form of a design.

    Where several factors have a third level in between, and only in the same rows, these are centre points.
    """
    read = [table.factor(column) for column in factors]
    codes = np.array([code for _, code, _ in read]).T
    graded = codes[:, [n_levels > 2 for _, _, n_levels in read]]
    between = np.abs(graded) < 1 - _MIDDLE
    three = all(n_levels <= 3 for _, _, n_levels in read)
    apart = np.array_equal(np.all(between, axis=1), np.any(between, axis=1))
    centred = graded.shape[1] > 1 and three and apart
    centre = np.all(between, axis=1) if centred else np.zeros(len(codes), dtype=bool)
    blocks = table.filled(block, "block") if block is not None else ["all"] * len(codes)
    return Design(
        factors=tuple(factor for factor, _, _ in read),
        coded=codes,
        order=tuple(range(len(codes))),
        blocks=tuple(blocks),
        whole_plots=(0,) * len(codes),
        centre=tuple(centre.tolist()),
    )


def _report(found: Effects, goal: Goal) -> dict[str, Any]:
    """One response."""
    return {
        "goal": goal,
        "mean": finite(found.mean),
        "runs": found.n_runs,
        "missing": found.n_missing,
        "effects": [_effect_report(effect, found.scale) for effect in found.effects],
        "curvature": None if found.curvature is None else _effect_report(found.curvature, found.scale),
        "aliases": _alias_report(found),
        "blocks": [
            {"block": b.block, "effect": finite(b.effect), "std_err": finite(b.std_err)} for b in found.blocks
        ],
        "noise": {
            "std_dev": finite(math.sqrt(found.noise.variance)),
            "df": found.noise.df,
            "source": found.noise.source,
        },
        "lenth": {
            "pse": finite(found.lenth.pse),
            "margin": finite(found.lenth.margin),
            "simultaneous_margin": finite(found.lenth.simultaneous_margin),
        },
        "efficiency": {key: getattr(found.efficiency, key) for key in ("d", "a", "g")},
        "r_squared": finite(found.r_squared),
        "notes": list(found.notes),
    }


def _alias_report(found: Effects) -> list[dict[str, Any]]:
    return [
        {"factor": a.factor, "interaction": list(a.interaction), "coefficient": a.coefficient}
        for a in found.aliases
    ]


def _effect_report(effect: Effect, scale: Scale) -> dict[str, Any]:
    low, high = effect.interval()
    return {
        "factor": effect.factor,
        "low": effect.low,
        "high": effect.high,
        "effect": finite(effect.effect),
        "std_err": finite(effect.std_err),
        "p_value": finite(effect.p_value),
        "contribution": finite(effect.contribution),
        "active": effect.active,
        "interval": [finite(low), finite(high)],
        "df": effect.df,
        "half_normal": finite(effect.half_normal),
        "n_low": effect.n_low,
        "n_high": effect.n_high,
        **({"ratio": finite(math.exp(effect.effect))} if scale == "log" else {}),
    }


def _effect_text(effect: dict[str, Any]) -> str:
    if effect["effect"] is None:
        return "cannot be told"
    if "ratio" in effect:
        error = _figure(effect["std_err"], "{:.2g}", 100 * effect["ratio"])
        return f"{100 * (effect['ratio'] - 1):+.3g} ± {error} %"
    return f"{effect['effect']:+.4g} ± {_figure(effect['std_err'], '{:.2g}')}"


def _figure(value: float | None, pattern: str, times: float = 1.0) -> str:
    return "—" if value is None else pattern.format(value * times)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _numbers(levels: Sequence[str]) -> dict[str, float] | None:
    """The levels as numbers or as sizes (``64k``); None where one of them is neither."""
    for reader in (_number, size_in_bytes):
        numbers = {text: reader(text) for text in levels}
        if all(number is not None for number in numbers.values()):
            return {text: number for text, number in numbers.items() if number is not None}
    return None


def _value(text: str) -> int | float | str:
    number = _number(text)
    if number is None:
        return text
    return int(number) if number.is_integer() else number


def _few(levels: Sequence[str]) -> str:
    return ", ".join(levels[:4]) + (", …" if len(levels) > 4 else "")


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  " + "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
