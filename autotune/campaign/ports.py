"""The edges of the core, each with one or two methods; adapters are chosen in ``app`` alone.

=============  ====================================  ==========================================
port           adapters                              promise
=============  ====================================  ==========================================
``Stack``      ``stacks/``                           a trial as environment and placement
``Launcher``   ``launchers/hydra_plugins/``          never raises for a launch that failed
``Proposer``   ``proposers/``                        stateless: a function of its arguments
``Store``      ``journal``                           what was appended survives a crash
``Exporter``   ``exporters/``                        text, nothing written
``Listener``   ``console/``                          watches, changes nothing
=============  ====================================  ==========================================
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from autotune.history.objectives import Objective
from autotune.history.trial import History, Phase, Rule, Trial
from autotune.probe.protocol import Choice, Expectation, ProbeRequest, ProbeResult
from autotune.recommend.summary import Step
from autotune.space import Point, Space

if TYPE_CHECKING:
    from autotune.recommend.front import Recommendation
    from autotune.screening import Design, Effects, Screening


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the ranks of a launch go."""

    ranks: int
    """Of the whole launch."""
    nodes: int = 1
    """Over which the ranks are spread."""
    ppn: int = 0
    """Ranks a node; 0: whatever fits."""
    map_by: str = ""
    """In Open MPI's words (``core``, ``numa``, ``ppr:2:node`` …); empty: the launcher's default."""
    bind_to: str = ""
    """In Open MPI's words (``core``, ``none`` …); empty: the launcher's default."""
    hosts: tuple[str, ...] = ()
    """Names of the nodes; empty: this machine, or the allocation that we are in."""
    oversubscribe: bool = False
    """Whether there are more ranks than cores."""


@dataclass(frozen=True, slots=True)
class Rendering:
    """A trial in the words of one MPI implementation."""

    env: Mapping[str, str] = field(default_factory=dict)
    """Variables that each rank must see; they alone are forwarded to other nodes."""
    map_by: str = ""
    """As in ``Placement``."""
    bind_to: str = ""
    """As in ``Placement``."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Files to be written into the directory of the launch first; ``{directory}`` in ``env`` names it."""
    choices: Mapping[str, tuple[Choice, ...]] = field(default_factory=dict)
    """For each collective what the probe sweeps."""
    expect: Expectation = Expectation()
    """What the probe must find."""


class Stack(Protocol):
    """One MPI implementation, detected on this machine."""

    @property
    def name(self) -> str:
        """Of the implementation, as in ``Space.stack``."""
        ...

    def render(self, space: Space, trial: Trial, collectives: Sequence[str]) -> Rendering:
        """The trial in this implementation's words.

        Raises:
            SpaceError: the space asks for something that this implementation has no word for.
        """
        ...


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """One MPI run."""

    directory: Path
    """Of this launch, existing: ``request.json`` lies there, ``result.json`` is expected there."""
    program: tuple[str, ...]
    """What each rank executes."""
    env: Mapping[str, str]
    """Variables that each rank must see."""
    placement: Placement
    """Where the ranks go."""
    timeout_s: float
    """After which the launch is ended with all its processes."""
    probe: ProbeRequest
    """What is measured; launchers without processes answer it themselves."""
    point: Point = Point()
    """What ``env`` and ``placement`` express, for launchers without processes."""
    rules: tuple[Rule, ...] = ()
    """Per-size table in force, for launchers without processes."""
    seed: int = 0
    """For launchers that draw."""
    number: int = 1
    """In the campaign, from 1; for launchers on which launches share something."""


@dataclass(frozen=True, slots=True)
class LaunchOutcome:
    """How one MPI run ended."""

    status: str
    """``ok``, ``invalid``, ``timeout``, ``crashed`` or ``lost`` of ``Status``."""
    reason: str = ""
    """In words, where the status is not ``ok``."""
    result: ProbeResult | None = None
    """What the probe wrote; present whenever the status is ``ok``."""
    duration_s: float = 0.0
    """From start to end, without the queue."""
    queue_s: float = 0.0
    """Waiting for a scheduler."""
    hosts: tuple[str, ...] = ()
    """Where it ran."""


class Launcher(Protocol):
    """Starts one MPI run and waits for it."""

    def run(self, request: LaunchRequest) -> LaunchOutcome:
        """How the run ended; a run that failed is an outcome, never an exception.

        Raises:
            StackError: nothing can be launched here at all.
            Interrupted: the user ended the work; no process of the run is left.
        """
        ...


@dataclass(frozen=True, slots=True)
class Problem:
    """What a proposer has to solve."""

    space: Space
    """What may be chosen."""
    objectives: tuple[Objective, ...]
    """What is judged, on the envelope."""
    min_gain: float = 0.0
    """Stop when the expected relative gain falls below this."""
    whole: Space | None = None
    """Where the history comes from, if that is more than ``space``: a screening varied what is now fixed."""

    @property
    def known(self) -> Space:
        """The space that the history's points belong to."""
        return self.whole or self.space


@dataclass(frozen=True, slots=True)
class Suggestion:
    """The next launch."""

    point: Point
    """What to try."""
    note: str = ""
    """Why, in a few words for the log."""
    expected_gain: float | None = None
    """Relative improvement of the envelope that is expected; None: the method does not say."""


class Proposer(Protocol):
    """Chooses the next launch; stateless, so that resuming is replaying."""

    def propose(self, problem: Problem, history: History, seed: int) -> Suggestion | None:
        """The next launch as a function of the arguments alone; None: nothing more is worth a launch."""
        ...


class Store(Protocol):
    """An append-only list of events, each a JSON object with a key ``event``."""

    def append(self, event: Mapping[str, Any]) -> None:
        """Add one event; when this returns it survives a crash."""
        ...

    def read(self) -> Sequence[Mapping[str, Any]]:
        """All events so far, oldest first."""
        ...


class Exporter(Protocol):
    """One file format."""

    name: str
    summary: str

    def export(self, recommendation: "Recommendation", directory: Path) -> Mapping[str, str]:
        """File name → text; ``directory`` is where the files will lie (for absolute paths in them).

        Raises:
            UserError: the recommendation holds something that the format cannot say.
        """
        ...


class Listener(Protocol):
    """Is told what a campaign does, as it does it; nothing that it does comes back."""

    def phase(self, phase: Phase, n_trials: int) -> None:
        """A phase begins, of so many launches as far as is known; 0: the budget decides."""
        ...

    def designed(self, design: "Design") -> None:
        """The screening's design, in the order in which it will be run."""
        ...

    def screened(self, effects: "Sequence[Effects]", screening: "Screening") -> None:
        """What the screening found, one analysis for each objective, and what becomes of the factors."""
        ...

    def launching(self, trial: Trial, number: int, total: int, time_left_s: float) -> None:
        """A launch starts: the ``number``-th of at most ``total``, with so much of the budget's time left."""
        ...

    def observed(self, step: Step) -> None:
        """A launch ended, whatever its status; ``step`` says what is known now."""
        ...
