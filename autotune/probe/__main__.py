"""The program that each rank of a launch runs: ``python -m autotune.probe DIRECTORY``."""

import time

BEGUN_S = time.monotonic()  # Start of the process in seconds, read before anything else is imported.

import os  # noqa: E402 - see above
import resource  # noqa: E402
import sys  # noqa: E402
from pathlib import Path  # noqa: E402

import mpi4py  # noqa: E402

from autotune.probe.listening import listen  # noqa: E402


def main() -> int:
    """Measure what the request in a directory asks for, and return the exit status of this rank.

    The status is 0 if the measurement was made, 2 if nothing could be measured.
    """
    if len(sys.argv) != 2:
        sys.stderr.write("usage: python -m autotune.probe DIRECTORY\n")
        return 2
    directory, environment = Path(sys.argv[1]), dict(os.environ)
    # A search tries settings that crash, and core dumps of their ranks would fill the disk. The driver cannot
    # set the limit for ranks on other nodes, since a daemon starts them there.
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    ucx_log = listen(directory)
    # With MPI_THREAD_MULTIPLE locks would slow down every call, and few programs ask for that level.
    mpi4py.rc.thread_level = "funneled"
    loaded_s = time.monotonic()
    from mpi4py import MPI  # this import initialises MPI

    moments = {"python": BEGUN_S, "mpi": loaded_s, "imports": time.monotonic()}
    try:
        from autotune.probe.launch import run

        return run(MPI.COMM_WORLD, directory, environment, ucx_log, moments)
    except BaseException:  # if only this rank stopped, all others would wait for it
        import traceback  # imported here, since it is slow to load

        traceback.print_exc()
        sys.stderr.flush()
        MPI.COMM_WORLD.Abort(1)


if __name__ == "__main__":
    sys.exit(main())
