"""Fields in the name of a log: `bcast_{algorithm}_{ranks}.out`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Self

from autotune.collectives import called
from autotune.errors import TableError, UserError
from autotune.importers.benchmark_row import BenchmarkRow
from autotune.importers.delimited import meaning

_FIELD = re.compile(r"\{(\w+)\}")
_KILO = {"": 0, "k": 10, "m": 20, "g": 30}
_SHAPES = {"comm_size": r"\d+", "message_bytes": r"\d+[kKmMgG]?[bB]?"}
_OF_A_RECORD = ("comm_size", "message_bytes", "collective")


@dataclass(frozen=True, slots=True)
class NamePattern:
    """A template of names as a regular expression."""

    text: str  # As the user wrote it.
    expression: re.Pattern[str]  # Matches the last parts of a path, as many as the template has.

    @classmethod
    def of(cls, text: str) -> Self:
        """The pattern of a template.

        Raises:
            UserError: no field, one that is named twice or is no word, or a brace that stands alone.
        """
        fields = _FIELD.findall(text)
        rest = _FIELD.sub("", text)
        if not fields or "{" in rest or "}" in rest or len(set(fields)) < len(fields):
            raise UserError(
                f"--from-name {text} does not say what the names hold",
                "fields are words in braces, each once: --from-name 'bcast_{algorithm}_{ranks}.out'",
            )
        if bad := [name for name in fields if not name.isidentifier()]:
            raise UserError(f"--from-name: {{{bad[0]}}} begins with a digit", "a field is a word")
        parts = _FIELD.split(text)
        words = [
            f"(?P<{part}>{_SHAPES.get(meaning(part), '[^/]+?')})" if i % 2 else re.escape(part)
            for i, part in enumerate(parts)
        ]
        return cls(text, re.compile("".join(words)))

    def fields(self, path: str) -> Mapping[str, str] | None:
        """Fields of a path, None where the template does not fit."""
        depth = self.text.count("/") + 1
        found = self.expression.fullmatch("/".join(PurePath(path).parts[-depth:]))
        return found.groupdict() if found else None

    def completed(self, records: list[BenchmarkRow]) -> list[BenchmarkRow]:
        """Records with what the names of their files say.

        Raises:
            TableError: a name that does not fit, or that contradicts its file.
        """
        return [self._completed(record) for record in records]

    def _completed(self, record: BenchmarkRow) -> BenchmarkRow:
        said = self.fields(record.source)
        if said is None:
            raise TableError(f"{record.source} does not fit --from-name {self.text}")
        changes: dict[str, object] = {}
        labels = dict(record.labels)
        for name, text in said.items():
            if (kind := meaning(name)) not in _OF_A_RECORD:
                labels[name] = text
                continue
            value = _value(kind, text)
            known = getattr(record, kind)
            if known not in (None, "", value) and not (kind == "message_bytes" and known == 0):
                raise TableError(
                    f"{record.source}:{record.line}: {name} is {known} in the file and {text} in its name",
                    "rename the file, or give another template",
                )
            changes[kind] = value
        return replace(record, **changes, labels=tuple(labels.items()))  # type: ignore[arg-type]  # checked there


def _value(kind: str, text: str) -> int | str:
    if kind == "collective":
        return called(text) or text.lower()
    digits, unit = re.fullmatch(r"(\d+)([a-z]?)b?", text.lower()).groups()  # type: ignore[union-attr]  # of _SHAPES
    unit = "" if unit == "b" else unit
    return int(digits) << _KILO[unit]
