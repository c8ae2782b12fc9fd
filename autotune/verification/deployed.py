"""Launches of a setting with its rules, against those of an untouched stack (step 11 of the flow)."""

from collections.abc import Iterable
from dataclasses import replace

from autotune.history.lookup import choice_at
from autotune.history.objectives import Slot
from autotune.history.trial import Rule
from autotune.recommend.recommendation import Recommendation
from autotune.space import Point, Space


def deploys(space: Space, setting: Recommendation) -> bool:
    """Whether a setting differs from the untouched stack at all."""
    return space.says(setting.point) or any(space.says(rule.choice) for rule in setting.rules)


def has_rules(setting: Recommendation) -> bool:
    """Whether its files hold rules for messages of any size."""
    return any(rule.choice for rule in setting.rules)


def ruled(space: Space, setting: Recommendation, slots: Iterable[Slot]) -> set[Slot]:
    """Slots in which a rule says anything, so that it could be dropped."""
    return {slot for slot in slots if space.says(choice_at(setting.rules, slot))}


def same_calls(space: Space, setting: Recommendation, slots: Iterable[Slot]) -> set[Slot]:
    """Slots in which a setting makes the calls of the untouched stack: no job-wide change, no rule."""
    every = set(slots)
    return set() if space.says(setting.point) else every - ruled(space, setting, every)


def plain(space: Space, setting: Recommendation) -> Recommendation:
    """A setting with the empty choice wherever its rules leave it to the stack, and as few as that takes."""
    rules: list[Rule] = []
    for rule in setting.rules:
        choice = rule.choice if space.says(rule.choice) else Point()
        last = rules[-1] if rules else None
        same = last and (last.collective, last.comm_size) == (rule.collective, rule.comm_size)
        if not (last and same and last.choice == choice):
            rules.append(replace(rule, choice=choice))
    return replace(setting, rules=tuple(rules))
