"""The keys of a scenario, as ``conf/config.yaml`` and the groups beside it list and explain them."""

import re
from typing import Any

import yaml

from autotune.resources import folder

_SECTION = re.compile(r"^(?:  - )?([a-z_]+):.*?(?: # (.*))?$", re.MULTILINE)
"""A section or a group of ``config.yaml``, with what the comment in its line says."""


def explained() -> list[tuple[str, str]]:
    """Every section with its comment, and with the options of its group or else the keys in it."""
    document, groups = _document(), _groups()
    comments = dict(_SECTION.findall(folder("conf").joinpath("config.yaml").read_text()))
    rows = []
    for name in [*groups, *(name for name in document if name not in groups)]:
        inside = ", ".join(groups.get(name) or keys_of(name))
        rows.append((name, f"{comments[name]} ({inside})" if inside else comments[name]))
    return rows


def keys_of(section: str) -> list[str]:
    """The keys that a section (``objective.latency``; empty: the whole) has, and the groups."""
    node: Any = _document()
    groups = _groups()
    for name in filter(None, section.split(".")):
        if name in groups and not node.get(name):
            node = yaml.safe_load((folder("conf") / name / f"{groups[name][-1]}.yaml").read_text())
        else:
            node = node.get(name)
        groups = {}
        if not isinstance(node, dict):
            return []
    return [*groups, *(key for key in node if key not in groups)]


def _document() -> dict[str, Any]:
    """What ``config.yaml`` says of a scenario; the rest of it is Hydra's."""
    document = yaml.safe_load(folder("conf").joinpath("config.yaml").read_text())
    return {name: value for name, value in document.items() if name not in ("defaults", "hydra")}


def _groups() -> dict[str, list[str]]:
    """The groups, each with its options."""
    return {
        path.name: sorted(option.stem for option in path.glob("*.yaml"))
        for path in sorted(folder("conf").iterdir())
        if path.is_dir()
    }
