"""List and explain the keys of a scenario, as ``conf/config.yaml`` and the option groups do.

An option group is a folder beside ``config.yaml``. Each file in the folder is an option, which sets values of
one section.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import yaml

from autotune.resources import conf_text, folder
from autotune.scenario import CHOICES, PATHS, defaults
from autotune.space.joined import DISCOVER

LAUNCHERS = "hydra_plugins.autotune"
"""Package of this project's launchers; a module whose name begins with an underscore is not a launcher."""

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


def launchers() -> list[str]:
    """Return the names of this project's launchers, which ``hydra/launcher=NAME`` chooses."""
    places = import_module(LAUNCHERS).__path__
    return [module.name for module in iter_modules(places) if not module.name.startswith("_")]


def known_values() -> Mapping[str, Collection[str]]:
    """Return the values of each key of a scenario whose values have names."""
    spaces = [*(path.stem for path in sorted(folder("search_spaces").glob("*.yaml"))), DISCOVER]
    return {**groups(), "hydra/launcher": launchers(), "space": spaces, **CHOICES}


def completed(words: Iterable[str], incomplete: str) -> list[str]:
    """Return what a word of a command line, which a user has begun, may become.

    Bash makes separate words of a key, the sign ``=`` and a value, and replaces the last one alone; other
    shells keep them together.

    Args:
        words: The words before, without options.
        incomplete: The word that was begun; it is empty after ``KEY=``, and between words.
    """
    before = re.sub(r" ?= ?", "=", " ".join(words)).split()[-1:]
    split = before and (before[0].endswith("=") or ("=" not in before[0] and not incomplete))
    key, equals, value = (before[0].rstrip("="), "=", incomplete) if split else incomplete.partition("=")
    values = known_values()
    if not equals:
        keys = [name for name in values if name.startswith(key)]
        if len(keys) != 1:
            return [f"{name}=" for name in keys]
        (key,) = keys
    fitting = [name for name in values.get(key, ()) if name.startswith(value)]
    if key in PATHS and not split:  # bash itself completes paths behind the sign
        above = value[: value.rfind("/") + 1]
        with suppress(OSError):
            places = (f"{above}{path.name}" for path in Path(above or ".").iterdir())
            fitting += sorted(place for place in places if place.startswith(value))
    return fitting if split else [f"{key}={name}" for name in fitting]


def groups() -> dict[str, list[str]]:
    """Return the names of the options in every group, such as those of all scenarios for ``conf``."""
    return {
        path.name: sorted(option.stem for option in path.glob("*.yaml"))
        for path in sorted(folder("conf").iterdir())
        if path.is_dir()
    }
