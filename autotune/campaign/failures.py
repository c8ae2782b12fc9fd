"""Decide what follows from launches that failed, as functions of the history (data flow: trial, proposer).

A launch can fail because of its machine rather than of its point (the job-wide values). So a point whose
failure may be temporary, or whose curve has a gap because of a wrong result, is launched once more as soon as
another launch has ended well. If several points in a row fail, a launch of the untouched stack (with the
MPI's own defaults) shows whether the machine still works; if that launch fails too, the failures are no
evidence about their points. A time limit ends a launch that hangs after a multiple of the time that the
longest launch took.

A launch is lost if its job was cancelled, preempted or revoked, a node died, or somebody ended its launcher.
A loss says nothing about the point, so the launch is made again at once (``campaign.lost``). A launch that is
lost ``RULE.attempts`` times in a row may itself kill its nodes: it is recorded as lost, and counts as failed.
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
    """Set the limits at which failures end a campaign, or rule out a value."""

    attempts: int = 3
    """Least number of launches of the untouched stack that must fail in a row before the machine counts as
    broken; also the number of lost attempts at a launch after which the launch counts as failed."""
    false_alarm: float = 0.01
    """Accepted probability of ending a campaign although its machine fails no more often than before."""
    in_a_row: int = 3
    """Number of points that must fail in a row before the machine is suspected; it doubles each time that the
    suspected machine turns out to work. Also the number of points with the same value that must fail because
    they were not applied as requested before the value counts as one that cannot be applied here."""
    in_vain: int = 2
    """Number by which failed second tries may exceed successful ones before no more second tries are made."""
    share_in_vain: float = 0.05  # Share of the number of all launches that is added to ``in_vain``.
    shortest_s: float = 10.0  # Shortest time limit of a launch, in seconds.
    times: float = 8.0
    """Time limit of a launch as a multiple of the longest launch that ended well. On a busy machine a launch
    takes several times as long as usual; a larger multiple would make launches that hang more costly."""


RULE = FailureRule()


def second_try(history: History) -> Trial | None:
    """Return the first trial whose failure may be temporary and that was not repeated yet, else None.

    If most second tries fail too, failures here are not temporary, and no more second tries are made.
    """
    tries = [o for o in on_working_machine(history) if o.trial.repeats]
    in_vain = sum(not (o.ok and _final(o)) for o in tries)
    if in_vain > RULE.in_vain + (len(tries) - in_vain) + RULE.share_in_vain * len(history):
        return None
    repeated_numbers = {o.trial.repeats for o in history}
    pending = None
    for observation in history:
        trial = observation.trial
        if observation.ok and pending is not None:
            return pending
        searched = trial.phase in (Phase.SCREENING, Phase.SEARCH)
        repeatable = searched and not trial.repeats and trial.number not in repeated_numbers
        if pending is None and repeatable and not _final(observation):
            pending = trial
    return None


def first_tries(history: Iterable[Observation]) -> tuple[Observation, ...]:
    """Return the observations of first tries, or of their second tries where these ended well."""
    tries = tuple(history)
    numbers, succeeded = {o.trial.number for o in tries}, {o.trial.repeats: o for o in tries if o.ok}
    return tuple(succeeded.get(o.trial.number, o) for o in tries if o.trial.repeats not in numbers)


def settled(history: History) -> History:
    """Return the history without failures that a second try corrected or that a broken machine caused."""
    return History(first_tries(on_working_machine(history)))


def on_working_machine(history: History) -> Iterator[Observation]:
    """Yield the observations, except series of failures in which the stack's own defaults failed too."""
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
    """Whether so many points failed in a row that a launch of the defaults must test the machine."""
    needed, run = RULE.in_a_row, list[Observation]()
    for observation in history:
        if observation.status.may_pass and observation.trial.phase is not Phase.DISCOVERY:
            run.append(observation)
            continue
        needed *= 2 if observation.trial.phase is Phase.BASELINE and _points(run) >= needed else 1
        run = []
    return _points(run) >= needed


def broken(history: History) -> bool:
    """Whether the machine has to be repaired before anything else is launched.

    The machine counts as broken once ``_more_than_chance`` launches in a row have failed: launches of the
    untouched stack, or of both sides of a verification. If the campaign is then continued, the machine counts
    as broken again after the same number of further failures.
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
    compares_default = run and run[0].trial.phase in (Phase.BASELINE, Phase.VERIFY)
    return (
        bool(compares_default)
        and failed > 0
        and failed % _more_than_chance(history.observations[: -len(run)]) == 0
    )


def _more_than_chance(earlier: Sequence[Observation]) -> int:
    """Return how many failures in a row mean a broken machine.

    It is ``RULE.attempts``, or more if launches fail by chance: if one in ten fails, three failures in a row
    are to be expected somewhere in a long campaign. Failures by chance are those of launches that ended well
    when repeated, and those of a verification, whose two sides both worked before.
    """
    repeated_well = {o.trial.repeats for o in earlier if o.ok}
    passed = sum(
        o.status.may_pass and (o.trial.number in repeated_well or o.trial.phase is Phase.VERIFY)
        for o in on_working_machine(History(tuple(earlier)))
    )
    if not passed:
        return RULE.attempts
    rate = min(passed / len(earlier), 0.5)
    return max(RULE.attempts, math.ceil(math.log(RULE.false_alarm / len(earlier)) / math.log(rate)))


def applicable(space: Space, history: Iterable[Observation]) -> Space:
    """Return the space without the values that ``never_applied`` finds.

    A parameter whose other values are all removed keeps its default and is fixed to it.
    """
    removed = never_applied(space, history)
    if not removed:
        return space
    only_default = (p for p in space.job if all(v == p.default or (p.name, v) in removed for v in p.values))
    reduced = space.fix({p.name: p.default for p in only_default})
    return reduced.without(lambda p, v: "" if v is None else removed.get((p.name, v), ""))


def never_applied(space: Space, history: Iterable[Observation]) -> dict[tuple[str, Value], str]:
    """Return the values that no launch applied as requested, as pairs (parameter, value) with a reason.

    If launches have several such values, the value that occurs in most of these launches is at fault. If two
    values occur equally often, it is that of the earlier parameter, since parameters that depend on that one
    fail with it. The other values are then judged by the launches without the value at fault.
    """
    launches = [o for o in history if o.trial.phase in (Phase.SCREENING, Phase.SEARCH)]
    removed: dict[tuple[str, Value], str] = {}
    while True:
        not_applied: dict[tuple[str, Value], list[Observation]] = {}
        for o in (o for o in launches if o.status is Status.NOT_APPLIED):
            for p in space.job:
                if (value := o.trial.point.get(p.name, p.default)) != p.default:
                    not_applied.setdefault((p.name, value), []).append(o)
        applied = {
            item for o in launches if o.status is not Status.NOT_APPLIED for item in o.trial.point.items()
        }
        points = {
            change: len({o.trial.point for o in not_applied[change]})
            for change in not_applied.keys() - applied
        }
        order = [change for change in not_applied if points.get(change, 0) >= RULE.in_a_row]
        if not order:
            break
        name, value = at_fault = max(order, key=lambda change: len(not_applied[change]))
        removed[at_fault] = (
            f"none of {len(not_applied[at_fault])} launches was as asked: {not_applied[at_fault][0].reason}"
        )
        launches = [o for o in launches if o.trial.point.get(name) != value]
    return removed


def limit_s(scenario: Scenario) -> float:
    """Return the time limit of a launch in seconds that applies however long other launches took."""
    # A launch also takes time to start ranks, to warm up each call and to check results.
    return scenario.launch.timeout_s or 60.0 + 5 * scenario.probe.budget_s


def enough_s(longest_s: float) -> float:
    """Return the time limit of a launch in seconds, from the longest launch that ended well."""
    return max(RULE.shortest_s, RULE.times * longest_s)


def with_time_limit(trial: Trial, scenario: Scenario, space: Space, history: History) -> Trial:
    """Return the trial with a time limit from similar launches, unless the scenario sets one.

    A trial that repeats a failed one has twice that limit.
    """
    similar = history.of_points(space) if trial.subject is Subject.SWEEP else history
    durations_s = [o.duration_s for o in similar if o.ok and o.trial.phase is not Phase.DISCOVERY]
    if scenario.launch.timeout_s or trial.timeout_s or not durations_s:
        return trial
    longest_s = enough_s(max(durations_s)) * (2 if trial.repeats else 1)
    return replace(trial, timeout_s=longest_s) if longest_s < limit_s(scenario) else trial


def _final(observation: Observation) -> bool:
    """Whether repeating a launch is useless.

    It is useless if the failure is permanent. If only some results were wrong, it is useless if every slot
    (collective, communicator size, message size) with a wrong result also has the time of another choice.
    """
    if not observation.ok:
        return not observation.status.may_pass
    wrong = {slot_of(e.cell) for e in observation.estimates if e.status is Status.WRONG_RESULT}
    return wrong <= {slot_of(e.cell) for e in observation.usable}


def _untouched(run: list[Observation]) -> int:
    return sum(o.trial.phase is Phase.BASELINE for o in run)


def _points(run: list[Observation]) -> int:
    """Return the number of different points among these launches, without those of the baseline."""
    return len({o.trial.point for o in run if o.trial.phase is not Phase.BASELINE})


def _sides(run: list[Observation]) -> set[Subject]:
    return {o.trial.subject for o in run if o.trial.phase is Phase.VERIFY}
