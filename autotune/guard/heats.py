"""Launch several environments in turn until the time limit of a ``guard`` command is reached."""

import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from autotune.campaign.observing import Measurement, Observer
from autotune.campaign.turns import Side, Turn, are_heats, take_turns
from autotune.guard.span import Span
from autotune.history.trial import Observation, Phase, Subject, Trial
from autotune.space import Point
from autotune.verification.sequential import SequentialDesign

FIRST_NUMBER = 100
"""Number of the first launch of a comparison; launches that check whether files take effect have smaller
numbers."""


def alone(measurement: Measurement) -> Measurement:
    """Return the measurement without the further calls and loops that a verification also measures."""
    return replace(measurement, other_calls=(), other_loop="")


def environment_side(name: str, observer: Observer, limit_s: float) -> Side:
    """Return the side of a comparison that launches MPI in one environment.

    The trials themselves set nothing; the observer changes the environment of each launch.

    Args:
        name: Name of the environment in messages.
        observer: Makes the launches, with the changes to their environment.
        limit_s: Time limit of one launch in seconds.
    """

    def trial(turn: Turn) -> Trial:
        about = (Phase.VERIFY, Point(), Subject.UNTOUCHED, turn.block, turn.seed)
        return Trial(turn.number, *about, timeout_s=limit_s)

    return Side(name, observer, trial)


def blocks_in_time(
    sides: Sequence[Side], per_side: int, span: Span
) -> Iterator[tuple[tuple[int, Observation], ...]]:
    """Yield blocks of launches of all sides, each launch with the index of its side, and report each block.

    The first block is begun only if there is time for its launches even one after the other.

    Args:
        sides: The environments.
        per_side: Maximum number of launches of each side.
        span: The time limit of the whole ``guard`` command.
    """
    design = SequentialDesign(setting_launches=per_side, heats=are_heats(sides))
    expected_s = span.launch_s * design.widths(len(sides))[0] * len(sides)
    began_s = span.spent_s
    for number, block in enumerate(take_turns(sides, design, FIRST_NUMBER, span, expected_s), start=1):
        names = [sides[turn.side].name for turn, _ in block]
        _report_block(number, names, [observation for _, observation in block], span.spent_s - began_s)
        yield tuple((turn.side, observation) for turn, observation in block)
        began_s = span.spent_s


def _report_block(
    number: int, names: Sequence[str], observations: Sequence[Observation], took_s: float
) -> None:
    """Print the number of a block, its number of launches and duration, and the failures of each side."""
    failed: dict[str, list[str]] = defaultdict(list)
    for name, observation in zip(names, observations, strict=True):
        if not observation.ok:
            failed[name].append(f"{observation.status}: {observation.reason}")
    outcome = "; ".join(f"{name}  {', '.join(dict.fromkeys(why))}" for name, why in failed.items()) or "ok"
    sys.stderr.write(f"block {number}, {len(names)} launches, {took_s:.1f} s  {outcome}\n")
