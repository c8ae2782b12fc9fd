"""The verification phase: what it launches next, and what it says, as functions of the history (step 11).

A *round* compares one setting with its rules against the untouched stack. It is followed by another round, on
fresh launches, whenever its outcome changes what is deployed: rules that were not better are dropped, or a
setting that loses is replaced by the next on the front. So what is handed over was itself measured, and its
gain is never scored on the launches that it was picked on. Settings that the search saw lose at some size
come last: they would mostly be measured again only to be refused.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from autotune.history.lookup import choice_at
from autotune.history.objectives import (
    Alternatives,
    Envelope,
    Objective,
    Slot,
    alternatives,
    by_setting,
    envelope,
    job_setting,
)
from autotune.history.trial import History, Observation, Phase, Rule, Subject, Trial
from autotune.recommend.front import Checked, Gain, Recommendation, recommendations
from autotune.space import Point, Space
from autotune.verification.paired_test import (
    Comparison,
    PairDifferences,
    SequentialDesign,
    compare,
    decided,
    kept_rules,
    order,
    overall,
    pairs,
)

MAX_ROUNDS = 4
"""After so many the default stays."""


@dataclass(frozen=True, slots=True)
class VerificationRound:
    """One setting with its rules against the untouched stack."""

    setting: Recommendation
    """What is compared."""
    launches: tuple[Observation, ...]
    """Of both sides, in order."""
    differences: tuple[PairDifferences, ...]
    """The differences of its pairs."""
    judged: tuple[Comparison, ...]
    """Every slot, on the pairs of the last look."""
    complete: bool
    """Whether no more launches are wanted."""

    @property
    def loses(self) -> bool:
        """Whether it is slower anywhere, or does not run at all."""
        deployed = [o for o in self.launches if o.trial.subject is Subject.DEPLOYED]
        return any(c.loses for c in self.judged) or not any(o.ok for o in deployed)

    @property
    def gains(self) -> bool:
        """Whether it is faster with confidence: over all slots together, or in one that tells for all.

        A setting of which this cannot be told is not deployed: noise that hides a gain hides a loss too.
        """
        return any(c.wins for c in self.judged) or (
            len(self.differences) > 1 and overall(self.differences).low > 0.0
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the verification says."""

    recommendation: Recommendation
    """What holds, with gains from the fresh launches; no setting and no rules where nothing does."""
    rounds: tuple[VerificationRound, ...]
    """How it came to that."""
    complete: bool
    """Whether no more launches are wanted."""

    @property
    def checked(self) -> Checked:
        """How far the comparison got, and what came of it."""
        if not self.complete:
            return Checked.UNFINISHED
        if not self.recommendation.rules and not self.recommendation.gains:
            return Checked.REFUSED
        return Checked.HOLDS if self.rounds[-1].differences else Checked.UNUSABLE

    @property
    def text(self) -> str:
        """One line for reports and exported files."""
        fresh = f"{sum(len(r.launches) for r in self.rounds)} fresh launches"
        if self.checked is Checked.UNFINISHED:
            return "UNVERIFIED (verification not finished)"
        if self.checked is Checked.REFUSED:
            return f"verified: {self._refused} on {fresh}; the stack's own defaults stay"
        if self.checked is Checked.UNUSABLE:
            return f"UNVERIFIED (no pair of {fresh} could be used)"
        last = self.rounds[-1]
        total = overall(last.differences)
        interval = (
            f" ({math.exp(total.low):.2f} … {math.exp(total.high):.2f})" if len(last.differences) > 1 else ""
        )
        return f"verified: {math.exp(total.gain):.2f}×{interval} on {len(last.launches)} fresh launches"

    @property
    def _refused(self) -> str:
        """Why nothing was taken: nothing was better, or what was better on the whole was slower somewhere."""
        better = [
            r for r in self.rounds if r.loses and len(r.differences) > 1 and overall(r.differences).low > 0.0
        ]
        if not better:
            return "nothing was better"
        best = max(better, key=lambda r: overall(r.differences).gain)
        worst = min((c for c in best.judged if c.loses), key=lambda c: c.gain)
        collective, _, size = worst.slot
        whole, there = math.exp(overall(best.differences).gain), math.exp(worst.gain)
        return (
            f"what was {whole:.2f}× on the whole was {there:.2f}× at {size} B of {collective} "
            f"(verify.max_loss={math.ceil(100 * (1 - there)) / 100:g} would take it)"
        )


@dataclass(frozen=True)
class Verifier:
    """Which launch the verification makes next."""

    space: Space
    """What could be turned."""
    objectives: tuple[Objective, ...]
    """What was judged."""
    design: SequentialDesign
    """How many launches a round has and when it is looked at."""
    seed: int = 0
    """Of the order within blocks."""
    one_row: Collection[str] = ()
    """Collectives for which the stack's files cannot tell message sizes apart."""

    def next_trial(self, history: History) -> Trial | None:
        """The next launch; None when everything is decided, or nothing was found that could be verified."""
        rounds, _ = self._course(history)
        if not rounds or rounds[-1].complete:
            return None
        current, number = rounds[-1], len(history) + 1
        done = current.launches
        first = done[0].trial.number if done else number
        rng = np.random.default_rng([self.seed, 3, first])
        _, tuned = order(self.design.looks[-1], rng)[len(done)]
        return Trial(
            number,
            Phase.VERIFY,
            current.setting.point if tuned else self.space.default,
            Subject.DEPLOYED if tuned else Subject.UNTOUCHED,
            block=done[-1].trial.block if len(done) % 4 else number,
            seed=int(np.random.default_rng([self.seed, 4, number]).integers(2**31)),
            note=f"round {len(rounds)}, launch {len(done) + 1} of at most {self.design.launches}",
            rules=current.setting.rules if tuned else (),
        )

    def launches_left(self, history: History) -> int:
        """How many more this round may have."""
        rounds, _ = self._course(history)
        return max(self.design.launches - len(rounds[-1].launches), 0) if rounds else 0

    def verdict(self, history: History) -> Verdict | None:
        """What the launches so far say; None where there is nothing that could be verified."""
        rounds, held = self._course(history)
        if not rounds:
            return None
        last = rounds[-1]
        if not last.complete:
            return Verdict(last.setting, rounds, complete=False)
        if held is None:
            return Verdict(Recommendation(self.space.default, ()), rounds, complete=True)
        return Verdict(replace(held, gains=_gains(self.space, last)), rounds, complete=True)

    def _course(self, history: History) -> tuple[tuple[VerificationRound, ...], Recommendation | None]:
        """All rounds, each following from those before, and what held; None: nothing did, or not yet."""
        front = recommendations(self.objectives, self.space, history, self.one_row, safe_first=True)
        waiting = [replace(s, rules=self._plain(s.rules)) for s in front if self._deploys(s)]
        groups = by_setting(self.space, history.of_points(self.space))
        baseline = envelope(self.space, history.of(Phase.BASELINE))
        rounds: list[VerificationRound] = []
        current, dropped = (waiting.pop(0) if waiting else None), False
        while current is not None and len(rounds) < MAX_ROUNDS:
            done = self._round(history, current)
            rounds.append(done)
            if not done.complete:
                break
            curves = alternatives(self.space, groups[job_setting(self.space, current.point)])
            needed = self._needed(curves, baseline)
            kept = kept_rules(current.rules, done.judged, needed, self.one_row)
            if kept == current.rules or dropped:
                if not done.loses:
                    return tuple(rounds), current if done.gains else None
                kept = ()
            current, dropped = replace(current, rules=kept), True
            if not kept or not self._deploys(current):
                current, dropped = (waiting.pop(0) if waiting else None), False
        return tuple(rounds), None

    def _round(self, history: History, setting: Recommendation) -> VerificationRound:
        done = self._judged(setting, _launches(history, setting))
        begun = _begun(history)
        return self._judged(setting, (*done.launches, *begun)) if begun and not done.complete else done

    def _judged(self, setting: Recommendation, launches: tuple[Observation, ...]) -> VerificationRound:
        sides = [
            [o for o in launches if o.trial.subject is subject]
            for subject in (Subject.UNTOUCHED, Subject.DEPLOYED)
        ]
        differences = pairs(*sides)
        judged = compare(differences, self.design) if differences else ()
        at_look = len(launches) in [2 * n for n in self.design.looks]
        complete = len(launches) >= self.design.launches or (
            at_look
            and len(differences) in self.design.looks
            and decided(judged, self._at_stake(setting, judged))
        )
        return VerificationRound(setting, launches, differences, judged, complete)

    def _needed(self, curves: Alternatives, baseline: Envelope) -> set[Slot]:
        """Slots in which the stack's own choice, in this setting, was seen slower than the untouched stack.

        There a rule stays although it gains nothing: without it the setting would lose.
        """
        slower = set()
        for slot, choices in curves.items():
            own = next((w for choice, w in choices.items() if not self._says(choice)), None)
            if own is None or slot not in baseline:
                continue
            untouched = baseline[slot]
            spread = math.hypot(own.sem_s / own.median_s, untouched.sem_s / untouched.median_s)
            if math.log(own.median_s / untouched.median_s) > 1.96 * spread:
                slower.add(slot)
        return slower

    def _plain(self, rules: Sequence[Rule]) -> tuple[Rule, ...]:
        """The rules with the empty choice wherever they leave it to the stack, and as few as that takes."""
        plain: list[Rule] = []
        for rule in rules:
            choice = rule.choice if self._says(rule.choice) else Point()
            last = plain[-1] if plain else None
            same = last and (last.collective, last.comm_size) == (rule.collective, rule.comm_size)
            if not (last and same and last.choice == choice):
                plain.append(replace(rule, choice=choice))
        return tuple(plain)

    def _deploys(self, setting: Recommendation) -> bool:
        """Whether a setting differs from the untouched stack at all."""
        return self._says(setting.point) or any(self._says(rule.choice) for rule in setting.rules)

    def _at_stake(self, setting: Recommendation, judged: Sequence[Comparison]) -> set[Slot]:
        """Slots in which a rule says anything that could be dropped."""
        return {c.slot for c in judged if self._says(choice_at(setting.rules, c.slot))}

    def _says(self, choice: Point) -> bool:
        """Whether a choice is anything but the stack's own."""
        return any(value != self.space[name].unset for name, value in choice.items())


def _launches(history: History, setting: Recommendation) -> tuple[Observation, ...]:
    """The launches of a setting's blocks."""
    made = history.of(Phase.VERIFY).observations
    wanted = (Subject.DEPLOYED, setting.point, setting.rules)
    blocks = {o.trial.block for o in made if (o.trial.subject, o.trial.point, o.trial.rules) == wanted}
    return tuple(o for o in made if o.trial.block in blocks)


def _begun(history: History) -> tuple[Observation, ...]:
    """The launches of a block that has begun with the untouched stack and says nothing of a setting yet."""
    block: list[Observation] = []
    for observation in reversed(history.observations):
        trial = observation.trial
        if trial.phase is not Phase.VERIFY or (block and trial.block != block[0].trial.block):
            break
        block.insert(0, observation)
    return () if any(o.trial.subject is Subject.DEPLOYED for o in block) else tuple(block)


def _gains(space: Space, last: VerificationRound) -> tuple[Gain, ...]:
    """The gains that the fresh launches showed: shrunken, with standard errors that give their interval."""
    untouched = [o for o in last.launches if o.trial.subject is Subject.UNTOUCHED]
    reference = envelope(space, untouched)
    gains = []
    for c in last.judged:
        default = reference[c.slot]
        tuned_s = default.median_s / math.exp(c.shrunk)
        # The two standard errors together give the interval of the paired comparison.
        whole = (c.high - c.low) / (2 * 1.96)
        share = min(default.sem_s / default.median_s, whole / math.sqrt(2))
        rest = math.sqrt(whole**2 - share**2) if math.isfinite(whole) else math.inf
        gains.append(Gain(c.slot, tuned_s, tuned_s * rest, default.median_s, default.median_s * share))
    return tuple(gains)
