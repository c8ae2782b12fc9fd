"""Default algorithms of Open MPI's ``tuned`` component: its fixed rules, as tables.

The simulated cluster runs the algorithms that these rules choose, and ``lint --explain`` reports them for
calls to which none of the user's own rules applies.

Notation: a table has a row for each range of communicator sizes; the first row whose bound is above the size
applies. A row is a list of entries ``name<bytes`` in order; the first entry whose bound is above the message
size applies, and the last entry has no bound. The message size is the size of one rank's vector in a call.
For allgather and alltoall it is the size of one block (a *rules file* counts their sizes differently), and
for reduce-scatter the size of the whole vector.
"""

from collections.abc import Mapping
from functools import cache
from math import inf

import numpy as np
from numpy.typing import NDArray

Rules = Mapping[float, str]  # Bound of the communicator size → the row for sizes below it.

ALLREDUCE: Rules = {
    4: (
        "ring<8 recursive_doubling<4096 ring<8192 recursive_doubling<16384 ring<65536 "
        "segmented_ring<262144 rabenseifner"
    ),
    8: "ring<16 recursive_doubling<8192 rabenseifner",
    16: "recursive_doubling<8192 rabenseifner",
    32: "segmented_ring<64 recursive_doubling<4096 rabenseifner",
    64: "segmented_ring<128 rabenseifner",
    128: "recursive_doubling<262144 rabenseifner",
    256: "nonoverlapping<131072 recursive_doubling<262144 rabenseifner",
    512: "nonoverlapping<4096 rabenseifner",
    2048: "nonoverlapping<2048 recursive_doubling<16384 rabenseifner",
    4096: "nonoverlapping<2048 segmented_ring<4096 recursive_doubling<16384 rabenseifner",
    inf: "nonoverlapping<2048 segmented_ring<16384 recursive_doubling<32768 rabenseifner",
}
ALLTOALL: Rules = {
    3: (
        "pairwise<2 two_proc<4 pairwise<16 two_proc<64 pairwise<256 two_proc<4096 pairwise<32768 "
        "linear_sync<262144 two_proc<1048576 pairwise"
    ),
    8: "linear_sync<8192 linear<16384 linear_sync<65536 linear<524288 pairwise<1048576 linear",
    16: "linear_sync<262144 linear",
    32: (
        "linear_sync<4 modified_bruck<512 linear_sync<8192 linear<32768 linear_sync<262144 "
        "linear<524288 linear_sync"
    ),
    64: "modified_bruck<512 linear<524288 linear_sync",
    128: "modified_bruck<1024 linear<2048 linear_sync<4096 linear<262144 pairwise",
    256: "modified_bruck<1024 linear_sync<2048 linear<262144 pairwise",
    512: "modified_bruck<1024 linear_sync<8192 linear<32768 pairwise",
    1024: "modified_bruck<512 linear_sync<8192 linear<16384 linear_sync<131072 linear<262144 pairwise",
    2048: "modified_bruck<512 linear_sync<1024 linear<2048 linear_sync<16384 linear<262144 linear_sync",
    4096: "modified_bruck<1024 linear_sync<4096 linear<8192 linear_sync<131072 linear",
    inf: "modified_bruck<2048 linear_sync<8192 linear<16384 linear_sync<32768 linear<65536 linear_sync",
}
BARRIER: Rules = {
    4: "recursive_doubling",
    8: "linear",
    64: "recursive_doubling",
    256: "bruck",
    512: "tree",
    1024: "bruck",
    4096: "tree",
    inf: "bruck",
}
BCAST: Rules = {
    4: (
        "pipeline<32 binary<256 pipeline<512 knomial<1024 linear<32768 binary<131072 chain<262144 "
        "linear<524288 binomial<1048576 binary"
    ),
    8: "binary<64 binomial<128 binary<2048 binomial<8192 linear<1048576 chain",
    16: "knomial<8 binary<64 knomial<4096 binary<16384 binomial<32768 linear",
    32: "knomial<4096 binomial<1048576 scatter_allgather",
    64: "binomial<2048 knomial",
    128: "knomial",
    256: "binomial<2 binary<16384 linear<32768 binary<65536 knomial",
    1024: "knomial<16384 split_binary<32768 knomial",
    2048: "knomial<524288 scatter_allgather",
    4096: "knomial<262144 scatter_allgather",
    inf: "knomial<8192 binary<16384 knomial<262144 scatter_allgather",
}
REDUCE: Rules = {
    4: "rabenseifner<8 binary<16 pipeline<32 linear<262144 pipeline<524288 chain<1048576 pipeline",
    8: "binary<4096 chain<65536 binomial<262144 linear<524288 binomial<1048576 linear",
    16: "binary<8192 binomial",
    32: "binary<4096 binomial",
    256: "binomial",
    512: "binomial<8192 in_order_binary<16384 binomial",
    2048: "binomial",
    4096: "binomial<512 in_order_binary<1024 binomial<8192 in_order_binary<16384 binomial",
    inf: (
        "binomial<16 in_order_binary<32 binomial<1024 in_order_binary<2048 binomial<8192 "
        "in_order_binary<16384 binomial"
    ),
}
REDUCE_SCATTER: Rules = {
    4: "ring<65536 butterfly<131072 ring",
    8: "nonoverlapping<8 recursive_halving<262144 ring",
    32: "recursive_halving<262144 ring",
    64: "nonoverlapping<64 recursive_halving<2048 butterfly<524288 ring",
    128: "nonoverlapping<256 recursive_halving<512 butterfly<2048 recursive_halving<4096 butterfly",
    256: "nonoverlapping<256 recursive_halving<512 butterfly",
    512: "nonoverlapping<256 recursive_halving<1024 butterfly",
    1024: "nonoverlapping<512 recursive_halving<2048 butterfly<8192 recursive_halving<16384 butterfly",
    2048: "nonoverlapping<512 recursive_halving<4096 butterfly<16384 recursive_halving<32768 butterfly",
    4096: "nonoverlapping<512 recursive_halving<4096 butterfly",
    inf: "nonoverlapping<1024 recursive_halving<8192 butterfly",
}
ALLGATHER: Rules = {
    3: "two_proc",
    32: "recursive_doubling",
    64: "recursive_doubling<1024 neighbor<65536 ring",
    128: "recursive_doubling<512 neighbor<65536 ring",
    256: "recursive_doubling<512 neighbor<131072 ring<524288 neighbor<1048576 ring",
    512: (
        "recursive_doubling<32 bruck<128 recursive_doubling<1024 neighbor<131072 ring<524288 "
        "neighbor<1048576 ring"
    ),
    1024: "recursive_doubling<64 bruck<256 recursive_doubling<2048 neighbor",
    2048: (
        "recursive_doubling<4 bruck<8 recursive_doubling<16 bruck<32 recursive_doubling<256 "
        "bruck<512 recursive_doubling<4096 neighbor"
    ),
    4096: "bruck<32 recursive_doubling<128 bruck<512 recursive_doubling<4096 neighbor",
    inf: "recursive_doubling<2 bruck<8 recursive_doubling<16 bruck<512 recursive_doubling<4096 neighbor",
}

RULES: Mapping[str, Rules] = {
    "allgather": ALLGATHER,
    "allreduce": ALLREDUCE,
    "alltoall": ALLTOALL,
    "barrier": BARRIER,
    "bcast": BCAST,
    "reduce": REDUCE,
    "reduce_scatter": REDUCE_SCATTER,
}
"""Maps a collective to its fixed rules."""


def fixed_algorithm(collective: str, ranks: int, nbytes: int) -> str:
    """Return the algorithm that ``tuned`` chooses by itself; empty if its fixed rules are not listed here."""
    rules = RULES.get(collective)
    return fixed_choice(rules, ranks, np.array([float(nbytes)]))[0] if rules else ""


def fixed_choice(rules: Rules, size: int, nbytes: NDArray[np.float64]) -> list[str]:
    """Return the algorithm that the rules choose on ``size`` ranks for each message size in ``nbytes``."""
    bounds, names = _row(rules[next(bound for bound in rules if size < bound)])
    return [names[i] for i in np.searchsorted(bounds, nbytes, side="right")]


@cache
def _row(words: str) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """Return the bounds in bytes and the algorithms of a row; there is one algorithm more than bounds."""
    listed = words.split()
    names = tuple(word.partition("<")[0] for word in listed)
    return np.array([float(word.partition("<")[2]) for word in listed[:-1]]), names
