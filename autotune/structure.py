"""Convert plain dictionaries to frozen dataclasses, with checks, and dataclasses to values for JSON.

A mistake in a dictionary raises one error whose message names the full key. The types are those of the
dataclass's fields: numbers, text, truth values, enumerations, nested dataclasses, ``Mapping``, ``tuple`` and
unions of these. If a class has a constructor ``of``, the value is passed to it. With
``metadata={"key": "from"}`` a field has the name ``from`` in documents.
"""

import json
import math
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from inspect import ismethod
from types import NoneType, UnionType
from typing import Any, Never, TypeVar, Union, get_args, get_origin, get_type_hints

from autotune.errors import AutotuneError, TableError, UserError, allowed

T = TypeVar("T")

_WORDS = {int: "a whole number", float: "a number that is finite", bool: "true or false", str: "text"}
"""Maps the type of a scalar to its description in messages."""


@dataclass(frozen=True, slots=True)
class Document:
    """Describes a kind of document that is converted to a dataclass, and the error that a mistake raises."""

    name: str  # Name of the document in messages, e.g. ``the scenario``.
    error: Callable[[str, str], AutotuneError] = UserError  # Makes the error from a message and a hint.
    own: bool = False
    """Whether this program wrote the document with ``plain``.

    In such a document keys are the names of fields, and null means a number that was not finite."""
    infinite: bool = False  # Whether numbers may be infinite, which means "no limit".
    newer: bool = False  # Whether unknown keys are ignored, since a later version may have added them.

    def structured(self, kind: type[T], values: Any, key_path: str = "") -> T:
        """Return the dataclass whose fields have the values of a mapping.

        Args:
            kind: The dataclass.
            values: The mapping.
            key_path: Key of the mapping in the document, for messages; empty: it is the whole document.

        Raises:
            AutotuneError: a key is unknown or missing, or a value is of the wrong type or refused by the
                dataclass itself. The class of the error is that of ``self.error``.
        """
        if not isinstance(values, Mapping):
            raise self.error(f"{key_path or self.name} = {values!r}", "expected a mapping of keys")
        fields_by_key, required = _fields(kind, self.own)  # type: ignore[arg-type] # mypy: a type[T] is unhashable
        if not self.newer and (unknown := [key for key in values if key not in fields_by_key]):
            raise self.error(
                f"unknown key {_join(key_path, unknown[0])!r}", allowed(unknown[0], fields_by_key)
            )
        if not required <= values.keys():
            missing = [repr(_join(key_path, key)) for key in fields_by_key if key in required - values.keys()]
            raise self.error(f"{self.name} lacks {', '.join(missing)}", "it must be given")
        checked = {}
        for key, field in fields_by_key.items():
            if key in values:
                value, hint = values[key], field.hint
                if type(value) is hint and field.exact and (self.own or hint is not float):
                    checked[field.name] = value
                elif type(value) is str and (member := field.members.get(value)) is not None:
                    checked[field.name] = member
                else:
                    checked[field.name] = self._value(hint, value, _join(key_path, key))
        try:
            return kind(**checked)
        except ValueError as exc:
            if not key_path:
                raise
            raise self.error(f"{key_path}: {exc}", "") from exc

    def _value(self, hint: Any, value: Any, key_path: str) -> Any:
        while hasattr(hint, "__value__"):  # a type alias made by ``type``, as NumPy's NDArray is from 2.5 on
            hint = hint.__value__
        origin = get_origin(hint) or hint
        if hint is Any or (type(value) is origin and (origin in (int, bool, str) or is_dataclass(origin))):
            return value
        if origin in (Union, UnionType):
            options = [option for option in get_args(hint) if option is not NoneType]
            if value is None and len(options) < len(get_args(hint)):
                return None
            return self._value(next((o for o in options if type(value) is o), options[0]), value, key_path)
        if origin is tuple:
            items, kinds = value if isinstance(value, list | tuple) else [value], get_args(hint)
            if kinds[-1] is not Ellipsis:  # the type is a tuple of fixed length
                if len(items) != len(kinds):
                    raise self.error(f"{key_path} = {value!r}", f"expected {len(kinds)} values")
                return tuple(
                    self._value(kind, item, key_path) for kind, item in zip(kinds, items, strict=True)
                )
            inner = kinds[0]
            # A shortcut for speed, since a campaign's journal has many entries.
            if isinstance(inner, type) and is_dataclass(inner) and not hasattr(inner, "of"):
                return tuple(
                    item
                    if type(item) is inner
                    else self.structured(inner, {} if item is None else item, key_path)
                    for item in items
                )
            return tuple(self._value(inner, item, key_path) for item in items)
        if origin is Mapping:
            if value == {}:
                return {}
            if not isinstance(value, Mapping | NoneType):
                raise self.error(f"{key_path} = {value!r}", "expected a mapping of keys")
            kind, inner = get_args(hint)
            return {
                str(k) if kind is str else k: self._value(inner, v, _join(key_path, k))
                for k, v in (value or {}).items()
            }
        if ismethod(make := getattr(hint, "of", None)):
            try:
                return make(value)
            except (AttributeError, TypeError, ValueError) as exc:
                raise self.error(f"{key_path} = {value!r}", f"expected what makes a {hint.__name__}") from exc
        if is_dataclass(hint) and isinstance(hint, type):
            return self.structured(hint, {} if value is None else value, key_path)
        return self._scalar(origin, value, key_path)

    def _scalar(self, kind: type, value: Any, key_path: str) -> Any:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if kind is float and value is None and self.own:
            return math.nan
        if kind is float and (number or isinstance(value, str)):
            with suppress(ValueError, OverflowError):
                parsed_number = float(value)  # YAML 1.1 reads 1e-6 as text
                unlimited = self.infinite and not math.isnan(parsed_number)
                if self.own or unlimited or math.isfinite(parsed_number):
                    return parsed_number
        elif kind is str and number:
            return str(value)
        elif issubclass(kind, Enum):
            try:
                return kind(value)
            except ValueError as exc:
                names = [member.value for member in kind]
                raise self.error(f"{key_path} = {value!r}", allowed(value, names)) from exc
        elif isinstance(value, kind) and not (isinstance(value, bool) and kind is not bool):
            return value
        raise self.error(f"{key_path} = {value!r}", f"expected {_WORDS.get(kind, kind.__name__)}")


def parsed(text: str, name: str, raised: type[AutotuneError] = TableError, hint: str = "") -> Any:
    """Return the JSON value in a text, whose numbers must be finite.

    Args:
        text: The text.
        name: Name of the text in messages.
        raised: Class of the error.
        hint: Hint of the error.

    Raises:
        AutotuneError: the text is no JSON, is nested too deeply, or has a number that is not finite, which
            JSON cannot express. The class of the error is ``raised``.
    """
    try:
        return json.loads(text, parse_float=_finite_number, parse_constant=_no_number)
    except RecursionError as exc:
        raise raised(f"{name}: not JSON: nested too deeply", hint) from exc
    except ValueError as exc:
        raise raised(f"{name}: not JSON: {exc}", hint) from exc


def _finite_number(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text} is larger than any number")
    return number


def _no_number(text: str) -> Never:
    raise ValueError(f"{text} is no number")


def document_in(text: str, name: str, formats: Collection[str], kind: str, made_by: str) -> dict[str, Any]:
    """Return the JSON object in a file's text, whose key ``format`` must be one of ``formats``.

    Args:
        text: Content of the file.
        name: Name of the file in messages.
        formats: Names of the formats that are accepted.
        kind: Description of such files, for the message.
        made_by: Command that makes such a file, for the hint.

    Raises:
        TableError: the text is no JSON object with one of these formats.
    """
    document = parsed(text, name)
    if not isinstance(document, dict) or document.get("format") not in tuple(formats):
        raise TableError(f"{name} is no {kind}", f"make one: {made_by}")
    return document


def finite(value: float) -> float | None:
    """Return a number, or None (null in JSON) for NaN and infinity, which JSON cannot express."""
    return value if math.isfinite(value) else None


def plain(item: Any, leave_out: type | tuple[type, ...] = ()) -> Any:
    """Return a dataclass or a collection as dictionaries, lists and scalars; non-finite numbers become None.

    Values of the types in ``leave_out`` are replaced by None: the caller writes them to another file.
    """
    if isinstance(item, float):
        return finite(item)
    if isinstance(item, leave_out):
        return None
    if isinstance(item, Mapping):
        return {str(key): plain(value, leave_out) for key, value in item.items()}
    if isinstance(item, list | tuple):
        return [plain(value, leave_out) for value in item]
    if is_dataclass(item) and not isinstance(item, type):
        return {f.name: plain(getattr(item, f.name), leave_out) for f in fields(item)}
    return item


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    hint: Any
    members: Mapping[str, Enum]
    exact: bool  # Whether a value of exactly the field's type needs no further check.


@cache
def _fields(kind: type, by_name: bool) -> tuple[Mapping[str, _Field], frozenset[str]]:
    """Return the fields of a dataclass by key, with resolved types, and the keys of fields without a default.

    The result is cached, since resolving types is slow and a campaign's journal has many entries.
    """
    hints = get_type_hints(kind)
    keys = {f.name if by_name else f.metadata.get("key", f.name): f for f in fields(kind)}
    fields_by_key = {
        key: _Field(
            f.name,
            hints[f.name],
            {m.value: m for m in hints[f.name]} if isinstance(hints[f.name], type(Enum)) else {},
            hints[f.name] in _WORDS or is_dataclass(hints[f.name]),
        )
        for key, f in keys.items()
    }
    must = (key for key, f in keys.items() if f.default is MISSING and f.default_factory is MISSING)
    return fields_by_key, frozenset(must)


def _join(parent: str, key: object) -> str:
    return f"{parent}.{key}" if parent else str(key)
