"""A limit of one core for the tuner's own computations, such as the choice of the next setting.

Place in the flow of ``autotune/__init__.py``: steps 9 and 10, propose and recommend.

The tuner's matrices are small. A second thread of BLAS and OpenMP makes computations on them no faster and
takes twice the processor time. If another process uses the second core, both threads wait for it: the choice
of the next setting in a campaign with 50 launches took 0.5 s alone and 0.9 to 1.2 s beside a busy process,
but 0.4 s on one core in either case. With one core, results also do not depend on the number of cores. The
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

    On exit each library gets back the number of threads that it had before.
    """
    import scipy.linalg  # noqa: F401  # its BLAS has to be loaded when the limit is set

    with _loaded(len(sys.modules)).limit(limits=1):
        yield


@lru_cache(maxsize=1)
def _loaded(modules: int) -> Any:
    """Return the libraries that use threads; finding them, at a number of modules, takes 2 ms."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
