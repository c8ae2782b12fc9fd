"""Run commands from start to end: timeout, interruption, bounded output, and no process left behind.

Several can run at once, as the launches of a heat do; how one of them ends does not affect the others.

A launcher's children can leave its process group (daemons do). So each launch has a parent of its own,
between this process and the launch, which adopts all processes whose own parents have ended and ends them
with the launch. Each process also has a marker in its environment, by which remaining processes are ended if
that parent is killed. The parent and a guard beside this process do the same if this process is killed; and
whatever an earlier driver of the same campaign has still left is ended before the next launch, so that two
never run at once.
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
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO

from autotune.campaign import interruption
from autotune.errors import UserError
from autotune.history.journal import not_stored
from autotune.resources import user_bytes
from hydra_plugins.autotune import _guard

KEPT_BYTES = 4 << 20
"""Bytes of a launch's output that are stored from its beginning, and as many from its end."""

_GRACE_S = 3.0  # Time in seconds that a command has to end by itself before it is ended by force.
_CHUNK, _LAST_CHUNKS = 1 << 16, 1 << 6
"""Bytes that are read at once, and the number of such reads after a command's end."""
_TURN_S = 0.05
"""Time in seconds between looks whether a command has ended, where the kernel does not report it."""
_ENDED = object()  # Marks a descriptor which reports that a command has ended.


@dataclass(frozen=True, slots=True)
class Ended:
    """Describe how a command ended."""

    exit_code: int | None  # Exit code; None: the command was ended at its timeout.
    duration_s: float  # Wall time in seconds.

    @property
    def cause(self) -> str:
        """Return the cause in words; shells and launchers report a signal by 128 and its number."""
        if self.exit_code is None:
            return f"ended after {self.duration_s:.0f} s"
        number = -self.exit_code if self.exit_code < 0 else self.exit_code - 128
        try:
            name = signal.Signals(number).name
        except ValueError:
            return f"exit code {self.exit_code}"
        memory = ", which the kernel also sends for want of memory" if name == "SIGKILL" else ""
        return f"exit code {self.exit_code} ({name}{memory})"


@dataclass(frozen=True, slots=True)
class Command:
    """Describe a command, its limits and the files of its output."""

    argv: Sequence[str]  # Words, never read by a shell.
    env: Mapping[str, str]  # Added to this process's own environment.
    stdout: Path
    """File that receives its output: the beginning and the end, ``KEPT_BYTES`` each. It is in the directory
    of the launch, beside those of the same campaign."""
    stderr: Path  # File that receives its messages, in the same way.
    timeout_s: float  # Time in seconds after which it is ended.
    should_repeat: Callable[[Ended], bool] = lambda end: False
    """Whether it is run once more; called when it has ended, its processes are gone and its files are
    complete."""


def run(argv: Sequence[str], env: Mapping[str, str], stdout: Path, stderr: Path, timeout_s: float) -> Ended:
    """Run one command to its end, or end it with everything that it started; see ``run_at_once``."""
    return run_at_once([Command(argv, env, stdout, stderr, timeout_s)])[0]


def run_at_once(commands: Sequence[Command]) -> list[Ended]:
    """Run some commands at once to their ends, or end each with everything that it started.

    Raises:
        OSError: one cannot be started; none of the others is left.
        StorageError: the output of one cannot be written; none of them is left.
        Interrupted: the work is to end; no process of the commands is left. KeyboardInterrupt likewise.
    """
    driver = _driver()
    guard = _guarding(driver)
    folders = {f":{command.stdout.absolute().parent.parent}:" for command in commands}
    _guard.end([], lambda mark: any(f in mark for f in folders) and not mark.startswith(driver), 0.0)
    running: list[_Running] = []
    try:
        for command in commands:
            running.append(_Running(command, driver))
            _tell(guard, running)
            running[-1].start()
            _tell(guard, running)
        _follow(running, guard)
    finally:
        _end(running)
        _tell(guard, [])
    return [each.end for each in running]


@dataclass(eq=False)
class _Running:
    """Hold a command that runs, or has ended."""

    command: Command
    driver: str  # Unique name of this process.
    since_s: float = field(default_factory=time.time)  # Start of the command, in seconds since the epoch.
    process: subprocess.Popen[bytes] | None = None
    end: Ended = Ended(None, 0.0)

    def __post_init__(self) -> None:
        self.outputs = _Output(self.command.stdout), _Output(self.command.stderr)
        launches = self.command.stdout.absolute().parent.parent
        self.mark = f"{self.driver}:{launches}:{uuid.uuid4().hex}"
        self.started = time.monotonic()
        self.deadline = self.started + self.command.timeout_s

    def start(self) -> None:
        """Start the command.

        Raises:
            OSError: it cannot be started.
        """
        argv = self.command.argv
        with _without_core_dumps():
            self.process, failure = _started(argv, {**os.environ, **self.command.env}, self.mark)
        _check_started(failure, argv[0])

    @property
    def exit_code(self) -> int | None:
        """Return its exit code; None if it has not ended."""
        return self.process.poll() if self.process is not None else None

    @property
    def pipes(self) -> Iterator[tuple[IO[bytes], "_Output"]]:
        """Yield the pipes of its output and its messages, each with the file that receives them."""
        if self.process is not None and self.process.stdout is not None and self.process.stderr is not None:
            yield from zip((self.process.stdout, self.process.stderr), self.outputs, strict=True)


def _started(
    argv: Sequence[str], env: Mapping[str, str], mark: str
) -> tuple[subprocess.Popen[bytes], IO[bytes]]:
    """Return the parent of a launch, and the pipe that reports why the launch cannot be started."""
    read_end, write_end = os.pipe()
    with os.fdopen(write_end, "wb"):
        process = subprocess.Popen(
            [
                *(sys.executable, "-I", "-S", _guard.__file__, _guard.LAUNCH),
                *(str(write_end), str(os.getpid()), str(_GRACE_S), mark),
                *argv,
            ],
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            pass_fds=(write_end,),
        )
    return process, os.fdopen(read_end, "rb")


def _check_started(failure: IO[bytes], word: str) -> None:
    """Wait until the launch has begun; raise its error if it cannot be started."""
    with failure:
        number = failure.read()
    if number:
        raise OSError(int(number), os.strerror(int(number)), word)


def last_words(*files: Path, limit: int = 300) -> str:
    """Return the end of the first of these outputs that has any text, on one line."""
    for file in files:
        try:
            content = user_bytes(file).decode(errors="replace")
        except UserError:  # the program replaced the file by something that is no readable file
            continue
        lines = [line.strip(" -*#") for line in content.splitlines()]
        if text := " | ".join(line for line in lines[-limit:] if line):
            return text[-limit:]
    return "it printed nothing"


@dataclass
class _Output:
    """Store the beginning and the end of what is written to a file.

    Raises:
        StorageError: from each method, if the file cannot be written.
    """

    path: Path
    n_first: int = 0
    last: deque[bytes] = field(default_factory=deque)
    n_last: int = 0
    left_out: int = 0
    finished: bool = False

    def __post_init__(self) -> None:
        self._write(b"", "wb")

    def take(self, chunk: bytes) -> None:
        """Store one more piece of the output."""
        room = max(0, KEPT_BYTES - self.n_first)
        if room:
            self._write(chunk[:room])
            self.n_first += min(room, len(chunk))
        if excess := chunk[room:]:
            self.last.append(excess)
            self.n_last += len(excess)
            while self.n_last - len(self.last[0]) >= KEPT_BYTES:
                self.n_last -= len(self.last[0])
                self.left_out += len(self.last.popleft())

    def finish(self) -> None:
        """Write the end of the output."""
        self.finished = True
        gap = b"\n[autotune left %d bytes out here]\n" % self.left_out if self.left_out else b""
        self._write(gap + b"".join(self.last))

    def _write(self, text: bytes, mode: str = "ab") -> None:
        try:
            with self.path.open(mode) as file:
                file.write(text)
        except OSError as exc:
            raise not_stored(self.path.parent, exc) from exc


def _follow(running: list[_Running], guard: subprocess.Popen[bytes]) -> None:
    """Read what commands write until each has ended, or was ended at its deadline.

    A process that a command leaves in the background can hold its output open, so the end of the output is
    not awaited.
    """
    remaining = set(range(len(running)))
    with selectors.DefaultSelector() as selector, contextlib.ExitStack() as opened:
        if (alarm := interruption.alarm()) is not None:
            selector.register(alarm, selectors.EVENT_READ)
        look_every_s = math.inf
        for number in remaining:
            look_every_s = min(look_every_s, _watch(running[number], selector, opened))
        while True:
            now_s = time.monotonic()
            finished = {
                n for n in remaining if running[n].exit_code is not None or running[n].deadline <= now_s
            }
            for number in finished:
                each, exit_code = running[number], running[number].exit_code
                for pipe, _ in each.pipes:
                    with contextlib.suppress(KeyError):  # the pipe was closed and unregistered already
                        selector.unregister(pipe)
                _end([each])
                each.end = Ended(exit_code, time.monotonic() - each.started)
                if each.command.should_repeat(each.end):
                    running[number] = each = _Running(each.command, each.driver)
                    each.start()
                    look_every_s = min(look_every_s, _watch(each, selector, opened))
                else:
                    remaining.remove(number)
            if finished:
                _tell(guard, [running[number] for number in remaining])
            if not remaining:
                return
            until_s = min(running[number].deadline for number in remaining) - time.monotonic()
            for key, _ in selector.select(max(0.0, min(until_s, look_every_s))):
                if key.data is _ENDED or (
                    isinstance(key.data, _Output) and not _read_piece(key.fd, key.data)
                ):
                    selector.unregister(key.fileobj)
            interruption.check()


def _watch(each: _Running, selector: selectors.BaseSelector, opened: contextlib.ExitStack) -> float:
    """Have a selector wake when a command writes or ends; return how often to look whether it has ended."""
    for pipe, output in each.pipes:
        os.set_blocking(pipe.fileno(), False)
        selector.register(pipe, selectors.EVENT_READ, output)
    exited = opened.enter_context(_exit_descriptor(each.process.pid)) if each.process is not None else None
    if exited is None:
        return _TURN_S
    selector.register(exited, selectors.EVENT_READ, _ENDED)
    return math.inf


def _read_piece(pipe: int, output: _Output) -> bool:
    """Read one piece from a pipe; return whether there was one."""
    try:
        chunk = os.read(pipe, _CHUNK)
    except BlockingIOError:
        return False
    output.take(chunk)
    return bool(chunk)


@contextlib.contextmanager
def _without_core_dumps() -> Iterator[None]:
    """Start processes without core dumps meanwhile.

    Settings that crash are part of a search, and their core dumps would fill the disk.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))


@contextlib.contextmanager
def _exit_descriptor(pid: int) -> Iterator[int | None]:
    """Yield a descriptor that is readable when the process ends; None if the kernel has none."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _end(running: Sequence[_Running]) -> None:
    """End commands and everything that carries their marks, and read what is left in their pipes.

    A second Ctrl-C only shortens the time to end. A command that was ended in this way already stays as it
    is.
    """
    running = [each for each in running if not each.outputs[0].finished]
    if not running:
        return
    signals = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    previous_mask = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        processes = [each.process for each in running if each.process is not None]
        groups = [process.pid for process in processes if process.poll() is None]
        marks = {each.mark for each in running}
        killed = _guard.end(groups, marks.__contains__, _GRACE_S if groups else 0.0)
        for process in processes:
            process.wait()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous_mask)
    _guard.sweep(min(each.since_s for each in running), killed)
    for each in running:
        for pipe, output in each.pipes:
            with pipe:
                os.set_blocking(pipe.fileno(), False)
                for _ in range(_LAST_CHUNKS):  # a process that escaped could write without end
                    if not _read_piece(pipe.fileno(), output):
                        break
        for output in each.outputs:
            output.finish()


@cache
def _driver() -> str:
    """Return a name of this process that no other one has."""
    return uuid.uuid4().hex


def _guarding(driver: str) -> subprocess.Popen[bytes]:
    """Return the process that ends the launches if this process is killed: one guard for all of them."""
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


def _tell(guard: subprocess.Popen[bytes], running: Sequence[_Running]) -> None:
    """Notify the guard of the launches under way."""
    begun_s = min((each.since_s for each in running), default=0.0)
    groups = " ".join(str(each.process.pid) for each in running if each.process is not None)
    if guard.stdin is not None:
        with contextlib.suppress(BrokenPipeError):
            guard.stdin.write(f"{begun_s!r} {groups}\n".encode())


def _dismiss(guard: subprocess.Popen[bytes]) -> None:
    if guard.stdin is not None:
        guard.stdin.close()
    guard.wait()
