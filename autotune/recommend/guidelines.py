"""Self-consistent performance guidelines for what was measured anyway (beside step 10 of the flow).

A collective should be no slower than others that do the same together, a message than a larger one, a
communicator than a larger one, a library's own choice than each algorithm that could be forced. Where that
does not hold, something fell back silently, was disturbed, or an algorithm is missed.

Composed calls are those of the two papers, as far as both sides can be measured. Of a size that was not
measured the next larger one stands for it: a longer call can do the work of a shorter one, so the guideline
only becomes weaker. p is the number of ranks; sizes count as everywhere here: the whole vector for allreduce,
reduce, bcast and scans, a block for the others.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise

from autotune.collectives import COLLECTIVES
from autotune.history.lookup import choice_at
from autotune.history.objectives import Slot, job_setting, slot_of
from autotune.history.trial import History, Observation, Rule, Subject
from autotune.importers import BenchmarkRow
from autotune.importers.table import says_yes
from autotune.recommend.guideline_test import Guideline, GuidelineKind, Timed
from autotune.recommend.recommendation import Recommendation
from autotune.space import Point, Space

DEFAULT, EXPORTED = "default", "exported"
"""Settings of a campaign: the untouched stack, and the exported files."""
_CALL = re.compile(r"(\w+)(\*p|/p)?")
_POWERS = {None: 0, "*p": 1, "/p": -1}
_Way = Mapping[tuple[str, int], int]  # Collective and its size by powers of p → how often it is called.

_OVERLAP = "_overlap"
"""Ending of names of calls that compute before the wait, which may hide more of a larger message."""
_OF_BENCHMARKS = {
    "pingping": "pingpong+pingpong",
    "sendrecv": "pingpong+pingpong",
    "sendrecv_replace": "pingpong+pingpong",
    "exchange": "sendrecv+sendrecv pingping+pingping",
}
"""Intel's benchmarks that the probe lacks, in which a rank gets as many messages as it sends."""


@cache
def _ways(name: str) -> tuple[_Way, ...]:
    """Calls that together do the same as one, or more: ``reduce*p+scatter`` and its like.

    A call that waits at once takes no longer than one that could be waited for later, a persistent one no
    longer than one that is set up each time, and what is left beside computation no longer than the whole.
    """
    its = COLLECTIVES.get(name)
    ways = [*(its.composed if its else _OF_BENCHMARKS.get(name, "")).split(), f"i{name}"]
    ways += [name.removesuffix(end) for end in (_OVERLAP, "_init") if name.endswith(end)]
    calls = ([(n, _POWERS[size or None]) for n, size in _CALL.findall(way)] for way in ways)
    return tuple(Counter(one) for one in calls)


_GROUPS = {its.name for its in COLLECTIVES.values() if its.collective}
"""Collectives that more ranks can only make slower; the others are between some of them."""

RUN = {"run", "trial", "rep", "repetition", "replicate", "launch"}  # Labels of a table that number launches.
FIGURES = {"phase", "status", "reason", "sem_us", "low_us", "high_us", "n", "outliers", "is_default"}
"""Labels that do not distinguish settings: further figures, as those of ``history``."""


def is_figure(name: str, value: str) -> bool:
    """Whether a label is a further measurement, or numbers runs: those do not distinguish settings."""
    return name in RUN | FIGURES or ("." in value and value.replace(".", "", 1).isdecimal())


_BY_ITSELF = {"default", "auto", "unset", "0", ""}  # What an algorithm is called that nobody forces.

_Times = dict[Hashable, tuple[float, float]]


def of_campaign(space: Space, history: History, chosen: Recommendation | None) -> tuple[Guideline, ...]:
    """Guidelines that a campaign can test: of the untouched stack, and of the exported files.

    Of the stack itself its own choice against each algorithm that was swept in the same launches; of exported
    files the same where their job-wide values were searched, all else on fresh launches of the files.
    """
    untouched = [o for o in history if o.ok and o.trial.subject is Subject.UNTOUCHED]
    found = list(_consistent(_by_slot(DEFAULT, untouched)))
    found += _algorithms(space, history, DEFAULT, space.untouched, ())
    if chosen is None or (not chosen.rules and chosen.point == space.untouched):
        return tuple(found)
    wanted = (Subject.DEPLOYED, chosen.point, chosen.rules)
    deployed = [o for o in history if o.ok and (o.trial.subject, o.trial.point, o.trial.rules) == wanted]
    found += _consistent(_by_slot(EXPORTED, deployed))
    found += [
        guideline
        for guideline in _algorithms(space, history, EXPORTED, chosen.point, chosen.rules)
        if chosen.point != space.untouched or choice_at(chosen.rules, guideline.left.slot)
    ]
    return tuple(found)


def handed_over(guideline: Guideline, space: Space, chosen: Recommendation | None) -> bool:
    """Whether the slower side is the exported files, or a setting that they leave as it is."""
    if chosen is None or guideline.left.setting == EXPORTED:
        return chosen is not None
    return chosen.point == space.untouched and not choice_at(chosen.rules, guideline.left.slot)


def of_table(measurements: Iterable[BenchmarkRow]) -> tuple[Guideline, ...]:
    """Guidelines that any table can test: each setting by itself, and the default against each other one.

    Further columns distinguish settings; those that number launches distinguish launches. Rows of one plain
    table are of one launch, each operation in a benchmark's log is a launch of its own, and a repeated row is
    of the next.
    """
    times: dict[tuple[tuple[str, str], ...], dict[Slot, _Times]] = defaultdict(lambda: defaultdict(dict))
    marked = set()
    for one in measurements:
        if not one.latency_us or not one.collective:
            continue
        labels = {name.lower(): value for name, value in one.labels}
        if labels.get("status", "ok") != "ok":
            continue
        setting = tuple(sorted((n, v) for n, v in labels.items() if not is_figure(n, v)))
        slot = (one.collective, one.comm_size or 0, one.message_bytes)
        run = tuple(labels[name] for name in sorted(RUN & labels.keys()))
        own = (one.source, one.collective if one.benchmark else "", run)
        mine, k = times[setting][slot], 0
        while (launch := (*own, k)) in mine:
            k += 1
        mine[launch] = (one.latency_us * 1e-6, 0.0)
        if says_yes(labels.get("is_default", "")):
            marked.add(setting)
    found: list[Guideline] = []
    shared = set.intersection(*map(set, times)) if times else set()
    settings = {
        setting: {
            slot: Timed(_words([label for label in setting if label not in shared]), slot, seen)
            for slot, seen in sorted(by_slot.items())
        }
        for setting, by_slot in times.items()
    }
    for setting, by_slot in settings.items():
        found += _consistent(by_slot)
        rivals = [s for s in settings if s != setting and _forces(s, setting, setting in marked)]
        for slot, timed in by_slot.items():
            found += _single(timed, [settings[s][slot] for s in rivals if slot in settings[s]])
    return tuple(found)


def _forces(setting: Sequence[tuple[str, str]], default: Sequence[tuple[str, str]], marked: bool) -> bool:
    """Whether one setting forces what the other leaves to the library."""
    if marked:
        return True
    mine, other = ({n: v for n, v in s if "algorithm" not in n and v} for s in (setting, default))
    chosen, left = ([v for n, v in s if "algorithm" in n] for s in (setting, default))
    return mine == other and bool(left) and {v.lower() for v in left} <= _BY_ITSELF and chosen != left


def _words(setting: Sequence[tuple[str, str]]) -> str:
    """The labels in which the setting differs from others."""
    return ", ".join(f"{name}={value}" for name, value in setting if value)


def _by_slot(setting: str, observations: Iterable[Observation]) -> dict[Slot, Timed]:
    """Launches in which each call was made in one way."""
    times: dict[Slot, _Times] = defaultdict(dict)
    for observation in observations:
        for estimate in observation.usable:
            seen = (estimate.median_s, estimate.sem_s / estimate.median_s)
            times[slot_of(estimate.cell)][observation.trial.number] = seen
    return {slot: Timed(setting, slot, seen) for slot, seen in sorted(times.items())}


def _algorithms(
    space: Space, history: History, setting: str, point: Point, rules: Sequence[Rule]
) -> Iterator[Guideline]:
    """The choice in each slot against all others that launches of these job-wide values had there."""
    job, per_size = job_setting(space, point), {p.name for p in space.job if p.per_size}
    seen: dict[Slot, dict[Point, _Times]] = defaultdict(lambda: defaultdict(dict))
    for observation in history.sweeps:
        own = observation.trial.point
        if observation.ok and job_setting(space, own) == job:
            for estimate in observation.usable:
                choice = Point.of({**own.restricted(per_size), **estimate.cell.choice})
                time = (estimate.median_s, estimate.sem_s / estimate.median_s)
                seen[slot_of(estimate.cell)][choice][observation.trial.number] = time
    for slot, choices in sorted(seen.items()):
        wanted = choice_at(rules, slot)
        timed = {choice: Timed(str(choice), slot, times) for choice, times in choices.items()}
        for choice in timed:
            if choice == wanted if wanted else all(v == space[n].unset for n, v in choice.items()):
                mine = replace(timed[choice], setting=setting)
                yield from _single(mine, [other for c, other in timed.items() if c != choice])


def _consistent(by_slot: Mapping[Slot, Timed]) -> Iterator[Guideline]:
    """Every guideline of one setting: compositions, larger messages, several smaller ones, more ranks."""
    sizes: dict[tuple[str, int], list[int]] = defaultdict(list)
    ranks: dict[tuple[str, int], list[int]] = defaultdict(list)
    for name, p, size in sorted(by_slot):
        sizes[name, p].append(size)
        ranks[name, size].append(p)
    for (name, p), measured in sizes.items():
        for small, large in pairwise(measured) if not name.endswith(_OVERLAP) else ():
            less, more = by_slot[name, p, small], by_slot[name, p, large]
            yield Guideline(GuidelineKind.SIZE, less, ((1, more),))
            if small:
                yield Guideline(GuidelineKind.SPLIT, more, ((-(-large // small), less),))
        for size in measured:
            for way in _ways(name) if p else ():
                right = [(k, _enough(by_slot, sizes, *part, p, size)) for part, k in way.items()]
                if all(timed for _, timed in right):
                    whole = tuple((k, timed) for k, timed in right if timed)
                    yield Guideline(GuidelineKind.COMPOSITION, by_slot[name, p, size], whole)
    for (name, size), measured in ranks.items():
        for few, many in pairwise(sorted(measured)) if name in _GROUPS else ():
            if few:
                more = by_slot[name, many, size]
                yield Guideline(GuidelineKind.RANKS, by_slot[name, few, size], ((1, more),))


def _enough(
    by_slot: Mapping[Slot, Timed],
    sizes: Mapping[tuple[str, int], Sequence[int]],
    name: str,
    power: int,
    p: int,
    size: int,
) -> Timed | None:
    """The call with the smallest measured size that does for ``size`` · p^power bytes."""
    wanted = size * p if power > 0 else -(-size // p) if power < 0 else size
    found = min((s for s in sizes.get((name, p), ()) if s >= wanted), default=None)
    return None if found is None else by_slot[name, p, found]


def _single(timed: Timed, others: Iterable[Timed]) -> Iterator[Guideline]:
    """A choice that is made against each that could be forced."""
    for other in others:
        yield Guideline(GuidelineKind.ALGORITHM, timed, ((1, other),))
