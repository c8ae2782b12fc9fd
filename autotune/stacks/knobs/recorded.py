"""Read variables of libraries that need not be installed here, as recorded on other machines.

``stacks/recorded.toml`` lists the names of the variables by the type of their values, and enumerations by
their allowed words. If the library is installed, its own listing takes precedence over this file.
"""

from collections.abc import Iterator, Mapping
from functools import cache

from autotune.resources import facts
from autotune.stacks.knobs.knob import Knob, KnobKind


@cache
def recorded() -> Mapping[str, Knob]:
    """Return every recorded variable by name."""
    table = facts("stacks/recorded")
    return {knob.name: knob for layer, record in table.items() for knob in _knobs(layer, record)}


def _knobs(layer: str, record: Mapping[str, str | Mapping[str, str]]) -> Iterator[Knob]:
    version, prefix = str(record["version"]), str(record["prefix"])
    for kind in KnobKind:
        names_by_words = record.get(kind, "")
        for words, names in (
            names_by_words if isinstance(names_by_words, Mapping) else {"": names_by_words}
        ).items():
            for name in names.split():
                allowed = tuple(words.split())
                yield Knob(layer, version, prefix + name, kind, "", allowed=allowed, component="recorded")
