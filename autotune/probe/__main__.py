"""``python -m autotune.probe DIRECTORY``: one rank of a launch."""

import os
import resource
import sys
import traceback
from pathlib import Path

import mpi4py

from autotune.probe.ucx import listen


def main() -> int:
    """Measure the request in a directory; the exit status: 0 measured, 2 nothing could be measured."""
    if len(sys.argv) != 2:
        sys.stderr.write("usage: python -m autotune.probe DIRECTORY\n")
        return 2
    directory, environment = Path(sys.argv[1]), dict(os.environ)
    # Settings that crash are part of a search: core dumps of their ranks would fill the disk. On other nodes
    # the limit is that of a daemon, not the driver's.
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    ucx_log = listen(directory)
    # Locks that calls from several threads need cost each call, and few programs ask for them.
    mpi4py.rc.thread_level = "funneled"
    from mpi4py import MPI  # initialises MPI

    try:
        from autotune.probe.launch import run

        return run(MPI.COMM_WORLD, directory, environment, ucx_log)
    except BaseException:  # one rank that stops alone would leave all others waiting
        traceback.print_exc()
        sys.stderr.flush()
        MPI.COMM_WORLD.Abort(1)


if __name__ == "__main__":
    sys.exit(main())
