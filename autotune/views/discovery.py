"""Show the results of a discovery in words and in a table: on the console, in the report, as JSON.

A discovery finds out which of many parameters (knobs) have an effect. A change is one parameter with one
value. The discovery adds changes to several settings, which are called arms: the default, and settings that
enable a group of parameters. A slot is a collective, a communicator size and a message size.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from autotune.campaign.spec import CampaignSpec
from autotune.history.objectives import Slot
from autotune.screening.discovery import ChangeEffect, DiscoveryResult
from autotune.views.text import size_text

_HARMFUL_ROWS = 12  # Largest number of harmful changes, and of inconclusive ones, that are shown.


def discovery_document(campaign: CampaignSpec, slots: Sequence[Slot]) -> dict[str, Any] | None:
    """Return the results of the discovery as JSON values; None if the campaign has no discovery."""
    result = campaign.discovered
    if result is None:
        return None

    def row(effect: ChangeEffect) -> dict[str, Any]:
        return {
            "knob": effect.change[0],
            "level": effect.change[1],
            "arm": effect.arm,
            "confirmed": effect.confirmed,
            "ratio": [math.exp(-e) for e in effect.log_ratio],
            "error": list(effect.error),
        }

    return {
        "knobs": result.factors,
        "sizes": [size for *_, size in slots],
        "collectives": [collective for collective, *_ in slots],
        "rate": result.rate,
        "active": [row(e) for e in result.active],
        "unconfirmed": [row(e) for e in result.unconfirmed],
        "harmful": [row(e) for e in result.harmful],
        "set_aside": [list(change) for _, change in result.set_aside],
        "untold": [list(change) for _, change in result.inconclusive],
    }


def headline(result: DiscoveryResult) -> str:
    """Return a sentence on how many of the parameters help, and for how many the result is inconclusive."""
    active = {effect.change[0] for effect in result.active}
    unconfirmed = {effect.change[0] for effect in result.unconfirmed}
    inconclusive = ({name for _, (name, _) in result.inconclusive} | unconfirmed) - active
    unclear = f"; {len(inconclusive)} inconclusive" if inconclusive else ""
    help_ = "helps" if len(active) == 1 else "help"
    return f"{len(active)} of {result.factors} knobs {help_} at some size{unclear}"


def remarks(result: DiscoveryResult) -> Iterator[str]:
    """Yield remarks on the findings, one line each."""
    n_confirmed = sum(effect.confirmed for effect in result.harmful)
    confirmed = f", {n_confirmed} of {len(result.harmful)} confirmed as well" if n_confirmed else ""
    yield (
        f"helping: confirmed one at a time on fresh launches; slowing: by the screening{confirmed}; "
        f"at most {result.rate:.0%} of either expected to be false"
    )
    if result.unconfirmed:
        each = _each(result, [(e.arm, e.change) for e in result.unconfirmed])
        yield f"helping by the screening, not confirmed in time, searched all the same: {', '.join(each)}"
    if result.set_aside:
        yield "launches fail with " + ", ".join(_each(result, result.set_aside))
    if each := _each(result, result.inconclusive):
        further = f" and {len(each) - _HARMFUL_ROWS} more" if len(each) > _HARMFUL_ROWS else ""
        yield f"inconclusive: {', '.join(each[:_HARMFUL_ROWS])}{further}"


def rows(
    result: DiscoveryResult, slots: Sequence[Slot]
) -> list[tuple[ChangeEffect, str, list[tuple[str, str]]]]:
    """Return for each effect on each curve: the effect, its name, and (speed-up, style) at each size.

    A curve is a collective with a communicator size. At a size at which a curve was not measured, the text of
    the speed-up is empty.
    """
    curves = dict.fromkeys(slot[:2] for slot in slots)
    sizes, (calls, ranks) = _sizes(slots), (len({curve[i] for curve in curves}) > 1 for i in (0, 1))

    def each(effect: ChangeEffect) -> Iterator[tuple[ChangeEffect, str, list[tuple[str, str]]]]:
        name = _words(effect.change, _arm(result, effect.arm))
        cells = dict(zip(slots, _cells(effect), strict=False))
        for curve in curves:
            suffix = calls * f", {curve[0]}" + ranks * f", {curve[1]} ranks"
            yield effect, name + suffix, [cells.get((*curve, size), ("", "even")) for size in sizes]

    helping = sorted((*result.active, *result.unconfirmed), key=lambda e: (not e.confirmed, sum(e.log_ratio)))
    slowing = sorted(result.harmful, key=lambda e: -max(e.log_ratio))[:_HARMFUL_ROWS]
    return [row for effect in (*helping, *slowing) for row in each(effect)]


def named(slots: Sequence[Slot]) -> list[str]:
    """Return the message size of each slot as text; if there are several collectives, also the collective."""
    several = len({name for name, *_ in slots}) > 1
    return [size_text(size) + (f" of {name}" if several else "") for name, _, size in slots]


def _sizes(slots: Sequence[Slot]) -> list[int]:
    return sorted({size for *_, size in slots})


def discovery_parts(campaign: CampaignSpec, slots: Sequence[Slot]) -> Iterator[RenderableType]:
    """Yield the texts and the table that a console shows; nothing if the campaign has no discovery."""
    result = campaign.discovered
    if result is None:
        return
    yield Text(headline(result), "bold")
    table = Table("knob = level", box=None, pad_edge=False, title_justify="left")
    for size in _sizes(slots):
        table.add_column(size_text(size), justify="right")
    styles = {"faster": "green", "slower": "red", "even": "dim"}
    for effect, name, cells in rows(result, slots):
        columns = [Text(text, styles[style]) for text, style in cells]
        table.add_row(Text(name, "" if effect.confirmed else "dim"), *columns)
    if table.row_count:
        yield table
    for line in remarks(result):
        yield Text(line, "dim")


def discovery_section(campaign: CampaignSpec, slots: Sequence[Slot]) -> dict[str, Any] | None:
    """Return the values of the report's section on the discovery; None if the campaign has no discovery."""
    result = campaign.discovered
    if result is None:
        return None
    return {
        "headline": headline(result),
        "sizes": [size_text(size) for size in _sizes(slots)],
        "rows": [(name, effect.confirmed, cells) for effect, name, cells in rows(result, slots)],
        "remarks": list(remarks(result)),
    }


def _cells(effect: ChangeEffect) -> Iterator[tuple[str, str]]:
    """Yield the speed-up at each size, with its style."""
    for log_ratio, error in zip(effect.log_ratio, effect.error, strict=True):
        significant = abs(log_ratio) > 2.5 * error
        style = "even" if not significant else "faster" if log_ratio < 0 else "slower"
        yield f"{math.exp(-log_ratio):.2f}", style


def _each(result: DiscoveryResult, changes: Sequence[tuple[int, tuple[str, Any]]]) -> list[str]:
    """Return a text for each change: its value and, unless it was added to the default, the arms with it."""
    arms_of: dict[tuple[str, Any], list[int]] = {}
    for arm, change in changes:
        arms_of.setdefault(change, []).append(arm)
    return [
        _words(change, "" if 0 in arms else " or ".join(_arm(result, n) for n in arms))
        for change, arms in arms_of.items()
    ]


def _arm(result: DiscoveryResult, number: int) -> str:
    return result.names[number] if number < len(result.names) else ""


def _words(change: tuple[str, Any], arm: str = "") -> str:
    text = f"{change[0]} = {change[1]}"
    text = text if len(text) <= 48 else f"{text[:47]}…"
    return f"{text} with {arm}" if arm else text
