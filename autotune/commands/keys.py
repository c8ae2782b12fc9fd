"""The keys of a scenario, as ``conf/config.yaml`` and the groups beside it list and explain them."""

import re
from typing import Any

import yaml

from autotune.resources import conf_text, folder
from autotune.scenario import defaults

_SECTION = re.compile(r"^(?:  - )?([a-z_]+):.*?(?: # (.*))?$", re.MULTILINE)
"""A section or a group of ``config.yaml``, with what the comment in its line says."""


def explained() -> list[tuple[str, str]]:
    """Every section with its comment, and with the options of its group or else the keys in it."""
    comments = dict(_SECTION.findall(conf_text("config")))
    options = groups()
    inside = {name: ", ".join(options.get(name) or keys_of(name)) for name in keys_of("")}
    return [(n, f"{comments[n]} ({words})" if words else comments[n]) for n, words in inside.items()]


def quoted(value: object) -> str:
    """A path or other text as one value of Hydra's; backslashes count before quotes and ``${`` alone."""
    text = re.sub(r"(\\*)('|$)", lambda found: 2 * found[1] + ("\\'" if found[2] else ""), str(value))
    text = re.sub(r"(\\*)\$\{", lambda found: 2 * found[1] + r"\${", text)
    return f"'{text}'"


def keys_of(section: str) -> list[str]:
    """The keys that a section (``objective.latency``; empty: the whole) has."""
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
    """The groups, each with its options."""
    return {
        path.name: sorted(option.stem for option in path.glob("*.yaml"))
        for path in sorted(folder("conf").iterdir())
        if path.is_dir()
    }
