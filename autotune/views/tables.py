"""Turn a campaign's results into tables of the library rich, for the terminal; all functions are pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from autotune.history.objectives import Objective, Score
from autotune.recommend.front import Candidate
from autotune.recommend.other_calls import OtherCall, OtherDecision
from autotune.recommend.recommendation import Recommendation
from autotune.recommend.summary import ratio_to, size_rows
from autotune.screening import Effects, ScreeningDesign, ScreeningResult
from autotune.space import Dropped, Point
from autotune.views.text import (
    calls_text,
    changed_text,
    decision_text,
    figure_text,
    interval_text,
    loops_disagree,
    microseconds_text,
    other_calls_rows,
    other_text,
    p_text,
    ratio_text,
    size_text,
    verdict,
)

VERDICT_STYLE = {"faster": "green", "slower": "red", "even": ""}  # Colour of a speed-up, by its verdict.


def machine_table(findings: Iterable[tuple[str, str]], dropped: Sequence[Dropped]) -> Table:
    """Return the findings on the machine, and the parameters of the space that do not exist there."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, finding in findings:
        table.add_row(name, Text(finding))
    for i, drop in enumerate(dropped):
        name = drop.parameter if drop.value is None else f"{drop.parameter}={drop.value}"
        table.add_row("dropped" if i == 0 else "", Text(f"{name}: {drop.reason}", style="yellow"))
    return table


def lines_table(lines: Iterable[tuple[str, str]]) -> Table:
    """Return labelled lines, indented; a long text goes on below its beginning."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for label, text in lines:
        table.add_row(f"  {label}", Text(text))
    return table


def design_table(design: ScreeningDesign) -> RenderableType:
    """Return two tables of a screening design: the factor of each letter, and the runs in their order."""
    legend = empty_table("", "factor", "− low", "+ high")
    letters = [_letter(i) for i in range(len(design.factors))]
    for letter, factor in zip(letters, design.factors, strict=True):
        legend.add_row(letter, *map(Text, (factor.name, str(factor.low), str(factor.high))))
    runs = empty_table("run", *letters, right=["run"])
    for i, row in enumerate(design.coded.tolist(), start=1):
        runs.add_row(str(i), *("−" if code < 0 else "+" if code > 0 else "0" for code in row))
    return Group(legend, "", runs)


def effects_tables(
    objectives: Sequence[Objective], effects: Sequence[Effects], screening: ScreeningResult | None = None
) -> RenderableType:
    """Return tables of the main effects on each objective, and of the decisions on factors.

    An asterisk marks a significant effect.
    """
    parts: list[RenderableType] = []
    for objective, analysis in zip(objectives, effects, strict=True):
        table = empty_table("factor", "low → high", "effect of high", "p", right=["effect of high"])
        better = "more" if objective.maximise else "less"
        table.title = f"Main effects on {objective.name} ({better} is better)"
        for effect in analysis.effects:
            good = (effect.effect > 0) == objective.maximise
            style = ("green" if good else "red") if effect.active else "dim"
            table.add_row(
                Text(effect.factor),
                Text(f"{effect.low} → {effect.high}"),
                Text(analysis.text(effect), style),
                Text(p_text(effect.p_value) + (" *" if effect.active else ""), style),
            )
        parts += [table, ""]
    if screening is not None:
        table = empty_table("factor", "from here on", "because")
        for decision in screening.decisions:
            style = "bold" if decision.verdict == "active" else ""
            reason = Text(decision.reason, "dim")
            table.add_row(Text(decision.factor), Text(decision_text(decision), style), reason)
        parts += [table, ""]
    return Group(*parts[:-1])


def result_table(
    objectives: Sequence[Objective],
    settings: Sequence[Candidate],
    recommended: tuple[str, Sequence[Score] | None],
    default: Point,
    baseline: Sequence[Score] | None,
    why: Callable[[Candidate], str],
    verified: bool = True,
) -> Table:
    """Return a table of the recommended setting, the defaults, and other settings with reasons against them.

    Each objective has a column. It contains speed-ups over the ``baseline`` (the scores of the defaults); if
    the baseline is None, it contains scores. ``recommended`` is the leading setting in words (empty: the
    defaults) with its scores; until it is ``verified``, the defaults are marked. Each of the other
    ``settings`` is described by the values that differ from ``default``, and by the reason ``why`` the
    setting is not chosen.
    """
    headings = [objective.name for objective in objectives]
    table = empty_table("", "setting", *headings, right=headings)
    for column in table.columns[2:]:
        column.no_wrap = True

    def cells(scores: Sequence[Score] | None) -> list[str]:
        if scores is None:
            return ["—"] * len(objectives)
        if baseline is None:
            return [figure_text(s.value, unit=o.unit) for o, s in zip(objectives, scores, strict=True)]
        pairs = zip(objectives, scores, baseline, strict=True)
        return [ratio_text(ratio_to(o, score, reference)) for o, score, reference in pairs]

    words, scores = recommended
    deployed = bool(words) and verified
    if words:
        note = ("\nrecommended", "not bold green") if verified else ("\nnot verified", "not bold yellow")
        table.add_row("▶" if verified else "", Text(words, "bold").append(*note), *cells(scores))
    if baseline is not None:
        values = [figure_text(s.value, unit=o.unit) for o, s in zip(objectives, baseline, strict=True)]
        name = Text("the stack's own defaults")
        note = ("\nrecommended", "green") if not words else ("\nto use until a setting is verified", "")
        table.add_row("" if deployed else "▶", name if deployed else name.append(*note), *values)
    for setting in settings:
        name = Text(changed_text(setting.point, default)).append(f"\nnot chosen: {why(setting)}", "dim")
        table.add_row("", name, *cells(setting.scores))
    return table


def other_calls_table(calls: Sequence[OtherCall]) -> Table:
    """Return a table of the recommended setting's effects on calls that it was not tuned for."""
    headings = ("call", "size", "default [µs]", "tuned [µs]", "speed-up (95 %)", "decision")
    table = empty_table(*headings, right=headings[1:4])
    for column in table.columns[4:]:
        column.no_wrap = True
    styles = {OtherDecision.SLOWER: "red", OtherDecision.INCONCLUSIVE: "yellow"}
    for *cells, decision in other_calls_rows(calls):
        table.add_row(*cells, Text(decision, styles.get(OtherDecision(decision), "")))
    return table


def size_tables(recommendation: Recommendation, other_loop: bool = True) -> RenderableType:
    """Return default and tuned times by size, with a table for each collective and communicator size.

    If ``other_loop`` is true, a column contains the speed-ups in the probe's other kind of timing loop; else
    there is such a column only if the two loops disagree at some size.
    """
    rows = size_rows(recommendation)
    names = list(dict.fromkeys(name for row in rows for name in row.choice))
    parts: list[RenderableType] = []
    styles = {**VERDICT_STYLE, **({} if recommendation.provenance.checked.done else {"faster": ""})}
    with_other_loop = any(row.gain.other_loop and (other_loop or loops_disagree(row.gain)) for row in rows)
    for (collective, comm_size), group in groupby(rows, key=lambda row: row.gain.slot[:2]):
        table = empty_table(
            *("size", *names, "tuned [µs]", "default [µs]", "speed-up (95 %)"),
            *(["in the other loop"] if with_other_loop else []),
            right=["size", "tuned [µs]", "default [µs]"],
        )
        table.title = calls_text(collective, comm_size)
        for row in group:
            gain = row.gain
            table.add_row(
                size_text(gain.slot[2]),
                *(Text(str(row.choice.get(name, "·"))) for name in names),
                microseconds_text(gain.tuned_s, gain.tuned_sem_s),
                microseconds_text(gain.default_s, gain.default_sem_s),
                Text(ratio_text(gain.ratio, gain.interval), styles[verdict(gain)]),
                *([Text(other_text(gain), "" if loops_disagree(gain) else "dim")] if with_other_loop else []),
            )
        parts += [table, ""]
    if any(row.gain.compared and not interval_text(row.gain.interval) for row in rows):
        parts += [Text("Sizes without an interval have too few launches for one.", "dim"), ""]
    return Group(*parts[:-1])


def campaigns_table(rows: Sequence[Mapping[str, Any]], unverified: int) -> RenderableType:
    """Return a table of campaigns with notes below; ``rows`` are those that ``compare --json`` prints.

    ``unverified`` is the number of campaigns whose recommendation was not verified.
    """
    table = empty_table(
        *("campaign", "collective", "nodes", "ranks", "state", "launches", "speed-up (95 %)", "recommended"),
        right=["nodes", "ranks", "launches"],
    )
    for row in rows:
        words = [row["directory"], ", ".join(row["collective"]), row["nodes"], row["ranks"], row["state"]]
        words += [row["launches"], row["gain"], row["advice"]]
        table.add_row(*(Text(str(word)) for word in words))
    stacks = dict.fromkeys(row["stack"] for row in rows)
    notes = [*stacks, *([f"{unverified} of {len(rows)} are UNVERIFIED"] if unverified else [])]
    return Group(table, "", *(Text(note, "dim") for note in notes))


def empty_table(*headings: str, right: Iterable[str] = ()) -> Table:
    """Return an empty table with these headings; columns named in ``right`` are aligned to the right."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    table.title_justify, table.title_style = "left", "bold"
    for heading in headings:
        table.add_column(Text(heading), justify="right" if heading in right else "left", overflow="fold")
    return table


def _letter(i: int) -> str:
    """Return A … Z, then A2, B2 …, for i = 0, 1, …; the letter I is left out, because it means the mean."""
    alphabet = "ABCDEFGHJKLMNOPQRSTUVWXYZ"
    return alphabet[i % len(alphabet)] + (str(i // len(alphabet) + 1) if i >= len(alphabet) else "")
