"""Interface of the simulated cluster: predict how long a collective takes on a machine with given settings.

Place in the flow: (`Fabric`, collective, algorithm, segment size, sizes) → seconds. The predicted times are
without noise (which ``noise`` adds); they depend only on the input.
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
    """Return the time until the last rank has returned from a call, in seconds, shape (n_sizes,).

    Args:
        fabric: The job on its machine.
        collective: Name of the collective or pattern.
        algorithm: Name of an algorithm that `algorithms(collective, ranks)` returns. As in reality, it only
            has an effect if the component ``tuned`` runs the call, because it is the chosen component or
            because the chosen component does not implement the collective.
        segment_bytes: Size of the segments; 0 means that messages are not split.
        sizes_bytes: Message sizes, counted as in `Cell`: the vector of a rank for allreduce, bcast and
            reduce, one block for other collectives. A barrier ignores them.
        comm_size: Number of ranks of the communicator, which consists of the first ranks of the job; 0 means
            all ranks. For components other than ``tuned`` the communicator is rounded up to whole nodes.

    Raises:
        ScenarioError: If the communicator has more ranks than the job.
        SpaceError: If there is no model of the collective or of the algorithm.
    """
    ranks = comm_size or fabric.cluster.ranks
    if not 1 <= ranks <= fabric.cluster.ranks:
        raise ScenarioError(f"a communicator of {ranks} ranks", f"the job has {fabric.cluster.ranks}")
    nbytes = np.asarray(sizes_bytes, dtype=np.float64)
    everybody = np.arange(ranks)
    pattern_group = Group(fabric, everybody, missing(fabric.cache_per_rank_bytes, 2 * nbytes))
    if (duration := pattern_s(collective, pattern_group, nbytes)) is not None:
        return duration
    returns_early = collective in BLOCKING  # ``tuned`` is the only component with non-blocking collectives
    collective = BLOCKING.get(collective, collective)
    model = model_of(collective)
    buffers = model.buffers(ranks)
    nbytes = nbytes * (ranks if model.vectors else min(buffers, 1))
    group = Group(fabric, everybody, missing(fabric.cache_per_rank_bytes, buffers * nbytes))
    if fabric.settings.component != "tuned" and not returns_early:
        nodes = fabric.part(ranks)
        whole_nodes = Group(nodes, np.arange(nodes.cluster.ranks), group.missing)
        duration = by_component(fabric.settings.component, collective, whole_nodes, nbytes)
        if duration is not None:
            return duration
    return makespan(run(collective, algorithm, group, group.start(), nbytes, segment_bytes))
