"""Ask UCX for a log of this process, before MPI is initialised; the module ``ucx`` reads the log later."""

import json
import os
from pathlib import Path

from autotune.probe.protocol import REQUEST


def listen(directory: Path) -> Path | None:
    """Set UCX's variables so that it writes a log, before MPI is initialised and UCX reads its environment.

    Returns:
        The path of the log; None if the request does not ask to check UCX.
    """
    try:
        checks_ucx = bool(json.loads((directory / REQUEST).read_text(encoding="utf-8"))["expect"]["ucx"])
    except OSError:
        checks_ucx = True  # this node cannot read the directory, but rank 0's request may ask for the check
    except (ValueError, LookupError, TypeError):
        checks_ucx = False  # all ranks together report later what is wrong with the request
    if not checks_ucx:
        return None
    place = directory
    if not os.access(directory, os.W_OK):
        import tempfile  # imported here, since it is slow to load and seldom needed

        place = Path(tempfile.gettempdir())
    log = place / f"ucx.{os.uname().nodename}.{os.getpid()}.log"
    os.environ.update(UCX_LOG_FILE=str(log), UCX_LOG_LEVEL="info", UCX_PROTO_INFO="y")
    return log
