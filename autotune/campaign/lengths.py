"""Choose how long the launches of a heat measure, from the heats made so far.

The launches of a *heat* are alive at once and measure in turns; one of them is *untouched*: it has the MPI's
own defaults. The best length follows from ``measure.two_stage``. There a launch's estimate is the ratio of
its time to that of the untouched launch of the same heat, in one cell (collective, communicator size, message
size and per-call choice). A group has the launches of one setting in several heats, in one cell. All cells of
a launch share its time. The search compares settings in all cells, so their variances are averaged. A
verification excludes a loss of the mean in each slot (collective, communicator size, message size), so its
launches are as long as the slot asks that needs the most of them.

The error of a launch is computed as if its samples were independent. Other work that comes and goes makes
them depend on each other, so the error is too small, the variance between launches too large, and the best
length too short: of eight campaigns beside bursts of 0.1 to 1.5 s, the four whose verifications measured for
0.2 to 0.5 s a launch ended without a verdict, the four with 0.8 to 1.5 s with one. So a launch of a
verification measures for at least its fixed time c₀ (start, checks). The variance reached in a given time is
then at most twice that of the best length, whatever the variances are: (c₀ + t)(σ_b² + σ_w² / t) is
2 c₀ σ_b² + 2 σ_w² at t = c₀, and at least c₀ σ_b² + σ_w² at any t.
"""

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from operator import itemgetter
from statistics import fmean, median

import numpy as np

from autotune.campaign.apart import why_apart
from autotune.history.memory import latest
from autotune.history.objectives import Slot, slot_of
from autotune.history.trial import (
    TIMED,
    UNINTERRUPTED_SEM,
    Cell,
    Estimate,
    History,
    Observation,
    Phase,
    Subject,
    Trial,
)
from autotune.measure.two_stage import FREEDOM, Launched, averaged, best_length_s, components
from autotune.scenario import Scenario


def with_length(trials: tuple[Trial, ...], history: History, scenario: Scenario) -> tuple[Trial, ...]:
    """Return the trials of a heat, each with the time for which it measures.

    The trials are returned unchanged if they are no heat, or if earlier heats show too little. The time is at
    least ``discover.probe_s``, in a verification at least the fixed time of a launch, and at most
    ``probe.budget_s``. In a heat of a discovery every launch, also the default's, measures for
    ``discover.probe_s``.
    """
    if not trials or not trials[0].heat:
        return trials
    if any(trial.phase is Phase.DISCOVERY for trial in trials):
        return tuple(replace(trial, measured_s=scenario.discover.probe_s) for trial in trials)
    verifying, most_s = trials[0].phase is Phase.VERIFY, scenario.probe.budget_s
    if verifying:
        best_s = float(np.fmax(_best_of_means_s(history, scenario.verify.margin), _usual_fixed_s(history)))
    else:
        best_s = _best_s(history)
    if math.isnan(best_s):
        return trials
    measured_s = min(max(best_s, scenario.discover.probe_s), most_s)
    return tuple(replace(trial, measured_s=round(measured_s, 3)) for trial in trials)


@latest
def _best_s(history: History) -> float:
    """Return the best length of a launch in seconds, by all heats made so far; NaN after too few heats."""
    cells: dict[Cell, dict[Hashable, list[Launched]]] = defaultdict(lambda: defaultdict(list))
    fixed_s: list[float] = []
    for launches in _heats(history):
        untouched = [o for o in launches if o.trial.subject is Subject.UNTOUCHED]
        if not untouched:
            continue
        fixed_s.append(_fixed_s(launches))
        default = {e.cell: e for e in untouched[0].usable}
        for o in launches:
            if o is untouched[0]:
                continue
            setting = (o.trial.subject, o.trial.point, o.trial.rules)
            for e in o.usable:
                if reference := default.get(Cell(e.cell.collective, e.cell.comm_size, e.cell.message_bytes)):
                    cells[e.cell][setting].append(_ratio(e, reference, o.extra[TIMED]))
    repeated = [found for groups in cells.values() if (found := components(groups.values())) is not None]
    independent = len(fixed_s) - 1  # cells of a launch deviate together, so count heats
    if not repeated or min(sum(cell.freedom for cell in repeated), independent) < FREEDOM:
        return math.nan
    return best_length_s(median(fixed_s), averaged(repeated))


@latest
def _best_of_means_s(history: History, margin: float) -> float:
    """Return the best length of a launch of the verification in seconds; NaN after too few of them.

    A group has the launches of one side in one heat, so that neither moments nor states of the machine count.
    The number of launches that a slot needs is proportional to V / d². V is the variance of ln of a launch's
    mean; d is the distance of ln of the mean ratio from the loss ``margin`` that is to be excluded, but at
    least its standard error.
    """
    fixed_s: list[float] = []
    groups: dict[Slot, list[list[Launched]]] = defaultdict(list)
    ratios: dict[Slot, list[float]] = defaultdict(list)
    for launches in _heats(history.of(Phase.VERIFY)):
        fixed_s.append(_fixed_s(launches))
        default, setting = (_means(launches, side) for side in (Subject.UNTOUCHED, Subject.DEPLOYED))
        for slot in default.keys() & setting.keys():
            groups[slot] += [default[slot], setting[slot]]
            default_log, setting_log = (
                fmean(launch.log_value for launch in side[slot]) for side in (default, setting)
            )
            ratios[slot].append(setting_log - default_log)
    needed = []
    for slot, logs in ratios.items():
        variances = components(groups[slot])
        if variances is None or variances.freedom < FREEDOM:
            continue
        measured_s = median(launch.measured_s for side in groups[slot] for launch in side)
        variance = variances.between + variances.within_s / measured_s
        distance = fmean(logs) + math.log1p(-margin)
        needed.append((variance / max(distance**2, variance / len(logs)), variances))
    if not needed:
        return math.nan
    return best_length_s(median(fixed_s), max(needed, key=itemgetter(0))[1])


@latest
def _usual_fixed_s(history: History) -> float:
    """Return the usual time of a launch beside its timed calls, in seconds; NaN before the first heat."""
    fixed_s = [_fixed_s(launches) for launches in _heats(history)]
    return median(fixed_s) if fixed_s else math.nan


def _means(launches: Iterable[Observation], side: Subject) -> dict[Slot, list[Launched]]:
    """Return the means of the calls that nothing interrupted, of each launch of one side, by slot."""
    means: dict[Slot, list[Launched]] = defaultdict(list)
    for o in launches:
        for e in o.usable if o.trial.subject is side else ():
            mean_s, sem_s = e.uninterrupted_mean_s, e.extra.get(UNINTERRUPTED_SEM, math.nan)
            means[slot_of(e.cell)].append(Launched(math.log(mean_s), sem_s / mean_s, o.extra[TIMED]))
    return means


def _heats(history: History) -> list[list[Observation]]:
    """Return the launches of each heat that report how long their calls were timed."""
    heats: dict[int, list[Observation]] = defaultdict(list)
    for o in history:
        measured = o.ok and o.extra.get(TIMED, 0.0) > 0 and not why_apart(o)
        if measured and o.trial.heat and o.trial.phase is not Phase.DISCOVERY:
            heats[o.trial.heat].append(o)
    return list(heats.values())


def _fixed_s(launches: Sequence[Observation]) -> float:
    """Return the time of a heat's launches beside their timed calls, in seconds."""
    return median(max(o.duration_s - o.extra[TIMED], 0.0) for o in launches)


def _ratio(setting: Estimate, default: Estimate, measured_s: float) -> Launched:
    error = math.hypot(setting.sem_s / setting.median_s, default.sem_s / default.median_s)
    return Launched(math.log(setting.median_s / default.median_s), error, measured_s)
