"""Differences of a machine from the day it was kept, and their meaning for the settings, in words."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autotune.guard.facts import FOLDERS, Facts, Said

_PREFIX = "OMPI_MCA_"
_NO_KNOBS = ("_version", "_configure_params")
"""Ends of names of MCA parameters that describe a component."""
_NAMED = 3
"""Changed variables that nobody set: so many are named in a line, the rest are counted there."""


@dataclass(frozen=True, slots=True)
class Change:
    """One difference."""

    text: str
    """In words."""
    breaks: bool = False
    """Whether a value of the settings cannot be in effect any more."""
    names: tuple[str, ...] = ()
    """All that the text counts, for programs."""

    @classmethod
    def of(cls, what: str, names: Sequence[str]) -> "Change":
        """Several of a kind: the first ones are named, the rest counted."""
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        return cls(f"{what}: {', '.join(names[:_NAMED])}{more}", names=tuple(names))


def changes(
    kept: Facts, now: Facts, settings: Mapping[str, str], files: Collection[str] = ()
) -> tuple[Change, ...]:
    """Everything that differs; ``settings`` are the variables that are set, ``files`` say so."""
    return (
        *_pairs(kept.stack, now.stack),
        *(_pairs(kept.offers, now.offers, words=True) if kept.offers else ()),
        *_pairs(kept.machine, now.machine),
        *_files(kept, now, files),
        *(_environment(kept.environment, now.environment) if kept.environment else ()),
        *_variables(kept, now, {name.removeprefix(_PREFIX): value for name, value in settings.items()}),
    )


def _pairs(old: Mapping[str, str], new: Mapping[str, str], words: bool = False) -> Iterator[Change]:
    for name in dict.fromkeys((*old, *new)):
        before, after = old.get(name, ""), new.get(name, "")
        if before and after and (words or "built with" in name):
            were, are = set(before.split()), set(after.split())
            for what, said in (("no longer there", were - are), ("new", are - were)):
                if said:
                    yield Change.of(f"{name}: {what}", sorted(said))
        elif before != after:
            yield Change(f"{name}: {before or 'not there'} → {after or 'not there any more'}")


def _files(kept: Facts, now: Facts, ours: Collection[str]) -> Iterator[Change]:
    """Libraries by their names, for a new version lies elsewhere; other files by their paths."""

    def libraries(of: Facts) -> dict[str, str]:
        return {
            Path(path).name.partition(".so")[0]: value for path, value in of.files.items() if ".so" in path
        }

    old, new = libraries(kept), libraries(now)
    if differ := sorted(name for name in old.keys() & new.keys() if old[name] != new[name]):
        yield Change.of("other contents", differ)
    for path, value in now.files.items():
        before = kept.files.get(path, "")
        if ".so" not in path and before != value and (path in kept.files or path in now.parameters):
            became = "is gone" if not value else "was edited" if before else "is new"
            yield Change(f"{path} {became}", path in ours)
    for path in kept.parameters:
        if kept.files.get(path) and path not in now.files:
            yield Change(f"{path} is not read any more")


def _environment(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[Change]:
    """Variables by their names alone, folders as they are."""
    differ = [name for name in dict.fromkeys((*old, *new)) if old.get(name) != new.get(name)]
    for name in (name for name in differ if name in FOLDERS):
        yield Change(f"{name}: {old.get(name, 'not set')} → {new.get(name, 'not set')}")
    variables = [name for name in differ if name not in FOLDERS]
    for what, names in (
        ("new", [name for name in variables if name not in old]),
        ("no longer set", [name for name in variables if name not in new]),
        ("of another value", [name for name in variables if name in old and name in new]),
    ):
        if names:
            yield Change.of(f"environment: {what}", names)


def _variables(kept: Facts, now: Facts, settings: Mapping[str, str]) -> Iterator[Change]:
    """Variables that a layer describes otherwise than before; those that are set are named one by one."""
    for layer in kept.variables.keys() & now.variables.keys():
        old, new = kept.variables[layer], now.variables[layer]
        for name in sorted(settings.keys() & old.keys()):
            if name not in new and name not in _names(new):
                renamed = _renamed(name, old, new)
                yield Change(
                    f"{name} is no longer known to {layer}{f'; {renamed} is' if renamed else ''}", True
                )
            elif name in new:
                yield from _one(name, settings[name], old[name], new[name])
        others = [n for n in sorted(old.keys() & new.keys()) if n not in settings]
        changed = (n for n in others if _otherwise(old[n], new[n]) and not n.endswith(_NO_KNOBS))
        if defaults := [f"{n}={old[n].default} → {new[n].default}" for n in changed]:
            yield Change.of(f"{layer}: other defaults", defaults)
        if gone := sorted(old.keys() - new.keys() - settings.keys()):
            yield Change.of(f"{layer}: no longer there", gone)
        if fresh := sorted(new.keys() - old.keys()):
            yield Change.of(f"{layer}: new", fresh)


def _one(name: str, value: str, old: Said, new: Said) -> Iterator[Change]:
    """Changes of a variable that is set and still there."""
    if lost := [word for word in old.allowed if new.allowed and word not in new.allowed]:
        words = {part.strip().lower() for part in value.split(",")}
        yield Change(f"{name} lost {', '.join(lost)}", any(word.lower() in words for word in lost))
    if old.kind != new.kind:
        yield Change(f"{name} was {old.kind}, and is {new.kind}")
    if new.deprecated and not old.deprecated:
        yield Change(f"{name} is deprecated now" + (f": see {', '.join(new.others)}" if new.others else ""))
    if _otherwise(old, new):
        yield Change(f"{name}: its default was {old.default or '(none)'}, and is {new.default or '(none)'}")


def _otherwise(old: Said, new: Said) -> bool:
    """Whether a default is another one, as far as both are known."""
    return bool(old.default and new.default) and old.default != new.default


def _names(variables: Mapping[str, Said]) -> set[str]:
    """Other names by which they go."""
    return {other for said in variables.values() for other in said.others}


def _renamed(name: str, old: Mapping[str, Said], new: Mapping[str, Said]) -> str:
    """The one new variable of which the library says the very same; empty: there is none."""
    about = old[name].about
    same = [other for other in new.keys() - old.keys() if about and new[other].about == about]
    return same[0] if len(same) == 1 else ""
