"""Let MPI jobs that are alive at once on the same cores take turns: each node decides which job measures now.

A *heat* is a group of such jobs, each with its own setting. On each node the jobs find each other by a small
file, whose name contains a token that the driver drew for this heat. The file is in the node's memory, has
mode 0600, and is removed as soon as all jobs have opened it.

Where the timing loop is compiled, the code of the turns is compiled too; ``turns.c`` describes how a job
passes its turn to the next job. Without compiled code, integers in the file are changed under a lock, and
each rank reads every millisecond whether its job's turn has come. So up to a millisecond passes between two
turns, and the waiting ranks take some time of the cores.
"""

import ctypes
import fcntl
import mmap
import os
import random
import re
import signal
import struct
import time
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import IntEnum
from pathlib import Path
from typing import Any

from mpi4py import MPI

from autotune.errors import StackError
from autotune.measure.stopping import shuffled
from autotune.probe.exchange import address
from autotune.probe.meeting import BYTES, create, open_own
from autotune.probe.protocol import NO_HEAT, Heat, TakenOut

_MOST_JOBS, _MOST_MEMBERS = 16, 1024
"""Largest numbers of jobs of a heat and of ranks of a job on a node, as in turns.c."""
_ROUNDS = 64  # Rounds after which the order of jobs repeats.
_LONGEST_LOOK_S = 0.3
"""Longest pause between two reads of the heat's directory, in seconds; the first pauses are milliseconds."""
_LOOK_S = 0.005  # Seconds between two checks whether all jobs have joined; nothing is measured meanwhile.
_POLL_S = 0.001  # Seconds between two checks whether it is a rank's turn, without a compiled loop.
_TAKEN_OUT, _NOBODY_PASSES = -1, -2  # Return values of a wait for a turn that never comes, as in turns.c.


class _State(IntEnum):
    """State of one job of a heat on this node, as in turns.c."""

    ABSENT = 0  # Not all ranks of the job on this node have joined.
    IN = 1  # The job takes turns.
    DONE = 2  # The job has ended its last turn.
    DIED = 3  # A rank has ended early, or the job did not join in time.
    STUCK = 4  # The job kept a turn for too long.


def order(heat: Heat) -> Sequence[int]:
    """Return the job of each turn until the order repeats: each job has one turn a round, in random order."""
    rng = random.Random(f"jobs {heat.seed}")  # noqa: S311 - the order of measurements is no secret
    return [job for _ in range(_ROUNDS) for job in shuffled(range(heat.jobs), rng)]


class Turns:
    """One rank's access to the turns of its job in a heat (a group of jobs that measure in turns)."""

    def __init__(self, world: MPI.Intracomm, kernel: ctypes.CDLL | None, heat: Heat) -> None:
        """Join the heat on this node, and wait until all of its jobs have joined.

        Raises:
            StackError: If no file can be shared on some node, or the job joined too late. All ranks raise it.
        """
        self._heat, self._left = heat, -1
        self._node = _same_host(world)
        over_nodes = world if self._node.size < world.size else None
        self._file, self._path, problem = -1, "", ""
        self._host = re.sub(r"[^A-Za-z0-9]", "_", os.uname().nodename)  # this name does not depend on the MPI
        self._elsewhere: set[int] = set()  # jobs without a rank on this node; only the first rank here knows
        hosts = world.gather(self._host)
        if hosts is not None:
            with suppress(OSError):  # without the file, nodes without this job's ranks wait join_s for it
                heat.note_hosts(hosts)
        if heat.jobs > _MOST_JOBS or self._node.size > _MOST_MEMBERS:
            problem = f"a heat has at most {_MOST_JOBS} jobs of {_MOST_MEMBERS} ranks a node"
        else:
            problem = self._open("polled" if kernel is None else "native")
        self._agree(world, problem)
        looks = self._node.rank == 0
        if kernel is None:
            self._area: _PolledArea | _NativeArea = _PolledArea(self._file, heat, looks, over_nodes)
        else:
            self._area = _NativeArea(self._file, heat, looks, over_nodes, kernel)
        try:
            self._area.join(heat.job, self._node.rank, self._node.size)
            problem = self._wait_for_all()
        except OSError as exc:
            problem = f"no lock on {self._path}: {exc.strerror or exc}"
        self._agree(world, problem)

    def wait(self) -> int:
        """Sleep until it is this job's turn, and return the number of the turn.

        Raises:
            StackError: If the job was taken out, or nobody passes the turn.
        """
        turn = self._area.wait(self._heat.job, self._left)
        if turn < 0:
            why = "it was taken out of its heat" if turn == _TAKEN_OUT else "nobody passes the turn"
            raise StackError(f"rank {self._node.rank} of its node: {why}")
        return turn

    @property
    def over(self) -> bool:
        """Whether the heat's time is over; its clock starts when a job on this node first reads this."""
        return self._area.left_s(self._heat.seconds) <= 0

    def leave(self, turn: int, last: bool) -> None:
        """End the turn; ``last`` means that the job needs no more turns."""
        self._left = turn
        self._area.leave(self._heat.job, turn, last)

    def close(self) -> dict[str, TakenOut]:
        """Sleep until no job of the heat measures any more, and close its file.

        Returns:
            Number of each job that was taken out of the heat → the reason.
        """
        self._area.wait(-1 - self._heat.job, -1)
        states = [self._area.state(job) for job in range(self._heat.jobs)]
        os.close(self._file)
        self._node.Free()
        ends = {_State.DIED: TakenOut.DIED, _State.STUCK: TakenOut.STUCK}
        taken_out = (job for job, state in enumerate(states) if state in ends and job not in self._elsewhere)
        return {str(job): ends[states[job]] for job in taken_out}

    def _agree(self, world: MPI.Intracomm, problem: str) -> None:
        """Raise a StackError on all ranks of the job if one of them has a problem."""
        if first := next(filter(None, world.allgather(problem)), ""):
            if self._node.rank == 0 and self._path:  # if jobs cannot meet, this node's file is useless
                Path(self._path).unlink(missing_ok=True)
            raise StackError(f"{NO_HEAT}: {first}")

    def _open(self, kind: str) -> str:
        """Open the file that the heat's jobs share on this node, and return the problem, if any."""
        problem = ""
        if self._node.rank == 0:
            self._file, self._path, problem = create(
                f"{self._heat.token}-{kind}-{self._host}", self._heat.join_s
            )
        self._path, problem = self._node.bcast((self._path, problem))
        if not problem and self._node.rank:
            try:
                self._file = open_own(self._path)
            except OSError as exc:
                problem = f"{self._path}: {exc.strerror or exc}"
        return problem and f"{self._host}: {problem}"

    def _wait_for_all(self) -> str:
        """Sleep until all jobs have joined, or are marked as dead since they do not join in time.

        Returns:
            A description of the problem; empty if this job takes part.
        """
        heat, deadline = self._heat, time.monotonic() + self._heat.join_s
        looks, pause_s, look_at = self._node.rank == 0, _LOOK_S, 0.0
        while absent := [job for job in range(heat.jobs) if self._area.state(job) is _State.ABSENT]:
            late = (now_s := time.monotonic()) > deadline
            elsewhere = looks and now_s > look_at  # the directory may be slow, and every job reads it
            if elsewhere:
                pause_s = min(2 * pause_s, _LONGEST_LOOK_S)
                look_at = now_s + pause_s
            for job in absent:
                if late or (elsewhere and job != heat.job and self._is_absent_here(job)):
                    self._area.go_without(job)
            time.sleep(_LOOK_S)
        if self._node.rank == 0:
            Path(self._path).unlink(missing_ok=True)
        return "" if self._area.state(heat.job) is _State.IN else "it came too late for its heat"

    def _is_absent_here(self, job: int) -> bool:
        if self._heat.ended(job).exists():
            return True
        hosts = self._heat.hosts(job)
        if hosts and self._host not in hosts:
            self._elsewhere.add(job)
        return job in self._elsewhere


def _same_host(world: MPI.Intracomm) -> MPI.Intracomm:
    """Return a communicator of the ranks with this rank's host name.

    The ranks are not split by shared memory, since a setting may hide shared memory from MPI.
    """
    hosts = world.allgather(MPI.Get_processor_name())
    return MPI.Intracomm(world.Split(hosts.index(hosts[world.rank]), world.rank))


class _NativeArea:
    """The shared memory of a heat, accessed through the compiled functions of ``turns.c``."""

    def __init__(
        self, file: int, heat: Heat, looks: bool, over_nodes: MPI.Intracomm | None, kernel: ctypes.CDLL
    ) -> None:
        """Map the file into memory; a rank that ``looks`` checks that other jobs are alive.

        ``over_nodes`` is a communicator of all ranks of the job; None if all of them are on one node.
        """
        self._file, self._kernel, self._looks = file, kernel, int(looks)
        self._order = array("i", order(heat))
        self._limit_s = ctypes.c_double(heat.turn_limit_s)
        self._comm = ctypes.c_void_p(None if over_nodes is None else MPI._addressof(over_nodes))
        kernel.autotune_turns_bytes.restype = ctypes.c_size_t
        kernel.autotune_turns_left.restype = ctypes.c_double
        if kernel.autotune_turns_bytes() > BYTES:
            raise StackError("the turns of a heat need more memory than they have")
        self._memory = mmap.mmap(file, BYTES)
        self._area = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(self._memory)))

    def join(self, job: int, member: int, members: int) -> None:
        """Register one of a job's ``members`` ranks on this node; raise OSError if it gets no lock."""
        if number := self._kernel.autotune_turns_join(self._area, self._file, job, member, members):
            raise OSError(number, os.strerror(number))

    def state(self, job: int) -> _State:
        return _State(self._kernel.autotune_turns_state(self._area, job))

    def go_without(self, job: int) -> None:
        """Mark a job that has not joined as dead, so that the others start without it."""
        self._kernel.autotune_turns_without(self._area, job)

    def wait(self, job: int, last_turn: int) -> int:
        """Sleep until it is the job's turn, later than ``last_turn``, and return the number of the turn.

        A job j that has ended its last turn passes −1 − j: then the wait ends once no job measures any more.
        A negative result is the reason why the turn never comes.
        """
        period = (ctypes.c_void_p(address(self._order)), len(self._order))
        arguments = (*period, self._looks, self._limit_s, self._comm)
        return int(self._kernel.autotune_turns_wait(self._area, self._file, job, last_turn, *arguments))

    def left_s(self, seconds: float) -> float:
        """Return the remaining seconds of a heat.

        The heat lasts ``seconds`` from the first call of this method by a job on this node.
        """
        return float(self._kernel.autotune_turns_left(self._area, ctypes.c_double(seconds)))

    def leave(self, job: int, turn: int, last: bool) -> None:
        """End this rank's part in a turn; the job's last rank to do so passes the turn to the next job."""
        self._kernel.autotune_turns_leave(self._area, job, turn, int(last))


class _PolledArea:
    """The shared memory of a heat without compiled code: changed under a lock, read every millisecond."""

    _STATE, _MEMBERS, _JOINED, _LEFT, _NAMESPACE, _PIDS = 0, 1, 2, 3, 4, 5

    def __init__(self, file: int, heat: Heat, looks: bool, over_nodes: MPI.Intracomm | None) -> None:
        """Map the file into memory; arguments and methods are those of ``_NativeArea``."""
        self._file, self._looks, self._over_nodes = file, looks, over_nodes
        self._order, self._limit_s = order(heat), heat.turn_limit_s
        memory = memoryview(mmap.mmap(file, BYTES))
        words: Any = memory.cast("i")
        self._turn, self._end = words[:2], memory[8:16].cast("d")
        self._jobs = [words[4 + begin : 4 + begin + 1500] for begin in range(0, _MOST_JOBS * 1500, 1500)]

    def join(self, job: int, member: int, members: int) -> None:
        fcntl.fcntl(self._file, fcntl.F_OFD_SETLK, _lock(fcntl.F_WRLCK, job, member))
        with self._changing():
            words = self._jobs[job]
            words[self._PIDS + member], words[self._MEMBERS] = os.getpid(), members
            words[self._NAMESPACE] = _pid_namespace()
            words[self._JOINED] += 1
            if words[self._JOINED] == members and words[self._STATE] == _State.ABSENT:
                words[self._STATE] = _State.IN

    def state(self, job: int) -> _State:
        return _State(int(self._jobs[job][self._STATE]))

    def go_without(self, job: int) -> None:
        self._change(job, _State.ABSENT, _State.DIED)

    def wait(self, job: int, last_turn: int) -> int:
        observed_turn, since_s, own_job = -1, time.monotonic(), job if job >= 0 else -1 - job
        while True:
            turn = int(self._turn[0])
            holder = self._order[turn % len(self._order)]
            if turn != observed_turn:
                observed_turn, since_s = turn, time.monotonic()
            if job >= 0 and self.state(job) is not _State.IN:
                return _TAKEN_OUT
            if job < 0 and not any(self.state(other_job) is _State.IN for other_job in range(_MOST_JOBS)):
                return turn
            if holder == job and turn > last_turn:
                return turn
            if self.state(holder) is not _State.IN:
                self._pass(turn)
                continue
            waited_s = time.monotonic() - since_s
            if self._looks and holder != own_job:  # the kernel does not report a process's locks to itself
                self._look_after(holder, waited_s)
            if waited_s > 2 * self._limit_s + 10:
                return _NOBODY_PASSES
            if self._over_nodes is not None:
                self._over_nodes.Iprobe()  # makes MPI progress: a rank of this job may wait for a message
            time.sleep(_POLL_S)

    def left_s(self, seconds: float) -> float:
        with self._changing():
            now_s = time.monotonic()
            self._end[0] = self._end[0] or now_s + seconds
            return float(self._end[0] - now_s)

    def leave(self, job: int, turn: int, last: bool) -> None:
        with self._changing():
            words = self._jobs[job]
            words[self._LEFT] += 1
            if words[self._LEFT] < words[self._MEMBERS]:
                return
            words[self._LEFT] = 0
        if last:
            self._change(job, _State.IN, _State.DONE)
        self._pass(turn)

    def _look_after(self, job: int, waited_s: float) -> None:
        """Take a job out of the heat, and kill it, if one of its ranks died or it kept its turn too long."""
        members = range(int(self._jobs[job][self._MEMBERS]))
        alive = [member for member in members if self._lives(job, member)]
        if len(alive) == len(members) and waited_s <= self._limit_s:
            return
        died = len(alive) < len(members)
        same_namespace = bool(self._jobs[job][self._NAMESPACE] == _pid_namespace())
        if self._change(job, _State.IN, _State.DIED if died else _State.STUCK) and same_namespace:
            for member in alive:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(int(self._jobs[job][self._PIDS + member]), signal.SIGKILL)

    def _lives(self, job: int, member: int) -> bool:
        """Return whether a rank of a job is alive: the kernel then lists the rank's lock on the file."""
        answer = fcntl.fcntl(self._file, fcntl.F_OFD_GETLK, _lock(fcntl.F_WRLCK, job, member))
        return bool(struct.unpack_from("h", answer)[0] != fcntl.F_UNLCK)

    def _pass(self, turn: int) -> None:
        with self._changing():
            if self._turn[0] == turn:
                self._turn[0] = turn + 1

    def _change(self, job: int, expected: _State, new_state: _State) -> bool:
        with self._changing():
            changes = self.state(job) is expected
            if changes:
                self._jobs[job][self._STATE] = new_state
        return changes

    @contextmanager
    def _changing(self) -> Iterator[None]:
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)


def _pid_namespace() -> int:
    """Return the number of this process's PID namespace; each container has a namespace of its own."""
    return Path("/proc/self/ns/pid").stat().st_ino & 0x7FFFFFFF


def _lock(kind: int, job: int, member: int) -> bytes:
    """Return a ``struct flock`` (fcntl(2)) for the byte of the file that stands for one rank of a job."""
    return struct.pack("hhqqi4x", kind, os.SEEK_SET, job * _MOST_MEMBERS + member, 1, 0)
