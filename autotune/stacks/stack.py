"""An MPI implementation that was detected on this machine: the port that renders a trial (step 5)."""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any

from autotune.errors import StackError
from autotune.history.trial import Trial
from autotune.probe.protocol import SweptChoice
from autotune.space import Point, Space
from autotune.stacks.installation import Installation
from autotune.stacks.ports import Rendering
from autotune.stacks.words import targets

_MAKERS = {"openmpi": "Open MPI", "mpich": "MPICH", "intelmpi": "Intel MPI"}
"""Flavour → what its makers call it."""

WORKS = "MPI works"  # What each rank of a first launch prints, with their number behind.


@dataclass(frozen=True)
class Stack(ABC):
    """One MPI implementation on this machine, with what the scenario fixes for every launch."""

    installation: Installation  # Which one.
    _: KW_ONLY
    fixed: Mapping[str, str] = field(default_factory=dict)  # Environment of every launch, untouched too.
    cores: int = 1  # That this process may use.
    nodes: int = 1  # Of a job.

    @property
    @abstractmethod
    def description(self) -> str:
        """Its versions in one line, for reports and exported files."""

    @abstractmethod
    def available(self, space: Space) -> Space:
        """The space without what it does not have."""

    @abstractmethod
    def render(self, space: Space, trial: Trial, collectives: Sequence[str]) -> Rendering:
        """The trial in this implementation's words.

        Raises:
            SpaceError: the space asks for something that the implementation has no word for.
            UserError: rules that its files cannot express.
        """

    @property
    def coll(self) -> tuple[str, ...]:
        """Its collective components, for ``Dialect.environment``; empty: it has none to switch."""
        return ()

    @property
    def named(self) -> str:
        """Its makers' name for it, with its version."""
        return _named(self.installation)

    @cached_property
    def facts(self) -> frozenset[str]:
        """Tokens that ``requires`` in a search space can name."""
        flavour, version = self.installation.flavour, self.installation.version
        whose = {f"mpi:{flavour}", f"{flavour}:{version.partition('.')[0]}"}
        have = {"cores": self.cores, "nodes": self.nodes}
        enough = (f"{what}:{n}" for what, most in have.items() for n in range(1, most + 1))
        return frozenset({*whose, *enough, *self._facts()})

    def findings(self) -> tuple[tuple[str, str], ...]:
        """The rows of ``doctor``, as (fact, finding)."""
        rows = [*beginning(self.installation), *self._own_findings()]
        from autotune.stacks.cleared import clearance  # it needs words that need this module

        known = clearance(self.installation.flavour, self.installation.version)
        if known and known.note:
            rows.append(("algorithms", known.note))
        if self.fixed:
            rows.append(("fixed by the scenario", " ".join(f"{k}={v}" for k, v in self.fixed.items())))
        return tuple(rows)

    @abstractmethod
    def _facts(self) -> set[str]:
        """Facts beside flavour, version and cores."""

    @abstractmethod
    def _own_findings(self) -> list[tuple[str, str]]:
        """Findings beside launcher, version and library."""

    def _choices(self, space: Space, point: Point, collective: str, always: bool) -> tuple[SweptChoice, ...]:
        """The sweep of one collective; ``always``: values at their defaults are said too.

        With ``always`` a choice writes every variable, so that none inherits another's. A choice at its
        defaults writes none, as the site's own file or environment is then in effect, in the sweep as
        with the files that are exported.
        """
        swept = space.choices(collective, point)
        used = [p for p in space.call if any(p.name in choice for choice in swept)]
        listed = []
        for choice in swept:
            cvars: dict[str, int | str] = {}
            env: dict[str, str] = {}
            where = {**point, **{p.name: choice.get(p.name, p.default) for p in used}}
            chosen = any(where[p.name] != p.unset for p in used)
            for parameter in used if chosen else ():
                applied = targets(space, parameter, where, collective, always=always)
                own_cvars, own_env = self._said(collective, parameter.name == "algorithm", applied)
                cvars |= own_cvars
                env |= own_env
            listed.append(SweptChoice(dict(choice), cvars, env))
        return tuple(listed)

    @abstractmethod
    def _said(
        self, collective: str, algorithm: bool, applied: Mapping[str, Any]
    ) -> tuple[Mapping[str, int | str], Mapping[str, str]]:
        """Control variables and environment that say one value, which may be an algorithm, by ``targets``."""


def beginning(here: Installation) -> list[tuple[str, str]]:
    """The first rows of ``doctor``, which need no launch."""
    return [
        ("mpirun", f"{here.mpirun} ({here.origin})"),
        ("MPI", _named(here)),
        ("library", str(here.library)),
    ]


def _named(here: Installation) -> str:
    return f"{_MAKERS[here.flavour]} {here.version}"


def check_works(installation: Installation, text: str) -> None:
    """Refuse an MPI whose first launch, of one rank, printed this.

    Raises:
        StackError: no rank said that it works.
    """
    if f"{WORKS} 1" not in text:
        raise StackError(
            f"a one-rank launch by {installation.mpirun} fails:\n  {reason(text)}",
            "see mpi.* in the scenario",
        )


def reason(text: str) -> str:
    """Words of a launch on its failure: the first message between lines of dashes, else the last lines.

    Open MPI frames its messages, and what comes after the first one is about the consequences.
    """
    plain = text.replace("\0", "").strip()
    framed = re.search(r"^-{20,}\n(.+?)^-{20,}$", plain, re.DOTALL | re.MULTILINE)
    lines = framed[1].strip().splitlines() if framed else plain.splitlines()[-6:]
    return "\n  ".join(line for line in lines if line.strip())
