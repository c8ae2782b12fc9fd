"""The plan of a discovery: choose the next run, as a function of the runs so far.

Place in the flow of ``autotune/__init__.py``: step 3, screening.

A *change* is one factor at a level that is not its default. An *arm* is a setting from which changes are
made, such as the defaults, or the defaults with UCX enabled.

The first stage is the screening. Either each run makes a few changes at once (random balance), chosen among
the changes that were made least often so far; or each run makes a single change, chosen among the changes
that may have an effect. If a run fails, further runs make half of the changes that may be the cause, until
the responsible level is found; this level is then excluded. A change whose effect is established is not made
again, so that it cannot hide other effects. A change that has an effect only together with another change is
made in separate runs.

The second stage is the confirmation. A change that is a gain according to the screening (or a loss, if the
screening made single changes) is made alone and compared with the arm's own default, in several rounds of
fresh launches.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import islice

import numpy as np

from autotune.screening.discovery.found import candidates, doubts, established
from autotune.screening.discovery.runs import RULE, Arm, Change, Run, set_aside, suspects


class Stage(StrEnum):
    """The purpose of a run; its text is shown to users."""

    ARM = "the default"
    SCREEN = "few changes at once"
    ALONE = "one change, screened"
    BISECT = "what failed, halved"
    CONFIRM = "one change alone"


@dataclass(frozen=True)
class DiscoveryDesign:
    """The plan of a discovery: the arms, the number of launches, and the rules by which runs are chosen."""

    arms: tuple[Arm, ...]  # Settings from which changes are made; the first arm is the defaults.
    launches: int  # Number of launches of screening and confirmation together.
    share: float = 1 / 8
    """Share of an arm's factors that each run of the screening changes; 0 means that each run makes one
    change."""
    rounds: int = 4  # Number of rounds of the confirmation.
    rate: float = 0.05  # Rate of false discoveries: accepted share of reported effects that do not exist.
    seed: int = 0  # Seed of all random choices.
    tiers: Mapping[str, int] = field(default_factory=dict)
    """Maps the name of a factor to its tier. If each run makes one change, factors of lower tiers are changed
    first, and factors without a tier last."""

    @property
    def screening(self) -> int:
        """Return the number of launches of the screening in a cycle of screening and confirmation."""
        return self.launches - round(RULE.confirming * self.launches)

    def next_run(
        self, runs: Sequence[Run], enough: bool = False, time_is_up: bool = False, go_on: bool = False
    ) -> tuple[Run, Stage] | None:
        """Return the next run and its purpose; None if a cycle of screening and confirmation is complete.

        Args:
            runs: All runs so far, in order.
            enough: Whether the screening has used up its share of the time for this cycle.
            time_is_up: Whether all of the time for this cycle is used up.
            go_on: Whether another cycle, which continues the screening, follows a complete cycle.
        """
        screened = [run for run in runs if run.block == 0]
        begin = cycle([run.block for run in runs])
        earlier, current = runs[:begin], runs[begin:]
        confirmed = [run for run in current if run.block]
        unfinished = len(screened) < self.screening and len(runs) < self.launches
        if unfinished and (go_on or not (confirmed or enough or time_is_up)):
            rng = np.random.default_rng([self.seed, len(runs)])
            return self._screening(screened, self._turn(screened), rng)
        if time_is_up or len(runs) >= self.launches:
            return None
        confirmation = self._confirmation(tuple(screened), earlier)
        planned = next(islice(confirmation, len(confirmed), None), None)
        if planned is None:
            return None
        return planned, Stage.CONFIRM if planned.changes else Stage.ARM

    def off(self, arm: Arm) -> int:
        """Return the number of changes that each run of the screening makes in an arm."""
        return max(1, round(self.share * len({name for name, _ in arm.changes})))

    def _turn(self, runs: Sequence[Run]) -> int:
        """Return the index of the arm of the next run.

        It is the arm with the change of the lowest tier that was not made yet or, if several arms are equal,
        the arm whose changes were made least often.
        """
        runs_of = Counter(run.arm for run in runs)

        def priority(i: int) -> tuple[float, float]:
            tier = 0 if self.share else self._next_tier(i, _launches_of(self.arms[i], i, runs))
            return tier, (runs_of[i] + 0.5) * self.off(self.arms[i]) / max(len(self.arms[i].changes), 1)

        return min(range(len(self.arms)), key=priority)

    def _next_tier(self, number: int, launches: Counter[Change]) -> float:
        """Return the lowest tier of an arm's own changes not made yet; infinite if all were made."""
        return min((self._tier(c) for c in self._peculiar(number) if not launches[c]), default=math.inf)

    def _peculiar(self, number: int) -> list[Change]:
        """Return an arm's changes that the default arm does not have; for the default arm, all changes."""
        default = set(self.arms[0].changes) if number else set()
        return [c for c in self.arms[number].changes if c not in default]

    def _tier(self, change: Change) -> float:
        return self.tiers.get(change[0], math.inf)

    def _screening(self, runs: Sequence[Run], number: int, rng: np.random.Generator) -> tuple[Run, Stage]:
        """Return the next run of the screening in an arm, and its purpose; ``runs`` are those of all arms."""
        arm = self.arms[number]
        if not any(run.arm == number for run in runs):
            return Run(number, frozenset()), Stage.ARM
        if suspected := sorted(suspects(runs, number), key=str):
            half = [suspected[i] for i in rng.permutation(len(suspected))[: len(suspected) // 2]]
            return Run(number, arm.complete(frozenset(half))), Stage.BISECT
        guilty = set_aside(runs, number)
        # Effects are estimated again only after every ``look_every`` runs, from all runs up to then.
        looked = runs[: len(runs) // RULE.look_every * RULE.look_every]
        settled = established(arm, number, looked, self.rate, self.seed)
        launches = _launches_of(arm, number, runs)
        if self.share:
            eligible = [c for c in arm.changes if c not in guilty and c not in settled]
            order = sorted(eligible, key=lambda c: (launches[c], rng.random()))
        else:
            # At first, each change is made once. The arm's own changes come before those that the default arm
            # also has, and lower tiers before higher tiers. One level of each factor comes before a second
            # level of any factor, because levels of a factor often have the same effect. After that, changes
            # that may have an effect get more launches than the many changes without an effect. Each of them
            # gets one launch until the next estimate, because one launch may be enough to decide.
            peculiar = set(self._peculiar(number))
            of_factor = Counter[str]()
            for (name, _), times in launches.items():
                of_factor[name] += times
            at_look, doubt = _launches_of(arm, number, looked), doubts(arm, number, looked, self.seed)
            eligible = [
                c for c in arm.changes if c not in guilty and (c not in settled or launches[c] < RULE.surely)
            ]
            order = sorted(
                eligible,
                key=lambda c: (
                    launches[c] > 0,
                    (False, 0, 0) if launches[c] else (c not in peculiar, self._tier(c), of_factor[c[0]]),
                    launches[c] - at_look[c],
                    at_look[c] - doubt.get(c, 0.0),
                    rng.random(),
                ),
            )
        # Changes that have an effect only together with others are made in separate runs. Otherwise most runs
        # would also make the changes that they need.
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

    def _confirmation(self, screened: tuple[Run, ...], earlier: Sequence[Run]) -> Iterator[Run]:
        """Yield the runs that confirm effects in this cycle: possible gains first, then possible losses.

        ``screened`` are all runs of the screening, ``earlier`` the runs of earlier cycles. Changes that
        earlier cycles confirmed or refuted are not made again.
        """
        settled = {(run.arm, change) for run in earlier if run.block for change in run.changes}
        used = sum(run.block > 0 for run in earlier)
        room = (self.launches - self.screening - used) // self.rounds  # Number of launches in each round.
        block = 1 + max((run.block for run in earlier), default=0)
        for losses in (False, True) if not self.share else (False,):
            suspected = candidates(self.arms, screened, self.rate, self.seed, losses)
            per_arm = self._per_arm([candidate for candidate in suspected if candidate not in settled], room)
            planned_runs = [
                Run(number, changes)
                for number, arm_runs in per_arm.items()
                for changes in (*arm_runs, *[frozenset[Change]()] * _defaults(len(arm_runs)))
            ]
            rng = np.random.default_rng([self.seed, block, len(screened)])
            for number in range(block, block + self.rounds):
                for i in rng.permutation(len(planned_runs)):
                    yield replace(planned_runs[i], block=number)
            room, block = room - len(planned_runs), block + self.rounds

    def _per_arm(
        self, suspected: Sequence[tuple[int, Change]], room: int
    ) -> dict[int, list[frozenset[Change]]]:
        """Return for each arm the sets of changes that a round of at most ``room`` launches makes."""
        per_arm: dict[int, list[frozenset[Change]]] = {}
        for number, change in suspected:
            arm, arm_runs = self.arms[number], per_arm.get(number, [])
            required = dict.fromkeys([arm.needed(change), arm.complete(frozenset([change]))])
            longer = [*arm_runs, *(changes for changes in required if changes and changes not in arm_runs)]
            other_arms = [c for n, c in per_arm.items() if n != number]
            if sum(len(c) + _defaults(len(c)) for c in (longer, *other_arms)) > room:
                break
            per_arm[number] = longer
        return per_arm


def cycle(blocks: Sequence[int]) -> int:
    """Return the index of the first launch of the last cycle of screening and confirmation.

    ``blocks`` contains one number for each launch: 0 for the screening, else the round of the confirmation.
    """
    begins = (i for i in range(len(blocks) - 1, 0, -1) if not blocks[i] and blocks[i - 1])
    return next(begins, 0)


def _launches_of(arm: Arm, number: int, runs: Sequence[Run]) -> Counter[Change]:
    """Count the runs in an arm that made each change.

    A run does not count for a change that it only makes because another change needs it.
    """
    arm_runs = (run for run in runs if run.arm == number)
    return Counter(change for run in arm_runs for change in run.changes - arm.brought(run.changes))


def _defaults(changes: int) -> int:
    """Return how many launches of an arm's default a round has beside its ``changes`` launches of changes."""
    return 1 + changes // 4 if changes else 0
