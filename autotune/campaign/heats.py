"""Settings measured at the same moment: launches that are alive at once, in turns (steps 5 to 7 of the flow).

Launches at different moments differ by several per cent, on a machine that does other work by far more, since
each meets another moment. In a heat all meet the same ones, and what is left in their ratios belongs to the
settings, or to what a launch keeps for its life, such as the place of its memory.
"""

import secrets
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from autotune.campaign import interruption
from autotune.campaign.failures import RULE
from autotune.campaign.observing import Launches, Observer, observation
from autotune.errors import StackError
from autotune.history.folder import make_empty
from autotune.history.trial import Observation, Status, Trial
from autotune.probe.protocol import Heat
from autotune.stacks.ports import LaunchOutcome


def at_once(*sides: Observer) -> bool:
    """Whether launches of these can be alive at once, and take turns."""
    return all(
        isinstance(side, Launches) and side.launcher.at_once and side.measurement.probe.sync == "barrier"
        for side in sides
    )


def observe_heat(entrants: Sequence[tuple[Observer, Trial]]) -> tuple[Observation, ...]:
    """Launch some trials at once, each by its observer, and let them measure in turns.

    There is one observation for each of them. They may be of different MPIs. A heat of which a launch was
    ended from outside is made again.

    A launch that fails does not end the others. The duration of each is its share of the heat's.

    Raises:
        StackError: nothing can be launched at all, or some of these cannot be launched at once.
        SpaceError: the stack has no word for something in the space.
        Interrupted: the user ended it; nothing of the heat is left running.
    """
    makers = [maker for maker, _ in entrants if isinstance(maker, Launches)]
    if not at_once(*(maker for maker, _ in entrants)):
        raise StackError("these launches cannot be alive at once")
    lost: list[str] = []
    while True:
        outcomes = _launched(makers, [trial for _, trial in entrants])
        reasons = [o.reason for o in outcomes if o.status is Status.LOST and not o.given_up]
        if not reasons or len(lost) == RULE.attempts - 1:
            break
        interruption.check()  # whoever ended a launch may end us too
        lost.append(reasons[0])
    share = 1 / len(entrants)
    observations = []
    for maker, (_, trial), outcome in zip(makers, entrants, outcomes, strict=True):
        duration_s, queue_s = outcome.duration_s * share, outcome.queue_s * share
        outcome = replace(outcome, lost_before=tuple(lost), duration_s=duration_s, queue_s=queue_s)
        observations.append(observation(trial, outcome, maker.measurement.estimator))
    return tuple(observations)


def _launched(makers: Sequence[Launches], trials: Sequence[Trial]) -> list[LaunchOutcome]:
    """Launch some trials at once, each by its maker."""
    jobs = range(len(trials))
    folder = make_empty(makers[0].directory / "heats" / f"{trials[0].number:04d}").absolute()
    seconds = sum(maker.measurement.heat_s for maker in makers)
    heat = Heat(str(folder), secrets.token_hex(16), 0, len(trials), seconds, trials[0].seed)
    entered = [makers[job].entered(trials[job], replace(heat, job=job)) for job in jobs]

    def run(job: int) -> LaunchOutcome:
        request, checked = entered[job]
        try:
            return checked(makers[job].launcher.run(request))
        finally:
            heat.ended(job).touch()

    with ThreadPoolExecutor(len(trials)) as pool:
        return _explained(list(pool.map(run, jobs)))


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
