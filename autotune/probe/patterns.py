"""Data that identify their place in a buffer, and what each rank must find after a collective.

The block that rank s sends to rank d holds, at element i, the whole number

    v(s, d, i) = i mod 251 + (31 s + 17 d) mod 1021

so that a block from the wrong rank, for the wrong rank or from the wrong place differs. Sums over any set of
ranks have a closed form, need no message, and are exact in single precision up to 13,000 ranks (13,000 · 1270
< 2²⁴). Sizes that are not a multiple of four bytes are counted in unsigned bytes, modulo 256.
"""

from array import array
from collections.abc import Iterable
from functools import lru_cache
from typing import Literal

_PLACE, _PAIR = 251, 1021
"""The moduli 251 and 1021: primes, so that no buffer of a round size repeats the pattern."""


def element_type(message_bytes: int) -> Literal["B", "f"]:
    """Return the type in which a message of this size is counted, as ``array`` and ``memoryview`` name it.

    It is single precision, ``f``, where that fits, else bytes, ``B``.
    """
    return "B" if message_bytes % 4 else "f"


def block(sources: Iterable[int], destination: int, message_bytes: int) -> bytes:
    """Return the sum over sources of the blocks sent to a destination, as bytes of memory."""
    ranks = list(sources)
    pairs = sum((31 * rank + 17 * destination) % _PAIR for rank in ranks)
    return _block(len(ranks), pairs, message_bytes)


@lru_cache(maxsize=4)
def _block(terms: int, pairs: int, message_bytes: int) -> bytes:
    """Return elements ``terms · (i mod 251) + pairs``; cached, since the same block is needed repeatedly."""
    kind = element_type(message_bytes)
    values = (terms * place + pairs for place in range(_PLACE))
    # Bytes wrap modulo 256, as MPI_SUM does.
    period = array(kind, values if kind == "f" else (value % 256 for value in values)).tobytes()
    return (period * (message_bytes // len(period) + 1))[:message_bytes]
