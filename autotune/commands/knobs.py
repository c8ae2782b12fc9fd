"""``doctor --knobs``: list the variables that an MPI's libraries declare, and which of them may be tuned."""

import sys
from collections.abc import Iterator, Sequence
from typing import Any

from autotune.commands.terminal import console
from autotune.errors import UserError
from autotune.space import size_in_bytes
from autotune.stacks.installation import find
from autotune.stacks.knobs import Class, Classed, Listing, levels, listings
from autotune.views.documents import answer_text, csv_text, fields_of

_COLUMNS = ("layer", "version", "name", "class", "default", "levels", "reason", "rule", "kind", "component",
            "set_by", "inherits", "documentation")  # fmt: skip


def knobs(
    layers: Sequence[str], as_json: bool, as_csv: bool, everything: bool, mpirun: str | None, sizes: str
) -> None:
    """Print the variables of an MPI and its libraries, with class, default, and the values to try (levels).

    ``layers`` names the libraries (empty: all). Only variables of class performance are printed, unless
    ``everything`` is true. ``sizes`` are message sizes separated by commas: the levels of a variable that is
    a threshold of the message size.

    Raises:
        UserError: JSON and CSV were both requested, or ``sizes`` contains a word that is not a message size.
        StackError: no MPI was found.
    """
    if as_json and as_csv:
        raise UserError("--json and --csv", "give one of them")
    measured = [_bytes(word) for word in sizes.split(",") if word.strip()]
    listed = listings(find(mpirun), layers)
    if as_json:
        libraries = [_document(listing, everything, measured) for listing in listed]
        sys.stdout.write(answer_text("doctor-knobs", {"libraries": libraries}))
    elif as_csv:
        rows = (_flat(row) for listing in listed for row in _rows(listing, everything, measured))
        sys.stdout.write(csv_text(rows, _COLUMNS))
    else:
        for listing in listed:
            _print(listing, everything, measured)


def _bytes(word: str) -> int:
    size = size_in_bytes(word)
    if size is None:
        raise UserError(f"--sizes: {word.strip()!r} is not a message size", "for example 8,4k,1m")
    return int(size)


def _document(listing: Listing, everything: bool, sizes: Sequence[int]) -> dict[str, Any]:
    return {
        "layer": listing.layer,
        "version": listing.version,
        "counts": {str(klass): n for klass, n in listing.counts.items()},
        "without_rule": list(listing.without_rule),
        "knobs": list(_rows(listing, everything, sizes)),
    }


def _rows(listing: Listing, everything: bool, sizes: Sequence[int]) -> Iterator[dict[str, Any]]:
    for classed in listing.knobs:
        if everything or classed.klass is Class.PERFORMANCE:
            knob = classed.knob
            yield {
                **fields_of(knob, "layer", "version", "name"),
                "class": str(classed.klass),
                "default": knob.default,
                "levels": _levels(classed, sizes),
                "reason": classed.reason,
                "rule": classed.rule.name if classed.rule else "",
                **fields_of(knob, "kind", "component"),
                "set_by": knob.variable,
                "inherits": list(knob.inherits),
                "documentation": knob.documentation,
            }


def _levels(classed: Classed, sizes: Sequence[int]) -> list[Any]:
    if classed.klass in (Class.PROTECTED, Class.DIAGNOSTICS):
        return []
    declared = classed.rule.levels if classed.rule else {}
    return list(declared or levels(classed.knob, sizes))


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    return {k: " | ".join(map(str, v)) if isinstance(v, list) else v for k, v in row.items()}


def _print(listing: Listing, everything: bool, sizes: Sequence[int]) -> None:
    from rich.table import Table

    title = f"{listing.layer} {listing.version}"
    table = Table("name", "class", "default", "levels", title=title, box=None, pad_edge=False)
    for column, width in zip(table.columns, (34, 11, 12, 18), strict=True):  # 80 columns with the spaces
        column.no_wrap, column.overflow, column.max_width = True, "ellipsis", width
    for row in map(_flat, _rows(listing, everything, sizes)):
        table.add_row(*(row[column] for column in ("name", "class", "default", "levels")))
    screen = console(width=None if sys.stdout.isatty() else 80, highlight=False)
    screen.print(table)
    counts = ", ".join(f"{n} {klass}" for klass, n in listing.counts.items())
    nameless = ", ".join(listing.without_rule) or "none"
    screen.print(f"{listing.layer}: {len(listing.knobs)} variables: {counts}; known to no rule: {nameless}\n")
