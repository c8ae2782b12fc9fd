"""Read fields from the name of a log by a template such as `bcast_{algorithm}_{ranks}.out`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Self

from autotune.collectives import called
from autotune.errors import TableError, UserError
from autotune.history.benchmark_row import BenchmarkRow
from autotune.space import size_in_bytes
from autotune.tables.importers.delimited import meaning

_FIELD = re.compile(r"\{(\w+)\}")
_SHAPES = {"comm_size": r"\d+", "message_bytes": r"\d+[kKmMgG]?[bB]?"}
_OF_A_RECORD = ("comm_size", "message_bytes", "collective")


@dataclass(frozen=True, slots=True)
class NamePattern:
    """A template of file names, compiled to a regular expression."""

    text: str
    expression: re.Pattern[str]
    """Regular expression for the end of a path, with as many path components as the template has."""

    @classmethod
    def of(cls, text: str) -> Self:
        """Compile a template.

        Raises:
            UserError: The template has no field, an unmatched brace, a field that occurs twice, or a field
                that is not a word.
        """
        fields = _FIELD.findall(text)
        literal = _FIELD.sub("", text)
        if not fields or "{" in literal or "}" in literal or len(set(fields)) < len(fields):
            raise UserError(
                f"--from-name {text} does not say what the names hold",
                "fields are words in braces, each once: --from-name 'bcast_{algorithm}_{ranks}.out'",
            )
        if invalid := [name for name in fields if not name.isidentifier()]:
            raise UserError(f"--from-name: {{{invalid[0]}}} begins with a digit", "a field is a word")
        parts = _FIELD.split(text)
        words = [
            f"(?P<{part}>{_SHAPES.get(meaning(part), '[^/]+?')})" if i % 2 else re.escape(part)
            for i, part in enumerate(parts)
        ]
        return cls(text, re.compile("".join(words)))

    def fields(self, path: str) -> Mapping[str, str] | None:
        """Return the fields in a path by their names; None if the path does not fit the template."""
        depth = self.text.count("/") + 1
        match = self.expression.fullmatch("/".join(PurePath(path).parts[-depth:]))
        return match.groupdict() if match else None

    def completed(self, record: BenchmarkRow) -> BenchmarkRow:
        """Return a record to which the fields in its file's name are added, as values or as labels.

        Raises:
            TableError: The name does not fit the template, or contradicts the contents of the file.
        """
        name_fields = self.fields(record.source)
        if name_fields is None:
            raise TableError(f"{record.source} does not fit --from-name {self.text}")
        changes: dict[str, object] = {}
        labels = dict(record.labels)
        for name, text in name_fields.items():
            if (kind := meaning(name)) not in _OF_A_RECORD:
                labels[name] = text
                continue
            value = _value(kind, text)
            recorded = getattr(record, kind)
            if recorded not in (None, "", value) and not (kind == "message_bytes" and recorded == 0):
                raise TableError(
                    f"{record.source}:{record.line}: {name} is {recorded} in the file and {text} in its name",
                    "rename the file, or give another template",
                )
            changes[kind] = value
        return replace(record, **changes, labels=tuple(labels.items()))  # type: ignore[arg-type]  # BenchmarkRow checks the values


def _value(kind: str, text: str) -> int | str:
    if kind == "collective":
        return called(text) or text.lower()
    return int(size_in_bytes(text) or 0)
