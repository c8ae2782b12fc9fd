"""``python -m autotune.probe DIRECTORY``: one rank of a launch."""

import time

BEGUN_S = time.monotonic()  # Start of the process: read before anything else is imported.

import os  # noqa: E402 - see above
import resource  # noqa: E402
import sys  # noqa: E402
from pathlib import Path  # noqa: E402

import mpi4py  # noqa: E402

from autotune.probe.listening import listen  # noqa: E402


def main() -> int:
    """Measure the request in a directory, and return the exit status of this rank.

    The status is 0 where the request was measured, 2 where nothing could be measured.
    """
    if len(sys.argv) != 2:
        sys.stderr.write("usage: python -m autotune.probe DIRECTORY\n")
        return 2
    directory, environment = Path(sys.argv[1]), dict(os.environ)
    # Settings that crash are part of a search: core dumps of their ranks would fill the disk. The driver
    # cannot set the limit for other nodes, where a daemon starts the ranks.
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    ucx_log = listen(directory)
    # Locks for calls from several threads would slow down every call, and few programs ask for them.
    mpi4py.rc.thread_level = "funneled"
    loaded_s = time.monotonic()
    from mpi4py import MPI  # initialises MPI

    moments = {"python": BEGUN_S, "mpi": loaded_s, "imports": time.monotonic()}
    try:
        from autotune.probe.launch import run

        return run(MPI.COMM_WORLD, directory, environment, ucx_log, moments)
    except BaseException:  # one rank that stops alone would leave all others waiting
        import traceback  # here, since it is slow to load

        traceback.print_exc()
        sys.stderr.flush()
        MPI.COMM_WORLD.Abort(1)


if __name__ == "__main__":
    sys.exit(main())
