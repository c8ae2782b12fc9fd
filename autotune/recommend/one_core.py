"""A limit of one core for the tuner's own computations (for steps 9 and 10 of the flow).

The tuner's matrices are small. A second thread of BLAS and OpenMP makes computations on them no faster and
takes twice the processor time, and where another process uses that core both threads wait for it: the choice
of the next setting in a campaign with 50 launches took 0.5 s alone and 0.9 to 1.2 s beside a busy process, on
one core 0.4 s in either case. With one core results do not depend on the number of cores either. The
environment, which launches inherit, is not changed.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any


@contextmanager
def on_one_core() -> Iterator[None]:
    """Limit all libraries that are loaded on entry to one thread inside of the context.

    On exit they get back the number of threads that they had.
    """
    import scipy.linalg  # noqa: F401  # its BLAS has to be loaded when the limit is set

    with _loaded(len(sys.modules)).limit(limits=1):
        yield


@lru_cache(maxsize=1)
def _loaded(modules: int) -> Any:
    """Return the libraries that have threads.

    The result is kept as long as the number of loaded modules stays the same: a search takes 2 ms.
    """
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
