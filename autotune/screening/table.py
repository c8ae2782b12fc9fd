"""A screening of anybody's table: which of its columns matter for which others (step 3 of the flow).

::

    rows → Table → screen → TableScreening
                 → follow_up.follow_up → FollowUp
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autotune.errors import TableError, UserError, allowed
from autotune.importers.table import Row
from autotune.screening.analysis import analyse
from autotune.screening.decision import FactorDecision, Goal, screened
from autotune.screening.design import Factor, ScreeningDesign
from autotune.screening.effects import Effects, Scale
from autotune.space import size_in_bytes

_SCALES: Mapping[str, Scale] = {"linear": "linear", "log": "log"}
_GOALS: Mapping[str, Goal] = {"min": "min", "max": "max"}
_LOW_WORDS = frozenset({"low", "lo", "off", "no", "false", "none", "minus", "-", "−", "disabled", "default"})
"""Words for the low level of two."""


@dataclass(frozen=True, slots=True)
class Response:
    """A measured column and what is wanted of it."""

    name: str  # Of the column.
    goal: Goal  # What is better.
    weight: float = 1.0  # Importance against the other responses.


@dataclass(frozen=True, slots=True)
class TableScreening:
    """Effects of a table's columns on its responses."""

    table: str  # Name of the file.
    rows: int  # How many it has.
    scale: Scale  # On which responses were compared.
    block: str | None  # The column of blocks.
    design: ScreeningDesign  # The table in the form of a design.
    analyses: tuple[Effects, ...]  # One for each response.
    responses: tuple[Response, ...]  # What is wanted of each, in the same order.
    decisions: tuple[FactorDecision, ...]  # What to do with each factor.


@dataclass(frozen=True, slots=True)
class Column:
    """A column that was set, as a factor."""

    factor: Factor  # Its two ends.
    codes: NDArray[np.float64]  # (n_rows,) in [−1, 1], linear in the column's numbers.
    n_levels: int  # How many different ones.
    ends: tuple[float, float] | None  # The numbers at −1 and +1 (sizes in bytes); None for words.


def named_responses(words: Sequence[str], option: str) -> tuple[Response, ...]:
    """Responses from words as ``latency:min`` or ``bandwidth:max:1.5``: column, goal and perhaps weight.

    Raises:
        UserError: no response, one that is named twice, or one without a goal or with a bad weight; the
            message names the option where they were given.
    """
    responses: dict[str, Response] = {}
    for word in words:
        head, _, last = word.rpartition(":")
        weight = "1" if last in _GOALS else last
        if last not in _GOALS:
            head, _, last = head.rpartition(":")
        if not head or last not in _GOALS:
            raise UserError(
                f"response {word!r} does not say what is better",
                f"allowed: {option} {word.split(':')[0]}:min or {word.split(':')[0]}:max",
            )
        importance = _number(weight)
        if importance is None or not 0 < importance < math.inf:
            raise UserError(f"response {word!r} has the weight {weight!r}", "a weight is a number above 0")
        if head in responses:
            raise UserError(f"response {head!r} is named twice")
        responses[head] = Response(head, _GOALS[last], importance)
    if not responses:
        raise UserError("no response is named", f"{option} latency:min,bandwidth:max")
    return tuple(responses.values())


def known_scale(scale: str) -> Scale:
    """The scale of that name.

    Raises:
        UserError: an unknown one.
    """
    if scale not in _SCALES:
        raise UserError(f"--scale {scale}", allowed(scale, _SCALES))
    return _SCALES[scale]


def screen(
    table: Table, factors: Sequence[str], responses: Sequence[Response], block: str | None, scale: Scale
) -> TableScreening:
    """The analysis of a screening that was run and written down elsewhere.

    A factor is a column with two values, or one of numbers (or sizes such as ``64k``), whose effect is then
    taken to be linear and given over its range. An empty response is a failed run.

    A block's column holds replicates, days or sites; ``log`` compares ratios of positive responses.

    Raises:
        TableError: an unknown column, or a field that is not what its column needs.
        UserError: no factor, a column named twice, or too few runs.
    """
    table.check(factors, [response.name for response in responses], block)
    design, names = _design(table, factors, block), [its.name for its in responses]
    analyses = [analyse(design, table.response(name, scale), name=name, scale=scale) for name in names]
    goals = {response.name: response.goal for response in responses}
    decided = screened(design.factors, analyses, goals).decisions
    figures = (tuple(analyses), tuple(responses), decided)
    return TableScreening(table.name, len(table.rows), scale, block, design, *figures)


@dataclass(frozen=True, slots=True)
class Table:
    """Rows that know how to complain."""

    name: str  # Of the file.
    columns: Sequence[str]  # Their names.
    rows: Sequence[Row]  # Text by column.
    places: Sequence[int] = ()  # Row of each in the file, as an editor counts; empty: from the second on.

    def check(self, factors: Sequence[str], responses: Sequence[str], block: str | None) -> None:
        """Check that all these are columns, each in one role.

        Raises:
            TableError: an unknown column.
            UserError: no factor, or a column named twice.
        """
        if not factors:
            raise UserError("no factor is named", f"--factors, out of: {', '.join(self.columns)}")
        named = [*factors, *responses, *([] if block is None else [block])]
        for name in named:
            if name not in self.columns:
                raise TableError(f"{self.name} has no column {name!r}", allowed(name, self.columns))
            if named.count(name) > 1:
                raise UserError(
                    f"column {name!r} is named twice", "it is one of: a factor, a response, the block"
                )

    def filled(self, column: str, kind: str) -> list[str]:
        """A column in which nothing may be missing.

        Raises:
            TableError: an empty field.
        """
        for index, row in enumerate(self.rows):
            if not row[column]:
                raise self._wrong(index, column, f"a {kind} is missing")
        return [row[column] for row in self.rows]

    def response(self, column: str, scale: Scale) -> NDArray[np.float64]:
        """Numbers, nan where the field is empty.

        Raises:
            TableError: a field that is not a finite number, or on log scale not above 0.
        """
        values, hint = np.full(len(self.rows), math.nan), "leave it empty if the run failed"
        for index, text in self._given(column):
            value = _number(text)
            if value is None:
                raise self._wrong(index, column, f"{text!r} is not a number", hint)
            if not math.isfinite(value):
                raise self._wrong(index, column, f"{text} is not finite", hint)
            if scale == "log" and value <= 0:
                raise self._wrong(index, column, f"{text} is not above 0", "use --scale linear")
            values[index] = value
        return values

    def numbers(self, column: str, *, positive: bool = False) -> NDArray[np.float64]:
        """Numbers, or sizes such as ``64k`` in bytes; nan where the field is empty.

        Raises:
            TableError: a field that is no finite number, or not above 0 where it has to be.
        """
        values, hint = np.full(len(self.rows), math.nan), "leave it empty if it was not measured"
        for index, text in self._given(column):
            value = _number(text)
            value = size_in_bytes(text) if value is None else value
            if value is None or not math.isfinite(value):
                raise self._wrong(index, column, f"{text!r} is not a finite number", hint)
            if positive and value <= 0:
                raise self._wrong(index, column, f"{text} has no logarithm", f"leave {column} out of --log2")
            values[index] = value
        return values

    def _given(self, column: str) -> Iterator[tuple[int, str]]:
        """The fields of a column that are not empty, each with its index."""
        return ((index, row[column]) for index, row in enumerate(self.rows) if row[column])

    def where(self, column: str, text: str) -> Table:
        """The rows that have a text in a column; numbers are compared as numbers.

        Raises:
            TableError: an unknown column, or no such row.
        """
        if column not in self.columns:
            raise TableError(f"{self.name} has no column {column!r}", allowed(column, self.columns))
        wanted = _number(text)
        kept = [
            (self._place(index), row)
            for index, row in enumerate(self.rows)
            if row[column] == text or (wanted is not None and _number(row[column]) == wanted)
        ]
        if not kept:
            known = dict.fromkeys(row[column] for row in self.rows)
            raise TableError(f"{self.name} has no row with {column}={text}", allowed(text, list(known)[:20]))
        places, rows = zip(*kept, strict=True)
        return Table(self.name, self.columns, rows, places)

    def factor(self, column: str) -> Column:
        """The factor in a column.

        Raises:
            TableError: a missing or infinite level, a single one, or three and more that are not numbers.
        """
        texts = self.filled(column, "level")
        levels = list(dict.fromkeys(texts))
        numbers = _numbers(levels)
        ordered = numbers is not None
        if numbers is None:
            if len(levels) > 2:
                raise self._too_many(column, texts, levels)
            ranks = sorted(levels, key=lambda text: (text.lower() not in _LOW_WORDS, text))
            numbers = {text: float(rank) for rank, text in enumerate(ranks)}
        bad = next((text for text in levels if not math.isfinite(numbers[text])), None)
        if bad is not None:
            raise self._wrong(texts.index(bad), column, f"{bad} is not finite")
        low, high = min(numbers.values()), max(numbers.values())
        if low == high:
            raise TableError(
                f"{self.name}, column {column}: all {len(texts)} rows have {levels[0]!r}",
                "a factor needs two levels",
            )
        first, last = (next(text for text in levels if numbers[text] == end) for end in (low, high))
        return Column(
            Factor(column, _value(first), _value(last)),
            np.array([2 * (numbers[text] - low) / (high - low) - 1 for text in texts]),
            len(set(numbers.values())),
            (low, high) if ordered else None,
        )

    def _wrong(self, index: int, column: str, what: str, hint: str = "") -> TableError:
        return TableError(f"{self.name}, row {self._place(index)}, column {column}: {what}", hint)

    def _place(self, index: int) -> int:
        """The row in the file of one of these rows."""
        return self.places[index] if self.places else index + 2

    def _too_many(self, column: str, texts: list[str], levels: list[str]) -> TableError:
        """Why a column with words among its three or more levels is not a factor."""
        words = [text for text in levels if size_in_bytes(text) is None and _number(text) is None]
        if len(words) == 1 or len(words) < len(levels) / 2:
            return self._wrong(texts.index(words[0]), column, f"{words[0]!r} is not a number like the others")
        few = ", ".join(levels[:4]) + (", …" if len(levels) > 4 else "")
        return TableError(
            f"{self.name}, column {column}: {len(levels)} levels ({few}) that are not numbers; "
            f"{levels[2]!r} in row {self._place(texts.index(levels[2]))} is the third",
            "a factor of words has two levels",
        )


def _design(table: Table, factors: Sequence[str], block: str | None) -> ScreeningDesign:
    """The table in the form of a design.

    Where several factors have a third level in between, and only in the same rows, these are centre points.
    """
    columns = [table.factor(name) for name in factors]
    codes = np.array([column.codes for column in columns]).T
    graded = codes[:, [column.n_levels > 2 for column in columns]]
    between = np.abs(graded) < 1 - 1e-9
    three = all(column.n_levels <= 3 for column in columns)
    apart = np.array_equal(np.all(between, axis=1), np.any(between, axis=1))
    centred = graded.shape[1] > 1 and three and apart
    centre = np.all(between, axis=1) if centred else np.zeros(len(codes), dtype=bool)
    blocks = table.filled(block, "block") if block is not None else ["all"] * len(codes)
    return ScreeningDesign(
        factors=tuple(column.factor for column in columns),
        coded=codes,
        order=tuple(range(len(codes))),
        blocks=tuple(blocks),
        whole_plots=(0,) * len(codes),
        centre=tuple(centre.tolist()),
    )


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
    if number is None or not math.isfinite(number):
        return text
    return int(number) if number.is_integer() else number
