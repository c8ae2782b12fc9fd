"""Find how a machine differs from its state saved by ``guard keep``, and what breaks the tuned settings."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autotune.guard.facts import FOLDERS, Facts, VariableDescription

_PREFIX = "OMPI_MCA_"
_NO_KNOBS = ("_version", "_configure_params")
"""Suffixes of MCA parameters that only describe a component and cannot be set."""
_NAMED = 3  # Maximum number of changed variables that one line names; the others are only counted.


@dataclass(frozen=True, slots=True)
class Change:
    """One difference between the saved state of a machine and its current state."""

    text: str  # The difference in words.
    breaks: bool = False  # Whether the difference keeps a value of the tuned settings from taking effect.
    names: tuple[str, ...] = ()  # All names that ``text`` mentions or counts, for the JSON report.

    @classmethod
    def of(cls, title: str, names: Sequence[str]) -> "Change":
        """Return a change that concerns several names: its text lists some of them and counts the rest."""
        further = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        return cls(f"{title}: {', '.join(names[:_NAMED])}{further}", names=tuple(names))


def changes(
    reference: Facts, current: Facts, settings: Mapping[str, str], files: Collection[str] = ()
) -> tuple[Change, ...]:
    """Return all differences between the state saved by ``guard keep`` and the current state of a machine.

    ``settings`` maps each variable that the tuned settings set to its value; ``files`` are the paths of the
    files that set these variables.
    """
    return (
        *_pairs(reference.stack, current.stack),
        *_pairs(reference.offers, current.offers, words=True),
        *_pairs(reference.machine, current.machine),
        *_files(reference, current, files),
        *_environment(reference.environment, current.environment),
        *_variables(reference, current, {n.removeprefix(_PREFIX): value for n, value in settings.items()}),
    )


def _pairs(old: Mapping[str, str], new: Mapping[str, str], words: bool = False) -> Iterator[Change]:
    for name in dict.fromkeys((*old, *new)):
        old_value, new_value = old.get(name, ""), new.get(name, "")
        if old_value and new_value and (words or "built with" in name):
            old_words, new_words = set(old_value.split()), set(new_value.split())
            if removed := sorted(old_words - new_words):
                yield Change.of(f"{name}: no longer there", removed)
            if added := sorted(new_words - old_words):
                yield Change.of(f"{name}: new", added)
        elif old_value != new_value:
            yield Change(f"{name}: {old_value or 'not there'} → {new_value or 'not there any more'}")


def _files(reference: Facts, current: Facts, settings_files: Collection[str]) -> Iterator[Change]:
    """Yield the files whose contents changed.

    Libraries are matched by name, because a new version has a different path. All other files are matched by
    path.
    """
    old_libraries, new_libraries = (
        {Path(path).name.partition(".so")[0]: value for path, value in files.items() if ".so" in path}
        for files in (reference.files, current.files)
    )
    common = sorted(old_libraries.keys() & new_libraries.keys())
    if changed := [name for name in common if old_libraries[name] != new_libraries[name]]:
        yield Change.of("other contents", changed)
    for path, value in current.files.items():
        old_value, known = (
            reference.files.get(path, ""),
            path in reference.files or path in current.parameters,
        )
        if ".so" not in path and old_value != value and known:
            change = "is gone" if not value else "was edited" if old_value else "is new"
            yield Change(f"{path} {change}", path in settings_files)
    for path in reference.parameters:
        if reference.files.get(path) and path not in current.files:
            yield Change(f"{path} is not read any more")


def _environment(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[Change]:
    """Yield the changes of environment variables; values are shown only for variables in ``FOLDERS``."""
    changed = [name for name in dict.fromkeys((*old, *new)) if old.get(name) != new.get(name)]
    for name in (name for name in changed if name in FOLDERS):
        yield Change(f"{name}: {old.get(name, 'not set')} → {new.get(name, 'not set')}")
    variables = [name for name in changed if name not in FOLDERS]
    for title, names in (
        ("new", [name for name in variables if name not in old]),
        ("no longer set", [name for name in variables if name not in new]),
        ("of another value", [name for name in variables if name in old and name in new]),
    ):
        if names:
            yield Change.of(f"environment: {title}", names)


def _variables(reference: Facts, current: Facts, settings: Mapping[str, str]) -> Iterator[Change]:
    """Yield the changes in the variables that each layer (MPI, UCX, …) declares.

    Each variable that the tuned settings set gets a change of its own. The other variables of a layer share
    three changes: variables with another default, variables that were removed, and new variables.
    """
    for layer in reference.variables.keys() & current.variables.keys():
        old, new = reference.variables[layer], current.variables[layer]
        for name in sorted(settings.keys() & old.keys()):
            if name not in new and not any(name in variable.others for variable in new.values()):
                renamed = _renamed(name, old, new)
                also = f"; {renamed} is" if renamed else ""
                yield Change(f"{name} is no longer known to {layer}{also}", True)
            elif name in new:
                yield from _set_variable(name, settings[name], old[name], new[name])
        unset = [n for n in sorted(old.keys() & new.keys()) if n not in settings]
        changed = (n for n in unset if _has_other_default(old[n], new[n]) and not n.endswith(_NO_KNOBS))
        if defaults := [f"{n}={old[n].default} → {new[n].default}" for n in changed]:
            yield Change.of(f"{layer}: other defaults", defaults)
        if removed := sorted(old.keys() - new.keys() - settings.keys()):
            yield Change.of(f"{layer}: no longer there", removed)
        if added := sorted(new.keys() - old.keys()):
            yield Change.of(f"{layer}: new", added)


def _set_variable(
    name: str, value: str, old: VariableDescription, new: VariableDescription
) -> Iterator[Change]:
    """Yield the changes in the declaration of a variable that the settings set and that still exists."""
    if lost_words := [word for word in old.allowed if new.allowed and word not in new.allowed]:
        words = {part.strip().lower() for part in value.split(",")}
        breaks = any(word.lower() in words for word in lost_words)
        yield Change(f"{name} lost {', '.join(lost_words)}", breaks)
    if old.kind != new.kind:
        yield Change(f"{name} was {old.kind}, and is {new.kind}")
    if new.deprecated and not old.deprecated:
        yield Change(f"{name} is deprecated now" + (f": see {', '.join(new.others)}" if new.others else ""))
    if _has_other_default(old, new):
        yield Change(f"{name}: its default was {old.default or '(none)'}, and is {new.default or '(none)'}")


def _has_other_default(old: VariableDescription, new: VariableDescription) -> bool:
    """Return whether the default of a variable changed; False if the old or the new one is unknown."""
    return bool(old.default and new.default) and old.default != new.default


def _renamed(
    name: str, old: Mapping[str, VariableDescription], new: Mapping[str, VariableDescription]
) -> str:
    """Return the new name of a removed variable: the only new one with its documentation; otherwise empty."""
    added = new.keys() - old.keys()
    candidates = [n for n in added if old[name].about and new[n].about == old[name].about]
    return candidates[0] if len(candidates) == 1 else ""
