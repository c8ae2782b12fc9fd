"""Which run is next, as a function of the runs so far (step 3 of the flow).

First random balance: each run makes few changes at once, those that were made least; or one alone, of those
that may do something. A run that fails is followed by runs of half of what may have made it fail, until the
level is found and set aside. A change seen to help or to slow down is not made again, so that it hides
nothing else; one made on distant cores is; one that has an effect only beside another change is made in
runs of its own. Then the confirmation: what the screening suspects of a gain (after changes alone also what
it suspects of a loss), one change at a time, against the arm's own default, in rounds on fresh launches.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import chain, islice

import numpy as np

from autotune.screening.discovery.found import candidates, doubts, established
from autotune.screening.discovery.runs import RULE, Arm, Change, Run, set_aside, suspects


class Stage(StrEnum):
    """Why a run is made."""

    ARM = "the default"
    SCREEN = "few changes at once"
    ALONE = "one change, screened"
    BISECT = "what failed, halved"
    CONFIRM = "one change alone"


@dataclass(frozen=True)
class DiscoveryDesign:
    """The plan of a discovery."""

    arms: tuple[Arm, ...]  # What can be turned.
    launches: int  # In all.
    share: float = 1 / 8  # Of the factors of an arm that are off their default in a run; 0: one at a time.
    rounds: int = 4  # Of the confirmation.
    rate: float = 0.05  # Of false discoveries.
    seed: int = 0  # Of everything random.
    tiers: Mapping[str, int] = field(default_factory=dict)
    """By factor: one at a time the levels of a lower tier go first; factors without one are last."""

    @property
    def screening(self) -> int:
        """Launches before the confirmation."""
        return self.launches - round(RULE.confirming * self.launches)

    def next_run(
        self, runs: Sequence[Run], enough: bool = False, time_is_up: bool = False, go_on: bool = False
    ) -> tuple[Run, Stage] | None:
        """The next run, and why; None when a cycle of screening and confirmation is complete.

        ``enough``: the screening's part of the cycle's time is spent, ``time_is_up``: all of it; ``go_on``: a
        complete cycle is followed by another one, which screens on.
        """
        screened = [run for run in runs if run.block == 0]
        begin = cycle([run.block for run in runs])
        before, now = runs[:begin], runs[begin:]
        confirmed = [run for run in now if run.block]
        more = len(screened) < self.screening and len(runs) < self.launches
        if more and (go_on or not (confirmed or enough or time_is_up)):
            rng = np.random.default_rng([self.seed, len(runs)])
            return self._screening(screened, self._turn(screened), rng)
        if time_is_up or len(runs) >= self.launches:
            return None
        again = (Run(run.arm, run.changes, run.block) for run in confirmed if run.apart)
        confirmation = chain(self._confirmation(tuple(screened), before), again)
        planned = next(islice(confirmation, len(confirmed), None), None)
        if planned is None:
            return None
        return planned, Stage.CONFIRM if planned.changes else Stage.ARM

    def off(self, arm: Arm) -> int:
        """Changes of a run of the screening."""
        return max(1, round(self.share * len({name for name, _ in arm.changes})))

    def _turn(self, runs: Sequence[Run]) -> int:
        """The arm whose changes were made least each; one at a time that of the lowest tier next."""
        made = Counter(run.arm for run in runs if not run.apart)

        def behind(i: int) -> tuple[float, float]:
            tier = 0 if self.share else self._next_tier(i, _made(self.arms[i], i, runs))
            return tier, (made[i] + 0.5) * self.off(self.arms[i]) / max(len(self.arms[i].changes), 1)

        return min(range(len(self.arms)), key=behind)

    def _next_tier(self, number: int, made: Counter[Change]) -> float:
        """The lowest tier of which an arm has a change of its own that was not made yet."""
        return min((self._tier(c) for c in self._own(number) if not made[c]), default=math.inf)

    def _own(self, number: int) -> list[Change]:
        """The changes of an arm that the default one does not have too."""
        elsewhere = set(self.arms[0].changes) if number else set()
        return [c for c in self.arms[number].changes if c not in elsewhere]

    def _tier(self, change: Change) -> float:
        return self.tiers.get(change[0], math.inf)

    def _screening(self, runs: Sequence[Run], number: int, rng: np.random.Generator) -> tuple[Run, Stage]:
        arm = self.arms[number]
        if not any(run.arm == number for run in runs):
            return Run(number, frozenset()), Stage.ARM
        if suspected := sorted(suspects(runs, number), key=str):
            half = [suspected[i] for i in rng.permutation(len(suspected))[: len(suspected) // 2]]
            return Run(number, arm.complete(frozenset(half))), Stage.BISECT
        guilty = set_aside(runs, number)
        looked = runs[: len(runs) // RULE.look_every * RULE.look_every]
        known = established(arm, number, looked, self.rate, self.seed)
        made = _made(arm, number, runs)
        if self.share:
            left = [c for c in arm.changes if c not in guilty and c not in known]
            order = sorted(left, key=lambda c: (made[c], rng.random()))
        else:
            # Alone, each once: what another arm has too comes last, lower tiers go first, and one level of
            # each factor goes before the second of any, since levels of a factor often do the same. Then what
            # may do something is worth more launches than the many that do nothing; one each time, since the
            # next look may settle it.
            own = set(self._own(number))
            of_factor = Counter[str]()
            for (name, _), times in made.items():
                of_factor[name] += times
            before, doubt = _made(arm, number, looked), doubts(arm, number, looked, self.seed)
            left = [c for c in arm.changes if c not in guilty and (c not in known or made[c] < RULE.surely)]
            order = sorted(
                left,
                key=lambda c: (
                    made[c] > 0,
                    (False, 0, 0) if made[c] else (c not in own, self._tier(c), of_factor[c[0]]),
                    made[c] - before[c],
                    before[c] - doubt.get(c, 0.0),
                    rng.random(),
                ),
            )
        # Those that need others by themselves: what they bring would be there in most runs else.
        order = [c for c in order if (c in arm.needs) == (order[0] in arm.needs)]
        picked: dict[str, Change] = {}
        for change in order:
            together = arm.complete(frozenset([change]))
            agrees = all(picked.get(name, (name, value)) == (name, value) for name, value in together)
            if agrees and not together & guilty:
                picked |= {c[0]: c for c in together}
            if len(picked) >= self.off(arm):
                break
        stage = Stage.SCREEN if self.share else Stage.ALONE
        return Run(number, frozenset(picked.values())), stage

    def _confirmation(self, screened: tuple[Run, ...], before: Sequence[Run]) -> Iterator[Run]:
        """Runs of a cycle's confirmation: gains, then losses; without what earlier cycles settled."""
        known = {(run.arm, change) for run in before if run.block for change in run.changes}
        used = sum(run.block > 0 for run in before)
        left = (self.launches - self.screening - used) // self.rounds
        block = 1 + max((run.block for run in before), default=0)
        for losses in (False, True) if not self.share else (False,):
            suspected = candidates(self.arms, screened, self.rate, self.seed, losses)
            per_arm = self._per_arm([one for one in suspected if one not in known], left)
            planned_runs = [
                Run(number, changes)
                for number, mine in per_arm.items()
                for changes in (*mine, *[frozenset[Change]()] * _defaults(len(mine)))
            ]
            rng = np.random.default_rng([self.seed, block, len(screened)])
            for number in range(block, block + self.rounds):
                for i in rng.permutation(len(planned_runs)):
                    yield replace(planned_runs[i], block=number)
            left, block = left - len(planned_runs), block + self.rounds

    def _per_arm(self, wanted: Sequence[tuple[int, Change]], room: int) -> dict[int, list[frozenset[Change]]]:
        """Runs of each arm in a round that has room for so many, beside its defaults."""
        per_arm: dict[int, list[frozenset[Change]]] = {}
        for number, change in wanted:
            arm, mine = self.arms[number], per_arm.get(number, [])
            asked = dict.fromkeys([arm.needed(change), arm.complete(frozenset([change]))])
            longer = [*mine, *(changes for changes in asked if changes and changes not in mine)]
            others = [c for n, c in per_arm.items() if n != number]
            if sum(len(c) + _defaults(len(c)) for c in (longer, *others)) > room:
                break
            per_arm[number] = longer
        return per_arm


def cycle(blocks: Sequence[int]) -> int:
    """Where the last cycle of screening (block 0) and confirmation begins, by the block of each launch."""
    begins = (i for i in range(len(blocks) - 1, 0, -1) if not blocks[i] and blocks[i - 1])
    return next(begins, 0)


def _made(arm: Arm, number: int, runs: Sequence[Run]) -> Counter[Change]:
    """How often each change was made, except with one that required it: their effects cannot be separated."""
    mine = (run for run in runs if run.arm == number and not run.apart)
    return Counter(change for run in mine for change in run.changes - arm.brought(run.changes))


def _defaults(changes: int) -> int:
    """Launches of an arm's default in a round with so many changes."""
    return 1 + changes // 4 if changes else 0
