"""Which settings the search launches again: those that may be recommended and are not known well (step 9)."""

from collections.abc import Sequence
from operator import itemgetter

from autotune.history.objectives import Objective
from autotune.history.trial import History, Phase
from autotune.recommend.front import candidates, loss, untouched
from autotune.recommend.posterior import posterior
from autotune.recommend.repeats import two_that_differ
from autotune.space import Point, Space
from autotune.verification.rounds import Verifier

_WORTH_A_LAUNCH = 1e-3
"""Relative gain that another launch of a leader must promise."""


def unproved(suggested: Sequence[Point], history: History) -> Point | None:
    """The suggested point launched least, until each was launched twice, or three times if these differ.

    What the discovery confirmed is not to be lost by one disturbed launch.
    """
    made = {p: [o for o in history.of(Phase.SEARCH) if o.trial.point == p] for p in suggested}
    waiting = (p for p, launches in made.items() if len(launches) < 2 or two_that_differ(launches))
    return min(waiting, key=lambda p: len(made[p]), default=None)


def doubtful(
    space: Space,
    objectives: tuple[Objective, ...],
    verifier: Verifier | None,
    min_gain: float,
    history: History,
) -> Point | None:
    """The setting whose next launch gains most by changing what is recommended; None where none does.

    A setting expected to lose somewhere is worth less, as it will not be exported.
    Launches of one setting differ by several per cent, so the best of many that were launched once is
    mostly the luckiest. A leader that was lucky falls behind when it is launched again.
    """
    known = verifier.known(history) if verifier else None
    judged = [c for c in candidates(objectives, space, history) if not known or not known.losses(c)]
    if judged and (default := untouched(objectives, space, history)):
        judged.append(default)  # it may be chosen too; the baseline measures it
    if len(judged) < 2:
        return None
    costs = [loss(objectives, c) / len(objectives) for c in judged]
    found = posterior(space, [c.point for c in judged], costs, [c.launches for c in judged])
    chances = [known.chance(c.point) if known else 1.0 for c in judged]
    worth = zip(found.worth_of_another() * chances, judged, strict=True)
    least = max(_WORTH_A_LAUNCH, min_gain)
    open_ones = [
        (gain, c.point) for gain, c in worth if gain > least and c.point in space and c.point != space.default
    ]
    return max(open_ones, key=itemgetter(0))[1] if open_ones else None
