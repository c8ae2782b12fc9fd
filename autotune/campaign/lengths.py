"""Choose how long the launches of a heat (alive at once, in turns) measure, from the heats made so far.

The notation is that of ``measure.two_stage``: launches of one setting in several heats are one group for each
cell, with the ratio to the untouched launch of the same heat as their estimate. All cells of a launch share
its time, so the variances of cells are averaged.
"""

import math
from collections import defaultdict
from collections.abc import Hashable
from dataclasses import replace
from statistics import median

from autotune.campaign.apart import why_apart
from autotune.history.memory import latest
from autotune.history.trial import TIMED, Cell, Estimate, History, Observation, Phase, Subject, Trial
from autotune.measure.two_stage import FREEDOM, Launched, best_length_s, components
from autotune.scenario import Scenario


def with_length(trials: tuple[Trial, ...], history: History, scenario: Scenario) -> tuple[Trial, ...]:
    """Return the trials of a heat, each with the time that it measures; unchanged where too little is known.

    The time is at least that of a launch of a discovery, which is meant to be short, and at most
    ``probe.budget_s``. In a heat of a discovery the default measures as long as the other launches.
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
    """Return the best length of a launch in seconds, by all heats made so far; NaN with too few of them."""
    groups: dict[Hashable, list[Launched]] = defaultdict(list)
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
                    groups[setting, e.cell].append(_ratio(e, reference, o.extra[TIMED]))
    variances = components(groups.values())
    independent = len(_heats(history)) - 1  # cells of one launch share its deviation, so count heats
    if variances is None or min(variances.freedom, independent) < FREEDOM:
        return math.nan
    return best_length_s(median(fixed_s), variances)


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
