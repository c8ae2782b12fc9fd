"""Converts recorded runs to observations, as launches with the same times would give."""

from collections.abc import Iterator
from dataclasses import replace

from autotune.campaign.observing import estimated
from autotune.history.trial import History, Observation, Phase, Status, Subject, Trial
from autotune.replay.recorded_table import RecordedTable, Run
from autotune.space import Point


def observed(trial: Trial, run: Run) -> Observation:
    """Return the observation of a trial with the times of a recorded run.

    The standard error of a single time is as large as the time.
    """
    return Observation(trial, Status.OK, tuple(estimated(cell, times) for cell, times in run.items()))


def history_of(recorded: RecordedTable) -> History:
    """Return all recorded runs as one history; it begins with those of the default, as untouched launches.

    An untouched launch is one with the MPI's own defaults.

    If a point has several runs, their differences show its uncertainty, so single times have no error of
    their own.
    """
    return History(tuple(_observations(recorded)))


def _observations(recorded: RecordedTable) -> Iterator[Observation]:
    """Yield an observation for each recorded run, and a crashed launch for each point without runs."""
    number = 0
    if recorded.default is not None:
        point, choice = recorded.default
        for run in recorded.runs.get(point, ()):
            number += 1
            trial = Trial(number, Phase.BASELINE, point, subject=Subject.UNTOUCHED)
            default_run = {cell: times for cell, times in run.items() if cell.choice == choice}
            untouched = {replace(cell, choice=Point()): times for cell, times in default_run.items()}
            yield _shared(observed(trial, untouched), len(recorded.runs[point]))
    for point, runs in recorded.runs.items():
        for run in runs or ():
            number += 1
            yield _shared(observed(Trial(number, Phase.SEARCH, point), run), len(runs))
        if not runs:
            number += 1
            yield Observation(
                Trial(number, Phase.SEARCH, point), Status.CRASHED, reason="every recorded run failed"
            )


def _shared(observation: Observation, runs: int) -> Observation:
    """Return the observation with a standard error of 0 for single times if its point has several runs."""
    if runs == 1:
        return observation
    estimates = tuple(replace(e, sem_s=0.0) if e.n == 1 else e for e in observation.estimates)
    return replace(observation, estimates=estimates)
