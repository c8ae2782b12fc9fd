"""Run commands to their ends, with timeout, interruption and limited output, and leave no process behind.

Several commands can run at once, as the launches of a heat (launches that take turns) do; how one of them
ends does not affect the others.

The processes of a launch can leave the process group of its launcher (daemons do). So each launch has a
parent process of its own, between this process and the launch. The parent becomes the parent of all processes
of the launch whose own parents have ended, and ends them with the launch. If that parent is killed, the
remaining processes are found by a mark in their environment, and ended. If this process is killed, the parent
and a guard (a further process) end the launch. Before a launch, processes that an earlier run of the same
campaign has left are ended, so that they never disturb the launch.
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
from autotune.errors import UserError, ending
from autotune.history.journal import not_stored
from autotune.resources import user_bytes
from hydra_plugins.autotune import _guard

KEPT_BYTES = 4 << 20
"""A launch's output is stored up to this number of bytes from its beginning, and as many from its end."""

_GRACE_S = 3.0  # Time in seconds in which a command can end when asked, before it is killed.
_CHUNK, _LAST_CHUNKS = 1 << 16, 1 << 6
"""Number of bytes that are read at once, and largest number of such reads after a command's end."""
_TURN_S = 0.05  # Seconds between checks whether a command has ended, if the kernel does not report it.
_ENDED = object()  # Marks a file descriptor that becomes readable when a command ends.


@dataclass(frozen=True, slots=True)
class Ended:
    """Describe how a command ended."""

    exit_code: int | None  # Exit code; None: the command was ended at its timeout.
    duration_s: float  # Wall time in seconds.

    @property
    def cause(self) -> str:
        """Return how the command ended, in words; launchers report a signal as 128 + its number."""
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

    argv: Sequence[str]  # Words of the command line, which no shell reads.
    env: Mapping[str, str]  # Variables that are added to the environment of this process.
    stdout: Path
    """File for the command's standard output: the beginning and the end, ``KEPT_BYTES`` each. It is in the
    directory of the launch, which is next to the directories of the campaign's other launches."""
    stderr: Path  # File for the command's standard error, with the same limits.
    timeout_s: float  # Time in seconds after which the command is ended.
    should_repeat: Callable[[Ended], bool] = lambda end: False
    """Function that returns whether to run the command once more. It is called when the command has ended,
    its processes no longer exist and its files are complete."""


def run(argv: Sequence[str], env: Mapping[str, str], stdout: Path, stderr: Path, timeout_s: float) -> Ended:
    """Run one command until it ends or its time is up; see ``run_at_once``."""
    return run_at_once([Command(argv, env, stdout, stderr, timeout_s)])[0]


def run_at_once(commands: Sequence[Command]) -> list[Ended]:
    """Run commands at once until each has ended, or its time is up; return how they ended, in the same order.

    No process of the commands is left when this function returns or raises an error.

    Raises:
        OSError: a command cannot be started.
        StorageError: the output of a command cannot be written.
        Interrupted: the user or the batch system ends the work.
        KeyboardInterrupt: the user pressed Ctrl-C.
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
    """Represent a command that is running or has ended."""

    command: Command
    driver: str  # Unique name of this process (the driver of the launches).
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
        """Start the command, or raise OSError if it cannot be started."""
        argv = self.command.argv
        with _without_core_dumps():
            self.process, failure = _started(argv, {**os.environ, **self.command.env}, self.mark)
        with failure:  # the other end of the pipe is closed once the launch has begun
            if number := failure.read():
                raise OSError(int(number), os.strerror(int(number)), argv[0])

    @property
    def exit_code(self) -> int | None:
        """Return the exit code of the command; None if it has not ended."""
        return self.process.poll() if self.process is not None else None

    @property
    def pipes(self) -> Iterator[tuple[IO[bytes], "_Output"]]:
        """Yield the pipes of the command's standard output and error, each with the file for its content."""
        if self.process is not None and self.process.stdout is not None and self.process.stderr is not None:
            yield from zip((self.process.stdout, self.process.stderr), self.outputs, strict=True)


def _started(
    argv: Sequence[str], env: Mapping[str, str], mark: str
) -> tuple[subprocess.Popen[bytes], IO[bytes]]:
    """Start a launch; return its parent process, and a pipe that gets the error number if the start fails."""
    read_end, write_end = os.pipe()
    with os.fdopen(write_end, "wb"):
        parent = (sys.executable, "-I", "-S", _guard.__file__, _guard.LAUNCH)
        process = subprocess.Popen(
            [*parent, str(write_end), str(os.getpid()), str(_GRACE_S), mark, *argv],
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            pass_fds=(write_end,),
        )
    return process, os.fdopen(read_end, "rb")


def last_words(*files: Path, limit: int = 300) -> str:
    """Return the end of the first of these files that contains any text, on one line."""
    for file in files:
        try:
            content = user_bytes(file).decode(errors="replace")
        except UserError:  # the program has replaced the file by something that cannot be read
            continue
        lines = [line.strip(" -*#\0") for line in content.splitlines()]
        if text := ending(" | ".join(line for line in lines[-limit:] if line), limit):
            return text
    return "it printed nothing"


@dataclass
class _Output:
    """Store the beginning and the end of an output in a file, or raise a StorageError if that fails."""

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
    """Read the outputs of commands until each command has ended, or was ended at its deadline.

    A process that a command has left in the background can keep the command's output open; therefore the end
    of the output is not awaited.
    """
    remaining = set(range(len(running)))
    with selectors.DefaultSelector() as selector, contextlib.ExitStack() as opened:
        if (alarm := interruption.alarm()) is not None:
            selector.register(alarm, selectors.EVENT_READ)
        look_every_s = min(_watch(each, selector, opened) for each in running)
        while True:
            now_s = time.monotonic()
            finished = {
                n for n in remaining if running[n].exit_code is not None or running[n].deadline <= now_s
            }
            for number in finished:
                each, exit_code = running[number], running[number].exit_code
                for pipe, _ in each.pipes:
                    with contextlib.suppress(KeyError):  # the pipe had ended and is no longer registered
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
                output = key.data
                if output is _ENDED or (isinstance(output, _Output) and not _read_piece(key.fd, output)):
                    selector.unregister(key.fileobj)
            interruption.check()


def _watch(each: _Running, selector: selectors.BaseSelector, opened: contextlib.ExitStack) -> float:
    """Register a command's pipes and its end with a selector.

    Return the seconds between checks whether the command has ended; infinity if the kernel reports the end.
    """
    for pipe, output in each.pipes:
        os.set_blocking(pipe.fileno(), False)
        selector.register(pipe, selectors.EVENT_READ, output)
    exited = opened.enter_context(_exit_descriptor(each.process.pid)) if each.process is not None else None
    if exited is None:
        return _TURN_S
    selector.register(exited, selectors.EVENT_READ, _ENDED)
    return math.inf


def _read_piece(pipe: int, output: _Output) -> bool:
    """Read once from a pipe; return whether there was any output."""
    try:
        chunk = os.read(pipe, _CHUNK)
    except BlockingIOError:
        return False
    output.take(chunk)
    return bool(chunk)


@contextlib.contextmanager
def _without_core_dumps() -> Iterator[None]:
    """Disable core dumps of processes started in this context: a search also tries settings that crash."""
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))


@contextlib.contextmanager
def _exit_descriptor(pid: int) -> Iterator[int | None]:
    """Yield a file descriptor that becomes readable when a process ends; None if the kernel offers none."""
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
    """End commands and all processes with their marks, and read what is left in their pipes.

    A second Ctrl-C only shortens the time in which processes can end. Commands that this function has ended
    before are left out.
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
                for _ in range(_LAST_CHUNKS):  # limited, since a process that was not ended may go on writing
                    if not _read_piece(pipe.fileno(), output):
                        break
        for output in each.outputs:
            output.finish()


@cache
def _driver() -> str:
    return uuid.uuid4().hex


def _guarding(driver: str) -> subprocess.Popen[bytes]:
    """Return the guard: a process that ends all launches of this process if it is killed."""
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
    begun_s = min((each.since_s for each in running), default=0.0)
    groups = " ".join(str(each.process.pid) for each in running if each.process is not None)
    if guard.stdin is not None:
        with contextlib.suppress(BrokenPipeError):
            guard.stdin.write(f"{begun_s!r} {groups}\n".encode())


def _dismiss(guard: subprocess.Popen[bytes]) -> None:
    if guard.stdin is not None:
        guard.stdin.close()
    guard.wait()
