"""Effects on whole launches, estimated from settings that were launched again, and removed (step 8).

A launch of setting k, at position x of the campaign and on the hosts H, lies at

    y = m_k + g(x) + h(H) + e,

y the mean of ln t over what all launches of the setting measured; g a random walk, h an effect of the nodes
whose covariance is the share of common hosts, e a launch's own error. Variances are the maximum of the
likelihood, with a flat prior on m_k; what they add is taken out only where the likelihood ratio says that it
is no chance, also without the launch that lies farthest from its setting's others, since what is estimated
badly would add noise. The baseline, which is launched again at intervals, carries most of it. A few launches
that lie by themselves, which something disturbed, are left out.
The host of a virtual machine has its cores near each other or apart, for minutes at times, and small
messages take two to four times as long there: launches of the search are corrected to the state of most, slot
by slot, by what the untouched stack shows of both (it is launched as soon as another state appears); those of
a verification are compared among themselves (see ``blocks``). How fast the cores were is a covariate: y rises
with the logarithm of the core loop's duration, by a slope from the same launches (analysis of covariance);
that goes first, out of the launches of the verification too.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from statistics import fmean, median

import numpy as np
from numpy.typing import NDArray

from autotune.history.memory import remembered
from autotune.history.objectives import Slot, slot_of
from autotune.history.trial import CUT_MEAN, PLAIN_MEAN, History, Observation, Phase, Status, Subject
from autotune.measure.location import normal_scale
from autotune.measure.machine import LIMITS, core_states, often_apart
from autotune.recommend.repeats import repeated

_SEARCHED = (Phase.BASELINE, Phase.SCREENING, Phase.SEARCH)
_COMPARED = (*_SEARCHED, Phase.VERIFY)


@dataclass(frozen=True, slots=True)
class DriftRule:
    """When launches are taken to depend on the time, on the log scale."""

    loop_sd: float = 0.05  # Of ln of the core loop's duration, where nothing is to be learnt from it.
    fewest: int = 6  # Launches of settings that were launched again, below which nothing is estimated.
    most: int = 160  # So many are looked at, evenly taken.
    sure: float = 6.0  # Twice the log likelihood ratio from which on an effect is taken for more than chance.
    outlying: float = 4.0  # Robust standard deviations from which on a launch lies by itself.
    flat: float = 10.0  # Prior standard deviation of a setting's mean, on the log scale: as good as none.
    shares: tuple[float, ...] = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0)
    """Candidates: standard deviations of e, and ratios of the others' to it."""


RULE = DriftRule()
_ELSEWHERE = "its cores were not as far apart as usual"
_ERRORS = np.exp(np.linspace(math.log(0.002), math.log(0.3), 11))

Array = NDArray[np.float64]
Row = tuple[int, int, float]
"""Positions of a launch and of the first of its setting, the mean of ln t of what all of these measured."""


@dataclass(frozen=True, slots=True)
class Drift:
    """Effects on whole launches, on the log scale."""

    launches: int = 0  # From which it was estimated; 0: too few.
    error: float = math.nan  # Standard deviation of one launch beside it.
    walk: float = 0.0  # Standard deviation by which the machine moved over the campaign; 0: not beyond chance
    hosts: float = 0.0  # Standard deviation between sets of nodes; 0: not beyond chance.
    offsets: dict[int, float] = field(default_factory=dict)  # Trial → by how much its times are too high.

    @property
    def effects(self) -> int:
        """How many are beyond chance."""
        return bool(self.walk) + bool(self.hosts)

    @property
    def span(self) -> tuple[float, float]:
        """The lowest and the highest offset."""
        return (min(self.offsets.values()), max(self.offsets.values())) if self.offsets else (0.0, 0.0)


def corrected(history: History) -> History:
    """The history with what moved whole launches of the search taken out; the very same where nothing did."""
    history = _alike(history)
    return _without(history, _walked(history).offsets)


def _without(history: History, offsets: Mapping[int, float]) -> History:
    if not offsets:
        return history
    moved = (_moved(o, round(offsets.get(o.trial.number, 0.0), 4)) for o in history)
    return History(tuple(moved))


def _alike(history: History) -> History:
    """The history as if all launches but the discovery's had run on cores as near and as fast."""
    steady = _steady(history)
    return _without(steady, _by_speed(steady))


def _up_to_baseline(history: History) -> tuple[Observation, ...]:
    """The launches before the verification, up to the last one of the baseline."""
    searched = history.of(*_SEARCHED).observations
    last = max((i for i, o in enumerate(searched) if o.trial.phase is Phase.BASELINE), default=-1)
    return searched[: last + 1]


def _by_speed(history: History) -> dict[int, float]:
    """By how much times are too high since cores were slow; nothing where that is not more than chance.

    Estimated up to the last launch of the baseline, as in ``drift``: so the correction of the launches of
    a verification was settled before they were made. No knob moves the core loop, so both sides gain alike.
    """
    slope, usual = _slope(_up_to_baseline(history))
    if not slope:
        return {}
    compared = history.of(*_COMPARED)
    loops = {o.trial.number: o.extra.get("core_loop_s", 0.0) for o in compared}
    return {number: slope * (math.log(loop_s) - usual) for number, loop_s in loops.items() if loop_s}


@remembered
def _slope(made: tuple[Observation, ...]) -> tuple[float, float]:
    """How far ln t follows the logarithm of the core loop, 0 if that is not sure; and the latter's median."""
    groups: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for i, setting, mean in _repeated(made):
        if loop_s := made[i].extra.get("core_loop_s", 0.0):
            groups[setting].append((math.log(loop_s), mean))
    rows = [np.array(of) for of in groups.values() if len(of) > 1]
    if sum(map(len, rows)) < RULE.fewest:
        return 0.0, 0.0
    x, y = np.concatenate([of - of.mean(axis=0) for of in rows]).T
    slope = float(x @ y / (x @ x + RULE.loop_sd**2))
    left = y - slope * x
    freedom = len(x) - len(rows)
    sure = slope > 0 and freedom * math.log(max(y @ y, 1e-12) / max(left @ left, 1e-12)) >= RULE.sure
    return (slope if sure else 0.0), float(np.median(np.concatenate([of[:, 0] for of in rows])))


def _steady(history: History) -> History:
    """The history as if the host had had the cores of all launches of the search as far apart as of most.

    What was launched in another state is corrected by what the untouched stack shows of both, slot by slot;
    where that was not launched there yet, it is lost, if it is not usual for where its ranks are placed.
    """
    searched = [o for o in history.of(*_SEARCHED) if o.ok]
    made = [o for o in searched if o.extra.get("core_latency_s")]
    states = dict(zip((o.trial.number for o in made), core_states([o.extra for o in made]), strict=True))
    levels = _levels(made, states)
    often = Counter(states.values())
    usual = levels.get(max(levels, key=lambda state: often[state], default=0), {})
    offsets = {
        state: tuple((slot, round(level[slot] - here, 4)) for slot, here in usual.items() if slot in level)
        for state, level in levels.items()
    }
    known = {o.trial.number for o in searched} if not often_apart([o.extra for o in searched]) else states

    def steady(one: Observation) -> Observation:
        number = one.trial.number
        if (state := states.get(number, -1)) in levels:
            return one if levels[state] is usual else _moved(one, offsets[state])
        elsewhere = one.apart or one.extra.get("cores_apart", 1.0) * LIMITS.near < 1.0
        return _lost(one) if number in known and elsewhere else one

    steadied = tuple(steady(o) for o in history)
    same = all(a is b for a, b in zip(steadied, history, strict=True))
    return history if same else History(steadied)


def _levels(made: Sequence[Observation], states: Mapping[int, int]) -> dict[int, dict[Slot, float]]:
    """Mean of ln t of the untouched stack in each state of the cores, and each slot."""
    logs: dict[int, dict[Slot, list[float]]] = defaultdict(lambda: defaultdict(list))
    for o in made:
        for e in o.usable if o.trial.subject is Subject.UNTOUCHED else ():
            logs[states[o.trial.number]][slot_of(e.cell)].append(math.log(e.median_s))
    return {state: {slot: fmean(of) for slot, of in slots.items()} for state, slots in logs.items()}


def wants_baseline(history: History) -> bool:
    """Whether the last launch of a corrected history was lost for want of an untouched one to compare."""
    return bool(len(history)) and history.observations[-1].reason == _ELSEWHERE


@remembered
def _lost(one: Observation) -> Observation:
    return replace(one, status=Status.LOST, estimates=(), reason=_ELSEWHERE)


def drift(history: History) -> Drift:
    """Effects on whole launches, estimated up to the last launch of the baseline.

    Until the next one the answer stays as it is, so that what was computed from it need not be again.
    """
    return _walked(_alike(history))


def _walked(history: History) -> Drift:
    searched, used = history.of(*_SEARCHED).observations, _up_to_baseline(history)
    found = _drift(used)
    if found.offsets and len(searched) > len(used):
        # A random walk stays where it was last seen; of other nodes nothing is known yet.
        ahead = found.offsets[used[-1].trial.number]
        later = {o.trial.number: ahead for o in searched[len(used) :]}
        return replace(found, offsets=found.offsets | later)
    return found


@remembered
def _drift(made: tuple[Observation, ...]) -> Drift:
    rows = _repeated(made)
    if len(rows) < RULE.fewest:
        return Drift()
    near = _undisturbed(rows)
    found = _estimated(made, near)
    if found.effects:  # no single launch may make one
        found = min(found, _estimated(made, near[:-1]), key=lambda one: one.effects)
    return replace(found, launches=len(rows))


def _undisturbed(rows: Sequence[Row]) -> Sequence[Row]:
    """From the nearest to others of its setting on, without the few launches that lie by themselves."""
    groups: dict[int, list[float]] = defaultdict(list)
    for _, setting, mean in rows:
        groups[setting].append(mean)

    def away(row: Row) -> float:
        return abs(row[2] - median(groups[row[1]]))

    beyond = RULE.outlying * float(normal_scale([away(row) for row in rows]))
    ordered = sorted(rows, key=away)
    near = [row for row in ordered if away(row) <= beyond]
    return near if len(rows) - len(near) <= max(1, len(rows) // 10) else ordered


def _estimated(made: Sequence[Observation], rows: Sequence[Row]) -> Drift:
    y = np.array([mean for _, _, mean in rows])
    same = np.array([[float(a == b) for _, b, _ in rows] for _, a, _ in rows])
    seen = [made[i] for i, _, _ in rows]
    at = np.array([i for i, _, _ in rows], dtype=float) / max(len(made), 1)
    walks = np.minimum(at[:, None], at)
    nodes = _common(seen, seen)
    flat = RULE.flat**2 * same
    hosts = RULE.shares if 1 < len({tuple(sorted(set(o.hosts))) for o in seen}) < len(seen) else (0.0,)
    likely: dict[tuple[float, float, float], float] = {}
    for error, walk, node in product(_ERRORS, RULE.shares, hosts):
        parts = error**2 * (np.eye(len(y)) + walk**2 * walks + node**2 * nodes)
        likely[float(error), walk, node] = _likelihood(y, flat + parts)
    error, walk, node = _chosen(likely)
    if not walk and not node:
        return Drift(len(rows), error)
    parts = error**2 * (walk**2 * walks + node**2 * nodes)
    weights = np.linalg.solve(flat + parts + error**2 * np.eye(len(y)), y - y.mean())
    everywhere = np.arange(len(made)) / max(len(made), 1)
    across = error**2 * walk**2 * np.minimum(everywhere[:, None], at)
    if node:
        across = across + error**2 * node**2 * _common(made, seen)
    moved = across @ weights
    untouched = [i for i, o in enumerate(made) if o.trial.subject is Subject.UNTOUCHED]
    moved -= moved[untouched].mean()
    offsets = {o.trial.number: float(by) for o, by in zip(made, moved, strict=True)}
    return Drift(len(rows), error, error * walk, error * node, offsets)


def _chosen(likely: Mapping[tuple[float, float, float], float]) -> tuple[float, float, float]:
    """Error and ratios of the likeliest model, with no more effects than are sure."""
    best = max((key for key in likely if not any(key[1:])), key=likely.__getitem__)
    for effects in (1, 2):
        richer = [key for key in likely if sum(map(bool, key[1:])) <= effects]
        better = max(richer, key=likely.__getitem__)
        if 2 * (likely[better] - likely[best]) >= RULE.sure:
            best = better
    return best


def _repeated(made: Sequence[Observation]) -> list[Row]:
    """Rows for settings that were launched again."""
    rows = [
        (i, places[0], float(mean))
        for places, logs in repeated(made)
        for i, mean in zip(places, logs.mean(axis=1), strict=True)
    ]
    rows.sort(key=lambda row: row[0])
    if len(rows) <= RULE.most:
        return rows
    return [rows[i] for i in np.linspace(0, len(rows) - 1, RULE.most).round().astype(int)]


def _common(some: Sequence[Observation], others: Sequence[Observation]) -> Array:
    """The share of hosts that two launches have in common, over the geometric mean of their numbers."""
    names = sorted({host for o in (*some, *others) for host in o.hosts})
    number = {name: i for i, name in enumerate(names)}
    tables = []
    for launches in (some, others):
        table = np.zeros((len(launches), max(len(names), 1)))
        for row, observation in zip(table, launches, strict=True):
            row[[number[host] for host in set(observation.hosts)]] = 1.0
        tables.append(table / np.sqrt(np.maximum(table.sum(axis=1, keepdims=True), 1.0)))
    return np.asarray(tables[0] @ tables[1].T)


def _likelihood(y: Array, covariance: Array) -> float:
    """Logarithm of the normal density, but for a constant."""
    lower = np.linalg.cholesky(covariance)
    whitened = np.linalg.solve(lower, y - y.mean())
    return float(-0.5 * whitened @ whitened - np.log(np.diag(lower)).sum())


@remembered
def _moved(observation: Observation, by: float | tuple[tuple[Slot, float], ...]) -> Observation:
    """By how much its times are too high, in all slots alike or in each."""
    if not by:
        return observation
    names, others = ("median_s", "sem_s", "low_s", "high_s"), {"other_loop_s", PLAIN_MEAN, CUT_MEAN}
    each = by if isinstance(by, float) else dict(by)
    estimates = []
    for e in observation.estimates:
        factor = math.exp(-(each if isinstance(each, float) else each.get(slot_of(e.cell), 0.0)))
        extra = e.extra
        if named := others & e.extra.keys():
            extra = {**extra, **{name: extra[name] * factor for name in named}}
        estimates.append(replace(e, extra=extra, **{name: getattr(e, name) * factor for name in names}))
    return replace(observation, estimates=tuple(estimates))
