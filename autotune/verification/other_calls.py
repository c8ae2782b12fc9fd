"""Measure effects of a setting on calls that it was not tuned for (data flow: verification).

Exported files apply to every call of every job, and most job-wide values act on single messages, whatever
call sends them. So launches of the verification measure other calls too (``verify.also``), in a share of
their time and in two loops. In one loop a call follows calls of other sizes and kinds, so that it finds
caches and the other ranks cold. In the other loop the call is repeated back to back, as in a program without
pauses.

Each launch gives a plain mean of each call, since a program waits for the sum of its calls. In a heat
(launches that are alive at once and measure in turns) a launch visits a call several times, and the median of
the visits' means is used: if another process had a core during a visit of some milliseconds, this says
nothing about the setting. Beside nine busy processes on two cores, means over all visits differed by a factor
of 20 between launches of one setting. Only means of one block are compared, since its launches met the same
moments. With y_bsi = ln of the mean of launch i of side s in block b, the model

    y_bsi = μ_b + δ_s + ε_bsi

is fitted by least squares, and the interval of δ is Student's [1]. With one launch of each side in a block
this is the paired t test. The intervals of all calls are right together with a probability of 95 %
(Bonferroni), so that hardly any setting is called slower by chance. The claim that a loss is excluded is
wrong only if the bound of that very call is wrong (intersection–union, see ``comparison``), so each bound by
itself is right with a probability of 95 %.

References:
    1. W. G. Cochran, G. M. Cox, *Experimental Designs*, 2nd ed. (1957), section 4.2: randomised blocks.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from autotune.history.objectives import ratio_of
from autotune.history.trial import Observation, Subject
from autotune.recommend.other_calls import OtherCall, OtherDecision
from autotune.verification.sequential import ONE_IN_TWENTY, SequentialDesign

_PREFIX = "beside "
_LEAST_FREEDOM = 2  # Least degrees of freedom at which the spread of launches counts as known.

_Blocks = Mapping[int, tuple[list[float], list[float]]]
"""Maps each block to the mean times of a call in seconds, in its launches of the untouched stack and in those
of the setting."""


def other_calls(launches: Iterable[Observation], design: SequentialDesign) -> tuple[OtherCall, ...]:
    """Return a setting's effects on other calls, from its launches and those of the untouched stack.

    The result is empty if the launches measured no other call. Calls with too few launches for an interval
    are left out.
    """
    times: dict[str, _Blocks] = defaultdict(lambda: defaultdict(lambda: ([], [])))
    for launch in {o.trial.number: o for o in launches if o.ok}.values():
        for name, seconds in launch.extra.items():
            if name.startswith(_PREFIX) and seconds > 0:
                block = times[name.removeprefix(_PREFIX)][launch.trial.block]
                block[launch.trial.subject is Subject.DEPLOYED].append(seconds)
    paired = {name: [b for b in blocks.values() if all(b)] for name, blocks in times.items()}
    estimable = {name: blocks for name, blocks in paired.items() if _freedom(blocks) >= _LEAST_FREEDOM}
    return tuple(
        _compared(name, blocks, len(estimable), design) for name, blocks in sorted(estimable.items())
    )


def _freedom(blocks: Sequence[tuple[list[float], list[float]]]) -> int:
    """Return the degrees of freedom of the model's residuals."""
    return sum(len(default) + len(tuned) - 1 for default, tuned in blocks) - 1


def _compared(
    name: str, blocks: Sequence[tuple[list[float], list[float]]], n_calls: int, design: SequentialDesign
) -> OtherCall:
    """Return the comparison of one call, with intervals that are right for ``n_calls`` calls together."""
    from scipy.special import stdtrit

    logs = [tuple(np.log(side) for side in block) for block in blocks]
    weights = np.array([len(a) * len(b) / (len(a) + len(b)) for a, b in logs])
    gains = np.array([a.mean() - b.mean() for a, b in logs])
    gain = float(weights @ gains / weights.sum())
    squares = sum(float(((side - side.mean()) ** 2).sum()) for block in logs for side in block)
    squares += float(weights @ (gains - gain) ** 2)
    freedom = _freedom(blocks)
    error = math.sqrt(squares / freedom / weights.sum())
    half = error * float(stdtrit(freedom, 1 - ONE_IN_TWENTY / 2 / n_calls))
    at_least = gain - error * float(stdtrit(freedom, 1 - ONE_IN_TWENTY))
    decision = OtherDecision.INCONCLUSIVE
    if gain + half < design.least:
        decision = OtherDecision.SLOWER
    elif at_least >= design.hidden:
        decision = OtherDecision.NOT_SLOWER
    call, size, *loop = name.split(" ")
    default_s, tuned_s = (float(np.mean([s for block in blocks for s in block[k]])) for k in (0, 1))
    return OtherCall(
        call,
        int(size),
        default_s,
        tuned_s,
        ratio=ratio_of(gain),
        low=ratio_of(gain - half),
        high=ratio_of(gain + half),
        error=error,
        at_least=ratio_of(at_least),
        decision=decision,
        tight=bool(loop),
    )
