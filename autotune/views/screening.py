"""A screening of anybody's table and what follows it, as text for a terminal of any width."""

import math
from collections.abc import Sequence

from autotune.history.objectives import ratio_of
from autotune.screening.alias import Alias
from autotune.screening.by_hand import Sensitivity
from autotune.screening.effects import Effects, Scale
from autotune.screening.follow_up import FollowUp
from autotune.screening.surface import Surface
from autotune.screening.table import Response, TableScreening
from autotune.views.text import decision_text, p_text

_SHOWN_ALIASES = 6


def screening_text(screening: TableScreening) -> str:
    """Effects by size, and what to do with each factor; aliases only of factors that are active."""
    lines = [f"{screening.table}: {screening.rows} rows, {screening.scale} scale"]
    for response, analysis in zip(screening.responses, screening.analyses, strict=True):
        lines += ["", *_response_lines(response, analysis)]
    lines += ["", "* significant at 5 %. What to do:"]
    lines += aligned([(d.factor, decision_text(d), d.reason) for d in screening.decisions])
    return "\n".join(lines) + "\n"


def follow_up_text(fitted: FollowUp) -> str:
    """Each response's quadratic with its optimum, then the point that suits all."""
    lines = [f"{fitted.table}: {fitted.rows} rows, {fitted.scale} scale"]
    for response, surface in zip(fitted.responses, fitted.surfaces, strict=True):
        lines += ["", *_surface_lines(response, surface, fitted)]
    if fitted.overlay is not None:
        weights = ", ".join(f"{its.name} {its.weight:g}" for its in fitted.responses)
        reached = f"desirability {fitted.overlay.desirability:.3f}"
        lines += ["", f"overlaid optimum (weights: {weights}): {reached}"]
        place = fitted.numbers(fitted.overlay.codes).items()
        lines.append(f"  at {', '.join(f'{name}={_plain(number)}' for name, number in place)}")
        lines += aligned([
            (name, _natural(value, fitted.scale), f"desirability {fitted.overlay.each[name]:.3f}")
            for name, value in fitted.overlay.values.items()
        ])  # fmt: skip
    return "\n".join(lines) + "\n"


def sensitivity_text(seen: Sensitivity) -> str:
    """The smallest effect of each factor that a design detects, a row each."""
    asked = "" if seen.effect is None else f"power for an effect of {seen.effect:g}"
    rows = [("factor", *([asked] if asked else []), "effect seen with 80 %")]
    for name, effect in seen.detectable.items():
        rows.append((name, *([f"{100 * seen.power[name]:.0f} %"] if asked else []), f"{effect:.3g}"))
    return "\n".join([f"where a run scatters by {seen.sigma:g}:", *aligned(rows)]) + "\n"


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
    if not leaks:
        return []
    lines = ["  What an active effect may also be (two-factor interactions, with their coefficients):"]
    for factor in sorted({alias.factor for alias in leaks}):
        its = [f"{alias.label} {alias.coefficient:+.2f}" for alias in leaks if alias.factor == factor]
        more = f", and {len(its) - _SHOWN_ALIASES} more" if len(its) > _SHOWN_ALIASES else ""
        lines.append(f"    {factor}: {', '.join(its[:_SHOWN_ALIASES])}{more}")
    return lines


def _surface_lines(response: Response, surface: Surface, fitted: FollowUp) -> list[str]:
    unit = ", logarithms" if fitted.scale == "log" else ""
    lines = [f"{response.name} ({_better(response)} is better{unit}): a {surface.shape}"]
    rows = [("term", "coefficient", "p")]
    for its in surface.coefficients:
        name = "·".join(its.factors) or "mean"
        rows.append((name, f"{its.value:+.4g} ± {its.std_err:.2g}", p_text(its.p_value)))
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
    at, low, high = (
        fitted.numbers(codes)
        for codes in (best.codes, *({n: ends[i] for n, ends in best.intervals.items()} for i in (0, 1)))
    )
    edge = dict.fromkeys(best.at_edge, "at the end of its range: the best may lie beyond")
    ends = {n: f"({_plain(low[n])} … {_plain(high[n])})" for n in at}
    places = [(f"  {n}", _plain(at[n]), ends[n], edge.get(n, "")) for n in at]
    return lines + aligned(places)


def _better(response: Response) -> str:
    return "less" if response.goal == "min" else "more"


def _natural(value: float, scale: Scale) -> str:
    return f"{ratio_of(value) if scale == 'log' else value:.4g}"


def _plain(number: float) -> str:
    """Four digits, or all of a large one: sizes are not read as powers of ten."""
    return f"{number:.4g}" if abs(number) < 1e4 else f"{number:.0f}"


def _figure(value: float, pattern: str) -> str:
    return pattern.format(value) if math.isfinite(value) else "—"


def aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Rows as lines, a column under the other."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    cells = ([text.ljust(width) for text, width in zip(row, widths, strict=True)] for row in rows)
    return ["  " + "  ".join(row).rstrip() for row in cells]
