"""Describe an MPI implementation that was detected on this machine, and translate trials into its launches.

A trial is the settings of one launch. They become environment variables, files and control variables of the
implementation.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any

from autotune.errors import StackError
from autotune.history.trial import Trial
from autotune.probe.protocol import SweptChoice
from autotune.resources.secret import environment_without_secrets, is_secret
from autotune.space import Point, Space
from autotune.stacks.installation import Installation
from autotune.stacks.ports import Rendering
from autotune.stacks.words import targets

WORKS = "MPI works"  # Text that a program which tests an MPI prints, followed by the number of ranks.


@dataclass(frozen=True)
class Stack(ABC):
    """Describes one MPI implementation on this machine, and the settings that the scenario fixes.

    Fixed settings are in effect in every launch.
    """

    installation: Installation  # The MPI that is used.
    _: KW_ONLY
    fixed: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of every launch, also of launches that measure the defaults."""
    cores: int = 1  # Number of cores that this process may use.
    nodes: int = 1  # Number of nodes of a job.
    commutative: bool = False  # Whether all reduction operations of users' programs commute.

    @property
    @abstractmethod
    def description(self) -> str:
        """The implementation and its libraries with their versions in one line, for reports and exports."""

    @abstractmethod
    def available(self, space: Space) -> Space:
        """Return the space without parameters and values that this machine cannot offer."""

    @abstractmethod
    def render(self, space: Space, trial: Trial, collectives: Sequence[str]) -> Rendering:
        """Return the variables, files and per-size choices by which a launch applies a trial.

        Raises:
            SpaceError: the space has a setting that the implementation cannot apply.
            UserError: the trial has rules that the implementation's files cannot express.
        """

    @property
    def coll(self) -> tuple[str, ...]:
        """The names of the MPI's collective components, for ``Dialect.environment``; empty if it has none."""
        return ()

    @cached_property
    def facts(self) -> frozenset[str]:
        """The facts about this machine that ``requires`` in a search space can name, such as ``cores:4``."""
        flavour, version = self.installation.flavour, self.installation.version
        whose = {f"mpi:{flavour}", f"{flavour}:{version.partition('.')[0]}"}
        have = {"cores": self.cores, "nodes": self.nodes}
        enough = (f"{resource}:{n}" for resource, count in have.items() for n in range(1, count + 1))
        return frozenset({*whose, *enough, *self._facts()})

    def findings(self) -> tuple[tuple[str, str], ...]:
        """Return the rows of the report of ``doctor`` about this MPI, as (fact, finding)."""
        rows = [*beginning(self.installation), *self._own_findings()]
        from autotune.stacks.cleared import clearance  # here, since that module needs this one

        clearance_here = clearance(self.installation.flavour, self.installation.version)
        if clearance_here and clearance_here.note:
            rows.append(("algorithms", clearance_here.note))
        if self.fixed:
            visible = environment_without_secrets(self.fixed).items()
            rows.append(("fixed by the scenario", " ".join(f"{name}={value}" for name, value in visible)))
        return tuple(rows)

    @abstractmethod
    def _facts(self) -> set[str]:
        """Return the implementation's own facts about this machine; ``facts`` adds the common facts."""

    @abstractmethod
    def _own_findings(self) -> list[tuple[str, str]]:
        """Return the rows of ``doctor`` that follow the rows about the launcher, version and library."""

    def _compared(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return the variables that each rank compares with its own environment.

        Fixed variables with secret values are left out, since the probe quotes values that differ.
        """
        return {name: value for name, value in env.items() if name not in self.fixed or not is_secret(name)}

    def _choices(self, space: Space, point: Point, collective: str, always: bool) -> tuple[SweptChoice, ...]:
        """Return the per-size choices, such as algorithms, that one launch measures for a collective.

        A choice with only default values writes no variable, so that the site's own file or environment stays
        in effect, both in the launch and with the exported files. With ``always``, any other choice also
        writes the variables that have default values, so that no variable keeps another choice's value.
        """
        swept = space.choices(collective, point)
        used = [p for p in space.call if any(p.name in choice for choice in swept)]
        listed = []
        for choice in swept:
            cvars: dict[str, int | str] = {}
            env: dict[str, str] = {}
            values = {**point, **{p.name: choice.get(p.name, p.default) for p in used}}
            is_set = any(values[p.name] != p.unset for p in used)
            for parameter in used if is_set else ():
                applied = targets(space, parameter, values, collective, always=always)
                own_cvars, own_env = self._settings(collective, parameter.name == "algorithm", applied)
                cvars |= own_cvars
                env |= own_env
            listed.append(SweptChoice(dict(choice), cvars, env))
        return tuple(listed)

    @abstractmethod
    def _settings(
        self, collective: str, algorithm: bool, applied: Mapping[str, Any]
    ) -> tuple[Mapping[str, int | str], Mapping[str, str]]:
        """Return the control variables and environment variables that apply a per-size value of a collective.

        ``algorithm`` says whether the value is the name of an algorithm. ``applied`` maps the kind of a
        setting to the setting, as ``targets`` returns it.
        """


def beginning(installation: Installation) -> list[tuple[str, str]]:
    """Return the first rows of the report of ``doctor``, which need no launch, as (fact, finding)."""
    return [
        ("mpirun", f"{installation.mpirun} ({installation.origin})"),
        ("MPI", installation.named),
        ("library", str(installation.library)),
    ]


def check_works(installation: Installation, text: str) -> None:
    """Refuse an MPI if ``text``, the output of a launch with one rank, lacks ``WORKS`` and the number 1.

    Raises:
        StackError: the output lacks them; the message says why the launch failed.
    """
    if f"{WORKS} 1" not in text:
        raise StackError(
            f"a one-rank launch by {installation.mpirun} fails:\n  {reason(text)}",
            "see mpi.* in the scenario",
        )


def reason(text: str) -> str:
    """Return the part of a failed launch's output that says why it failed.

    Open MPI puts each message between lines of dashes, and all messages after the first one are about
    consequences of the first error. So the first such message is returned, or the last six lines if there is
    no message.
    """
    plain = text.replace("\0", "").strip()
    message = framed_message(plain)
    lines = message.splitlines() if message else plain.splitlines()[-6:]
    return "\n  ".join(line for line in lines if line.strip())


def framed_message(text: str) -> str:
    """Return the first message between lines of dashes; empty if there is none."""
    framed = re.search(r"^-{20,}\n(.+?)^-{20,}$", text, re.DOTALL | re.MULTILINE)
    return framed[1].strip() if framed else ""
