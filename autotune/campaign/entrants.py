"""Treat a trial in a heat (launches alive at once) as one entrant: its launches and their joint outcome."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from autotune.campaign.observing import Launches, as_printed, launch_directory
from autotune.history.trial import Trial
from autotune.probe.protocol import Heat, ProbeRequest
from autotune.stacks.ports import LaunchOutcome, LaunchRequest, Rendering


@dataclass(frozen=True, slots=True)
class Entrant:
    """Represent a trial in a heat (launches that are alive at once and measure in turns).

    An entrant has several launches if the library reads the choice that the trial sweeps only once, at its
    start.
    """

    maker: Launches  # The observer that makes the trial's launches.
    trial: Trial
    parts: tuple[Rendering, ...]  # The rendering of each launch.
    folders: tuple[Path, ...]  # The directory of each launch.

    @classmethod
    def of(cls, maker: Launches, trial: Trial) -> "Entrant":
        """Prepare the launches of a trial, each with an empty folder.

        Raises:
            SpaceError: the stack cannot express a parameter or a value of the space.
        """
        rendering = maker.stack.render(maker.space, trial, maker.measurement.probe.collectives)
        rendering = maker.measurement.amended(rendering)
        directory = launch_directory(maker.directory, trial).absolute()
        parts = rendering.launches()
        if len(parts) == 1:
            return cls(maker, trial, parts, (directory,))
        folders = tuple(directory / f"{number:02d}" for number in range(len(parts)))
        for folder in folders:
            folder.mkdir(mode=0o700)
        return cls(maker, trial, parts, folders)

    @property
    def seconds(self) -> float:
        """Return the time for the turns of all launches of the trial, in seconds."""
        return self.trial.measured_s or self.maker.measurement.heat_s

    def request(self, part: int, heat: Heat) -> LaunchRequest:
        """Write the files of one launch (part) of the trial, and return the request to its launcher."""
        probe = replace(self._probe_request(part), heat=heat)
        request = self.maker.write_request(self.trial, self.parts[part], self.folders[part], probe)
        timeout_s = heat.jobs * request.timeout_s + heat.turn_limit_s + heat.seconds + heat.join_s
        return replace(request, timeout_s=timeout_s, ended_file=heat.ended(heat.job))

    def checked(self, part: int, outcome: LaunchOutcome) -> LaunchOutcome:
        """Return the outcome of a launch (part), with another status if its result is not as requested."""
        outcome = self.maker.with_requested_cells(outcome, self._probe_request(part))
        if outcome.result is None:
            return outcome
        return as_printed(outcome, self.parts[part].must_print, self.folders[part])

    def together(self, outcomes: Sequence[LaunchOutcome]) -> LaunchOutcome:
        """Return the joint outcome of all launches of the trial."""
        if len(outcomes) == 1:
            return outcomes[0]
        outcome = self.maker.together(self.parts, outcomes)
        if outcome.result is not None:
            outcome.result.write(self.folders[0].parent)
        return outcome

    def _probe_request(self, part: int) -> ProbeRequest:
        return self.maker.probe_request(self.trial, self.parts[part], len(self.parts))
