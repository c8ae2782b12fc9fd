"""Define the interface of plugins by which ``lint`` checks files and variables of further libraries."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from pathlib import PurePath

from autotune.errors import UserError
from autotune.lint.assignment import Assignment
from autotune.lint.finding import Finding
from autotune.resources.plugins import offers, plugged
from autotune.stacks.asked import Answer, Asked

GROUP = "autotune.lint"
"""Group of the plugins' entry points. The name of an entry point is a kind of file, and the entry point
refers to a subclass of ``Traps``."""


class Traps:
    """Finds settings that one library would ignore or misread; a plugin overrides these methods."""

    prefixes: tuple[str, ...] = ()
    """Prefixes of the names of the library's variables."""
    known: Collection[str] = ()
    """Variables of the library whose names could be mistaken for those of a script's own variables."""

    def reads(self, path: PurePath, first: str) -> bool:
        """Whether the library reads a file, judging by its path and by ``first``, its first line of code."""
        return False

    def file(self, path: PurePath, text: str) -> Iterable[Finding]:
        """Return the findings in a file that the library reads."""
        return ()

    def environment(self, text: str) -> Mapping[str, str]:
        """Return the environment variables that have the same effect as a file of the library."""
        return {}

    def variable(self, a: Assignment) -> Iterable[Finding]:
        """Return the findings on one environment variable, which may belong to another library."""
        return ()

    def explained(self, path: PurePath, text: str, call: Asked) -> Answer | None:
        """Return which algorithm a file of the library selects for a call; None if it selects none."""
        return None

    def together(
        self, last: Mapping[str, Assignment], texts: Collection[str], own_texts: Sequence[str]
    ) -> Iterable[Finding]:
        """Return the findings on the combination of variables in one launch.

        Args:
            last: Maps the name of each variable to its last assignment.
            texts: Contents of all files that are checked.
            own_texts: Contents of those of the files that the library reads.
        """
        return ()


KINDS = (*("rules", "mca", "prte", "tune", "shell", "ucx", "environment"), *("csh", "recipe", "other"))
"""Kinds of file that ``lint`` recognises without plugins; plugins cannot use these names."""


def traps() -> Mapping[str, Traps]:
    """Return the usable plugins by their kind of file."""
    return _loaded()[0]


def unusable() -> tuple[str, ...]:
    """Return a message for each plugin that cannot be used, with the name of its distribution."""
    return _loaded()[1]


@cache
def _loaded() -> tuple[Mapping[str, Traps], tuple[str, ...]]:
    offered, traps_by_kind = offers(GROUP, KINDS), {}
    wrong = list(offered.refused.values())
    for name, point in offered.found.items():
        try:
            traps_by_kind[name] = plugged(point, [name for name in vars(Traps) if not name.startswith("_")])
        except UserError as exc:
            wrong.append(exc.message)
    return traps_by_kind, tuple(wrong)
