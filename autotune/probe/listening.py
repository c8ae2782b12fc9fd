"""Request for UCX's log of this process, made before MPI is initialised; ``ucx`` reads the log."""

import json
import os
from pathlib import Path

from autotune.probe.protocol import REQUEST


def listen(directory: Path) -> Path | None:
    """Let UCX write its log where this process can read it, unless the request wants no check of UCX.

    It must be called before MPI is initialised, when UCX reads its environment.

    Returns:
        The path of the log; None where nothing was changed.
    """
    try:
        checks_ucx = bool(json.loads((directory / REQUEST).read_text(encoding="utf-8"))["expect"]["ucx"])
    except OSError:
        checks_ucx = True  # a node that does not see the directory: rank 0 may want the check
    except (ValueError, LookupError, TypeError):
        checks_ucx = False  # all ranks together report later what is wrong with the request
    if not checks_ucx:
        return None
    place = directory
    if not os.access(directory, os.W_OK):
        import tempfile  # here, since it is slow to load and seldom needed

        place = Path(tempfile.gettempdir())
    log = place / f"ucx.{os.uname().nodename}.{os.getpid()}.log"
    os.environ.update(UCX_LOG_FILE=str(log), UCX_LOG_LEVEL="info", UCX_PROTO_INFO="y")
    return log
