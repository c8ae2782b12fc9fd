"""Run a user's command when a campaign ends, for example to send a message."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence

_PATIENCE_S = 30.0  # Time limit of the command in seconds.


def run(argv: Sequence[str]) -> str:
    """Run a command without a shell and without input; return an error message, empty if it succeeded.

    The command's output goes to standard error. After ``_PATIENCE_S`` seconds the command is killed with its
    processes.
    """
    try:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=2, start_new_session=True)
    except (OSError, ValueError) as exc:
        return str(exc)
    try:
        code = process.wait(_PATIENCE_S)
    except subprocess.TimeoutExpired:
        return f"it did not end within {_PATIENCE_S:g} s"
    finally:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return f"exit code {code}" if code else ""
