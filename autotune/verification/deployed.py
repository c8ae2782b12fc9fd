"""Describe what a setting with its rules changes, compared with the MPI's own defaults."""

from collections.abc import Iterable
from dataclasses import replace

from autotune.history.lookup import choice_at
from autotune.history.objectives import Slot
from autotune.history.trial import Rule
from autotune.recommend.recommendation import Recommendation
from autotune.space import Point, Space


def deploys(space: Space, setting: Recommendation) -> bool:
    """Whether a setting changes any of the stack's own defaults."""
    return space.says(setting.point) or any(space.says(rule.choice) for rule in setting.rules)


def has_rules(setting: Recommendation) -> bool:
    """Whether the setting has a rule that chooses anything at some message size."""
    return any(rule.choice for rule in setting.rules)


def ruled(space: Space, setting: Recommendation, slots: Iterable[Slot]) -> set[Slot]:
    """Return those slots in which one of the setting's rules chooses anything.

    A slot is one (collective, communicator size, message size).
    """
    return {slot for slot in slots if space.says(choice_at(setting.rules, slot))}


def same_calls(space: Space, setting: Recommendation, slots: Iterable[Slot]) -> set[Slot]:
    """Return the slots in which a setting makes the same calls as the stack's own defaults.

    These are the slots without a rule, and only if the setting has no job-wide change.
    """
    every = set(slots)
    return set() if space.says(setting.point) else every - ruled(space, setting, every)


def plain(space: Space, setting: Recommendation) -> Recommendation:
    """Return a setting with as few rules as possible.

    Rules that leave the choice to the stack get the empty choice, and neighbouring rules with the same choice
    become one rule.
    """
    rules: list[Rule] = []
    for rule in setting.rules:
        choice = rule.choice if space.says(rule.choice) else Point()
        last = rules[-1] if rules else None
        same_table = last and (last.collective, last.comm_size) == (rule.collective, rule.comm_size)
        if not (last and same_table and last.choice == choice):
            rules.append(replace(rule, choice=choice))
    return replace(setting, rules=tuple(rules))
