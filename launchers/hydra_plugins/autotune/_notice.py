"""A command of the user's that is run when a campaign ends."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence

_PATIENCE_S = 30.0


def run(argv: Sequence[str]) -> str:
    """Run a command, without a shell and with nothing to read; what went wrong, empty where nothing did.

    What it prints goes to our standard error. After half a minute it is ended with all that it started.
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
