"""Choose how long the launches of a heat measure, from the heats made so far.

The launches of a *heat* are alive at once and measure in turns; one of them is *untouched*: it has the MPI's
own defaults. The best length follows from ``measure.two_stage``. There a launch's estimate is the ratio of
its time to that of the untouched launch of the same heat, in one cell (collective, communicator size, message
size and per-call choice). A group has the launches of one setting in several heats, in one cell. All cells of
a launch share its time. The search compares settings in all cells, so their variances are averaged. A
verification excludes a loss of the plain mean in each cell, so the length is that of the cell which needs the
most launches for that.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Hashable
from dataclasses import replace
from operator import attrgetter, itemgetter
from statistics import fmean, median

from autotune.campaign.apart import why_apart
from autotune.history.memory import latest
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
    least ``discover.probe_s`` and at most ``probe.budget_s``. In a heat of a discovery every launch, also the
    default's, measures for ``discover.probe_s``.
    """
    if not trials or not trials[0].heat:
        return trials
    if any(trial.phase is Phase.DISCOVERY for trial in trials):
        return tuple(replace(trial, measured_s=scenario.discover.probe_s) for trial in trials)
    verifying, most_s = trials[0].phase is Phase.VERIFY, scenario.probe.budget_s
    best_s = _best_of_means_s(history, scenario.verify.margin) if verifying else _best_s(history)
    if math.isnan(best_s):
        return trials
    measured_s = min(max(best_s, scenario.discover.probe_s), most_s)
    return tuple(replace(trial, measured_s=round(measured_s, 3)) for trial in trials)


@latest
def _best_s(history: History) -> float:
    """Return the best length of a launch in seconds, by all heats made so far; NaN after too few heats."""
    fixed_s, cells = _ratios(history, attrgetter("median_s", "sem_s"))
    repeated = [found for groups in cells if (found := components(groups)) is not None]
    independent = len(fixed_s) - 1  # cells of a launch deviate together, so count heats
    if not repeated or min(sum(cell.freedom for cell in repeated), independent) < FREEDOM:
        return math.nan
    return best_length_s(median(fixed_s), averaged(repeated))


@latest
def _best_of_means_s(history: History, margin: float) -> float:
    """Return the best length of a launch of the verification in seconds; NaN after too few of them.

    The number of launches that a cell needs is proportional to V / d². V is the variance of the ratio of
    means of a launch; d is the distance of ln of this ratio from the loss ``margin`` that is to be excluded,
    but at least its standard error.
    """
    fixed_s, cells = _ratios(history.of(Phase.VERIFY), _mean)
    needed = []
    for groups in cells:
        variances = components(groups)
        if variances is None or variances.freedom < FREEDOM:
            continue
        known = [launch for group in groups for launch in group if math.isfinite(launch.error)]
        variance = variances.between + variances.within_s / median(launch.measured_s for launch in known)
        distance = fmean(launch.log_value for launch in known) + math.log1p(-margin)
        needed.append((variance / max(distance**2, variance / len(known)), variances))
    if not needed:
        return math.nan
    return best_length_s(median(fixed_s), max(needed, key=itemgetter(0))[1])


def _mean(estimate: Estimate) -> tuple[float, float]:
    """Return the mean of the calls that no other work interrupted, and its standard error, in seconds."""
    return estimate.uninterrupted_mean_s, estimate.extra.get(UNINTERRUPTED_SEM, math.nan)


def _ratios(
    history: History, located: Callable[[Estimate], tuple[float, float]]
) -> tuple[list[float], list[list[list[Launched]]]]:
    """Return the fixed time of each heat's launches, and for each cell the ratios of each setting's launches.

    ``located`` returns a time in seconds and its standard error.
    """
    fixed_s: list[float] = []
    cells: dict[Cell, dict[Hashable, list[Launched]]] = defaultdict(lambda: defaultdict(list))
    for launches in _heats(history):
        untouched = [o for o in launches if o.trial.subject is Subject.UNTOUCHED]
        if not untouched:
            continue
        fixed_s.append(median(max(o.duration_s - o.extra[TIMED], 0.0) for o in launches))
        default = {e.cell: located(e) for e in untouched[0].usable}
        for o in launches:
            if o is untouched[0]:
                continue
            setting = (o.trial.subject, o.trial.point, o.trial.rules)
            for e in o.usable:
                if reference := default.get(Cell(e.cell.collective, e.cell.comm_size, e.cell.message_bytes)):
                    cells[e.cell][setting].append(_ratio(*located(e), *reference, o.extra[TIMED]))
    return fixed_s, [list(groups.values()) for groups in cells.values()]


def _heats(history: History) -> list[list[Observation]]:
    """Return the launches of each heat that report how long their calls were timed."""
    heats: dict[int, list[Observation]] = defaultdict(list)
    for o in history:
        measured = o.ok and o.extra.get(TIMED, 0.0) > 0 and not why_apart(o)
        if measured and o.trial.heat and o.trial.phase is not Phase.DISCOVERY:
            heats[o.trial.heat].append(o)
    return list(heats.values())


def _ratio(
    setting_s: float, setting_sem_s: float, default_s: float, default_sem_s: float, measured_s: float
) -> Launched:
    error = math.hypot(setting_sem_s / setting_s, default_sem_s / default_s)
    return Launched(math.log(setting_s / default_s), error, measured_s)
