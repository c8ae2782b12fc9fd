"""Ports between a trial and a running program (step 5 of the flow).

A ``Stack`` says a trial in the words of one MPI implementation, a ``Launcher`` runs what was said; neither
sees the other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, runtime_checkable

from autotune.history.trial import Status
from autotune.probe.protocol import Expectation, ProbeResult, SweptChoice

START_S = 1.5  # Cost of starting and ending a launch before any was made (``mpirun`` on two cores took 1.3 s)


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the ranks of a launch go."""

    ranks: int  # Of the whole launch.
    nodes: int = 1  # Over which the ranks are spread.
    ppn: int = 0  # Ranks a node; 0: whatever fits.
    map_by: str = ""  # In Open MPI's words (``core``, ``ppr:2:node`` …); empty: the launcher's default.
    bind_to: str = ""  # In Open MPI's words (``core``, ``none`` …); empty: the launcher's default.
    hosts: tuple[str, ...] = ()  # Names of the nodes; empty: this machine, or the allocation that we are in.
    oversubscribe: bool = False  # Whether there are more ranks than cores.


@dataclass(frozen=True, slots=True)
class Rendering:
    """A trial in the words of one MPI implementation."""

    env: Mapping[str, str] = field(default_factory=dict)
    """Variables that each rank must see; they alone are forwarded to other nodes."""
    map_by: str = ""  # As in ``Placement``.
    bind_to: str = ""  # As in ``Placement``.
    files: Mapping[str, str] = field(default_factory=dict)
    """Files to be written into the directory of the launch first; ``{directory}`` in ``env`` names it."""
    choices: Mapping[str, tuple[SweptChoice, ...]] = field(default_factory=dict)
    """For each collective what the probe sweeps."""
    expect: Expectation = Expectation()  # What the probe must find.
    said: tuple[str, ...] = ()  # What the launch must print, the library's own words of what it does.

    def launches(self) -> tuple["Rendering", ...]:
        """The renderings of the launches that it takes to sweep all choices.

        Choices that the library reads once need a launch each; a launch has one such choice of every
        collective, so that there are as many as the collective with most choices has.
        """
        groups: dict[str, list[tuple[SweptChoice, ...]]] = {}
        for collective, choices in self.choices.items():
            apart: dict[tuple[tuple[str, str], ...], list[SweptChoice]] = {}
            for choice in choices:
                apart.setdefault(tuple(sorted(choice.env.items())), []).append(choice)
            groups[collective] = [tuple(together) for together in apart.values()]
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
        said = (*self.said, *(f"{name}={value}" for name, value in env.items()))
        return replace(self, env={**self.env, **env}, choices=choices, expect=expect, said=said)


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """One MPI run."""

    directory: Path  # Of this launch: ``request.json`` is there, ``result.json`` expected.
    program: tuple[str, ...]  # What each rank executes.
    env: Mapping[str, str]  # Variables that each rank must see.
    placement: Placement  # Where the ranks go.
    timeout_s: float  # After which the launch is ended with all its processes.


@dataclass(frozen=True, slots=True)
class LaunchOutcome:
    """How one MPI run ended."""

    status: Status  # What became of it.
    reason: str = ""  # In words, where the status is not ``ok``.
    result: ProbeResult | None = None  # What the probe wrote; present whenever the status is ``ok``.
    duration_s: float = 0.0  # From start to end, without the queue.
    queue_s: float = 0.0  # Waiting for a scheduler.
    hosts: tuple[str, ...] = ()  # Where it ran.
    given_up: bool = False  # Whether its job did not start in the time that jobs may wait.
    lost_before: tuple[str, ...] = ()  # Why each earlier attempt at the launch was lost; it was made again.


class Launcher(Protocol):
    """Starts one MPI run and waits for it.

    One whose launches run on other machines than this says so by an attribute ``away`` that is true.
    """

    @property
    def at_once(self) -> bool:
        """Whether several runs can be alive at once on the same nodes and cores, each from a thread."""

    def run(self, request: LaunchRequest) -> LaunchOutcome:
        """How the run ended; a run that failed is an outcome, never an exception.

        Raises:
            StackError: nothing can be launched here at all.
            Interrupted: the user ended the work; no process of the run is left.
        """


@runtime_checkable
class Hearing(Protocol):
    """A launcher that runs any program at once where its launches run, and returns what it printed."""

    def heard(self, program: Sequence[str], placement: Placement, env: Mapping[str, str]) -> str:
        """Both outputs of the program on the nodes of the campaign; ``env``: what each rank must see.

        Raises:
            StackError: it cannot be started, or does not end in time.
        """
