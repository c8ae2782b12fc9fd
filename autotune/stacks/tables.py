"""Group rules into tables, for MPI implementations whose rules can only name an algorithm."""

from collections.abc import Iterable
from dataclasses import replace

from autotune.errors import UserError
from autotune.history.trial import Rule, left_to_the_stack
from autotune.space import Point


def algorithm_of(rule: Rule) -> str:
    """Return the algorithm of a rule; empty if the rule leaves the choice to the MPI library.

    Raises:
        UserError: the rule sets anything other than an algorithm.
    """
    for name, value in rule.choice.items():
        if name != "algorithm" and not left_to_the_stack(value):
            raise UserError(
                f"{name}={value!r} of {rule.collective} cannot be said in this format",
                "it knows algorithms only",
            )
    name = str(rule.choice.get("algorithm", ""))
    return "" if left_to_the_stack(name) else name


def tables(rules: Iterable[Rule]) -> dict[str, dict[int, list[Rule]]]:
    """Return the rules by collective and communicator size, each table in ascending order of message sizes.

    A table whose first rule is for more than 0 bytes gets a rule without a choice in front of it.
    """
    by_collective: dict[str, dict[int, list[Rule]]] = {}
    for rule in sorted(rules, key=lambda r: (r.collective, r.comm_size, r.min_bytes)):
        table = by_collective.setdefault(rule.collective, {}).setdefault(rule.comm_size, [])
        if not table and rule.min_bytes:
            table.append(replace(rule, min_bytes=0, choice=Point()))
        table.append(rule)
    return by_collective
