"""Choose how long the launches of a heat measure, from the heats made so far.

The launches of a *heat* are alive at once and measure in turns; one of them is *untouched*: it has the MPI's
own defaults. The best length follows from ``measure.two_stage``. There a launch's estimate is the ratio of
its time to that of the untouched launch of the same heat, in one cell (collective, communicator size, message
size and per-call choice). A group has the launches of one setting in several heats, in one cell. All cells of
a launch share its time, so the variances of the cells are averaged.
"""

import math
from collections import defaultdict
from collections.abc import Hashable
from dataclasses import replace
from statistics import median

from autotune.campaign.apart import why_apart
from autotune.history.memory import latest
from autotune.history.trial import TIMED, Cell, Estimate, History, Observation, Phase, Subject, Trial
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
    best_s, most_s = _best_s(history), scenario.probe.budget_s
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
        fixed_s += [max(o.duration_s - o.extra[TIMED], 0.0) for o in launches]
        default = {e.cell: e for e in untouched[0].usable}
        for o in launches:
            if o is untouched[0]:
                continue
            setting = (o.trial.subject, o.trial.point, o.trial.rules)
            for e in o.usable:
                if reference := default.get(Cell(e.cell.collective, e.cell.comm_size, e.cell.message_bytes)):
                    cells[e.cell][setting].append(_ratio(e, reference, o.extra[TIMED]))
    repeated = [found for groups in cells.values() if (found := components(groups.values())) is not None]
    independent = len(_heats(history)) - 1  # cells of a launch deviate together, so count heats
    if not repeated or min(sum(cell.freedom for cell in repeated), independent) < FREEDOM:
        return math.nan
    return best_length_s(median(fixed_s), averaged(repeated))


def _heats(history: History) -> list[list[Observation]]:
    """Return the launches of each heat that report how long their calls were timed."""
    heats: dict[int, list[Observation]] = defaultdict(list)
    for o in history:
        measured = o.ok and o.extra.get(TIMED, 0.0) > 0 and not why_apart(o)
        if measured and o.trial.heat and o.trial.phase is not Phase.DISCOVERY:
            heats[o.trial.heat].append(o)
    return list(heats.values())


def _ratio(setting: Estimate, default: Estimate, measured_s: float) -> Launched:
    error = math.hypot(setting.sem_s / setting.median_s, default.sem_s / default.median_s)
    return Launched(math.log(setting.median_s / default.median_s), error, measured_s)
