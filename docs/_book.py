"""What the book's site shows beyond its pages: tables out of the program (a hook of MkDocs).

Pages are read in a plain view of the repository too, where links may lead out of ``docs/``; the site has no
such files, so there a link becomes its words.
"""

import dataclasses
import re
import types
import typing
from pathlib import Path
from typing import Any

from autotune.commands.keys import explained
from autotune.resources import conf_text
from autotune.scenario import Scenario

_OUTSIDE = re.compile(r"\[([^\]]+)\]\(((?:\.\./)+[^)#]+)[^)]*\)")
_DOCS = Path(__file__).parent


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """A page as the site shows it."""
    markdown = markdown.replace("<!-- keys of a scenario -->", key_table())
    place = (_DOCS / page.file.src_uri).parent

    def told(link: re.Match[str]) -> str:
        inside = (place / link[2]).resolve().is_relative_to(_DOCS)
        return link[0] if inside else link[1]

    return _OUTSIDE.sub(told, markdown)


def key_table() -> str:
    """Every key of a scenario with its type, from the dataclasses, and its meaning, from ``config.yaml``."""
    meanings, comments = dict(explained()), key_comments()
    rows = ["| key | type | meaning, and what is in it |", "|---|---|---|"]
    types_of = typing.get_type_hints(Scenario)
    for field in dataclasses.fields(Scenario):
        kind, meaning = types_of[field.name], _cell(meanings.get(field.name, ""))
        if dataclasses.is_dataclass(kind):
            rows.append(f"| **`{field.name}`** | | {meaning} |")
            inner = typing.get_type_hints(kind)
            for its in dataclasses.fields(kind):
                key = its.metadata.get("key", its.name)
                said = _cell(comments.get(f"{field.name}.{key}", ""))
                rows.append(f"| `{field.name}.{key}` | {_type(inner[its.name])} | {said} |")
        elif field.name != "name":
            rows.append(f"| **`{field.name}`** | {_type(kind)} | {meaning} |")
    return "\n".join(rows)


def key_comments() -> dict[str, str]:
    """What stands behind the keys inside of sections, in ``config.yaml`` and in the groups' own files."""
    found, section = {}, ""
    for line in conf_text("config").splitlines():
        if top := re.match(r"(\w+):", line):
            section = top[1]
        elif told := re.match(r"  (\w+): .*?\s# (.+)", line):
            found[f"{section}.{told[1]}"] = told[2]
    for group in ("budget", "probe"):
        for told in re.finditer(r"(?m)^(\w+): .*?\s# (.+)$", conf_text(f"{group}/standard")):
            found[f"{group}.{told[1]}"] = told[2]
    return found


def _type(kind: Any) -> str:
    """A type in words."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        return " or ".join("null" if one is type(None) else _type(one) for one in arguments)
    if origin is tuple:
        return f"list of {_type(arguments[0])}"
    if origin is not None and not isinstance(origin, type):
        return str(kind)
    if origin is not None:
        return "mapping"
    words = {int: "integer", float: "number", str: "text", bool: "true or false"}
    return words.get(kind, getattr(kind, "__name__", str(kind)))


def _cell(text: str) -> str:
    return text.replace("|", r"\|").replace("<", "&lt;")
