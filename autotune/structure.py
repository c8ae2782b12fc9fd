"""Plain dictionaries → frozen dataclasses, checked; and dataclasses → what JSON has words for.

Every mistake is one message that names the full key. Types are those of the fields: numbers, text, truth
values, enumerations, nested dataclasses, ``Mapping``, ``tuple`` and unions of them. A class with a
constructor ``of`` is made by it. A field can go by another name in documents: ``metadata={"key": "from"}``.
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


@dataclass(frozen=True, slots=True)
class Document:
    """A kind of document, and its errors."""

    name: str  # What messages call it, e.g. ``the scenario``.
    error: Callable[[str, str], AutotuneError] = UserError  # Makes what is raised out of message and hint.
    own: bool = False
    """Whether we wrote it, with ``plain``: keys are the names of the fields, and null is a number that was
    not finite."""
    infinite: bool = False  # Whether numbers may be infinite: nothing then limits what they stand for.
    newer: bool = False  # Whether unknown keys are passed over: a later version may have added them.

    def structured(self, kind: type[T], values: Any, where: str = "") -> T:
        """The dataclass in a mapping; ``where`` is the key that the mapping stands under.

        Raises:
            AutotuneError: ``error``, for an unknown or missing key, a value of the wrong type, or one that
                the dataclass itself refuses.
        """
        if not isinstance(values, Mapping):
            raise self.error(f"{where or self.name} = {values!r}", "expected a mapping of keys")
        known, required = _fields(kind, self.own)  # type: ignore[arg-type] # mypy: a type[T] is unhashable
        if not self.newer and (unknown := [key for key in values if key not in known]):
            raise self.error(f"unknown key {_join(where, unknown[0])!r}", allowed(unknown[0], known))
        if not required <= values.keys():
            missing = [repr(_join(where, key)) for key in known if key in required - values.keys()]
            raise self.error(f"{self.name} lacks {', '.join(missing)}", "it must be given")
        checked = {}
        for key, field in known.items():
            if key in values:
                value, hint = values[key], field.hint
                if type(value) is hint and field.taken and (self.own or hint is not float):
                    checked[field.name] = value
                elif type(value) is str and (named := field.members.get(value)) is not None:
                    checked[field.name] = named
                else:
                    checked[field.name] = self._value(hint, value, _join(where, key))
        try:
            return kind(**checked)
        except ValueError as exc:
            if not where:
                raise
            raise self.error(f"{where}: {exc}", "") from exc

    def _value(self, hint: Any, value: Any, where: str) -> Any:
        while hasattr(hint, "__value__"):  # an alias by a type statement, as NumPy's NDArray from 2.5 on
            hint = hint.__value__
        origin = get_origin(hint) or hint
        if hint is Any or (type(value) is origin and (origin in (int, bool, str) or is_dataclass(origin))):
            return value
        if origin in (Union, UnionType):
            options = [option for option in get_args(hint) if option is not NoneType]
            if value is None and len(options) < len(get_args(hint)):
                return None
            return self._value(next((o for o in options if type(value) is o), options[0]), value, where)
        if origin is tuple:
            items, kinds = value if isinstance(value, list | tuple) else [value], get_args(hint)
            if kinds[-1] is not Ellipsis:  # of so many
                if len(items) != len(kinds):
                    raise self.error(f"{where} = {value!r}", f"expected {len(kinds)} values")
                return tuple(self._value(kind, item, where) for kind, item in zip(kinds, items, strict=True))
            inner = kinds[0]
            if (
                isinstance(inner, type) and is_dataclass(inner) and not hasattr(inner, "of")
            ):  # a journal has many cells
                return tuple(
                    item
                    if type(item) is inner
                    else self.structured(inner, {} if item is None else item, where)
                    for item in items
                )
            return tuple(self._value(inner, item, where) for item in items)
        if origin is Mapping:
            if value == {}:
                return {}
            if not isinstance(value, Mapping | NoneType):
                raise self.error(f"{where} = {value!r}", "expected a mapping of keys")
            inner = get_args(hint)[1]
            return {str(k): self._value(inner, v, _join(where, k)) for k, v in (value or {}).items()}
        if ismethod(make := getattr(hint, "of", None)):
            try:
                return make(value)
            except (AttributeError, TypeError, ValueError) as exc:
                raise self.error(f"{where} = {value!r}", f"expected what makes a {hint.__name__}") from exc
        if is_dataclass(hint) and isinstance(hint, type):
            return self.structured(hint, {} if value is None else value, where)
        return self._scalar(origin, value, where)

    def _scalar(self, kind: type, value: Any, where: str) -> Any:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if kind is float and value is None and self.own:
            return math.nan
        if kind is float and (number or isinstance(value, str)):
            with suppress(ValueError, OverflowError):
                given = float(value)  # YAML 1.1 takes 1e-6 for text
                if self.own or math.isfinite(given) or (self.infinite and not math.isnan(given)):
                    return given
        elif kind is str and number:
            return str(value)
        elif issubclass(kind, Enum):
            try:
                return kind(value)
            except ValueError as exc:
                names = [member.value for member in kind]
                raise self.error(f"{where} = {value!r}", allowed(value, names)) from exc
        elif isinstance(value, kind) and not (isinstance(value, bool) and kind is not bool):
            return value
        raise self.error(f"{where} = {value!r}", f"expected {_WORDS.get(kind, kind.__name__)}")


def parsed(text: str, name: str, raised: type[AutotuneError] = TableError, hint: str = "") -> Any:
    """The JSON value in a text, whose numbers are finite.

    Raises:
        AutotuneError: ``raised``: it is none, is nested too deeply, or has a number that is not finite, which
            JSON has no words for.
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
    """The JSON object in a file's text, one of these formats.

    Raises:
        TableError: it is none; the hint says what makes one.
    """
    document = parsed(text, name)
    if not isinstance(document, dict) or document.get("format") not in tuple(formats):
        raise TableError(f"{name} is no {kind}", f"make one: {made_by}")
    return document


def finite(value: float) -> float | None:
    """The number, or None, JSON's null, in place of NaN and infinity, for which JSON has no words."""
    return value if math.isfinite(value) else None


def plain(item: Any, leave_out: type | tuple[type, ...] = ()) -> Any:
    """Dataclasses and collections as dictionaries, lists and scalars, with null for what is not finite.

    Types that travel by other ways are left out: null is in their place.
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
    taken: bool  # Whether a value of just this type is taken as it is.


@cache
def _fields(kind: type, by_name: bool) -> tuple[Mapping[str, _Field], frozenset[str]]:
    """Key → field with its type resolved, which is slow, and a journal has many cells; keys that must be."""
    hints = get_type_hints(kind)
    keys = {f.name if by_name else f.metadata.get("key", f.name): f for f in fields(kind)}
    known = {
        key: _Field(
            f.name,
            hints[f.name],
            {m.value: m for m in hints[f.name]} if isinstance(hints[f.name], type(Enum)) else {},
            hints[f.name] in _WORDS or is_dataclass(hints[f.name]),
        )
        for key, f in keys.items()
    }
    must = (key for key, f in keys.items() if f.default is MISSING and f.default_factory is MISSING)
    return known, frozenset(must)


def _join(where: str, key: object) -> str:
    return f"{where}.{key}" if where else str(key)
