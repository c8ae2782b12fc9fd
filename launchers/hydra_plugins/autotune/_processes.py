"""One process group from start to end: timeout, interruption, and no process left behind.

A launcher's children can leave its process group (daemons do), so every process of a launch carries a marker
in its environment, and at the end whatever still carries it is ended by pid.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

MARKER = "AUTOTUNE_LAUNCH"
"""Name of the environment variable that marks every process of one launch."""

_GRACE_S = 3.0
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    exit_code: int | None
    """None: it was ended by us at its timeout."""
    duration_s: float
    """Wall time."""


def run(argv: Sequence[str], env: Mapping[str, str], stdout: Path, stderr: Path, timeout_s: float) -> Ended:
    """Run a command to its end, or end it with everything that it started.

    Args:
        argv: Words, never read by a shell.
        env: Added to this process's own environment.
        stdout: File that receives the command's output.
        stderr: File that receives its messages.
        timeout_s: After which it is ended.

    Raises:
        OSError: the command cannot be started.
        KeyboardInterrupt: passed on after the command and all its processes have been ended.
    """
    marker = uuid.uuid4().hex
    started = time.monotonic()
    with stdout.open("wb") as out, stderr.open("wb") as err:
        process = subprocess.Popen(
            list(argv),
            env={**os.environ, **env, MARKER: marker},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
            preexec_fn=_die_with_parent,  # safe: launches start from a single thread
        )
        try:
            exit_code: int | None = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            exit_code = None
        finally:
            _end(process, marker)
    return Ended(exit_code, time.monotonic() - started)


def _die_with_parent() -> None:
    """Have the kernel end the launcher if we are killed: nothing of ours may go on measuring unseen."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _end(process: subprocess.Popen[bytes], marker: str) -> None:
    """End the command politely, then everything that carries the marker by force."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for _ in range(3):
        left = list(_marked(marker))
        if not left:
            return
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def _marked(marker: str) -> Iterator[int]:
    """Pids of living processes whose environment carries the marker."""
    wanted = f"{MARKER}={marker}".encode()
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and int(folder.name) != os.getpid():
            with contextlib.suppress(OSError):
                if wanted in (folder / "environ").read_bytes().split(b"\0"):
                    yield int(folder.name)
