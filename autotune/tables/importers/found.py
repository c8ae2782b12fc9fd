"""Collect the records that are read from a report, and the reasons why others are left out."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from autotune.collectives import called
from autotune.errors import TableError
from autotune.history.benchmark_row import BenchmarkRow
from autotune.tables.importers.runlog import Log, measurement
from autotune.text_table import named_in

_MANY = 3  # Number of left-out records that an error names; further ones are only counted.


@dataclass(slots=True)
class RowsFound:
    """The records that were read from one document, and the reasons why others were left out."""

    log: Log  # The document.
    records: list[BenchmarkRow] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)  # A sentence for each record that was left out.
    line: int = 0
    """Number of the line that is being read; 0 for a JSON document, in which records are numbered."""

    def add(self, labels: Mapping[str, object], **fields: object) -> None:
        """Add a record; labels are left out if their value is empty, or no text, number or boolean."""
        texts = tuple((name, _word(value)) for name, value in labels.items() if is_word(value))
        line = self.line or len(self.records) + 1
        self.records.append(measurement(self.log, line, **fields, labels=texts))

    def whole(self) -> list[BenchmarkRow]:
        """Return all records, or raise an error if any record of the document was left out.

        Raises:
            TableError: A record was left out.
        """
        if self.left_out:
            reasons = "; ".join(reason.removeprefix(f"{self.log.name}: ") for reason in self.left_out[:_MANY])
            further = f"; and {len(self.left_out) - _MANY} more" if len(self.left_out) > _MANY else ""
            hint = "import reports of which every test was measured"
            raise TableError(f"{self.log.name}: {reasons}{further}", hint)
        return self.records

    def leave_out(self, reason: str) -> None:
        """Add the reason why a record was left out."""
        self.left_out.append(f"{self.log.name}{f':{self.line}' if self.line else ''}: {reason}")


def collective_in(*texts: str) -> str:
    """Return the first collective that is named in these texts, in their order; empty if none is named."""
    return next((name for text in texts if (name := called(text) or named_in(text))), "")


def amount(log: Log, title: str, value: object, unit: float) -> float:
    """Return a value as a number in this project's unit.

    Args:
        log: The log, whose name is in messages.
        title: Name of the value in messages.
        value: The value as it was read.
        unit: Factor from the value's unit to this project's unit.

    Raises:
        TableError: The value is no number.
    """
    try:
        return float(value) * unit  # type: ignore[arg-type]  # a value that is no number raises
    except (TypeError, ValueError):
        raise TableError(f"{log.name}: {title} is {value!r}", "it must be a number") from None


def is_word(value: object) -> bool:
    """Return whether a value can be a label: a number, a boolean or a text that is not empty."""
    return isinstance(value, str | int | float) and value != ""


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
