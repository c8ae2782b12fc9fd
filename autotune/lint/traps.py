"""Extension point of lint for libraries of plugins: their own files, and their variables in any file."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from pathlib import PurePath

from autotune.errors import UserError
from autotune.lint.assignment import Assignment
from autotune.lint.finding import Finding
from autotune.resources.plugins import offers, plugged
from autotune.stacks.asked import Answer, Asked

GROUP = "autotune.lint"
"""Group of entry points, whose names are kinds of file and whose classes are subclasses of ``Traps``."""


class Traps:
    """Finds what one library would ignore or misread; a library's subclass overrides what it needs."""

    prefixes: tuple[str, ...] = ()
    """Prefixes of the names of the library's variables."""
    known: Collection[str] = ()
    """Variables of the library whose names look like those of a script's own variables."""

    def reads(self, path: PurePath, first: str) -> bool:
        """Whether a file is one of the library, by its path or by the first line that is no comment."""
        return False

    def file(self, path: PurePath, text: str) -> Iterable[Finding]:
        """Return the findings in a file of the library."""
        return ()

    def environment(self, text: str) -> Mapping[str, str]:
        """Return the variables that a file of the library sets for every job."""
        return {}

    def variable(self, a: Assignment) -> Iterable[Finding]:
        """Return the findings on one variable, of whatever library."""
        return ()

    def explained(self, path: PurePath, text: str, call: Asked) -> Answer | None:
        """Return the decision of a file of the library on a call; None where it decides nothing."""
        return None

    def together(
        self, last: Mapping[str, Assignment], texts: Collection[str], own_texts: Sequence[str]
    ) -> Iterable[Finding]:
        """Return the findings on what reaches one launch.

        Args:
            last: The variables by name.
            texts: Contents of all files.
            own_texts: Contents of the library's own files among them.
        """
        return ()


KINDS = (
    *("rules", "mca", "prte", "tune", "shell", "ucx", "environment"),
    *("module", "yaml", "docker", "easybuild", "other"),
)
"""Kinds of file that plugins cannot take."""


def traps() -> Mapping[str, Traps]:
    """Return kind of file → traps of its library; plugins that cannot be used are left out."""
    return _loaded()[0]


def unusable() -> tuple[str, ...]:
    """Return why plugins cannot be used, each message with its distribution."""
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
