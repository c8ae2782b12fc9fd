"""Shared by readers of reports: records that come in one by one, and records left out."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from autotune.collectives import called
from autotune.errors import TableError
from autotune.importers.benchmark_row import BenchmarkRow
from autotune.importers.runlog import Log, measurement
from autotune.importers.table import named_in

_MANY = 3  # Records left out that a refusal names; the rest are counted.


@dataclass(slots=True)
class RowsFound:
    """Records read from one document."""

    log: Log
    records: list[BenchmarkRow] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    line: int = 0  # That is being read; 0: of a document, whose records are numbered.

    def add(self, labels: Mapping[str, object], **fields: object) -> None:
        """Take a record; what is no number, word or truth of the labels is dropped."""
        words = tuple((name, _word(value)) for name, value in labels.items() if is_word(value))
        number = self.line or len(self.records) + 1
        self.records.append(measurement(self.log, number, **fields, labels=words))

    def whole(self) -> list[BenchmarkRow]:
        """The records, where nothing was left out.

        Raises:
            TableError: something was.
        """
        if self.left_out:
            some = "; ".join(why.removeprefix(f"{self.log.name}: ") for why in self.left_out[:_MANY])
            more = f"; and {len(self.left_out) - _MANY} more" if len(self.left_out) > _MANY else ""
            hint = "--complete takes the others and says what it left out"
            raise TableError(f"{self.log.name}: {some}{more}", hint)
        return self.records

    def leave_out(self, what: str) -> None:
        """Name what was not measured."""
        self.left_out.append(f"{self.log.name}{f':{self.line}' if self.line else ''}: {what}")


def collective_in(*texts: str) -> str:
    """The first collective that one of these texts names; empty where none does."""
    return next((name for text in texts if (name := called(text) or named_in(text))), "")


def amount(log: Log, title: str, value: object, unit: float) -> float:
    """A value in this project's unit.

    Raises:
        TableError: it is no number.
    """
    try:
        return float(value) * unit  # type: ignore[arg-type]  # what is no number raises
    except (TypeError, ValueError):
        raise TableError(f"{log.name}: {title} is {value!r}", "it must be a number") from None


def is_word(value: object) -> bool:
    """Whether a value can be a label."""
    return isinstance(value, str | int | float) and value != ""


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
