"""Tables for the terminal: pure functions from the campaign's data to something that rich can print."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from autotune.history.objectives import Objective, Score
from autotune.recommend.front import Candidate
from autotune.recommend.recommendation import Recommendation
from autotune.recommend.summary import ratio_to, size_rows
from autotune.recommend.two_logs import RATE, LabelDifference, TwoLogs
from autotune.screening import Effects, ScreeningDesign, ScreeningResult
from autotune.space import Dropped, Point
from autotune.views.text import (
    calls_text,
    changed_text,
    decision_text,
    figure_text,
    loops_disagree,
    microseconds_text,
    other_text,
    p_text,
    ratio_text,
    size_text,
    verdict,
)

VERDICT_STYLE = {"faster": "green", "slower": "red", "even": ""}  # How a speed-up is coloured.


def machine_table(findings: Iterable[tuple[str, str]], dropped: Sequence[Dropped]) -> Table:
    """Findings on the machine, and parameters of the space that it lacks."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for what, finding in findings:
        table.add_row(what, Text(finding))
    for i, one in enumerate(dropped):
        what = one.parameter if one.value is None else f"{one.parameter}={one.value}"
        table.add_row("dropped" if i == 0 else "", Text(f"{what}: {one.reason}", style="yellow"))
    return table


def design_table(design: ScreeningDesign) -> RenderableType:
    """A screening design in its run order: what each letter stands for, then a row for each run."""
    legend = _table("", "factor", "− low", "+ high")
    letters = [_letter(i) for i in range(len(design.factors))]
    for letter, factor in zip(letters, design.factors, strict=True):
        legend.add_row(letter, *map(Text, (factor.name, str(factor.low), str(factor.high))))
    runs = _table("run", *letters, right=["run"])
    for i, row in enumerate(design.coded.tolist(), start=1):
        runs.add_row(str(i), *("−" if code < 0 else "+" if code > 0 else "0" for code in row))
    return Group(legend, "", runs)


def effects_tables(
    objectives: Sequence[Objective], effects: Sequence[Effects], screening: ScreeningResult | None = None
) -> RenderableType:
    """Main effects by objective, significant ones with an asterisk, and what becomes of the factors."""
    parts: list[RenderableType] = []
    for objective, analysis in zip(objectives, effects, strict=True):
        table = _table("factor", "low → high", "effect of high", "p", right=["effect of high"])
        better = "more" if objective.maximise else "less"
        table.title = f"Main effects on {objective.name} ({better} is better)"
        for one in analysis.effects:
            good = (one.effect > 0) == objective.maximise
            style = ("green" if good else "red") if one.active else "dim"
            table.add_row(
                Text(one.factor),
                Text(f"{one.low} → {one.high}"),
                Text(analysis.text(one), style),
                Text(p_text(one.p_value) + (" *" if one.active else ""), style),
            )
        parts += [table, ""]
    if screening is not None:
        table = _table("factor", "from here on", "because")
        for decision in screening.decisions:
            style = "bold" if decision.verdict == "active" else ""
            reason = Text(decision.reason, "dim")
            table.add_row(Text(decision.factor), Text(decision_text(decision), style), reason)
        parts += [table, ""]
    return Group(*parts[:-1])


def result_table(
    objectives: Sequence[Objective],
    settings: Sequence[Candidate],
    chosen: tuple[str, Sequence[Score] | None],
    default: Point,
    baseline: Sequence[Score] | None,
    why: Callable[[Candidate], str],
) -> Table:
    """The recommended setting, the defaults, then others that are better in some objective and why not them.

    Each objective has a column of speed-ups over ``baseline``, whose own row has figures; None: all rows
    have. ``chosen`` is in words, none for the defaults, with its means in the search.
    """
    headings = [one.name for one in objectives]
    table = _table("", "setting", *headings, right=headings)
    for column in table.columns[2:]:
        column.no_wrap = True

    def cells(judged: Sequence[Score] | None) -> list[str]:
        if judged is None:
            return ["—"] * len(objectives)
        if baseline is None:
            return [figure_text(s.value, unit=o.unit) for o, s in zip(objectives, judged, strict=True)]
        pairs = zip(objectives, judged, baseline, strict=True)
        return [ratio_text(ratio_to(o, score, reference)) for o, score, reference in pairs]

    words, judged = chosen
    if words:
        table.add_row("▶", Text(words, "bold").append("\nrecommended", "not bold green"), *cells(judged))
    if baseline is not None:
        own = [figure_text(score.value, unit=o.unit) for o, score in zip(objectives, baseline, strict=True)]
        said = Text("the stack's own defaults")
        table.add_row("" if words else "▶", said if words else said.append("\nrecommended", "green"), *own)
    for one in settings:
        said = Text(changed_text(one.point, default)).append(f"\nnot chosen: {why(one)}", "dim")
        table.add_row("", said, *cells(one.scores))
    return table


def size_tables(recommendation: Recommendation, other_loop: bool = True) -> RenderableType:
    """Default against tuned by size, a table each; ``other_loop``: that too, else where the two disagree."""
    rows = size_rows(recommendation)
    names = list(dict.fromkeys(name for row in rows for name in row.choice))
    parts: list[RenderableType] = []
    both = any(row.gain.other_loop and (other_loop or loops_disagree(row.gain)) for row in rows)
    for (collective, comm_size), group in groupby(rows, key=lambda row: row.gain.slot[:2]):
        table = _table(
            *("size", *names, "tuned [µs]", "default [µs]", "speed-up (95 %)"),
            *(["in the other loop"] if both else []),
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
                Text(ratio_text(gain.ratio, gain.interval), VERDICT_STYLE[verdict(gain)]),
                *([Text(other_text(gain), "" if loops_disagree(gain) else "dim")] if both else []),
            )
        parts += [table, ""]
    return Group(*parts[:-1])


def campaigns_table(rows: Sequence[Mapping[str, Any]], unverified: int) -> RenderableType:
    """Campaigns beside each other, one row each as ``compare --json`` prints it, with notes below."""
    table = _table(
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


def logs_table(found: TwoLogs, names: tuple[str, str]) -> RenderableType:
    """Two logs call by call, and what only one of them has."""
    columns = ("call", "size", *names, "repeats", "speed-up (95 %)", "")
    table = _table(*columns, right=["size", *names, "repeats"])
    for pair in found.pairs:
        (collective, ranks, size), setting = pair.call
        words = [", ".join([calls_text(collective, ranks), *(f"{n}={v}" for n, v in setting)])]
        words += [size_text(size), *(figure_text(us, unit="µs") for us in (pair.first_us, pair.second_us))]
        words += [" / ".join(map(str, pair.repeats)), ratio_text(pair.speedup, pair.interval), pair.verdict]
        table.add_row(*map(Text, words))
    counts = ", ".join(f"{n} {word}" for word, n in Counter(pair.verdict for pair in found.pairs).items())
    notes = [f"of {len(found.pairs)} calls in both: {counts or 'none'} (any false one: at most {RATE:.0%})"]
    alone = zip(names, (found.only_first, found.only_second), strict=True)
    notes += [f"{len(calls)} calls are in {name} alone" for name, calls in alone if calls]
    notes += list(dict.fromkeys(_throughout(one, names) for one in found.differences))
    return Group(table, "", *(Text(note, "dim") for note in notes))


def _throughout(difference: LabelDifference, names: tuple[str, str]) -> str:
    """A label in which two logs differ in all their rows."""
    sides = zip(difference.values, names, strict=True)
    return f"{difference.name} differs: " + ", ".join(f"{value or 'none'} in {name}" for value, name in sides)


def _table(*headings: str, right: Iterable[str] = ()) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    table.title_justify, table.title_style = "left", "bold"
    for heading in headings:
        table.add_column(Text(heading), justify="right" if heading in right else "left", overflow="fold")
    return table


def _letter(i: int) -> str:
    """A … Z, then A2, B2 … as long as it takes; I is left out, it means the mean."""
    alphabet = "ABCDEFGHJKLMNOPQRSTUVWXYZ"
    return alphabet[i % len(alphabet)] + (str(i // len(alphabet) + 1) if i >= len(alphabet) else "")
