"""Analyses of tables as JSON documents; a number that cannot be known is null.

A screening: ``responses`` → name → ``effects`` (a list of factor, low, high, effect, std_err, p_value,
contribution, active and more), ``aliases``, ``blocks``, ``efficiency``, ``notes``. Beside it stand the
``aliases`` of the response with the most results, and ``decisions`` on every factor over all responses.

What follows it: ``surfaces`` → response → ``coefficients`` (of codes in [−1, 1]) and ``optimum``, and
``overlay``, the point that suits all responses. Factors are in the table's numbers (sizes in bytes),
responses on the scale of the analysis (logarithms on log scale).
"""

import csv
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from io import StringIO
from typing import Any

from autotune.history.objectives import ratio_of
from autotune.recommend.two_logs import RATE, Call, TwoLogs
from autotune.screening.effects import Effect, Effects
from autotune.screening.follow_up import FollowUp
from autotune.screening.surface import Surface
from autotune.screening.table import Response, TableScreening
from autotune.structure import plain
from autotune.views.text import decision_text

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""With these a spreadsheet lets a formula begin (OWASP, "CSV Injection")."""


def json_text(document: Any, ascii_only: bool = True) -> str:
    """A document as lines of JSON."""
    return json.dumps(plain(document), indent=1, ensure_ascii=ascii_only) + "\n"


def cell(value: Any) -> Any:
    """A value as a cell of a table that spreadsheets open: text that one would take for a formula is quoted.

    Numbers stay numbers, also those that are written as text.
    """
    if not isinstance(value, str) or not value.startswith(_FORMULA):
        return value
    with suppress(ValueError):
        float(value)
        return value
    return f"'{value}"


def csv_text(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Rows as CSV with a header, each value by ``cell``."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(cell, columns))
    writer.writerows([cell(row.get(column, "")) for column in columns] for row in rows)
    return text.getvalue()


def screening_document(screening: TableScreening) -> dict[str, Any]:
    """The report of ``screen TABLE``."""
    pairs = zip(screening.responses, screening.analyses, strict=True)
    document = {
        **fields_of(screening, "table", "rows", "scale", "block"),
        "factors": [fields_of(factor, "name", "low", "high") for factor in screening.design.factors],
        "aliases": _aliases(max(screening.analyses, key=lambda analysis: analysis.n_runs)),
        "responses": {response.name: _response(response, analysis) for response, analysis in pairs},
        "decisions": [
            {
                **fields_of(decision, "factor", "verdict"),
                "better": decision.value,
                "advice": decision_text(decision),
                "reason": decision.reason,
            }
            for decision in screening.decisions
        ],
    }
    return dict(plain(document))


def logs_document(found: TwoLogs) -> dict[str, Any]:
    """The report of ``compare LOG1 LOG2``."""

    def call(its: Call) -> dict[str, Any]:
        (collective, ranks, size), setting = its
        named = {"collective": collective, "comm_size": ranks or None, "message_bytes": size}
        return {**named, "setting": dict(setting)}

    return {
        "rate": RATE,
        "calls": [
            {
                **call(pair.call),
                **fields_of(pair, "first_us", "second_us", "repeats", "speedup", "p_value", "verdict"),
                "speedup_low": pair.interval[0],
                "speedup_high": pair.interval[1],
            }
            for pair in found.pairs
        ],
        "only_first": [call(one) for one in found.only_first],
        "only_second": [call(one) for one in found.only_second],
        "differences": [
            {"collective": one.collective, "label": one.name, "values": one.values}
            for one in found.differences
        ],
    }


def follow_up_document(fitted: FollowUp) -> dict[str, Any]:
    """The report of ``screen TABLE --surface``."""
    pairs = zip(fitted.responses, fitted.surfaces, strict=True)
    document = {
        **fields_of(fitted, "table", "rows", "scale"),
        "surfaces": {response.name: _surface(surface, fitted) for response, surface in pairs},
        "overlay": fitted.overlay
        and {
            "at": fitted.numbers(fitted.overlay.codes),
            "desirability": fitted.overlay.desirability,
            "responses": {
                its.name: {
                    "value": fitted.overlay.values[its.name],
                    "desirability": fitted.overlay.each[its.name],
                    **fields_of(its, "goal", "weight"),
                }
                for its in fitted.responses
            },
        },
    }
    return dict(plain(document))


def _surface(surface: Surface, fitted: FollowUp) -> dict[str, Any]:
    best = surface.optimum
    ends = [fitted.numbers({name: pair[i] for name, pair in best.intervals.items()}) for i in (0, 1)]
    return {
        "coefficients": [
            {"term": list(its.factors), **fields_of(its, "value", "std_err", "p_value")}
            for its in surface.coefficients
        ],
        "left_out": [list(term) for term in surface.left_out],
        **fields_of(surface, "r_squared", "adjusted_r_squared", "predicted_r_squared"),
        "curvature": list(surface.curvature),
        **fields_of(surface, "shape", "std_dev", "df"),
        "optimum": {
            "at": fitted.numbers(best.codes),
            "intervals": {name: [end[name] for end in ends] for name in best.codes},
            "value": best.value,
            "interval": list(best.interval),
            "at_edge": list(best.at_edge),
        },
    }


def _response(response: Response, analysis: Effects) -> dict[str, Any]:
    curvature = analysis.curvature
    return {
        "goal": response.goal,
        "mean": analysis.mean,
        "runs": analysis.n_runs,
        "missing": analysis.n_missing,
        "effects": [_effect(effect, analysis) for effect in analysis.effects],
        "curvature": None if curvature is None else _effect(curvature, analysis),
        "aliases": _aliases(analysis),
        "blocks": [fields_of(block, "block", "effect", "std_err") for block in analysis.blocks],
        "noise": {"std_dev": math.sqrt(analysis.noise.variance), **fields_of(analysis.noise, "df", "source")},
        "lenth": fields_of(analysis.lenth, "pse", "margin", "simultaneous_margin"),
        "efficiency": fields_of(analysis.efficiency, "d", "a", "g"),
        "r_squared": analysis.r_squared,
        "notes": list(analysis.notes),
    }


def _aliases(analysis: Effects) -> list[dict[str, Any]]:
    return [fields_of(alias, "factor", "interaction", "coefficient") for alias in analysis.aliases]


def _effect(effect: Effect, analysis: Effects) -> dict[str, Any]:
    return {
        **fields_of(
            effect, "factor", "low", "high", "effect", "std_err", "p_value", "contribution", "active"
        ),
        "interval": list(effect.interval()),
        **fields_of(effect, "df", "half_normal", "n_low", "n_high"),
        **({"ratio": ratio_of(effect.effect)} if analysis.scale == "log" else {}),
    }


def fields_of(item: object, *names: str) -> dict[str, Any]:
    """Some of its fields by name."""
    return {name: getattr(item, name) for name in names}
