"""Make a ``Space`` from the text of ``search_spaces/*.yaml``, and such a text from a space.

Place in the data flow: step 2. The grammar is in ``docs/search_spaces.md``. These functions take text and do
not read files; ``resources`` finds the files.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

import yaml

from autotune.errors import SpaceError, allowed
from autotune.space.parameter import Level, Parameter, Value, check_words, names_in
from autotune.space.space import Space
from autotune.structure import Document

SPACE_KEYS = ("name", "stack", "description", "parameters")
"""Keys of a search space's file."""
_NOT_KEYS = ("name", "held_from", "strong")
PARAMETER_KEYS = tuple(f.name for f in fields(Parameter) if f.name not in _NOT_KEYS)
"""Keys of a parameter in such a file."""
VARIABLE_KEYS = ("env", "mca", "cvar")
"""Keys of ``apply`` that map names of variables to values."""
APPLY_KEYS = (*VARIABLE_KEYS, "map_by", "bind_to")
"""All keys of ``apply``."""
_PAIRED = ("when", "value_requires", "collectives")
"""Fields with a mapping, which a journal contains as a list of pairs."""
_JOURNAL = Document("the space", SpaceError, own=True, newer=True)
_HOLE = re.compile(r"\{[^{}]*\}")  # Field of a template; the values that replace it are checked later.


class _Loader(yaml.SafeLoader):
    """YAML loader that refuses aliases: a few lines with aliases can expand to more than the memory."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Return the next node of the document.

        Raises:
            YAMLError: the node is an alias.
        """
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases (*) are not read")
        return super().compose_node(parent, index)


def read_yaml(text: str) -> Any:
    """Return the content of a user's YAML text as scalars, lists and mappings.

    Raises:
        ValueError: the text is not YAML; the message says why.
    """
    try:
        return yaml.load(text, _Loader)  # noqa: S506 - the loader is a safe one
    except (yaml.YAMLError, ValueError, TypeError) as exc:
        raise ValueError(str(exc)) from exc
    except RecursionError as exc:
        raise ValueError("it is nested too deeply") from exc


def load_space(text: str, name: str) -> Space:
    """Return the space that a YAML text declares.

    Args:
        text: The text.
        name: Name of the space for messages, which is usually the name of the file.

    Raises:
        SpaceError: the text is not YAML, a key is unknown, or a parameter is wrong; the message says which
            one.
    """
    try:
        document = read_yaml(text)
    except ValueError as exc:
        raise SpaceError(f"space {name!r} is no YAML: {exc}") from exc
    if not isinstance(document, Mapping):
        raise SpaceError(f"space {name!r} must be a mapping", f"with the keys {', '.join(SPACE_KEYS)}")
    _check_keys(document, SPACE_KEYS, f"space {name!r}")
    declared = document.get("parameters")
    if not isinstance(declared, Mapping) or not declared:
        raise SpaceError(f"space {name!r} declares no parameters", "parameters: {NAME: {values: [...]}}")
    parameters = tuple(_parameter(str(n), d, name, [*map(str, declared)]) for n, d in declared.items())
    return Space(name, parameters, stack=str(document.get("stack", "openmpi")))


def space_document(space: Space) -> dict[str, Any]:
    """Return a space as values that JSON can represent; ``space_of`` converts them back to an equal space."""
    return {
        "name": space.name,
        "stack": space.stack,
        "parameters": [_pairs(asdict(parameter)) for parameter in space.parameters],
        "dropped": [asdict(dropped) for dropped in space.dropped],
        "listed": None if space.listed is None else [dict(point) for point in space.listed],
    }


def space_of(document: Mapping[str, Any]) -> Space:
    """Return the space that ``space_document`` converted into a document.

    Raises:
        SpaceError: an entry of a damaged document has a wrong type or value.
        TypeError: a parameter in a damaged document is not a mapping.
    """
    parameters = [{**one, **{key: dict(one[key]) for key in _PAIRED}} for one in document["parameters"]]
    return _JOURNAL.structured(Space, {**document, "parameters": parameters})


def _pairs(parameter: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a parameter for JSON; ``strong`` and ``always`` are left out if they are not set.

    Mappings become lists of pairs, because JSON would turn keys that are numbers into texts.
    """
    return {
        k: list(v.items()) if k in _PAIRED else v
        for k, v in parameter.items()
        if k not in ("strong", "always") or v
    }


def _parameter(name: str, declared: Any, space: str, names: Collection[str]) -> Parameter:
    place = f"space {space!r}, parameter {name!r}"
    if not isinstance(declared, Mapping):
        raise SpaceError(f"{place} must be a mapping", f"with the keys {', '.join(PARAMETER_KEYS)}")
    _check_keys(declared, PARAMETER_KEYS, place)
    for key in ("collectives", "when", "value_requires"):
        if not isinstance(declared.get(key, {}), Mapping):
            raise SpaceError(f"{place}: {key} must be a mapping", "of names to lists")
    collectives = {
        str(k): _scalars(v, f"{place}: collectives") for k, v in declared.get("collectives", {}).items()
    }
    union = list(dict.fromkeys(v for listed in collectives.values() for v in listed))
    values = _scalars(declared.get("values", union), f"{place}: values")
    if not values:
        raise SpaceError(f"{place} has no values", "values: a list, or collectives with a list for each")
    level = declared.get("level", Level.LAUNCH.value)
    if level not in list(Level):
        raise SpaceError(f"{place}: level {level!r}", allowed(level, list(Level)))
    apply = declared.get("apply", {})
    if not isinstance(apply, Mapping):
        raise SpaceError(f"{place}: apply must be a mapping", allowed("", (*APPLY_KEYS, *values)))
    by_value = any(key in values for key in apply)
    for key, target in apply.items():
        if by_value and key not in values:
            raise SpaceError(f"{place}: apply has {key!r}, which is none of its values", allowed(key, values))
        if by_value and not isinstance(target, Mapping):
            raise SpaceError(f"{place}: apply.{key} must be a mapping", allowed("", APPLY_KEYS))
        for kind, words in target.items() if by_value else ((key, target),):
            _check_target(kind, words, {*names, "value", "collective", "COLLECTIVE"}, place)
    for value in values:
        check_words("a parameter", name, str(value))
    return Parameter(
        name=name,
        values=values,
        default=declared.get("default", values[0]),
        level=Level(level),
        per_size=_flag(declared, "per_size", place),
        ordered=_flag(declared, "ordered", place),
        when={str(k): _accepted(v, f"{place}: when") for k, v in declared.get("when", {}).items()},
        always=_tokens(declared.get("always", ()), place),
        apply=dict(apply),
        requires=_tokens(declared.get("requires", ()), place),
        value_requires={k: _tokens(v, place) for k, v in declared.get("value_requires", {}).items()},
        collectives=collectives,
        description=str(declared.get("description", "")),
    )


def _check_target(kind: str, words: Any, fields: Collection[str], place: str) -> None:
    """Raise an error if a target of ``apply`` is of an unknown kind, or has invalid names or words."""
    if kind not in APPLY_KEYS:
        raise SpaceError(f"{place}: cannot apply by {kind!r}", allowed(kind, APPLY_KEYS))
    if isinstance(words, Mapping) != (kind in VARIABLE_KEYS):
        expected = "NAME: VALUE" if kind in VARIABLE_KEYS else "text"
        raise SpaceError(f"{place}: apply.{kind} = {words!r}", f"expected {expected}")
    for pair in words.items() if isinstance(words, Mapping) else ((kind, words),):
        for template in map(str, pair):
            try:
                names_in(template, fields)
            except SpaceError as exc:
                raise SpaceError(f"{place}: {exc.message}", exc.hint) from exc
        check_words(kind, *(_HOLE.sub("x", str(part)) for part in pair))


def _check_keys(document: Mapping[Any, Any], keys: tuple[str, ...], place: str) -> None:
    for key in document:
        if key not in keys:
            raise SpaceError(f"{place} has an unknown key {key!r}", allowed(key, keys))


def _flag(declared: Mapping[str, Any], key: str, place: str) -> bool:
    value = declared.get(key, False)
    if not isinstance(value, bool):
        raise SpaceError(f"{place}: {key} = {value!r}", "allowed: true, false")
    return value


def _tokens(listed: Any, place: str) -> tuple[str, ...]:
    if not isinstance(listed, str | list | tuple):
        raise SpaceError(f"{place} requires {listed!r}", "allowed: a word, or a list of words")
    return (listed,) if isinstance(listed, str) else tuple(str(token) for token in listed)


def _accepted(listed: Any, place: str) -> tuple[Value | None, ...]:
    items = listed if isinstance(listed, list) else [listed]
    return (*_scalars([v for v in items if v is not None], place), *([None] if None in items else []))


def _scalars(listed: Any, place: str) -> tuple[Value, ...]:
    items = listed if isinstance(listed, list) else [listed]
    for item in items:
        if not isinstance(item, str | int | float | bool):
            raise SpaceError(
                f"{place} holds {item!r}", "allowed: text, numbers, true, false (quote 'on'/'off')"
            )
    return tuple(items)


def space_text_of(space: Space, above: Sequence[str], parameter_comments: Mapping[str, Sequence[str]]) -> str:
    """Return the text of a YAML file that declares a space, in the form that ``load_space`` reads.

    Args:
        space: The space.
        above: Lines of a comment at the top of the file.
        parameter_comments: Maps the name of a parameter to the lines of a comment before its declaration.
    """
    head = yaml.safe_dump({"stack": space.stack, "description": above[0] if above else space.name})
    parts = [*(f"# {line}" for line in above), head.rstrip(), "", "parameters:"]
    for parameter in space.parameters:
        parts += [f"  # {line}" for line in parameter_comments.get(parameter.name, ())]
        text = yaml.safe_dump({parameter.name: _declaration(parameter)}, sort_keys=False, width=110)
        parts += [f"  {line}" for line in text.splitlines()]
    return "\n".join(parts) + "\n"


def _declaration(parameter: Parameter) -> dict[str, Any]:
    declared: dict[str, Any] = {"description": parameter.description} if parameter.description else {}
    if parameter.level is not Level.LAUNCH:
        declared["level"] = parameter.level.value
    for key in ("per_size", "ordered"):
        if getattr(parameter, key):
            declared[key] = True
    if parameter.collectives:
        declared["collectives"] = {name: list(values) for name, values in parameter.collectives.items()}
    else:
        declared["values"] = list(parameter.values)
    declared["default"] = parameter.default
    if parameter.when:
        declared["when"] = {name: list(accepted) for name, accepted in parameter.when.items()}
    if parameter.always:
        declared["always"] = list(parameter.always)
    if parameter.apply:
        declared["apply"] = _plainly(parameter.apply)
    return declared


def _plainly(item: object) -> Any:
    return {k: _plainly(v) for k, v in item.items()} if isinstance(item, Mapping) else item
