"""List and explain the keys of a scenario, as ``conf/config.yaml`` and the option groups do.

An option group is a folder beside ``config.yaml``. Each file in the folder is an option, which sets values of
one section.
"""

import re
from typing import Any

import yaml

from autotune.resources import conf_text, folder
from autotune.scenario import defaults

_SECTION = re.compile(r"^(?:  - )?([a-z_]+):.*?(?: # (.*))?$", re.MULTILINE)
"""Matches a line of ``config.yaml`` that begins a section or names an option group, with its comment."""


def explained() -> list[tuple[str, str]]:
    """Return (name, text) of each section of a scenario.

    The text is the section's comment in ``config.yaml``, followed by its options or its keys.
    """
    comments = dict(_SECTION.findall(conf_text("config")))
    options = groups()
    inside = {name: ", ".join(options.get(name) or keys_of(name)) for name in keys_of("")}
    return [
        (name, f"{comments[name]} ({names})" if names else comments[name]) for name, names in inside.items()
    ]


def quoted(value: object) -> str:
    """Return a path or other text as one quoted value in Hydra's grammar.

    In this grammar a backslash escapes nothing but a quote, ``${`` or the end of the text, so backslashes are
    doubled only before one of these.
    """
    text = re.sub(r"(\\*)('|$)", lambda match: 2 * match[1] + ("\\'" if match[2] else ""), str(value))
    text = re.sub(r"(\\*)\$\{", lambda match: 2 * match[1] + r"\${", text)
    return f"'{text}'"


def keys_of(section: str) -> list[str]:
    """Return the keys of a section such as ``objective.latency``; an empty name means the whole scenario.

    The list is empty if the section has no keys.
    """
    options = groups()
    node: Any = {**dict.fromkeys(options), **defaults()}
    del node["hydra"]
    for name in filter(None, section.split(".")):
        option = name in options and conf_text(f"{name}/{options[name][-1]}")
        node = node.get(name) or (option and yaml.safe_load(option))
        options = {}
        if not isinstance(node, dict):
            return []
    return list(node)


def groups() -> dict[str, list[str]]:
    """Return the names of the options in every group, such as those of all scenarios for ``conf``."""
    return {
        path.name: sorted(option.stem for option in path.glob("*.yaml"))
        for path in sorted(folder("conf").iterdir())
        if path.is_dir()
    }
