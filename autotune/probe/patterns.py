"""Make test data that identify their place in a buffer, and the data expected on a rank after a collective.

In the block that rank s sends to rank d, element i is the whole number

    v(s, d, i) = i mod 251 + (31 s + 17 d) mod 1021

so that a block from the wrong rank, for the wrong rank or from the wrong place has other values. Each rank
computes the sum over any set of ranks by a closed form, without a message. Sums are exact in single precision
up to 13,000 ranks (13,000 · 1270 < 2²⁴). Messages whose size is not a multiple of four bytes consist of
unsigned bytes, which are added modulo 256.
"""

from array import array
from collections.abc import Iterable
from functools import lru_cache
from typing import Literal

_PLACE, _PAIR = 251, 1021
"""The moduli of the formula for test data: primes, so that no buffer of a round size repeats the pattern."""


def element_type(message_bytes: int) -> Literal["B", "f"]:
    """Return the type of the elements of a message of this size, as ``array`` and ``memoryview`` name it.

    It is single precision, ``f``, for a multiple of four bytes, else bytes, ``B``.
    """
    return "B" if message_bytes % 4 else "f"


def block(sources: Iterable[int], destination: int, message_bytes: int) -> bytes:
    """Return the sum of the blocks that the source ranks send to a destination rank, as bytes of memory."""
    ranks = list(sources)
    pairs = sum((31 * rank + 17 * destination) % _PAIR for rank in ranks)
    return _block(len(ranks), pairs, message_bytes)


@lru_cache(maxsize=4)
def _block(terms: int, pairs: int, message_bytes: int) -> bytes:
    """Return a block whose element i is ``terms · (i mod 251) + pairs``; cached, since it is needed often."""
    kind = element_type(message_bytes)
    values = (terms * place + pairs for place in range(_PLACE))
    # Bytes wrap modulo 256, as MPI_SUM does.
    period = array(kind, values if kind == "f" else (value % 256 for value in values)).tobytes()
    return (period * (message_bytes // len(period) + 1))[:message_bytes]
