"""Limit the tuner's own computations, such as the choice of the next setting, to one core.

Place in the flow of ``autotune/__init__.py``: steps 9 and 10, propose and recommend.

The tuner's matrices are small. A second thread of BLAS and OpenMP does not make computations on them faster,
but takes twice the processor time. If another process uses the second core, both threads wait for each other:
the choice of the next setting in a campaign with 50 launches took 0.5 s on an idle machine and 0.9 to 1.2 s
beside a busy process, but 0.4 s on one core in either case. On one core, results also do not depend on the
number of cores. The limit does not change the environment, which launches inherit.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any


@contextmanager
def on_one_core() -> Iterator[None]:
    """Limit all libraries that are loaded on entry to one thread within the context.

    On exit each library gets back the number of threads that it had on entry.
    """
    import scipy.linalg  # noqa: F401  # SciPy's BLAS has to be loaded when the limit is set

    with _loaded(len(sys.modules)).limit(limits=1):
        yield


@lru_cache(maxsize=1)
def _loaded(modules: int) -> Any:
    """Return the loaded libraries that use threads.

    Finding them takes 2 ms, so the result is kept for each number of loaded ``modules``.
    """
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
