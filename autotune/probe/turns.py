"""Turns of launches that are alive at once: which of them runs, on each node by itself.

The jobs of a heat find each other on a node by the name of a small file, which holds a token that the driver
drew for this heat. It is in the node's memory, of mode 0600, and removed as soon as all jobs have come.

Where the loop is compiled, so are the turns (``turns.c`` says how they are passed). Elsewhere words of the
file are changed under a lock, and ranks look every millisecond whether it is their turn, so that up to a
millisecond passes between two turns, and those who wait take some time of the cores.
"""

import ctypes
import fcntl
import mmap
import os
import re
import signal
import stat
import struct
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import IntEnum
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from mpi4py import MPI

from autotune.errors import StackError
from autotune.probe.protocol import Heat

_SHARED = "/dev/shm"  # noqa: S108 - what ranks of one node share, as MPI libraries do
_MOST_JOBS, _MOST_MEMBERS = 8, 1024  # As in turns.c.
_ROUNDS = 64  # After which the order of jobs repeats.
_LOOK_S = 0.005  # Between two looks whether all jobs have come; nothing is measured meanwhile.
_POLL_S = 0.001  # Between two looks whether it is a rank's turn, without a compiled loop.
_TAKEN_OUT, _NOBODY_PASSES = -1, -2  # As in turns.c.


class _State(IntEnum):
    """State of a job on this node, as in turns.c."""

    ABSENT = 0
    IN = 1
    DONE = 2
    DIED = 3
    STUCK = 4


class Area(Protocol):
    """The memory that the jobs of a heat share on one node."""

    def join(self, job: int, member: int, members: int) -> None:
        """Become a member of a job that has so many on this node.

        Raises:
            OSError: the kernel gives no lock.
        """

    def state(self, job: int) -> _State:
        """State of a job."""

    def go_without(self, job: int) -> None:
        """Go on without a job that has not come."""

    def wait(self, job: int, after: int) -> int:
        """Sleep until it is the job's turn, later than one that this rank has left; job −1: until none is in.

        Returns:
            The number of the turn; below 0: why it never comes.
        """

    def left_s(self, seconds: float) -> float:
        """Seconds until the last round, ``seconds`` after whoever asks first."""

    def leave(self, job: int, turn: int, done: bool) -> None:
        """Leave the turn; the last member to do so passes it. ``done``: the job wants no more of them."""


def order(heat: Heat) -> Sequence[int]:
    """The job of each turn of a period: each job once a round, in an order that is drawn for each round."""
    rng = np.random.default_rng([heat.seed, heat.jobs])
    return [int(job) for _ in range(_ROUNDS) for job in rng.permutation(heat.jobs)]


class Turns:
    """This job's turns, as one of its ranks takes them."""

    def __init__(self, world: MPI.Intracomm, kernel: ctypes.CDLL | None, heat: Heat) -> None:
        """Join the heat on this node, and wait until all of its jobs have.

        Raises:
            StackError: no file can be shared on some node, or it came too late; on all ranks alike.
        """
        self._heat, self._left = heat, -1
        self._node = world.Split_type(MPI.COMM_TYPE_SHARED)
        over_nodes = world if self._node.size < world.size else None
        self._file, self._path, problem = -1, "", ""
        if heat.jobs > _MOST_JOBS or self._node.size > _MOST_MEMBERS:
            problem = f"a heat has at most {_MOST_JOBS} jobs of {_MOST_MEMBERS} ranks a node"
        else:
            problem = self._open("polled" if kernel is None else "native")
        self._agree(world, problem)
        looks = self._node.rank == 0
        if kernel is None:
            self._area: Area = _PolledArea(self._file, heat, looks, over_nodes)
        else:
            self._area = _NativeArea(self._file, heat, looks, over_nodes, kernel)
        try:
            self._area.join(heat.job, self._node.rank, self._node.size)
            problem = self._wait_for_all()
        except OSError as exc:
            problem = f"no lock on {self._path}: {exc.strerror or exc}"
        self._agree(world, problem)

    def wait(self) -> int:
        """Sleep until it is this job's turn; the number of the turn.

        Raises:
            StackError: the job was taken out, or nobody passes the turn.
        """
        turn = self._area.wait(self._heat.job, self._left)
        if turn < 0:
            why = "it was taken out of its heat" if turn == _TAKEN_OUT else "nobody passes the turn"
            raise StackError(f"rank {self._node.rank} of its node: {why}")
        return turn

    @property
    def over(self) -> bool:
        """Whether the heat's time is over, which begins with the first look of any job on this node."""
        return self._area.left_s(self._heat.seconds) <= 0

    def leave(self, turn: int, last: bool) -> None:
        """End the turn; ``last``: the job needs no more of them."""
        self._left = turn
        self._area.leave(self._heat.job, turn, last)

    def close(self) -> dict[str, str]:
        """Sleep until no job measures any more; which ones were taken out, and why."""
        self._area.wait(-1, -1)
        states = [self._area.state(job) for job in range(self._heat.jobs)]
        os.close(self._file)
        self._node.Free()
        words = {
            _State.DIED: "ended before its turns did",
            _State.STUCK: f"kept a turn for more than {self._heat.turn_limit_s:g} s",
        }
        return {str(job): words[state] for job, state in enumerate(states) if state in words}

    def _agree(self, world: MPI.Intracomm, problem: str) -> None:
        if first := next(filter(None, world.allgather(problem)), ""):
            raise StackError(first)

    def _open(self, kind: str) -> str:
        """Open the heat's file of this node; what went wrong, in words."""
        problem = ""
        if self._node.rank == 0:
            host = re.sub(r"[^A-Za-z0-9]", "_", MPI.Get_processor_name())
            for place in dict.fromkeys((_SHARED, tempfile.gettempdir())):
                path = str(Path(place) / f"autotune-heat-{self._heat.token}-{kind}-{host}")
                try:
                    self._file = _opened(path, os.O_CREAT)
                except OSError as exc:
                    problem = f"no heat on {host}: {path}: {exc.strerror or exc}"
                else:
                    self._path, problem = path, ""
                    break
        self._path, problem = self._node.bcast((self._path, problem))
        if not problem and self._node.rank:
            try:
                self._file = _opened(self._path, 0)
            except OSError as exc:
                problem = f"{self._path}: {exc.strerror or exc}"
        return problem

    def _wait_for_all(self) -> str:
        """Sleep until all jobs have joined, or go on without those that do not come; what went wrong."""
        heat, deadline = self._heat, time.monotonic() + self._heat.join_s
        while absent := [job for job in range(heat.jobs) if self._area.state(job) is _State.ABSENT]:
            late = time.monotonic() > deadline
            for job in absent:
                if late or (self._node.rank == 0 and job != heat.job and heat.ended(job).exists()):
                    self._area.go_without(job)
            time.sleep(_LOOK_S)
        if self._node.rank == 0:
            Path(self._path).unlink(missing_ok=True)
        return "" if self._area.state(heat.job) is _State.IN else "it came too late for its heat"


_BYTES = 1 << 16  # Of the file: more than either kind of area needs.


def _opened(path: str, flags: int) -> int:
    """A descriptor of a file that is this user's alone, with all its memory.

    Raises:
        OSError: it is not, or there is no room.
    """
    file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | flags, 0o600)
    try:
        about = os.fstat(file)
        if about.st_uid != os.geteuid() or not stat.S_ISREG(about.st_mode) or about.st_mode & 0o077:
            raise PermissionError(1, "it is not this user's alone")
        os.posix_fallocate(file, 0, _BYTES)
    except OSError:
        os.close(file)
        raise
    return file


class _NativeArea:
    """The words of the file as ``turns.c`` keeps them."""

    def __init__(
        self, file: int, heat: Heat, looks: bool, over_nodes: MPI.Intracomm | None, kernel: ctypes.CDLL
    ) -> None:
        """``looks``: whether this rank looks after other jobs; ``over_nodes``: the ranks, if on several."""
        self._file, self._kernel, self._looks = file, kernel, int(looks)
        self._order = np.array(order(heat), np.int32)
        self._limit_s = ctypes.c_double(heat.turn_limit_s)
        self._comm = ctypes.c_void_p(None if over_nodes is None else MPI._addressof(over_nodes))
        kernel.autotune_turns_bytes.restype = ctypes.c_size_t
        kernel.autotune_turns_left.restype = ctypes.c_double
        if kernel.autotune_turns_bytes() > _BYTES:
            raise StackError("the turns of a heat need more memory than they have")
        self._memory = mmap.mmap(file, _BYTES)
        self._area = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(self._memory)))

    def join(self, job: int, member: int, members: int) -> None:
        """As in ``Area``."""
        if number := self._kernel.autotune_turns_join(self._area, self._file, job, member, members):
            raise OSError(number, os.strerror(number))

    def state(self, job: int) -> _State:
        """As in ``Area``."""
        return _State(self._kernel.autotune_turns_state(self._area, job))

    def go_without(self, job: int) -> None:
        """As in ``Area``."""
        self._kernel.autotune_turns_without(self._area, job)

    def wait(self, job: int, after: int) -> int:
        """As in ``Area``."""
        period = (ctypes.c_void_p(self._order.ctypes.data), len(self._order))
        rest = (*period, self._looks, self._limit_s, self._comm)
        return int(self._kernel.autotune_turns_wait(self._area, self._file, job, after, *rest))

    def left_s(self, seconds: float) -> float:
        """As in ``Area``."""
        return float(self._kernel.autotune_turns_left(self._area, ctypes.c_double(seconds)))

    def leave(self, job: int, turn: int, done: bool) -> None:
        """As in ``Area``."""
        self._kernel.autotune_turns_leave(self._area, job, turn, int(done))


class _PolledArea:
    """Words of the file that are read and changed under a lock, and looked at every millisecond."""

    _STATE, _MEMBERS, _JOINED, _LEFT, _NAMESPACE, _PIDS = 0, 1, 2, 3, 4, 5

    def __init__(self, file: int, heat: Heat, looks: bool, over_nodes: MPI.Intracomm | None) -> None:
        """``looks``: whether this rank looks after other jobs; ``over_nodes``: the ranks, if on several."""
        self._file, self._looks, self._over_nodes = file, looks, over_nodes
        self._order, self._limit_s = order(heat), heat.turn_limit_s
        words: Any = np.frombuffer(mmap.mmap(file, _BYTES), np.int32)
        self._turn, self._end = words[:2], words[2:4].view(np.float64)
        self._jobs = words[4 : 4 + _MOST_JOBS * 1500].reshape(_MOST_JOBS, -1)

    def join(self, job: int, member: int, members: int) -> None:
        """As in ``Area``."""
        fcntl.fcntl(self._file, fcntl.F_OFD_SETLK, _lock(fcntl.F_WRLCK, job, member))
        with self._changing():
            words = self._jobs[job]
            words[self._PIDS + member], words[self._MEMBERS] = os.getpid(), members
            words[self._NAMESPACE] = _pid_namespace()
            words[self._JOINED] += 1
            if words[self._JOINED] == members and words[self._STATE] == _State.ABSENT:
                words[self._STATE] = _State.IN

    def state(self, job: int) -> _State:
        """As in ``Area``."""
        return _State(int(self._jobs[job, self._STATE]))

    def go_without(self, job: int) -> None:
        """As in ``Area``."""
        self._change(job, _State.ABSENT, _State.DIED)

    def wait(self, job: int, after: int) -> int:
        """As in ``Area``."""
        before, since_s = -1, time.monotonic()
        while True:
            turn = int(self._turn[0])
            holder = self._order[turn % len(self._order)]
            if turn != before:
                before, since_s = turn, time.monotonic()
            if job >= 0 and self.state(job) is not _State.IN:
                return _TAKEN_OUT
            if job < 0 and not any(self.state(other) is _State.IN for other in range(_MOST_JOBS)):
                return turn
            if holder == job and turn > after:
                return turn
            if self.state(holder) is not _State.IN:
                self._pass(turn)
                continue
            waited_s = time.monotonic() - since_s
            if self._looks and holder != job:
                self._look_after(holder, waited_s)
            if waited_s > 2 * self._limit_s + 10:
                return _NOBODY_PASSES
            if self._over_nodes is not None:
                self._over_nodes.Iprobe()  # a rank of the same job on another node may wait for a message
            time.sleep(_POLL_S)

    def left_s(self, seconds: float) -> float:
        """As in ``Area``."""
        with self._changing():
            now_s = time.monotonic()
            self._end[0] = self._end[0] or now_s + seconds
            return float(self._end[0] - now_s)

    def leave(self, job: int, turn: int, done: bool) -> None:
        """As in ``Area``."""
        with self._changing():
            words = self._jobs[job]
            words[self._LEFT] += 1
            if words[self._LEFT] < words[self._MEMBERS]:
                return
            words[self._LEFT] = 0
        if done:
            self._change(job, _State.IN, _State.DONE)
        self._pass(turn)

    def _look_after(self, job: int, waited_s: float) -> None:
        """Take a job out whose ranks have died, or keep their turn for too long."""
        members = range(int(self._jobs[job, self._MEMBERS]))
        alive = [member for member in members if self._lives(job, member)]
        if len(alive) == len(members) and waited_s <= self._limit_s:
            return
        died = len(alive) < len(members)
        here = bool(self._jobs[job, self._NAMESPACE] == _pid_namespace())
        if self._change(job, _State.IN, _State.DIED if died else _State.STUCK) and here:
            for member in alive:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(int(self._jobs[job, self._PIDS + member]), signal.SIGKILL)

    def _lives(self, job: int, member: int) -> bool:
        answer = fcntl.fcntl(self._file, fcntl.F_OFD_GETLK, _lock(fcntl.F_WRLCK, job, member))
        return bool(struct.unpack_from("h", answer)[0] != fcntl.F_UNLCK)

    def _pass(self, turn: int) -> None:
        with self._changing():
            if self._turn[0] == turn:
                self._turn[0] = turn + 1

    def _change(self, job: int, before: _State, after: _State) -> bool:
        with self._changing():
            changes = self.state(job) is before
            if changes:
                self._jobs[job, self._STATE] = after
        return changes

    @contextmanager
    def _changing(self) -> Iterator[None]:
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)


def _pid_namespace() -> int:
    """Which numbers of processes mean the same here: containers have their own."""
    return Path("/proc/self/ns/pid").stat().st_ino & 0x7FFFFFFF


def _lock(kind: int, job: int, member: int) -> bytes:
    """A ``struct flock`` for one byte of the file (fcntl(2), "Open file description locks")."""
    return struct.pack("hhqqi4x", kind, os.SEEK_SET, job * _MOST_MEMBERS + member, 1, 0)
