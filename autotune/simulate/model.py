"""The model's one question: how long does this collective take there, with these settings, at these sizes?

Place in the flow: (`Fabric`, collective, algorithm, segment size, sizes) → seconds. No noise (that is
``noise``), no randomness, no clock.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from autotune.errors import ScenarioError
from autotune.simulate.algorithms import model_of, run
from autotune.simulate.components import by_component
from autotune.simulate.fabric import Fabric, missing
from autotune.simulate.messages import BLOCKING, pattern_s
from autotune.simulate.schedule import Group, makespan


def predict(
    fabric: Fabric,
    collective: str,
    algorithm: str,
    segment_bytes: int,
    sizes_bytes: Sequence[int] | NDArray[np.float64],
    comm_size: int = 0,
) -> NDArray[np.float64]:
    """Time of one call of a placed job until its last rank has returned, seconds, shape (n_sizes,).

    The algorithm is one of `algorithms(collective, ranks)`. As in reality it has no effect where another
    component than ``tuned`` answers, and has one where that leaves the call to ``tuned``. Segments of 0 bytes
    are whole messages. Sizes are counted as in `Cell`: the vector of a rank for allreduce, bcast, reduce, one
    block for the others; of no meaning to a barrier. The communicator is the first ``comm_size`` ranks; 0:
    all. Components other than ``tuned`` are taken to have whole nodes.

    Raises:
        ScenarioError: If the communicator has more ranks than the job.
        SpaceError: If the model does not know the collective or the algorithm.
    """
    ranks = comm_size or fabric.cluster.ranks
    if not 1 <= ranks <= fabric.cluster.ranks:
        raise ScenarioError(f"a communicator of {ranks} ranks", f"the job has {fabric.cluster.ranks}")
    nbytes = np.asarray(sizes_bytes, dtype=np.float64)
    everybody = fabric.all_ranks[:ranks]
    among = Group(fabric, everybody, missing(fabric.cache_per_rank_bytes, 2 * nbytes))
    if (took := pattern_s(collective, among, nbytes)) is not None:
        return took
    returns_early = collective in BLOCKING  # no other component offers it
    collective = BLOCKING.get(collective, collective)
    model = model_of(collective)
    buffers = model.buffers(ranks)
    nbytes = nbytes * (ranks if model.vectors else min(buffers, 1))
    group = Group(fabric, everybody, missing(fabric.cache_per_rank_bytes, buffers * nbytes))
    if fabric.settings.component != "tuned" and not returns_early:
        nodes = fabric.part(ranks)
        whole = Group(nodes, nodes.all_ranks, group.missing)
        took = by_component(fabric.settings.component, collective, whole, nbytes)
        if took is not None:
            return took
    return makespan(run(collective, algorithm, group, group.start(), nbytes, segment_bytes))
