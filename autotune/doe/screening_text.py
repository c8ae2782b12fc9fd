"""Texts for the terminal: a screening of a user's table, response surfaces, and the power of a design."""

import math
from collections.abc import Sequence

from autotune.doe.by_hand import Sensitivity
from autotune.doe.follow_up import FollowUp
from autotune.doe.surface import Surface
from autotune.doe.table import Response, TableScreening
from autotune.history.objectives import ratio_of
from autotune.screening.alias import Alias
from autotune.screening.effects import Effects, Scale
from autotune.views.text import aligned, decision_text, p_text

_SHOWN_ALIASES = 6  # Largest number of aliases that are shown for a factor.


def screening_text(screening: TableScreening) -> str:
    """Return the effects by size, the aliases of active factors, and the decision on each factor."""
    lines = [f"{screening.table}: {screening.rows} rows, {screening.scale} scale"]
    for response, analysis in zip(screening.responses, screening.analyses, strict=True):
        lines += ["", *_response_lines(response, analysis)]
    lines += ["", "* significant at 5 %. What to do:"]
    lines += aligned([(d.factor, decision_text(d), d.reason) for d in screening.decisions])
    return "\n".join(lines) + "\n"


def follow_up_text(fitted: FollowUp) -> str:
    """Return a text on each response's surface with its optimum, and on the best point for all responses."""
    lines = [f"{fitted.table}: {fitted.rows} rows, {fitted.scale} scale"]
    for response, surface in zip(fitted.responses, fitted.surfaces, strict=True):
        lines += ["", *_surface_lines(response, surface, fitted)]
    if fitted.overlay is not None:
        weights = ", ".join(f"{response.name} {response.weight:g}" for response in fitted.responses)
        reached = f"desirability {fitted.overlay.desirability:.3f}"
        lines += ["", f"overlaid optimum (weights: {weights}): {reached}"]
        place = fitted.numbers(fitted.overlay.codes).items()
        lines.append(f"  at {', '.join(f'{name}={_plain(number)}' for name, number in place)}")
        lines += aligned([
            (name, _natural(value, fitted.scale), f"desirability {fitted.overlay.each[name]:.3f}")
            for name, value in fitted.overlay.values.items()
        ])  # fmt: skip
    return "\n".join(lines) + "\n"


def sensitivity_text(sensitivity: Sensitivity) -> str:
    """Return a table with the smallest effect of each factor that a design detects, and the power if any."""
    power = "" if sensitivity.effect is None else f"power for an effect of {sensitivity.effect:g}"
    rows = [("factor", *([power] if power else []), "effect seen with 80 %")]
    for name, effect in sensitivity.detectable.items():
        rows.append((name, *([f"{100 * sensitivity.power[name]:.0f} %"] if power else []), f"{effect:.3g}"))
    return "\n".join([f"where a run scatters by {sensitivity.sigma:g}:", *aligned(rows)]) + "\n"


def _response_lines(response: Response, analysis: Effects) -> list[str]:
    """Return the lines of the analysis of one response."""
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
    """Return a line for each factor with its largest aliases; none without aliases."""
    if not leaks:
        return []
    lines = ["  What an active effect may also be (two-factor interactions, with their coefficients):"]
    for factor in sorted({alias.factor for alias in leaks}):
        texts = [f"{alias.label} {alias.coefficient:+.2f}" for alias in leaks if alias.factor == factor]
        remainder = f", and {len(texts) - _SHOWN_ALIASES} more" if len(texts) > _SHOWN_ALIASES else ""
        lines.append(f"    {factor}: {', '.join(texts[:_SHOWN_ALIASES])}{remainder}")
    return lines


def _surface_lines(response: Response, surface: Surface, fitted: FollowUp) -> list[str]:
    """Return the lines on the surface of one response."""
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
    best = surface.optimum
    interval = " … ".join(_natural(end, fitted.scale) for end in best.interval)
    lines.append(f"  best {_natural(best.value, fitted.scale)} ({interval}) at")
    place, low, high = (
        fitted.numbers(codes)
        for codes in (best.codes, *({n: ends[i] for n, ends in best.intervals.items()} for i in (0, 1)))
    )
    edge = dict.fromkeys(best.at_edge, "at the end of its range: the best may lie beyond")
    ends = {n: f"({_plain(low[n])} … {_plain(high[n])})" for n in place}
    places = [(f"  {n}", _plain(place[n]), ends[n], edge.get(n, "")) for n in place]
    return lines + aligned(places)


def _better(response: Response) -> str:
    """Return whether less or more of a response is better."""
    return "less" if response.goal == "min" else "more"


def _natural(value: float, scale: Scale) -> str:
    """Return a value from the scale of the analysis in the unit of the response, with four digits."""
    return f"{ratio_of(value) if scale == 'log' else value:.4g}"


def _plain(number: float) -> str:
    """Return a number with four digits; from 10000 on with all digits, because sizes are no powers of ten."""
    return f"{number:.4g}" if abs(number) < 1e4 else f"{number:.0f}"


def _figure(value: float, pattern: str) -> str:
    """Return a value in a format, or a dash where it is not finite."""
    return pattern.format(value) if math.isfinite(value) else "—"
