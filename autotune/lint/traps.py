"""Interface for plugins that check files and variables of further libraries in ``lint``."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from pathlib import PurePath

from autotune.errors import UserError
from autotune.lint.assignment import Assignment
from autotune.lint.finding import Finding
from autotune.resources.plugins import offers, plugged
from autotune.stacks.asked import Answer, Asked

GROUP = "autotune.lint"
"""Group of the plugins' entry points: each is named as a kind of file and refers to a subclass of
``Traps``."""


class Traps:
    """Finds what one library would ignore or misread; a plugin overrides the methods for its library."""

    prefixes: tuple[str, ...] = ()
    """Prefixes of the names of the library's variables."""
    known: Collection[str] = ()
    """Variables of the library whose names look like those of a script's own variables."""

    def reads(self, path: PurePath, first: str) -> bool:
        """Whether the library reads a file, by its path or its first line that is no comment (``first``)."""
        return False

    def file(self, path: PurePath, text: str) -> Iterable[Finding]:
        """Return the findings in a file of the library."""
        return ()

    def environment(self, text: str) -> Mapping[str, str]:
        """Return the variables that a file of the library sets for every job."""
        return {}

    def variable(self, a: Assignment) -> Iterable[Finding]:
        """Return the findings on one environment variable, which may be that of another library."""
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
            own_texts: Contents of those among the files that are the library's own.
        """
        return ()


KINDS = (*("rules", "mca", "prte", "tune", "shell", "ucx", "environment"), *("csh", "recipe", "other"))
"""Kinds of file that belong to this project, so that plugins cannot use their names."""


def traps() -> Mapping[str, Traps]:
    """Return the plugins by their kind of file; plugins that cannot be used are left out."""
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
