"""Measure settings at the same moments, by launches that are alive at once and measure in turns: a *heat*.

Launches at different moments differ by several per cent, and by far more on a machine that does other work.
In a heat all launches meet the same moments, so the remaining differences belong to the settings, or to
properties that a launch keeps until it ends, such as the place of its memory (data flow: launch and probe).
"""

import secrets
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Protocol, runtime_checkable

from autotune.campaign import interruption
from autotune.campaign.entrants import Entrant
from autotune.campaign.failures import RULE
from autotune.campaign.observing import Launches, Observer, observation
from autotune.errors import StackError
from autotune.history.folder import make_empty
from autotune.history.trial import Observation, Status, Trial
from autotune.probe.protocol import NO_HEAT, Heat, TakenOut
from autotune.stacks.ports import LaunchOutcome


@runtime_checkable
class Modelled(Protocol):
    """Define an observer that computes launches by a model, including launches at the same moment."""

    @property
    def at_once(self) -> bool:
        """Whether several launches can be alive at once on the modelled machine."""

    def observe_at(self, trial: Trial, moment: int, jobs: int) -> Observation:
        """Return the result of a launch that measures in turns with others.

        Args:
            trial: The trial to launch.
            moment: Number of the heat.
            jobs: Number of launches of the heat, including this one.
        """


def at_once(*sides: Observer) -> bool:
    """Whether launches by these observers can be alive at once and measure in turns."""
    if any(isinstance(side, Modelled) for side in sides):
        return all(isinstance(side, Modelled) and side.at_once for side in sides)
    makers = [side for side in sides if isinstance(side, Launches)]
    return (
        len(makers) == len(sides)
        and len({type(maker.launcher) for maker in makers}) == 1
        and all(maker.launcher.at_once and maker.measurement.probe.sync == "barrier" for maker in makers)
    )


def observe_heat(entrants: Sequence[tuple[Observer, Trial]]) -> tuple[Observation, ...]:
    """Launch some trials at once, each by its observer, and let them measure in turns.

    Return one observation for each trial. The trials may be of different MPIs. A heat is made again if
    something outside of it ended one of its launches. Where a heat turns out to be impossible, launches are
    made one after the other, and their notes say so (``campaign.apart``).

    A launch that fails does not end the others. The duration of the heat is divided equally among them.

    Raises:
        StackError: nothing can be launched at all, or some of these trials cannot be launched at once.
        SpaceError: the stack cannot express a parameter or a value of the space.
        Interrupted: the user ended the campaign; nothing of the heat is left running.
    """
    if not at_once(*(maker for maker, _ in entrants)):
        raise StackError("these launches cannot be alive at once")
    modelled = [(side, trial) for side, trial in entrants if isinstance(side, Modelled)]
    if modelled:
        moment, jobs = modelled[0][1].number, len(modelled)
        return tuple(side.observe_at(trial, moment, jobs) for side, trial in modelled)
    first = next(maker for maker, _ in entrants if isinstance(maker, Launches))
    return first.heats.observed(entrants, _observed, lambda entrant: entrant[0].observe(entrant[1]))


def _observed(entrants: Sequence[tuple[Observer, Trial]]) -> tuple[Observation, ...]:
    makers = [maker for maker, _ in entrants if isinstance(maker, Launches)]
    trials = [trial for _, trial in entrants]
    lost: list[str] = []
    while True:
        entered = [Entrant.of(maker, trial) for maker, trial in zip(makers, trials, strict=True)]
        outcomes = _launched(entered)
        reasons = [o.reason for o in outcomes if o.status is Status.LOST and not o.given_up]
        if not reasons or len(lost) == RULE.attempts - 1:
            break
        interruption.check()  # a signal that ended a launch may be ending this campaign too
        lost.append(reasons[0])
    share = 1 / len(outcomes)
    outcomes = [replace(o, duration_s=o.duration_s * share, queue_s=o.queue_s * share) for o in outcomes]
    remaining = iter(outcomes)
    observations = []
    for entrant in entered:
        outcome = entrant.together(list(islice(remaining, len(entrant.parts))))
        outcome = replace(outcome, lost_before=tuple(lost))
        observations.append(observation(entrant.trial, outcome, entrant.maker.measurement.estimator))
    return tuple(observations)


def _launched(entrants: Sequence[Entrant]) -> list[LaunchOutcome]:
    """Launch all parts of some entrants at once and return their outcomes in the same order."""
    first = entrants[0]
    folder = make_empty(first.maker.directory / "heats" / f"{first.trial.number:04d}").absolute()
    jobs = [(entrant, part) for entrant in entrants for part in range(len(entrant.parts))]
    seconds = sum(entrant.seconds for entrant in entrants)
    # The limit of a turn is that of a whole launch: the first turn checks results and warms up, which takes
    # half a minute over a network of 200 Mbit/s beside other work.
    limit_s = max(entrant.maker.measurement.timeout_s for entrant in entrants)
    heat = Heat(
        str(folder), secrets.token_hex(16), 0, len(jobs), seconds, first.trial.seed, turn_limit_s=limit_s
    )

    runs = []
    for job, (entrant, part) in enumerate(jobs):
        runs.append((entrant.maker.launcher, entrant.request(part, replace(heat, job=job))))
    outcomes = first.maker.launcher.run_at_once(runs)
    checked = [e.checked(part, outcome) for (e, part), outcome in zip(jobs, outcomes, strict=True)]
    return _explained(checked, heat.turn_limit_s)


def _explained(outcomes: Sequence[LaunchOutcome], turn_limit_s: float) -> list[LaunchOutcome]:
    """Return the outcomes, corrected by what the launches of the heat report about each other.

    If a launch kept its turn for too long, the others ended it: that is a timeout and not a crash. If the
    others gave up waiting for a launch that ended well, it was not alive at the same time as they were, so
    its result is invalid.
    """
    taken_out: dict[str, TakenOut] = {}
    for outcome in outcomes:
        taken_out |= outcome.result.taken_out if outcome.result is not None else {}
    explained = []
    for job, outcome in enumerate(outcomes):
        why = taken_out.get(str(job))
        if outcome.result is None and why is TakenOut.STUCK:
            reason = f"it kept a turn for more than {turn_limit_s:g} s; {outcome.reason}"
            outcome = replace(outcome, status=Status.TIMEOUT, reason=reason)
        elif outcome.status is Status.OK and why:
            late = f"{NO_HEAT}: launches that were started at once were not alive at once"
            outcome = replace(outcome, status=Status.INVALID, reason=late, result=None)
        explained.append(outcome)
    return explained
