"""One process group from start to end: timeout, interruption, bounded output, and no process left behind.

A launcher's children can leave its process group (daemons do): each launch has a parent of its own between us
and it, to whom all come whose own parents have ended, and who ends them with it. Each process has a marker in
its environment too, by which whoever is left is ended if that parent is killed. That parent and a guard
beside us do the same if we are killed; and what an earlier driver of the same campaign has left all the same
is ended before the next launch, so that two never run at once.
"""

import atexit
import contextlib
import math
import os
import resource
import selectors
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO

from autotune.campaign import interruption
from autotune.errors import UserError
from autotune.history.journal import not_stored
from autotune.resources import user_bytes
from hydra_plugins.autotune import _guard

KEPT_BYTES = 4 << 20  # So much of a launch's output is kept from its beginning, and as much from its end.

_GRACE_S = 3.0
_CHUNK, _LAST_CHUNKS = 1 << 16, 1 << 6
_TURN_S = 0.05  # How often to look whether a command has ended, where the kernel does not report it.
_HEED_S = 0.5  # How often a thread beside the main one looks whether the work is to end: signals wake that.
_STARTING = threading.Lock()  # Held while a limit of this whole process is another one for what is started.
_TELLING = threading.Lock()  # Held while the guard is notified of what is running.


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    exit_code: int | None  # None: it was ended by us at its timeout.
    duration_s: float  # Wall time.

    @property
    def cause(self) -> str:
        """The cause in words; shells and launchers report a signal by 128 and its number."""
        if self.exit_code is None:
            return f"ended after {self.duration_s:.0f} s"
        number = -self.exit_code if self.exit_code < 0 else self.exit_code - 128
        try:
            name = signal.Signals(number).name
        except ValueError:
            return f"exit code {self.exit_code}"
        memory = ", which the kernel also sends for want of memory" if name == "SIGKILL" else ""
        return f"exit code {self.exit_code} ({name}{memory})"


def run(argv: Sequence[str], env: Mapping[str, str], stdout: Path, stderr: Path, timeout_s: float) -> Ended:
    """Run a command to its end, or end it with everything that it started.

    Args:
        argv: Words, never read by a shell.
        env: Added to this process's own environment.
        stdout: File that receives the command's output: its beginning and its end, ``KEPT_BYTES`` each.
            It is in the directory of the launch, beside those of the same campaign.
        stderr: File that receives its messages, likewise.
        timeout_s: After which it is ended.

    Raises:
        OSError: the command cannot be started.
        StorageError: its output cannot be written.
        Interrupted: the work is to end; no process of the command is left. KeyboardInterrupt likewise.
    """
    driver, launches = _driver(), stdout.absolute().parent.parent
    mark = f"{driver}:{launches}:{uuid.uuid4().hex}"
    guard = _guarding(driver)
    _guard.end(0, lambda other: f":{launches}:" in other and not other.startswith(driver), 0.0)
    process, exit_code = None, None
    outputs = _Output(stdout), _Output(stderr)
    started, since_s = time.monotonic(), time.time()
    try:
        _tell(guard, mark, since_s)
        with _STARTING, _without_core_dumps():
            process, failure = _started(argv, {**os.environ, **env}, mark)
        _tell(guard, mark, since_s, process.pid)
        _check_started(failure, argv[0])
        exit_code = _followed(process, outputs, started + timeout_s)
    finally:
        _guard.sweep(since_s, _end(process, mark))
        _tell(guard, mark, 0.0)
        _finish(process, outputs)
    return Ended(exit_code, time.monotonic() - started)


def _started(
    argv: Sequence[str], env: Mapping[str, str], mark: str
) -> tuple[subprocess.Popen[bytes], IO[bytes]]:
    """The parent of a launch, and where it says why the launch cannot be started."""
    there, here = os.pipe()
    with os.fdopen(here, "wb"):
        process = subprocess.Popen(
            [
                *(sys.executable, "-I", "-S", _guard.__file__, _guard.LAUNCH),
                *(str(here), str(os.getpid()), str(_GRACE_S), mark),
                *argv,
            ],
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            pass_fds=(here,),
        )
    return process, os.fdopen(there, "rb")


def _check_started(failure: IO[bytes], word: str) -> None:
    """Wait until the launch has begun."""
    with failure:
        number = failure.read()
    if number:
        raise OSError(int(number), os.strerror(int(number)), word)


def last_words(*files: Path, limit: int = 300) -> str:
    """The end of the first of these outputs that says anything, on one line."""
    for file in files:
        try:
            said = user_bytes(file).decode(errors="replace")
        except UserError:  # the program put something else in its place
            continue
        lines = [line.strip(" -*#") for line in said.splitlines()]
        if text := " | ".join(line for line in lines[-limit:] if line):
            return text[-limit:]
    return "it printed nothing"


@dataclass
class _Output:
    """A file that takes the beginning and the end of what is written to it.

    Raises:
        StorageError: from each method, where it cannot be written.
    """

    path: Path
    begun: int = 0
    last: deque[bytes] = field(default_factory=deque)
    held: int = 0
    left_out: int = 0

    def __post_init__(self) -> None:
        self._write(b"", "wb")

    def take(self, chunk: bytes) -> None:
        """One more piece."""
        room = max(0, KEPT_BYTES - self.begun)
        if room:
            self._write(chunk[:room])
            self.begun += min(room, len(chunk))
        if rest := chunk[room:]:
            self.last.append(rest)
            self.held += len(rest)
            while self.held - len(self.last[0]) >= KEPT_BYTES:
                self.held -= len(self.last[0])
                self.left_out += len(self.last.popleft())

    def finish(self) -> None:
        """Write the end."""
        said = b"\n[autotune left %d bytes out here]\n" % self.left_out if self.left_out else b""
        self._write(said + b"".join(self.last))

    def _write(self, text: bytes, mode: str = "ab") -> None:
        try:
            with self.path.open(mode) as file:
                file.write(text)
        except OSError as exc:
            raise not_stored(self.path.parent, exc) from exc


def _followed(process: subprocess.Popen[bytes], outputs: Sequence[_Output], deadline: float) -> int | None:
    """Take what a command writes until it ends, and its exit code; None: it has not ended by the deadline.

    What it leaves in the background can hold its output open, so that the end of this is not waited for.
    """
    with selectors.DefaultSelector() as selector, _exit_descriptor(process.pid) as exited:
        for pipe, output in zip(_pipes(process), outputs, strict=True):
            os.set_blocking(pipe.fileno(), False)
            selector.register(pipe, selectors.EVENT_READ, output)
        for descriptor in (exited, interruption.alarm()):
            if descriptor is not None:
                selector.register(descriptor, selectors.EVENT_READ)
        often_s = _TURN_S if exited is None else math.inf
        if threading.current_thread() is not threading.main_thread():
            often_s = min(often_s, _HEED_S)
        while process.poll() is None and (left_s := deadline - time.monotonic()) > 0:
            for key, _ in selector.select(min(left_s, often_s)):
                if key.data is not None and not _taken(key.fd, key.data):
                    selector.unregister(key.fileobj)
            interruption.check()
    return process.poll()


def _taken(pipe: int, output: _Output) -> bool:
    """Take one piece out of a pipe; whether there was one."""
    try:
        chunk = os.read(pipe, _CHUNK)
    except BlockingIOError:
        return False
    output.take(chunk)
    return bool(chunk)


def _pipes(process: subprocess.Popen[bytes]) -> Iterator[IO[bytes]]:
    """Where a command's output and its messages come out."""
    return (pipe for pipe in (process.stdout, process.stderr) if pipe is not None)


@contextlib.contextmanager
def _without_core_dumps() -> Iterator[None]:
    """For what is started meanwhile: settings that crash are part of a search, and would fill the disk."""
    limit, most = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, (limit, most))


@contextlib.contextmanager
def _exit_descriptor(pid: int) -> Iterator[int | None]:
    """A descriptor that can be read when the process ends; None where the kernel has none."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _end(process: subprocess.Popen[bytes] | None, mark: str) -> set[int]:
    """End the command and everything that carries the mark; a second Ctrl-C only shortens the patience.

    Returns the pids of those that were ended by force.
    """
    signals = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        running = process is not None and process.poll() is None
        group = process.pid if process and running else 0
        killed = _guard.end(group, mark.__eq__, _GRACE_S if running else 0.0)
        if process is not None:
            process.wait()
        return killed
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _finish(process: subprocess.Popen[bytes] | None, outputs: Sequence[_Output]) -> None:
    """Take what is left in the pipes, and write the end of the outputs."""
    if process is not None:
        for pipe, output in zip(_pipes(process), outputs, strict=True):
            with pipe:
                os.set_blocking(pipe.fileno(), False)
                for _ in range(_LAST_CHUNKS):  # a process that escaped could go on without end
                    if not _taken(pipe.fileno(), output):
                        break
    for output in outputs:
        output.finish()


@cache
def _driver() -> str:
    """A name of this process that no other one has."""
    return uuid.uuid4().hex


def _guarding(driver: str) -> subprocess.Popen[bytes]:
    """The process that ends our launches if we are killed: one guard for all of them."""
    if _guard_of(driver).poll() is not None:
        _guard_of.cache_clear()
    return _guard_of(driver)


@cache
def _guard_of(driver: str) -> subprocess.Popen[bytes]:
    guard = subprocess.Popen(
        [sys.executable, "-I", "-S", str(Path(_guard.__file__)), driver, str(_GRACE_S)],
        cwd="/",
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        bufsize=0,
    )
    atexit.register(_dismiss, guard)
    return guard


_running: dict[str, tuple[float, int]] = {}
"""By mark the launches that are under way: since when, and their process group; 0: it is not known yet."""


def _tell(guard: subprocess.Popen[bytes], mark: str, since_s: float, group: int = 0) -> None:
    """Notify the guard that a launch is under way since then, 0: no longer; jobs of a heat run at once."""
    with _TELLING:
        if since_s:
            _running[mark] = (since_s, group)
        else:
            _running.pop(mark, None)
        begun = min((since for since, _ in _running.values()), default=0.0)
        groups = " ".join(str(group) for _, group in _running.values() if group)
        if guard.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                guard.stdin.write(f"{begun!r} {groups}\n".encode())


def _dismiss(guard: subprocess.Popen[bytes]) -> None:
    if guard.stdin is not None:
        guard.stdin.close()
    guard.wait()
