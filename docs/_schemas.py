"""JSON Schemas of a scenario and of a search space, for editors; ``python docs/_schemas.py`` writes them.

They follow from the dataclasses, the tables of allowed values and the comments of ``conf/config.yaml``. What
takes more than one key to judge is left to the program.
"""

import dataclasses
import json
import types
import typing
from collections.abc import Collection, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import yaml
from _book import key_comments

from autotune.collectives import MEASURED
from autotune.commands.keys import explained, groups
from autotune.measure.location import Estimator
from autotune.proposers import PROPOSERS
from autotune.resources import folder
from autotune.scenario import CHOICES, POSITIVE, RANGES, Scenario
from autotune.scenario.whole_site import SETTINGS, Wishes
from autotune.space.loader import APPLY_KEYS, PARAMETER_KEYS, SPACE_KEYS, VARIABLE_KEYS
from autotune.space.parameter import Parameter

PLACE = Path(__file__).parent / "schemas"
_BLANK = r"^\?\?\?$|\$\{"  # What Hydra fills in: a value that must be given, an interpolation.
_NUMBER = r"^[-+]?[0-9.]+([eE][-+]?[0-9]+)?$"  # YAML 1.1 reads 1e-6 as text.
_SIZE = r"^\s*[0-9]+(\.[0-9]+)?\s*[kmgtKMGT]?[iI]?[bB]?(\.\.\S+)?\s*$"  # 64k, 8..1M*4
_SCALAR = {"type": ["string", "number", "boolean"]}
_WORDS = ("collective", "pattern", "objectives", "export", "require")
"""Lists that one text may hold, by commas."""


@dataclasses.dataclass(frozen=True)
class _Types:
    """Turns types of dataclasses into schemas, with what is known of each key."""

    blank: str = ""  # Pattern of a text that may replace any value; empty: there is none.
    choices: Mapping[str, Collection[str]] = dataclasses.field(default_factory=dict)
    ranges: Mapping[str, Mapping[str, float]] = dataclasses.field(default_factory=dict)
    said: Mapping[str, str] = dataclasses.field(default_factory=dict)
    open: Collection[str] = ()  # Keys that may be null, whatever their type says.

    def of(self, kind: Any, key: str = "") -> dict[str, Any]:
        """Return the schema of a type at a key such as ``budget.launches``."""
        schema = self._of(kind, key)
        if key in self.open:
            schema = _or_null(schema)
        return {**schema, **({"description": self.said[key]} if self.said.get(key) else {})}

    def mapping(self, kind: type, key: str = "", names: Collection[str] = ()) -> dict[str, Any]:
        """Return the schema of a mapping whose keys are the fields of a dataclass, or ``names`` of them."""
        hints, fields = typing.get_type_hints(kind), dataclasses.fields(kind)
        keys = {field.metadata.get("key", field.name): hints[field.name] for field in fields}
        inner = {
            k: self.of(its, f"{key}.{k}".lstrip(".")) for k, its in keys.items() if not names or k in names
        }
        return {"type": "object", "properties": inner, "additionalProperties": False}

    def _of(self, kind: Any, key: str) -> dict[str, Any]:
        origin, arguments = typing.get_origin(kind), typing.get_args(kind)
        if origin in (types.UnionType, typing.Union):
            inner = [self._of(one, key) for one in arguments if one is not types.NoneType]
            schema = inner[0] if len(inner) == 1 else _SCALAR
            return _or_null(schema) if types.NoneType in arguments else schema
        if origin is tuple:
            one = self._of(arguments[0], key)
            commas = [{"type": "string", "pattern": ","}] if key in _WORDS else []
            return {"anyOf": [one, {"type": "array", "items": one}, *commas]}
        if origin is not None:
            inner = {} if arguments[1] in (Any, object) else self._of(arguments[1], key)
            return self._filled({"type": ["object"], **({"additionalProperties": inner} if inner else {})})
        if dataclasses.is_dataclass(kind):
            return self.mapping(kind, key)
        if key in self.choices or issubclass(kind, Enum):
            words = self.choices.get(key) or [member.value for member in kind]
            listed = {"enum": [*words]}
            return {"anyOf": [listed, {"type": "string", "pattern": self.blank}]} if self.blank else listed
        names = {int: ["integer"], float: ["number"], bool: ["boolean"], str: ["string", "number"]}[kind]
        schema = self._filled({"type": names}, _NUMBER if kind is float else "")
        return {**schema, **self.ranges.get(key, {})}

    def _filled(self, schema: dict[str, Any], pattern: str = "") -> dict[str, Any]:
        patterns = [text for text in (self.blank, pattern if self.blank else "") if text]
        if not patterns or "string" in schema["type"]:
            return schema
        return {**schema, "type": [*schema["type"], "string"], "pattern": "|".join(patterns)}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    if "null" in schema.get("type", ()) or {"type": "null"} in schema.get("anyOf", ()):
        return schema
    if "anyOf" in schema:
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    if isinstance(schema.get("type"), list):
        return {**schema, "type": [*schema["type"], "null"]}
    return {"anyOf": [schema, {"type": "null"}]}


def scenario_schema() -> dict[str, Any]:
    """Return the schema of a file in ``conf/conf/``."""
    comments = {**key_comments(), **dict(explained())}
    positive = {f"{section}.{name}" for section, names in POSITIVE.items() for name in names}
    of = _Types(
        blank=_BLANK,
        choices={
            **CHOICES,
            "probe.estimator": [*Estimator],
            "proposer.name": [*PROPOSERS],
            "site.collectives": MEASURED,
            "site.setting": SETTINGS,
        },
        ranges={
            **{key: {"exclusiveMinimum": 0} for key in positive},
            **{key: {"minimum": 0, **({"maximum": 1} if high == 1 else {})} for key, high in RANGES.items()},
        },
        said=comments,
        open={*_nulls()},
    )  # fmt: skip
    size = {"type": ["integer", "string"], "minimum": 0, "pattern": f"{_BLANK}|{_SIZE}"}
    schema = of.mapping(Scenario)
    properties = schema["properties"]
    del properties["name"]  # that of the file
    sizes = {"anyOf": [size, {"type": "array", "items": size}, {"type": "null"}]}
    properties["sizes"] = {**sizes, "description": comments["sizes"]}
    properties["pattern"] = of.of(tuple[str, ...], "pattern")
    site = of.mapping(Wishes, "site")
    del site["properties"]["sizes"]  # that of the scenario
    beside = {
        "defaults": {"type": "array", "description": f"files that this one builds on: {', '.join(groups())}"},
        "site": {**site, "description": "a whole site: docs/site.md"},
        "calls": {"type": "string", "description": "a recording of an application: docs/applications.md"},
        "anyway": {"type": "boolean", "description": "tune also where little can be won"},
        "hydra": {
            "type": "object",
            "properties": {"launcher": {"type": "object"}, "mode": {"enum": ["RUN", "MULTIRUN"]}},
        },
    }
    return _headed("A scenario of autotune, docs/scenario.md", schema, beside)


def space_schema() -> dict[str, Any]:
    """Return the schema of a file in ``search_spaces/``."""
    parameter = _Types().mapping(Parameter, names=PARAMETER_KEYS)
    variables = {"type": "object", "additionalProperties": _SCALAR}
    target = {
        "type": "object",
        "properties": {key: variables if key in VARIABLE_KEYS else {"type": "string"} for key in APPLY_KEYS},
        "additionalProperties": False,
    }
    by_value = {"type": "object", "additionalProperties": {"$ref": "#/$defs/target"}}
    parameter["properties"]["apply"] = {"anyOf": [{"$ref": "#/$defs/target"}, by_value]}
    parameter["anyOf"] = [{"required": ["values"]}, {"required": ["collectives"]}]
    listed = {"type": "object", "additionalProperties": {"$ref": "#/$defs/parameter"}, "minProperties": 1}
    properties = {key: listed if key == "parameters" else {"type": "string"} for key in SPACE_KEYS}
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    schema |= {"required": ["parameters"], "$defs": {"target": target, "parameter": parameter}}
    return _headed("A search space of autotune, docs/search_spaces.md", schema)


def texts() -> Iterator[tuple[Path, str]]:
    """Yield the path and the text of each of these schemas."""
    for name, schema in (("scenario", scenario_schema()), ("space", space_schema())):
        yield PLACE / f"{name}.schema.json", json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def _headed(title: str, schema: dict[str, Any], beside: Mapping[str, Any] | None = None) -> dict[str, Any]:
    properties = {**(beside or {}), **schema["properties"]}
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title}
    return {**head, **schema, "properties": properties}


def _nulls() -> Iterator[str]:
    """Yield the keys that the defaults or a shipped scenario leave open for the program to fill in."""
    for path in (folder("conf") / "config.yaml", *sorted((folder("conf") / "conf").glob("*.yaml"))):
        yield from _null_keys(yaml.safe_load(path.read_text(encoding="utf-8")))


def _null_keys(node: Mapping[str, Any], above: str = "") -> Iterator[str]:
    for key, value in node.items():
        if isinstance(value, Mapping):
            yield from _null_keys(value, f"{above}{key}.")
        elif value is None:
            yield f"{above}{key}"


if __name__ == "__main__":
    for path, text in texts():
        path.write_text(text, encoding="utf-8")
