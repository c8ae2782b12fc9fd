"""Interfaces by which a trial (the settings of one launch) becomes a running MPI program.

A ``Stack`` translates a trial into variables, files and options of one MPI implementation, and a ``Launcher``
runs the result; neither depends on the other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, runtime_checkable

from autotune.history.trial import Status
from autotune.probe.protocol import Expectation, ProbeResult, SweptChoice

START_S = 1.5
"""Assumed time in seconds to start and end a launch, used before the first launch (``mpirun`` on two cores
took 1.3 s)."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Says on which nodes and cores the ranks of a launch run."""

    ranks: int  # Number of ranks of the whole launch.
    nodes: int = 1  # Number of nodes over which the ranks are spread.
    ppn: int = 0  # Ranks on each node; 0: as many as fit.
    map_by: str = ""  # As Open MPI's ``--map-by`` (``core``, ``ppr:2:node``); empty: the launcher's default.
    bind_to: str = ""  # As Open MPI's ``--bind-to`` (``core``, ``none``); empty: the launcher's default.
    hosts: tuple[str, ...] = ()  # Names of the nodes; empty: this machine, or the present allocation.
    oversubscribe: bool = False  # Whether there are more ranks than cores.


@dataclass(frozen=True, slots=True)
class Rendering:
    """Holds the variables, files and choices by which one MPI implementation applies a trial."""

    env: Mapping[str, str] = field(default_factory=dict)
    """Variables that each rank must see; only these are forwarded to other nodes."""
    map_by: str = ""  # As in ``Placement``.
    bind_to: str = ""  # As in ``Placement``.
    files: Mapping[str, str] = field(default_factory=dict)
    """Maps the name of a file in the directory of the launch to its text; ``{directory}`` in ``env`` stands
    for this directory."""
    choices: Mapping[str, tuple[SweptChoice, ...]] = field(default_factory=dict)
    """Maps a collective to the per-size choices that the probe measures, such as algorithms."""
    expect: Expectation = Expectation()  # Library, variables and values that the probe checks in each rank.
    must_print: tuple[str, ...] = ()  # Texts that the library prints if the settings are applied.
    unset: tuple[str, ...] = ()  # Variables of this process that are removed for all ranks.

    def launches(self) -> tuple["Rendering", ...]:
        """Return a rendering for each of the launches that are needed to measure all choices.

        A choice that the library reads only at its start, from its environment, needs a launch of its own.
        Each launch has one such choice of every collective, so the collective with the most choices
        determines the number of launches.
        """
        groups: dict[str, list[tuple[SweptChoice, ...]]] = {}
        for collective, choices in self.choices.items():
            by_environment: dict[tuple[tuple[str, str], ...], list[SweptChoice]] = {}
            for choice in choices:
                by_environment.setdefault(tuple(sorted(choice.env.items())), []).append(choice)
            groups[collective] = [tuple(together) for together in by_environment.values()]
        rounds = max(map(len, groups.values()), default=1)
        if rounds < 2 and not any(choice.env for choices in self.choices.values() for choice in choices):
            return (self,)
        return tuple(
            self._with({name: listed[i] for name, listed in groups.items() if i < len(listed)})
            for i in range(rounds)
        )

    def _with(self, choices: Mapping[str, tuple[SweptChoice, ...]]) -> "Rendering":
        env = {name: value for listed in choices.values() for name, value in listed[0].env.items()}
        expect = replace(self.expect, env={**self.expect.env, **env})
        must_print = (*self.must_print, *(f"{name}={value}" for name, value in env.items()))
        return replace(self, env={**self.env, **env}, choices=choices, expect=expect, must_print=must_print)


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """Describes one MPI run that a launcher is to make."""

    directory: Path  # Directory of the launch, with ``request.json`` and later ``result.json``.
    program: tuple[str, ...]  # Program, with its arguments, that each rank executes.
    env: Mapping[str, str]  # Variables that each rank must see.
    placement: Placement  # Where the ranks go.
    timeout_s: float  # Seconds after which the launch is ended with all its processes.
    ended_file: Path | None = None
    """File that is created when the run has ended, so that the other launches of its heat (launches that run
    at the same time and take turns) do not wait for it; None: the run is in no heat."""


@dataclass(frozen=True, slots=True)
class LaunchOutcome:
    """Says how one MPI run ended."""

    status: Status
    reason: str = ""  # Why the status is not ``ok``, in words; empty if the status is ``ok``.
    result: ProbeResult | None = None  # Result that the probe wrote; present whenever the status is ``ok``.
    duration_s: float = 0.0  # Seconds from start to end, without the time in a queue.
    queue_s: float = 0.0  # Seconds that the run waited in the queue of a batch system.
    hosts: tuple[str, ...] = ()  # Names of the nodes on which the run was made.
    given_up: bool = False  # Whether the job was cancelled because it waited too long for its start.
    lost_before: tuple[str, ...] = ()  # Why each earlier attempt at this run was lost, in words.


class Launcher(Protocol):
    """Starts MPI runs and waits for them.

    A launcher has an attribute ``away`` that is true if its runs are not made on this machine.
    """

    @property
    def at_once(self) -> bool:
        """Whether several runs can be alive at once on the same nodes and cores."""

    def command(self, request: LaunchRequest, placement: Placement, /) -> tuple[list[str], dict[str, str]]:
        """Return the command line and additional environment that start a run on the nodes of a placement."""

    def run(self, request: LaunchRequest) -> LaunchOutcome:
        """Make a run and return how it ended; a run that failed is an outcome, never an exception.

        Raises:
            StackError: nothing can be launched here at all.
            Interrupted: the user ended the work; no process of the run is left.
        """

    def run_at_once(self, runs: Sequence[tuple["Launcher", LaunchRequest]]) -> list[LaunchOutcome]:
        """Make several runs at the same time and return how each ended, in the same order.

        A run that fails does not end the others.

        Args:
            runs: (launcher, request) of each run. The launcher's ``command`` starts the run; the launcher has
                the same class as this one.

        Raises:
            StackError: as ``run``.
            Interrupted: as ``run``.
        """


@runtime_checkable
class Hearing(Protocol):
    """A launcher that can also run any other program on the nodes of its runs, and return its output."""

    def heard(self, program: Sequence[str], placement: Placement, env: Mapping[str, str]) -> str:
        """Return the standard output and error of a program on the campaign's nodes, run with ``env`` set.

        Raises:
            StackError: the program cannot be started, or does not end in time.
        """
