"""Variables of libraries that need not be here, as these declared them where they were asked.

``stacks/recorded.toml`` has the names by kind, and by the words of an enumeration. A listing of a library
that is installed goes before it.
"""

from collections.abc import Iterator, Mapping
from functools import cache

from autotune.resources import facts
from autotune.stacks.knobs.knob import Knob, KnobKind


@cache
def recorded() -> Mapping[str, Knob]:
    """Every variable of the record by name."""
    table = facts("stacks/recorded")
    return {knob.name: knob for layer, its in table.items() for knob in _knobs(layer, its)}


def _knobs(layer: str, its: Mapping[str, str | Mapping[str, str]]) -> Iterator[Knob]:
    version, prefix = str(its["version"]), str(its["prefix"])
    for kind in KnobKind:
        said = its.get(kind, "")
        for words, names in (said if isinstance(said, Mapping) else {"": said}).items():
            for name in names.split():
                allowed = tuple(words.split())
                yield Knob(layer, version, prefix + name, kind, "", allowed=allowed, component="recorded")
