"""The computing of the tuner itself, on one core (beside steps 9 and 10 of the flow).

Its matrices are small. A second thread of BLAS and OpenMP makes them no faster and takes twice the processor
time, and where another process has that core both wait for it: the next setting of a campaign with 50
launches took 0.5 s alone and 0.9 to 1.2 s beside a busy process, on one core 0.4 s in either case. Nor do
results depend on the number of cores then. The environment, which launches inherit, is left as it is.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any


@contextmanager
def on_one_core() -> Iterator[None]:
    """All libraries that are loaded by then have one thread inside; afterwards as many as before."""
    import scipy.linalg  # noqa: F401  # whose BLAS is to be loaded by then

    with _loaded(len(sys.modules)).limit(limits=1):
        yield


@lru_cache(maxsize=1)
def _loaded(modules: int) -> Any:
    """The libraries that have threads, once so many modules are loaded: looking for them takes 2 ms."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
