"""Extension point of lint for libraries that are plugins: their files and their variables, wherever set."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from pathlib import PurePath

from autotune.errors import UserError
from autotune.lint.assignment import Assignment
from autotune.lint.finding import Finding
from autotune.resources.plugins import offers, plugged
from autotune.stacks.asked import Answer, Asked

GROUP = "autotune.lint"
"""Group of entry points: kind of a file → class that checks it."""


class Traps:
    """Mistakes that one library ignores or misreads; each library overrides the differences."""

    prefixes: tuple[str, ...] = ()
    """How the names of its variables begin."""
    known: Collection[str] = ()
    """Names that are its variables, however much they look like a script's own words."""

    def reads(self, path: PurePath, first: str) -> bool:
        """Whether a file is its own, by name or by the first line that is no comment."""
        return False

    def file(self, path: PurePath, text: str) -> Iterable[Finding]:
        """Findings in a file of its own."""
        return ()

    def environment(self, text: str) -> Mapping[str, str]:
        """The variables that a file of its own sets for every job."""
        return {}

    def variable(self, a: Assignment) -> Iterable[Finding]:
        """Findings in one variable of anybody's."""
        return ()

    def explained(self, path: PurePath, text: str, call: Asked) -> Answer | None:
        """The decision of the library's own file on a call; None where it decides nothing."""
        return None

    def together(
        self, last: Mapping[str, Assignment], texts: Collection[str], own: Sequence[str]
    ) -> Iterable[Finding]:
        """Findings in all variables by name, all files, and those of its own among these."""
        return ()


KINDS = (
    *("rules", "mca", "prte", "tune", "shell", "ucx", "environment"),
    *("module", "yaml", "docker", "easybuild", "other"),
)
"""Kinds of file that are no plugin's."""


def traps() -> Mapping[str, Traps]:
    """Kind of file → what judges it; those that cannot be used are left out."""
    return _asked()[0]


def unusable() -> tuple[str, ...]:
    """Why some cannot be used, each with its distribution."""
    return _asked()[1]


@cache
def _asked() -> tuple[Mapping[str, Traps], tuple[str, ...]]:
    others, made = offers(GROUP, KINDS), {}
    wrong = list(others.refused.values())
    for name, point in others.found.items():
        try:
            made[name] = plugged(point, [name for name in vars(Traps) if not name.startswith("_")])
        except UserError as exc:
            wrong.append(exc.message)
    return made, tuple(wrong)
