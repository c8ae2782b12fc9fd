"""Screen a user's table: find out which of its columns (factors) affect which other columns (responses).

Place in the flow of ``autotune/__init__.py``: step 3, screening.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autotune.errors import TableError, UserError, allowed
from autotune.screening.analysis import analyse
from autotune.screening.decision import FactorDecision, Goal, screened
from autotune.screening.design import Factor, ScreeningDesign
from autotune.screening.effects import Effects, Scale
from autotune.space import size_in_bytes
from autotune.text_table import Row

_SCALES: Mapping[str, Scale] = {"linear": "linear", "log": "log"}
_GOALS: Mapping[str, Goal] = {"min": "min", "max": "max"}
_LOW_WORDS = frozenset({"low", "lo", "off", "no", "false", "none", "minus", "-", "−", "disabled", "default"})
"""Words that denote the lower of two levels."""


@dataclass(frozen=True, slots=True)
class Response:
    """A measured column, and whether smaller or larger values of it are better."""

    name: str
    goal: Goal
    weight: float = 1.0  # Importance relative to that of the other responses.


@dataclass(frozen=True, slots=True)
class TableScreening:
    """Result of a screening: the effects of factors on responses, and a decision on each factor."""

    table: str  # Name of the table's file.
    rows: int
    scale: Scale  # Scale on which responses were compared.
    block: str | None  # Name of the column with the block of each row; None if all rows are one block.
    design: ScreeningDesign  # The table in the form of a two-level design.
    analyses: tuple[Effects, ...]  # Analysis of each response, in the order of ``responses``.
    responses: tuple[Response, ...]
    decisions: tuple[FactorDecision, ...]
    """Decision on each factor: it matters, may matter, or does not matter."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of settings as a factor."""

    factor: Factor  # Factor whose levels are the two ends of the column.
    codes: NDArray[np.float64]
    """Code of each row, (n_rows,), from −1 to 1 and linear in the column's numbers."""
    n_levels: int  # Number of distinct levels.
    ends: tuple[float, float] | None  # Numbers at −1 and +1 (sizes in bytes); None if the levels are words.


def named_responses(words: Sequence[str], option: str) -> tuple[Response, ...]:
    """Parse responses such as ``latency:min`` or ``bandwidth:max:1.5``: column, goal, and optional weight.

    ``option`` is the name of the command-line option with the responses, for error messages.

    Raises:
        UserError: there is no response, or a response is named twice, has no goal or has an invalid weight.
    """
    responses: dict[str, Response] = {}
    for word in words:
        name, _, goal = word.rpartition(":")
        weight = "1"
        if goal not in _GOALS:
            (name, _, goal), weight = name.rpartition(":"), goal
        if not name or goal not in _GOALS:
            first = word.split(":")[0]
            hint = f"allowed: {option} {first}:min or {first}:max"
            raise UserError(f"response {word!r} does not say what is better", hint)
        importance = _number(weight)
        if importance is None or not 0 < importance < math.inf:
            raise UserError(f"response {word!r} has the weight {weight!r}", "a weight is a number above 0")
        if name in responses:
            raise UserError(f"response {name!r} is named twice")
        responses[name] = Response(name, _GOALS[goal], importance)
    if not responses:
        raise UserError("no response is named", f"{option} latency:min,bandwidth:max")
    return tuple(responses.values())


def known_scale(scale: str) -> Scale:
    """Return the scale with this name; an unknown name raises a ``UserError``."""
    if scale not in _SCALES:
        raise UserError(f"--scale {scale}", allowed(scale, _SCALES))
    return _SCALES[scale]


def screen(
    table: Table, factors: Sequence[str], responses: Sequence[Response], block: str | None, scale: Scale
) -> TableScreening:
    """Analyse a screening that was run elsewhere and recorded in a table.

    A factor is a column with two values, or a column of numbers (or sizes such as ``64k``). The effect of
    numbers is assumed to be linear, and is reported for their whole range. An empty response means that the
    run failed. The column ``block`` distinguishes replicates, days or sites. With the scale ``log`` responses
    are compared by their ratios, and have to be positive.

    Raises:
        TableError: a column is unknown, or a field does not have the kind of value that its column needs.
        UserError: there is no factor, a column is named twice, or there are too few runs.
    """
    goals = {response.name: response.goal for response in responses}
    table.check(factors, list(goals), block)
    design = _design(table, factors, block)
    analyses = [analyse(design, table.response(name, scale), name=name, scale=scale) for name in goals]
    decided = screened(design.factors, analyses, goals).decisions
    figures = (tuple(analyses), tuple(responses), decided)
    return TableScreening(table.name, len(table.rows), scale, block, design, *figures)


@dataclass(frozen=True, slots=True)
class Table:
    """A table of texts, whose errors name the file, the row and the column."""

    name: str  # Name of the table's file.
    columns: Sequence[str]
    rows: Sequence[Row]  # Texts of the fields of each row, by column.
    places: Sequence[int] = ()
    """Line number of each row in the file, counted from 1; empty if the rows are the consecutive lines from
    line 2 on."""

    def check(self, factors: Sequence[str], responses: Sequence[str], block: str | None) -> None:
        """Raise a ``UserError`` if there is no factor, or a column is unknown or named twice."""
        if not factors:
            raise UserError("no factor is named", f"--factors, out of: {', '.join(self.columns)}")
        roles = [*factors, *responses, *([] if block is None else [block])]
        for name in roles:
            if name not in self.columns:
                raise TableError(f"{self.name} has no column {name!r}", allowed(name, self.columns))
            if roles.count(name) > 1:
                hint = "it is one of: a factor, a response, the block"
                raise UserError(f"column {name!r} is named twice", hint)

    def filled(self, column: str, kind: str) -> list[str]:
        """Return the texts of a column.

        If a text is empty, a ``TableError`` says that a ``kind`` is missing in this row.
        """
        texts = [row[column] for row in self.rows]
        if "" in texts:
            raise self._wrong(texts.index(""), column, f"a {kind} is missing")
        return texts

    def response(self, column: str, scale: Scale) -> NDArray[np.float64]:
        """Return the numbers of a response, (n_rows,), with nan for empty fields.

        Raises:
            TableError: a field is not a finite number, or is not above 0 although the scale is logarithmic.
        """
        values, hint = np.full(len(self.rows), math.nan), "leave it empty if the run failed"
        for index, text in self._filled_fields(column):
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
        """Return the numbers in a column, (n_rows,), with nan for empty fields.

        Sizes such as ``64k`` are converted to bytes.

        Raises:
            TableError: a field is not a finite number, or is not above 0 although ``positive`` is set.
        """
        values, hint = np.full(len(self.rows), math.nan), "leave it empty if it was not measured"
        for index, text in self._filled_fields(column):
            value = _number(text)
            value = size_in_bytes(text) if value is None else value
            if value is None or not math.isfinite(value):
                raise self._wrong(index, column, f"{text!r} is not a finite number", hint)
            if positive and value <= 0:
                raise self._wrong(index, column, f"{text} has no logarithm", f"leave {column} out of --log2")
            values[index] = value
        return values

    def _filled_fields(self, column: str) -> Iterator[tuple[int, str]]:
        return ((index, row[column]) for index, row in enumerate(self.rows) if row[column])

    def where(self, column: str, text: str) -> Table:
        """Return a table of the rows with a given text in a column; numbers are compared as numbers."""
        if column not in self.columns:
            raise TableError(f"{self.name} has no column {column!r}", allowed(column, self.columns))
        number = _number(text)
        matching = [
            (self._place(index), row)
            for index, row in enumerate(self.rows)
            if row[column] == text or (number is not None and _number(row[column]) == number)
        ]
        if not matching:
            texts = dict.fromkeys(row[column] for row in self.rows)
            raise TableError(f"{self.name} has no row with {column}={text}", allowed(text, list(texts)[:20]))
        places, rows = zip(*matching, strict=True)
        return Table(self.name, self.columns, rows, places)

    def factor(self, column: str) -> Column:
        """Return a column as a factor.

        Raises:
            TableError: a level is missing or infinite, there is only one level, or there are three or more
                levels and some of them are not numbers.
        """
        texts = self.filled(column, "level")
        levels = list(dict.fromkeys(texts))
        if ordered := (numbers := _numbers(levels)) is not None:
            codes = numbers
        elif len(levels) > 2:
            raise self._too_many(column, texts, levels)
        else:
            words = sorted(levels, key=lambda text: (text.lower() not in _LOW_WORDS, text))
            codes = {text: float(rank) for rank, text in enumerate(words)}
        for text in levels:
            if not math.isfinite(codes[text]):
                raise self._wrong(texts.index(text), column, f"{text} is not finite")
        first, last = min(levels, key=codes.__getitem__), max(levels, key=codes.__getitem__)
        low, high = codes[first], codes[last]
        if low == high:
            problem = f"{self.name}, column {column}: all {len(texts)} rows have {levels[0]!r}"
            raise TableError(problem, "a factor needs two levels")
        return Column(
            Factor(column, _value(first), _value(last)),
            np.array([2 * (codes[text] - low) / (high - low) - 1 for text in texts]),
            len(set(codes.values())),
            (low, high) if ordered else None,
        )

    def _wrong(self, index: int, column: str, problem: str, hint: str = "") -> TableError:
        return TableError(f"{self.name}, row {self._place(index)}, column {column}: {problem}", hint)

    def _place(self, index: int) -> int:
        """Return the line number in the file of the row with this index."""
        return self.places[index] if self.places else index + 2

    def _too_many(self, column: str, texts: list[str], levels: list[str]) -> TableError:
        """Return the error for a column with three or more levels, some of which are words."""
        words = [text for text in levels if size_in_bytes(text) is None and _number(text) is None]
        if len(words) == 1 or len(words) < len(levels) / 2:
            return self._wrong(texts.index(words[0]), column, f"{words[0]!r} is not a number like the others")
        few = ", ".join(levels[:4]) + (", …" if len(levels) > 4 else "")
        third = f"{levels[2]!r} in row {self._place(texts.index(levels[2]))} is the third"
        problem = f"{self.name}, column {column}: {len(levels)} levels ({few}) that are not numbers; {third}"
        return TableError(problem, "a factor of words has two levels")


def _design(table: Table, factors: Sequence[str], block: str | None) -> ScreeningDesign:
    """Return a table as a two-level design.

    If at least two factors have a third level, and have this level in exactly the same rows, these rows are
    centre points.
    """
    columns = [table.factor(name) for name in factors]
    codes = np.array([column.codes for column in columns]).T
    between = np.abs(codes[:, [column.n_levels > 2 for column in columns]]) < 1 - 1e-9
    centre, three = np.all(between, axis=1), all(column.n_levels <= 3 for column in columns)
    if between.shape[1] < 2 or not three or not np.array_equal(centre, np.any(between, axis=1)):
        centre[:] = False
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
    """Return all levels as numbers, or all as sizes in bytes (``64k``); None if neither is possible."""
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
