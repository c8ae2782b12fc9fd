"""Consequences of launches that failed, as functions of the history (steps 4 and 9 of the flow).

A launch can be the victim of its machine rather than of its point. So a point whose launch failed in a way
that may pass, or whose curve has a gap by a wrong result, or whose cores were further apart than usual, is
launched once more, as soon as another one has ended well; where several points in a row are lost, the
untouched stack says whether the machine still works; and failures beside it are no evidence about their
points. A launch that hangs costs a multiple of those that did not.

A launch that is lost, because its job was cancelled, preempted or revoked, a node died, or somebody ended its
launcher, is no observation of its point: it is made again at once (``campaign.lost``). One that is lost
each of ``RULE.attempts`` times may kill its nodes itself: it stays lost, and counts.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from autotune.history.objectives import slot_of
from autotune.history.trial import History, Observation, Phase, Status, Subject, Trial
from autotune.scenario import Scenario
from autotune.space import Space, Value


@dataclass(frozen=True, slots=True)
class FailureRule:
    """When failures end a campaign, or a value."""

    attempts: int = 3
    """Untouched launches that fail in a row before a machine counts as broken, at least; and attempts at a
    launch that is lost each time before that counts as its own doing."""
    false_alarm: float = 0.01  # Chance of ending a campaign whose machine fails no more than before.
    in_a_row: int = 3
    """Points in a row that make the machine suspect, twice as many after each time that it was well; and
    points of a value, never as asked, that make the value one that cannot be applied here."""
    in_vain: int = 2  # So many launches may be second ones that fail too, beside those that do not,
    share_in_vain: float = 0.05  # and so much of all.
    shortest_s: float = 10.0  # A launch is given so long,
    times: float = 8.0
    """or so many times the longest that ended well: a busy machine takes several times as long, and what
    hangs costs no more than that."""


RULE = FailureRule()


def second_try(history: History) -> Trial | None:
    """The first trial that failed in a way that may pass, and was not made again; None: there is none.

    Where second tries mostly fail too, failures here do not pass, and none is made any more.
    """
    tries = [o for o in on_working_machine(history) if o.trial.repeats]
    in_vain = sum(not (o.ok and _final(o)) for o in tries)
    if in_vain > RULE.in_vain + (len(tries) - in_vain) + RULE.share_in_vain * len(history):
        return None
    made = {o.trial.repeats for o in history}
    waiting = None
    for observation in history:
        trial = observation.trial
        if observation.ok and waiting is not None:
            return waiting
        searched = trial.phase in (Phase.SCREENING, Phase.SEARCH)
        fresh = searched and not trial.repeats and trial.number not in made
        if waiting is None and fresh and not _final(observation):
            waiting = trial
    return None


def first_tries(history: Iterable[Observation]) -> tuple[Observation, ...]:
    """The observations, each second try that ended well in place of the first one."""
    tries = tuple(history)
    there, good = {o.trial.number for o in tries}, {o.trial.repeats: o for o in tries if o.ok}
    return tuple(good.get(o.trial.number, o) for o in tries if o.trial.repeats not in there)


def settled(history: History) -> History:
    """The history without failures that passed and those of a broken machine."""
    return History(first_tries(on_working_machine(history)))


def on_working_machine(history: History) -> Iterator[Observation]:
    """The observations without those of a machine that did not run the untouched stack either."""
    run: list[Observation] = []
    for observation in history:
        if observation.status.may_pass:
            run.append(observation)
            continue
        yield from () if _untouched(run) else run
        run = []
        yield observation
    yield from () if _untouched(run) else run


def suspect(history: History) -> bool:
    """Whether so many points were lost in a row that the untouched stack has to say what is at fault."""
    needed, run = RULE.in_a_row, list[Observation]()
    for observation in history:
        if observation.apart:  # it says itself what was wrong
            continue
        if observation.status.may_pass and observation.trial.phase is not Phase.DISCOVERY:
            run.append(observation)
            continue
        needed *= 2 if observation.trial.phase is Phase.BASELINE and _points(run) >= needed else 1
        run = []
    return _points(run) >= needed


def broken(history: History) -> bool:
    """Whether the machine has to be seen to before anything else is launched.

    That is so after so many launches of the untouched stack that failed in a row, in a verification of both
    sides, as ``_more_than_chance`` says. Whoever goes on makes as many again.
    """
    if not any(o.ok for o in history):
        return len(history.of(Phase.BASELINE)) % RULE.attempts == 0 < len(history.of(Phase.BASELINE))
    run: list[Observation] = []
    for observation in reversed(history.observations):
        if not observation.status.may_pass or observation.trial.phase is Phase.DISCOVERY:
            break
        run.append(observation)
    verifying = sum(o.trial.phase is Phase.VERIFY for o in run)
    failed = verifying if verifying and len(_sides(run)) > 1 else _untouched(run)
    asked = run and run[0].trial.phase in (Phase.BASELINE, Phase.VERIFY)
    return bool(asked) and failed > 0 and failed % _more_than_chance(history.observations[: -len(run)]) == 0


def _more_than_chance(before: Sequence[Observation]) -> int:
    """So many failures in a row are a broken machine: ``RULE.attempts``, more where launches fail by chance.

    With one in ten failing, three in a row are to be expected somewhere in a night. Failures by chance are
    those that passed, and those of a verification, whose sides have both been launched before.
    """
    well = {o.trial.repeats for o in before if o.ok}
    passed = sum(
        o.status.may_pass and (o.trial.number in well or o.trial.phase is Phase.VERIFY)
        for o in on_working_machine(History(tuple(before)))
    )
    if not passed:
        return RULE.attempts
    rate = min(passed / len(before), 0.5)
    return max(RULE.attempts, math.ceil(math.log(RULE.false_alarm / len(before)) / math.log(rate)))


def applicable(space: Space, history: Iterable[Observation]) -> Space:
    """The space without what was ``never_applied``; a parameter that has only its default left keeps it."""
    gone = never_applied(space, history)
    if not gone:
        return space
    alone = (p for p in space.job if all(v == p.default or (p.name, v) in gone for v in p.values))
    held = space.fix({p.name: p.default for p in alone})
    return held.without(lambda p, v: "" if v is None else gone.get((p.name, v), ""))


def never_applied(space: Space, history: Iterable[Observation]) -> dict[tuple[str, Value], str]:
    """The values of parameters with which no launch was what was asked for, with what was wrong.

    Where launches of several values failed together, the one that most of them share is at fault, the earlier
    parameter first: what depends on it goes with it, and the others are judged by their other launches.
    """
    made = [o for o in history if o.trial.phase in (Phase.SCREENING, Phase.SEARCH)]
    gone: dict[tuple[str, Value], str] = {}
    while True:
        vain: dict[tuple[str, Value], list[Observation]] = {}
        for o in (o for o in made if o.status is Status.NOT_APPLIED):
            for p in space.job:
                if (value := o.trial.point.get(p.name, p.default)) != p.default:
                    vain.setdefault((p.name, value), []).append(o)
        applied = {item for o in made if o.status is not Status.NOT_APPLIED for item in o.trial.point.items()}
        points = {change: len({o.trial.point for o in vain[change]}) for change in vain.keys() - applied}
        order = [change for change in vain if points.get(change, 0) >= RULE.in_a_row]
        if not order:
            break
        name, value = at_fault = max(order, key=lambda change: len(vain[change]))
        gone[at_fault] = f"none of {len(vain[at_fault])} launches was as asked: {vain[at_fault][0].reason}"
        made = [o for o in made if o.trial.point.get(name) != value]
    return gone


def limit_s(scenario: Scenario) -> float:
    """How long a launch may take, whatever others took."""
    # Besides the timed part a launch starts ranks, warms cells up and checks results.
    return scenario.launch.timeout_s or 60.0 + 5 * scenario.probe.budget_s


def enough_s(longest_s: float) -> float:
    """How long a launch may take where others took so long at most."""
    return max(RULE.shortest_s, RULE.times * longest_s)


def with_time_limit(trial: Trial, scenario: Scenario, space: Space, history: History) -> Trial:
    """The trial with a limit by launches of its kind, unless the scenario names one; twice that once more."""
    alike = history.of_points(space) if trial.subject is Subject.SWEEP else history
    made = [o.duration_s for o in alike if o.ok and o.trial.phase is not Phase.DISCOVERY]
    if scenario.launch.timeout_s or trial.timeout_s or not made:
        return trial
    longest_s = enough_s(max(made)) * (2 if trial.repeats else 1)
    return replace(trial, timeout_s=longest_s) if longest_s < limit_s(scenario) else trial


def _final(observation: Observation) -> bool:
    """Whether making it again would show no more: it failed for good, or wrong results left no gap."""
    if not observation.ok:
        return not observation.status.may_pass
    wrong = {slot_of(e.cell) for e in observation.estimates if e.status is Status.WRONG_RESULT}
    return wrong <= {slot_of(e.cell) for e in observation.usable}


def _untouched(run: list[Observation]) -> int:
    return sum(o.trial.phase is Phase.BASELINE for o in run)


def _points(run: list[Observation]) -> int:
    """How many points they are launches of, beside the baseline."""
    return len({o.trial.point for o in run if o.trial.phase is not Phase.BASELINE})


def _sides(run: list[Observation]) -> set[Subject]:
    return {o.trial.subject for o in run if o.trial.phase is Phase.VERIFY}
