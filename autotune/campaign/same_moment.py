"""Express the launches of heats (alive at once, in turns) as if all heats had been made at one moment.

Notation: ``t`` is a setting's time in one slot (collective, communicator size, message size) in a heat,
``t₀`` the time of the untouched stack (the MPI's own defaults) in the same heat, and ``r₀`` the time of the
first untouched launch of the campaign. A moment affects the times of all launches of a heat alike, so the
ratio t / t₀ belongs to the setting; the search reads

    t' = r₀ · t / t₀,   (s' / t')² = (s / t)² + (s₀ / t₀)²,

where s', s and s₀ are the standard errors of t', t and t₀ within a launch. The first untouched launch of each
heat is the reference and does not appear in the result. If a heat has a second untouched launch, the ratio of
the two shows the noise; but the untouched stack's true ratio to itself is 1, so these ratios are divided by
their median, and r₀ is the time to which settings are compared. The times of launches that were made alone
are not changed, nor are the times of a verification, which compares launches of the same heat only.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from autotune.campaign.states import STATES, Ratios, corrections, slopes
from autotune.history.memory import latest, remembered
from autotune.history.objectives import Z95, Slot, slot_of
from autotune.history.trial import SLOWEST_STATE, Estimate, History, Observation, Phase, Status, Subject

ALONE = "the untouched stack beside it failed, so that nothing can be compared"
_FAILED = "the untouched stack was not measured beside it"


@latest
def at_one_moment(history: History) -> History:
    """Return the history with the ratios of each heat in place of its times.

    A history without heats, such as a result of this function, is returned unchanged. The duration of each
    launch includes its share of the duration of the reference beside it.
    """
    heats: dict[int, list[Observation]] = defaultdict(list)
    reference: dict[Slot, float] = {}
    states: dict[int, float] = {}
    for o in history:
        if o.trial.phase is Phase.VERIFY:
            continue
        if o.trial.heat:
            heats[o.trial.heat].append(o)
        if _untouched(o):
            for e in o.usable:
                reference.setdefault(slot_of(e.cell), e.median_s)
    if not heats:
        return history
    replaced: dict[int, Observation | None] = {}
    for launches in heats.values():
        untouched = [o for o in launches if _untouched(o) and o.ok]
        default = untouched[0] if untouched else None
        settings = [o for o in launches if o is not default]
        share_s = default.duration_s / len(settings) if default and settings else 0.0
        reference_times = (
            tuple((slot_of(e.cell), reference[slot_of(e.cell)]) for e in default.usable) if default else ()
        )
        state = _state(default, reference_times) if default else 0.0
        for o in launches if settings else ():
            if o is default:
                replaced[o.trial.number] = None
            elif default is not None:
                replaced[o.trial.number] = _as_ratio(o, default, reference_times, share_s)
                states[o.trial.number] = state
            elif o.ok:
                replaced[o.trial.number] = _alone(o)
    observations = [o for o in (replaced.get(o.trial.number, o) for o in history) if o is not None]
    in_one_state = list(_in_one_state(observations, states, reference))
    return History(tuple(_centred(in_one_state, states, reference)), history.next_number - 1)


def _in_one_state(
    observations: Sequence[Observation], states: Mapping[int, float], reference: Mapping[Slot, float]
) -> Iterator[Observation]:
    """Yield the observations, those of heats corrected to the machine's prevailing state (see ``states``)."""
    # An untouched launch has the same true ratio, 1, in every state.
    of_heats = [o for o in observations if o.trial.number in states and o.ok and not _untouched(o)]
    launches = [Ratios(o.trial.point, states[o.trial.number], _logs(o, reference)) for o in of_heats]
    z = list(states.values()) or [0.0]
    prevailing, *outer = (float(np.quantile(z, q)) for q in (0.5, *STATES.outer))
    by = slopes(launches)
    to_prevailing = corrections(launches, by, prevailing)
    to_slowest = [
        {slot: max(each[slot] for each in of_states) for slot in of_states[0]}
        for of_states in zip(to_prevailing, *(corrections(launches, by, q) for q in outer), strict=True)
    ]
    terms = zip(of_heats, to_prevailing, to_slowest, strict=True)
    factors = {
        o.trial.number: (tuple(now.items()), tuple(slowest.items())) for o, now, slowest in terms if now
    }
    for o in observations:
        yield _corrected(o, *factors[o.trial.number]) if o.trial.number in factors else o


def _centred(
    observations: Sequence[Observation], in_heats: Collection[int], reference: Mapping[Slot, float]
) -> Iterator[Observation]:
    """Yield the observations; the median ratio of the untouched stack to itself becomes 1 in each slot."""
    controls = {
        o.trial.number: o for o in observations if o.trial.number in in_heats and o.ok and _untouched(o)
    }
    ratios: dict[Slot, list[float]] = defaultdict(list)
    for control in controls.values():
        for slot, log in _logs(control, reference).items():
            ratios[slot].append(log)
    factors = tuple((slot, -float(np.median(logs))) for slot, logs in ratios.items())
    for o in observations:
        yield _corrected(o, factors) if o.trial.number in controls else o


def _untouched(launch: Observation) -> bool:
    return launch.trial.subject is Subject.UNTOUCHED


def _state(default: Observation, reference: tuple[tuple[Slot, float], ...]) -> float:
    """Return the mean over the slots of ln (time of the default / its time in the first heat)."""
    reference_times = dict(reference)
    return float(np.mean([math.log(e.median_s / reference_times[_slot(e)]) for e in default.usable] or [0.0]))


def _logs(launch: Observation, reference: Mapping[Slot, float]) -> dict[Slot, float]:
    """Return the mean of ln (t' / r₀) over the choices of each slot."""
    logs: dict[Slot, list[float]] = defaultdict(list)
    for e in launch.usable:
        if (slot := _slot(e)) in reference:
            logs[slot].append(math.log(e.median_s / reference[slot]))
    return {slot: sum(values) / len(values) for slot, values in logs.items()}


@remembered
def _corrected(
    launch: Observation, logs: tuple[tuple[Slot, float], ...], slowest: tuple[tuple[Slot, float], ...] = ()
) -> Observation:
    """Return a launch with these terms added to ln t, and with its times in the state where it is slowest."""
    added, in_slowest = dict(logs), dict(slowest)

    def corrected(e: Estimate) -> Estimate:
        factor = math.exp(added.get(_slot(e), 0.0))
        times = {name: factor * getattr(e, name) for name in ("median_s", "sem_s", "low_s", "high_s")}
        if _slot(e) not in in_slowest:
            return replace(e, **times)
        slowest_s = math.exp(in_slowest[_slot(e)]) * e.median_s
        return replace(e, **times, extra={**e.extra, SLOWEST_STATE: slowest_s})

    return replace(launch, estimates=tuple(map(corrected, launch.estimates)))


def _slot(estimate: Estimate) -> Slot:
    return slot_of(estimate.cell)


@remembered
def _alone(launch: Observation) -> Observation:
    trial = replace(launch.trial, heat=0)
    return replace(launch, trial=trial, status=Status.LOST, estimates=(), reason=ALONE)


@remembered
def _as_ratio(
    launch: Observation, default: Observation, reference: tuple[tuple[Slot, float], ...], share_s: float
) -> Observation:
    """Return a launch with the times t' of the module's text in place of its times t."""
    defaults, reference_s = {slot_of(e.cell): e for e in default.usable}, dict(reference)
    estimates = []
    for e in launch.estimates:
        default_estimate = defaults.get(slot_of(e.cell))
        if e.status is not Status.OK:
            estimates.append(e)
        elif default_estimate is None:
            nothing = Estimate(e.cell, math.nan, math.nan, e.n, Status.INVALID, reason=_FAILED)
            estimates.append(nothing)
        else:
            estimates.append(_scaled(e, default_estimate, reference_s[slot_of(e.cell)]))
    trial = replace(launch.trial, heat=0)  # the ratio is computed here, so no later step needs the heat
    duration_s = launch.duration_s + share_s
    return replace(launch, trial=trial, estimates=tuple(estimates), duration_s=duration_s)


def _scaled(setting: Estimate, default: Estimate, reference_s: float) -> Estimate:
    factor = reference_s / default.median_s
    wider = default.sem_s / default.median_s * setting.median_s
    low = setting.median_s - math.hypot(setting.median_s - setting.low_s, Z95 * wider)
    high = setting.median_s + math.hypot(setting.high_s - setting.median_s, Z95 * wider)
    return replace(
        setting,
        median_s=factor * setting.median_s,
        sem_s=factor * math.hypot(setting.sem_s, wider),
        low_s=factor * max(low, 0.0),
        high_s=factor * high,
    )
