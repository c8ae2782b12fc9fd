"""Performance guidelines: relations that a consistent MPI library satisfies, tested on existing measurements.

Place in the flow of ``autotune/__init__.py``: outside it, after step 10, recommend.

A collective should be no slower than other collectives that together do the same work. A message should be no
slower than a larger message, and a call no slower than the same call on a larger communicator. A library's
own choice of algorithm should be no slower than each algorithm that can be forced. If a guideline does not
hold, the library silently used another method, a launch was disturbed, or the library misses a better
algorithm.

The compositions of calls come from the two papers on such guidelines in `docs/sources.md`, as far as both
sides can be measured. If a message size was not measured, the next larger size takes its place: a call with a
larger message can do the same work, so the guideline only becomes weaker. p is the number of ranks. A message
is the whole vector for allreduce, reduce, bcast and scans, and one block for other collectives.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise

from autotune.collectives import COLLECTIVES
from autotune.history.benchmark_row import BenchmarkRow
from autotune.history.lookup import choice_at
from autotune.history.objectives import Slot, by_setting, choices_of, job_setting, slot_of
from autotune.history.trial import History, Observation, Rule, Subject
from autotune.recommend.guideline_test import Guideline, GuidelineKind, Timed
from autotune.recommend.recommendation import Recommendation
from autotune.space import Point, Space
from autotune.text_table import says_yes

DEFAULT, EXPORTED = "default", "exported"
"""Names of the two settings of a campaign: ``DEFAULT`` is the MPI stack with its own defaults, ``EXPORTED``
the stack with the exported files."""
_CALL = re.compile(r"(\w+)(\*p|/p)?")
_POWERS = {None: 0, "*p": 1, "/p": -1}
_Way = Mapping[tuple[str, int], int]
"""A composition of calls: it maps (collective, power of p by which the message size is multiplied) to the
number of such calls."""

_OVERLAP = "_overlap"
"""Ending of the names of calls that compute before the wait. The computation may hide more of a larger
message than of a smaller one."""
_OF_BENCHMARKS = {
    "pingping": "pingpong+pingpong",
    "sendrecv": "pingpong+pingpong",
    "sendrecv_replace": "pingpong+pingpong",
    "exchange": "sendrecv+sendrecv pingping+pingping",
}
"""Compositions for calls of Intel's benchmarks that the probe cannot measure. In each composition a rank
receives as many messages as it sends."""


@cache
def _ways(name: str) -> tuple[_Way, ...]:
    """Return the compositions of calls that do at least the work of one call, such as ``reduce*p+scatter``.

    They include single calls: a blocking call should take no longer than its nonblocking form, a persistent
    call no longer than a call that is set up each time, and a call that overlaps with computation no longer
    than the whole call.
    """
    collective = COLLECTIVES.get(name)
    ways = [*(collective.composed if collective else _OF_BENCHMARKS.get(name, "")).split(), f"i{name}"]
    ways += [name.removesuffix(end) for end in (_OVERLAP, "_init") if name.endswith(end)]
    calls = ([(n, _POWERS[size or None]) for n, size in _CALL.findall(way)] for way in ways)
    return tuple(Counter(composition) for composition in calls)


_GROUPS = {entry.name for entry in COLLECTIVES.values() if entry.collective}
"""Names of the collectives in which all ranks take part, so that more ranks can only make them slower; other
calls involve only some ranks."""

RUN = {"run", "trial", "rep", "repetition", "replicate", "launch"}  # Names of columns that number launches.
FIGURES = {"phase", "status", "reason", "sem_us", "low_us", "high_us", "n", "outliers", "is_default"}
"""Names of columns that do not distinguish settings, because they contain measurements or notes, as in
exported tables."""


def is_figure(name: str, value: str) -> bool:
    """Return whether a column does not distinguish settings, but has measurements or numbers launches."""
    return name in RUN | FIGURES or ("." in value and value.replace(".", "", 1).isdecimal())


_BY_ITSELF = {"default", "auto", "unset", "0", ""}
"""Values of a column for an algorithm that mean that no algorithm is forced."""

_Times = dict[Hashable, tuple[float, float]]
"""Maps each launch to (time in seconds, relative standard error of this time within the launch)."""


def of_campaign(
    space: Space, history: History, recommendation: Recommendation | None
) -> tuple[Guideline, ...]:
    """Return the guidelines that a campaign can test, for the MPI stack's defaults and the exported files.

    The stack's own choice of algorithm is compared with each algorithm that was measured in the same
    launches. The same comparison for the exported files uses launches of the search that have the files'
    job-wide values. All other guidelines for the files use fresh launches with the files.
    """
    untouched = [o for o in history if o.ok and o.trial.subject is Subject.UNTOUCHED]
    guidelines = list(_consistent(_by_slot(DEFAULT, untouched)))
    guidelines += _algorithms(space, history, DEFAULT, space.untouched, ())
    if recommendation is None or (not recommendation.rules and recommendation.point == space.untouched):
        return tuple(guidelines)
    deployed_trial = (Subject.DEPLOYED, recommendation.point, recommendation.rules)
    deployed = [
        o for o in history if o.ok and (o.trial.subject, o.trial.point, o.trial.rules) == deployed_trial
    ]
    guidelines += _consistent(_by_slot(EXPORTED, deployed))
    guidelines += [
        guideline
        for guideline in _algorithms(space, history, EXPORTED, recommendation.point, recommendation.rules)
        if recommendation.point != space.untouched or choice_at(recommendation.rules, guideline.left.slot)
    ]
    return tuple(guidelines)


def handed_over(guideline: Guideline, space: Space, recommendation: Recommendation | None) -> bool:
    """Return whether a guideline's left side is a call as the recommendation makes it.

    That is a call with the exported files, or a call with the defaults that the recommendation does not
    change.
    """
    if recommendation is None or guideline.left.setting == EXPORTED:
        return recommendation is not None
    return recommendation.point == space.untouched and not choice_at(
        recommendation.rules, guideline.left.slot
    )


def of_table(measurements: Iterable[BenchmarkRow]) -> tuple[Guideline, ...]:
    """Return the guidelines that a table can test, on times of one setting or of the default and one setting.

    Rows that differ in further columns belong to different settings, unless such a column numbers launches or
    contains a measurement. All rows of a plain table belong to one launch, but a repeated row belongs to the
    next launch. In a benchmark's log each operation is a separate launch.
    """
    times: dict[tuple[tuple[str, str], ...], dict[Slot, _Times]] = defaultdict(lambda: defaultdict(dict))
    marked = set()
    for row in measurements:
        if not row.latency_us or not row.collective:
            continue
        labels = {name.lower(): value for name, value in row.labels}
        if labels.get("status", "ok") != "ok":
            continue
        setting = tuple(sorted((n, v) for n, v in labels.items() if not is_figure(n, v)))
        slot = (row.collective, row.comm_size or 0, row.message_bytes)
        run = tuple(labels[name] for name in sorted(RUN & labels.keys()))
        launch_labels = (row.source, row.collective if row.benchmark else "", run)
        slot_times, k = times[setting][slot], 0
        while (launch := (*launch_labels, k)) in slot_times:
            k += 1
        slot_times[launch] = (row.latency_us * 1e-6, 0.0)
        if says_yes(labels.get("is_default", "")):
            marked.add(setting)
    guidelines: list[Guideline] = []
    shared = set.intersection(*map(set, times)) if times else set()
    settings = {
        setting: {
            slot: Timed(_words([label for label in setting if label not in shared]), slot, launches)
            for slot, launches in sorted(by_slot.items())
        }
        for setting, by_slot in times.items()
    }
    for setting, by_slot in settings.items():
        guidelines += _consistent(by_slot)
        rivals = [s for s in settings if s != setting and _forces(s, setting, setting in marked)]
        for slot, timed in by_slot.items():
            guidelines += _single(timed, [settings[s][slot] for s in rivals if slot in settings[s]])
    return tuple(guidelines)


def _forces(setting: Sequence[tuple[str, str]], default: Sequence[tuple[str, str]], marked: bool) -> bool:
    """Return whether a setting differs from the default only by a forced algorithm.

    If the default is ``marked`` in the table, all other settings count as such.
    """
    if marked:
        return True
    fixed, base = ({n: v for n, v in s if "algorithm" not in n and v} for s in (setting, default))
    forced, free = ([v for n, v in s if "algorithm" in n] for s in (setting, default))
    return fixed == base and bool(free) and {v.lower() for v in free} <= _BY_ITSELF and forced != free


def _words(setting: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{name}={value}" for name, value in setting if value)


def _by_slot(setting: str, observations: Iterable[Observation]) -> dict[Slot, Timed]:
    """Return the times of a setting in each slot, from launches that measured only one choice per slot."""
    times: dict[Slot, _Times] = defaultdict(dict)
    for observation in observations:
        for estimate in observation.usable:
            time = (estimate.median_s, estimate.sem_s / estimate.median_s)
            times[slot_of(estimate.cell)][observation.trial.number] = time
    return {slot: Timed(setting, slot, launches) for slot, launches in sorted(times.items())}


def _algorithms(
    space: Space, history: History, setting: str, point: Point, rules: Sequence[Rule]
) -> Iterator[Guideline]:
    """Yield the guidelines that the choice of rules or stack is no slower than other measured choices."""
    by_choice: dict[Slot, dict[Point, _Times]] = defaultdict(lambda: defaultdict(dict))
    for observation in by_setting(space, history.sweeps).get(job_setting(space, point), ()):
        for slot, choice, estimate in choices_of(space, observation):
            time = (estimate.median_s, estimate.sem_s / estimate.median_s)
            by_choice[slot][choice][observation.trial.number] = time
    for slot, choices in sorted(by_choice.items()):
        ruled = choice_at(rules, slot)
        timed = {choice: Timed(str(choice), slot, times) for choice, times in choices.items()}
        for choice in timed:
            if choice == ruled if ruled else all(v == space[n].unset for n, v in choice.items()):
                current = replace(timed[choice], setting=setting)
                yield from _single(current, [rival for c, rival in timed.items() if c != choice])


def _consistent(by_slot: Mapping[Slot, Timed]) -> Iterator[Guideline]:
    """Yield the guidelines within one setting: compositions, larger or split messages, and more ranks."""
    sizes: dict[tuple[str, int], list[int]] = defaultdict(list)
    ranks: dict[tuple[str, int], list[int]] = defaultdict(list)
    for name, p, size in sorted(by_slot):
        sizes[name, p].append(size)
        ranks[name, size].append(p)
    for (name, p), measured in sizes.items():
        for small, large in pairwise(measured) if not name.endswith(_OVERLAP) else ():
            smaller, larger = by_slot[name, p, small], by_slot[name, p, large]
            yield Guideline(GuidelineKind.SIZE, smaller, ((1, larger),))
            if small:
                yield Guideline(GuidelineKind.SPLIT, larger, ((-(-large // small), smaller),))
        for size in measured:
            for way in _ways(name) if p else ():
                right = [(k, _enough(by_slot, sizes, *part, p, size)) for part, k in way.items()]
                if all(timed for _, timed in right):
                    composed = tuple((k, timed) for k, timed in right if timed)
                    yield Guideline(GuidelineKind.COMPOSITION, by_slot[name, p, size], composed)
    for (name, size), measured in ranks.items():
        for few, many in pairwise(sorted(measured)) if name in _GROUPS else ():
            if few:
                larger = by_slot[name, many, size]
                yield Guideline(GuidelineKind.RANKS, by_slot[name, few, size], ((1, larger),))


def _enough(
    by_slot: Mapping[Slot, Timed],
    sizes: Mapping[tuple[str, int], Sequence[int]],
    name: str,
    power: int,
    p: int,
    size: int,
) -> Timed | None:
    """Return the call with the smallest measured message of at least ``size`` · p^power bytes, if any."""
    required = size * p if power > 0 else -(-size // p) if power < 0 else size
    smallest = min((s for s in sizes.get((name, p), ()) if s >= required), default=None)
    return None if smallest is None else by_slot[name, p, smallest]


def _single(timed: Timed, rivals: Iterable[Timed]) -> Iterator[Guideline]:
    """Yield the guidelines that a choice is no slower than each rival choice, which can be forced."""
    for rival in rivals:
        yield Guideline(GuidelineKind.ALGORITHM, timed, ((1, rival),))
