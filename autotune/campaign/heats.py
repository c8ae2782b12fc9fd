"""Settings measured at the same moment: launches that are alive at once, in turns (steps 5 to 7 of the flow).

Launches at different moments differ by several per cent, on a machine that does other work by far more, since
each meets another moment. In a heat all meet the same ones, and what is left in their ratios belongs to the
settings, or to what a launch keeps for its life, such as the place of its memory.
"""

import secrets
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from autotune.campaign.observing import Launches, observation
from autotune.history.folder import make_empty
from autotune.history.trial import Observation, Status, Trial
from autotune.probe.protocol import Heat
from autotune.stacks.ports import LaunchOutcome


def observe_heat(launches: Launches, trials: Sequence[Trial]) -> tuple[Observation, ...]:
    """Launch some trials at once, and let them measure in turns; one observation for each of them.

    A launch that fails does not end the others. The duration of each is its share of the heat's.

    Raises:
        StackError: nothing can be launched at all.
        SpaceError: the stack has no word for something in the space.
        Interrupted: the user ended it; nothing of the heat is left running.
    """
    folder = make_empty(launches.directory / "heats" / f"{trials[0].number:04d}").absolute()
    seconds = launches.measurement.heat_s * len(trials)
    heat = Heat(str(folder), secrets.token_hex(16), 0, len(trials), seconds, trials[0].seed)
    heats = [replace(heat, job=job) for job in range(len(trials))]
    requests = [launches.entered(trial, its) for trial, its in zip(trials, heats, strict=True)]

    def run(job: int) -> LaunchOutcome:
        try:
            return launches.launcher.run(requests[job])
        finally:
            heat.ended(job).touch()

    with ThreadPoolExecutor(len(trials)) as pool:
        outcomes = _explained(list(pool.map(run, range(len(trials)))))
    share = 1 / len(trials)
    shared = (replace(o, duration_s=o.duration_s * share, queue_s=o.queue_s * share) for o in outcomes)
    return tuple(
        observation(trial, outcome, launches.measurement.estimator)
        for trial, outcome in zip(trials, shared, strict=True)
    )


def _explained(outcomes: Sequence[LaunchOutcome]) -> list[LaunchOutcome]:
    """The outcomes; a launch that kept its turn for too long was ended by the others, and is no crash."""
    taken_out: dict[str, str] = {}
    for outcome in outcomes:
        taken_out |= outcome.result.taken_out if outcome.result is not None else {}
    return [
        replace(outcome, status=Status.TIMEOUT, reason=f"it {why}; {outcome.reason}")
        if outcome.result is None and "kept a turn" in (why := taken_out.get(str(job), ""))
        else outcome
        for job, outcome in enumerate(outcomes)
    ]
