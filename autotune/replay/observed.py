"""Converts recorded runs to the observations that launches with the same times would give."""

from dataclasses import replace
from itertools import count

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
    """Return all recorded runs as one history.

    The history begins with the runs of the default, as untouched launches: those with the MPI's own defaults.
    If a point has several runs, their differences show its uncertainty, so the standard error of a cell with
    a single time is set to 0.
    """
    numbers, observations = count(1), list[Observation]()
    if recorded.default is not None:
        point, choice = recorded.default
        for run in (runs := recorded.runs.get(point, ())):
            chosen = {cell: times for cell, times in run.items() if cell.choice == choice}
            untouched = {replace(cell, choice=Point()): times for cell, times in chosen.items()}
            trial = Trial(next(numbers), Phase.BASELINE, point, subject=Subject.UNTOUCHED)
            observations.append(_shared(observed(trial, untouched), len(runs)))
    for point, runs in recorded.runs.items():
        for run in runs:
            trial = Trial(next(numbers), Phase.SEARCH, point)
            observations.append(_shared(observed(trial, run), len(runs)))
        if not runs:
            trial = Trial(next(numbers), Phase.SEARCH, point)
            observations.append(Observation(trial, Status.CRASHED, reason="every recorded run failed"))
    return History(tuple(observations))


def _shared(observation: Observation, runs: int) -> Observation:
    """Return the observation; with several ``runs`` of its point, single times get the standard error 0."""
    if runs == 1:
        return observation
    estimates = tuple(replace(e, sem_s=0.0) if e.n == 1 else e for e in observation.estimates)
    return replace(observation, estimates=estimates)
