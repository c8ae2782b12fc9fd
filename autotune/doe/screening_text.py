"""Show a screening of a user's table, response surfaces and the power of a design, as text or JSON documents.

In the document of a screening, ``responses`` maps the name of each response to ``effects`` (a list of factor,
low, high, effect, std_err, p_value, contribution, active and more), ``aliases``, ``blocks``, ``efficiency``
and ``notes``. At its top level the document also contains the ``aliases`` of the response with the most
results, and the ``decisions`` on every factor over all responses.

In the document of response surfaces, ``surfaces`` maps the name of each response to ``coefficients`` (of
codes from −1 to 1) and ``optimum``. The document also contains ``overlay``, the point that suits all
responses best. Factors are in the table's units (sizes in bytes), responses on the scale of the analysis
(logarithms on log scale). Unknown numbers are null.
"""

import math
from collections.abc import Sequence
from typing import Any

from autotune.doe.by_hand import Sensitivity
from autotune.doe.follow_up import FollowUp
from autotune.doe.surface import Surface
from autotune.doe.table import Response, TableScreening
from autotune.history.objectives import ratio_of
from autotune.screening.alias import Alias
from autotune.screening.effects import Effect, Effects, Scale
from autotune.structure import plain
from autotune.views.documents import fields_of
from autotune.views.text import aligned, decision_text, p_text

_SHOWN_ALIASES = 6  # Largest number of aliases that are listed for a factor.


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
        **fields_of(analysis, "r_squared", "notes"),
    }


def _aliases(analysis: Effects) -> list[dict[str, Any]]:
    return [fields_of(alias, "factor", "interaction", "coefficient") for alias in analysis.aliases]


def _effect(effect: Effect, analysis: Effects) -> dict[str, Any]:
    estimated = ("effect", "std_err", "p_value", "contribution", "active")
    return {
        **fields_of(effect, "factor", "low", "high", *estimated),
        "interval": effect.interval(),
        **fields_of(effect, "df", "half_normal", "n_low", "n_high"),
        **({"ratio": ratio_of(effect.effect)} if analysis.scale == "log" else {}),
    }


def screening_text(screening: TableScreening) -> str:
    """Return the effects (largest first), the aliases of active factors, and the decision on each factor."""
    lines = [f"{screening.table}: {screening.rows} rows, {screening.scale} scale"]
    for response, analysis in zip(screening.responses, screening.analyses, strict=True):
        lines += ["", *_response_lines(response, analysis)]
    lines += ["", "* significant at 5 %. What to do:"]
    lines += aligned([(d.factor, decision_text(d), d.reason) for d in screening.decisions])
    return "\n".join(lines) + "\n"


def _response_lines(response: Response, analysis: Effects) -> list[str]:
    lost = f", {analysis.n_missing} without a result" if analysis.n_missing else ""
    lines = [f"{response.name} ({_better(response)} is better; {analysis.n_runs} runs{lost})"]
    rows = [("factor", "low → high", "effect of high", "p", "share")]
    for effect in sorted(analysis.effects, key=lambda e: -e.contribution if e.contribution > 0 else 0.0):
        star = " *" if effect.active else ""
        span, share = f"{effect.low} → {effect.high}", _figure(effect.contribution, "{:.1f} %")
        rows.append((effect.factor, span, analysis.text(effect), p_text(effect.p_value) + star, share))
    lines += aligned(rows)
    scatter = _figure(math.sqrt(analysis.noise.variance), "{:.3g}")
    parts = "/".join(f"{getattr(analysis.efficiency, key):.0f}" for key in ("d", "a", "g"))
    margin = _figure(analysis.lenth.margin, "{:.3g}")
    noise = f"a run scatters by {scatter} ({analysis.noise.source})"
    lines.append(f"  {noise}; D/A/G-efficiency {parts} %; Lenth margin {margin}")
    for block in analysis.blocks:
        lines.append(f"  block {block.block}: {block.effect:+.3g} ± {_figure(block.std_err, '{:.2g}')}")
    lines += [f"  {note}" for note in analysis.notes]
    active = {effect.factor for effect in analysis.effects if effect.active}
    return lines + _alias_lines([alias for alias in analysis.aliases if alias.factor in active])


def _alias_lines(leaks: Sequence[Alias]) -> list[str]:
    """Return a line with its largest aliases for each factor that has aliases."""
    if not leaks:
        return []
    lines = ["  What an active effect may also be (two-factor interactions, with their coefficients):"]
    for factor in sorted({alias.factor for alias in leaks}):
        texts = [f"{alias.label} {alias.coefficient:+.2f}" for alias in leaks if alias.factor == factor]
        remainder = f", and {len(texts) - _SHOWN_ALIASES} more" if len(texts) > _SHOWN_ALIASES else ""
        lines.append(f"    {factor}: {', '.join(texts[:_SHOWN_ALIASES])}{remainder}")
    return lines


def follow_up_document(fitted: FollowUp) -> dict[str, Any]:
    """Return the JSON document of ``screen TABLE --surface``."""
    pairs, overlay = zip(fitted.responses, fitted.surfaces, strict=True), fitted.overlay
    document = {
        **fields_of(fitted, "table", "rows", "scale"),
        "surfaces": {response.name: _surface(surface, fitted) for response, surface in pairs},
        "overlay": overlay
        and {
            "at": fitted.numbers(overlay.codes),
            "desirability": overlay.desirability,
            "responses": {
                response.name: {
                    "value": overlay.values[response.name],
                    "desirability": overlay.each[response.name],
                    **fields_of(response, "goal", "weight"),
                }
                for response in fitted.responses
            },
        },
    }
    return dict(plain(document))


def _surface(surface: Surface, fitted: FollowUp) -> dict[str, Any]:
    best = surface.optimum
    low, high = _ends(surface, fitted)
    return {
        "coefficients": [
            {"term": coefficient.factors, **fields_of(coefficient, "value", "std_err", "p_value")}
            for coefficient in surface.coefficients
        ],
        **fields_of(surface, "left_out", "r_squared", "adjusted_r_squared", "predicted_r_squared"),
        **fields_of(surface, "curvature", "shape", "std_dev", "df"),
        "optimum": {
            "at": fitted.numbers(best.codes),
            "intervals": {name: (low[name], high[name]) for name in best.codes},
            **fields_of(best, "value", "interval", "at_edge"),
        },
    }


def follow_up_text(fitted: FollowUp) -> str:
    """Return a text on the surface and the optimum of each response, and on the best point for all."""
    lines = [f"{fitted.table}: {fitted.rows} rows, {fitted.scale} scale"]
    for response, surface in zip(fitted.responses, fitted.surfaces, strict=True):
        lines += ["", *_surface_lines(response, surface, fitted)]
    if (overlay := fitted.overlay) is not None:
        weights = ", ".join(f"{response.name} {response.weight:g}" for response in fitted.responses)
        lines += ["", f"overlaid optimum (weights: {weights}): desirability {overlay.desirability:.3f}"]
        place = fitted.numbers(overlay.codes).items()
        lines.append(f"  at {', '.join(f'{name}={_plain(number)}' for name, number in place)}")
        lines += aligned([
            (name, _natural(value, fitted.scale), f"desirability {overlay.each[name]:.3f}")
            for name, value in overlay.values.items()
        ])  # fmt: skip
    return "\n".join(lines) + "\n"


def _surface_lines(response: Response, surface: Surface, fitted: FollowUp) -> list[str]:
    unit = ", logarithms" if fitted.scale == "log" else ""
    lines = [f"{response.name} ({_better(response)} is better{unit}): a {surface.shape}"]
    rows = [("term", "coefficient", "p")]
    for term in surface.coefficients:
        name = "·".join(term.factors) or "mean"
        rows.append((name, f"{term.value:+.4g} ± {term.std_err:.2g}", p_text(term.p_value)))
    lines += aligned(rows)
    shares = (surface.r_squared, surface.adjusted_r_squared, surface.predicted_r_squared)
    fit = "/".join(_figure(share, "{:.3f}") for share in shares)
    lines.append(
        f"  R² {fit} (of these runs/adjusted/of runs left out); a run scatters by {surface.std_dev:.3g}"
    )
    if surface.left_out:
        lines.append(f"  not estimable from these runs: {', '.join(map('·'.join, surface.left_out))}")
    best, (low, high) = surface.optimum, _ends(surface, fitted)
    interval = " … ".join(_natural(end, fitted.scale) for end in best.interval)
    lines.append(f"  best {_natural(best.value, fitted.scale)} ({interval}) at")
    edge = dict.fromkeys(best.at_edge, "at the end of its range: the best may lie beyond")
    return lines + aligned([
        (f"  {n}", _plain(number), f"({_plain(low[n])} … {_plain(high[n])})", edge.get(n, ""))
        for n, number in fitted.numbers(best.codes).items()
    ])  # fmt: skip


def _ends(surface: Surface, fitted: FollowUp) -> tuple[dict[str, float], ...]:
    """Return the lower and upper ends of the intervals of the optimum, in the table's units."""
    intervals = surface.optimum.intervals
    return tuple(fitted.numbers({name: pair[i] for name, pair in intervals.items()}) for i in (0, 1))


def sensitivity_text(sensitivity: Sensitivity) -> str:
    """Return a table with the smallest detectable effect of each factor, and the power if requested."""
    power = "" if sensitivity.effect is None else f"power for an effect of {sensitivity.effect:g}"
    rows = [("factor", *([power] if power else []), "effect seen with 80 %")]
    for name, effect in sensitivity.detectable.items():
        rows.append((name, *([f"{100 * sensitivity.power[name]:.0f} %"] if power else []), f"{effect:.3g}"))
    return "\n".join([f"where a run scatters by {sensitivity.sigma:g}:", *aligned(rows)]) + "\n"


def _better(response: Response) -> str:
    return "less" if response.goal == "min" else "more"


def _natural(value: float, scale: Scale) -> str:
    """Convert a value from the scale of the analysis to the response's unit, as text with four digits."""
    return f"{ratio_of(value) if scale == 'log' else value:.4g}"


def _plain(number: float) -> str:
    """Return a number with four digits, or with all digits from 10000 on.

    Such numbers may be sizes, which are no powers of ten.
    """
    return f"{number:.4g}" if abs(number) < 1e4 else f"{number:.0f}"


def _figure(value: float, pattern: str) -> str:
    """Return a value as text by a format, or a dash if it is not finite."""
    return pattern.format(value) if math.isfinite(value) else "—"
