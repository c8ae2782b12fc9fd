"""Factors fixed by the screening, set free again one at a time (step 9 of the flow)."""

from collections.abc import Mapping, Sequence

from autotune.history.objectives import Objective
from autotune.history.trial import History, Phase
from autotune.recommend.front import leader
from autotune.screening import Factor
from autotune.space import Point, Space, Value


def next_freed(
    space: Space,
    objectives: Sequence[Objective],
    factors: Sequence[Factor],
    fixed: Mapping[str, Value],
    history: History,
    room: int,
) -> tuple[str, Point] | None:
    """The next factor to be set free and the point that does it; None when all were.

    Which ones were is read off the points of the second half of the search: each was the best setting of its
    time with one fixed factor changed.

    Args:
        space: Of the search.
        objectives: By which a setting is the best.
        factors: Those that the screening fixed, in the order in which they are set free.
        fixed: Their values.
        history: All launches so far.
        room: Launches of the whole search.
    """
    tried: set[str] = set()

    def freed(before: History) -> tuple[str, Point] | None:
        """The best setting by then with the first factor that was not tried at its other level."""
        best = leader(objectives, space, before)
        for factor in factors if best else ():
            if factor.name not in tried and best and factor.name in best.point:
                other = factor.low if fixed[factor.name] == factor.high else factor.high
                return factor.name, space.complete({**best.point, factor.name: other})
        return None

    searched = [i for i, o in enumerate(history) if o.trial.phase is Phase.SEARCH]
    for i in searched[-(-room // 2) :]:
        point = history.observations[i].trial.point
        if any(point.get(name, value) != value for name, value in fixed.items() if name not in tried):
            one = freed(History(history.observations[:i]))
            tried |= {one[0]} if one is not None and one[1] == point else set()
    return freed(history)
