"""Analyses of tables as JSON documents; a number that is not known is null.

The document of a screening maps ``responses`` → name of the response to ``effects`` (a list of factor, low,
high, effect, std_err, p_value, contribution, active and more), ``aliases``, ``blocks``, ``efficiency`` and
``notes``. At its top level it also contains the ``aliases`` of the response with the most results, and
``decisions`` on every factor over all responses.

The document of response surfaces maps ``surfaces`` → name of the response to ``coefficients`` (of codes in
[−1, 1]) and ``optimum``. It also contains ``overlay``, the point that suits all responses. Factors are in the
table's units (sizes in bytes), responses on the scale of the analysis (logarithms on log scale).
"""

import math
from typing import Any

from autotune.doe.follow_up import FollowUp
from autotune.doe.surface import Surface
from autotune.doe.table import Response, TableScreening
from autotune.history.objectives import ratio_of
from autotune.screening.effects import Effect, Effects
from autotune.structure import plain
from autotune.views.documents import fields_of
from autotune.views.text import decision_text


def screening_document(screening: TableScreening) -> dict[str, Any]:
    """Return the JSON document of ``screen TABLE``."""
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


def follow_up_document(fitted: FollowUp) -> dict[str, Any]:
    """Return the JSON document of ``screen TABLE --surface``."""
    pairs = zip(fitted.responses, fitted.surfaces, strict=True)
    document = {
        **fields_of(fitted, "table", "rows", "scale"),
        "surfaces": {response.name: _surface(surface, fitted) for response, surface in pairs},
        "overlay": fitted.overlay
        and {
            "at": fitted.numbers(fitted.overlay.codes),
            "desirability": fitted.overlay.desirability,
            "responses": {
                response.name: {
                    "value": fitted.overlay.values[response.name],
                    "desirability": fitted.overlay.each[response.name],
                    **fields_of(response, "goal", "weight"),
                }
                for response in fitted.responses
            },
        },
    }
    return dict(plain(document))


def _surface(surface: Surface, fitted: FollowUp) -> dict[str, Any]:
    """Return the JSON values of one response's surface."""
    best = surface.optimum
    ends = [fitted.numbers({name: pair[i] for name, pair in best.intervals.items()}) for i in (0, 1)]
    return {
        "coefficients": [
            {"term": list(coefficient.factors), **fields_of(coefficient, "value", "std_err", "p_value")}
            for coefficient in surface.coefficients
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
    """Return the JSON values of the analysis of one response."""
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
    """Return the JSON values of the aliases of an analysis."""
    return [fields_of(alias, "factor", "interaction", "coefficient") for alias in analysis.aliases]


def _effect(effect: Effect, analysis: Effects) -> dict[str, Any]:
    """Return the JSON values of an effect; on log scale they include the ratio of high to low."""
    return {
        **fields_of(
            effect, "factor", "low", "high", "effect", "std_err", "p_value", "contribution", "active"
        ),
        "interval": list(effect.interval()),
        **fields_of(effect, "df", "half_normal", "n_low", "n_high"),
        **({"ratio": ratio_of(effect.effect)} if analysis.scale == "log" else {}),
    }
