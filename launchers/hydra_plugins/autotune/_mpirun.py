"""Make launches with ``mpirun``, on this machine or on named hosts."""

import math
import os
import re
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from autotune.errors import ScenarioError, StackError, UserError
from autotune.history.journal import not_stored
from autotune.history.trial import Status, status_of
from autotune.probe.protocol import ProbeResult
from autotune.probe.ucx import last_errors
from autotune.resources import user_bytes, user_text
from autotune.scenario import Scenario
from autotune.stacks import dialect
from autotune.stacks.installation import Installation, find
from autotune.stacks.ports import Launcher, LaunchOutcome, LaunchRequest, Placement
from hydra_plugins.autotune import _commands, _processes
from hydra_plugins.autotune._hosts import check, read_hostfile

CommandLine = Callable[[LaunchRequest, Placement], tuple[list[str], dict[str, str]]]
"""Function that returns the command line and the environment of a launch on given nodes."""

_HEARD_S = 120.0  # Time limit in seconds of a program whose output ``heard_here`` returns.
_REASON = 400  # Number of characters of a failed launch's output that are quoted as the reason.
_ROOM_BYTES = 1 << 18
"""Disk space that a result may need; with less, a launch may have failed because the disk is full."""
_STALE = "PMIx server's listener thread failed to start"
"""Message of Open MPI 5's ``mpirun`` if an earlier ``mpirun`` with the same pid was killed and has left its
directory. The failing ``mpirun`` removes this directory."""
_FOUND_BY = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH")
"""Variables without which a rank on another node finds neither the interpreter's packages nor MPI."""

_FROM_OUTSIDE = tuple(-number for number in (signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGTERM))
"""Exit codes of a launcher that was itself ended by a signal of a person, a batch system, or the kernel. If a
signal ends a rank, the launcher's exit code is 128 plus the number of the signal."""

_HOST = re.compile(r"[^\s,-][^\s,]*")
"""Pattern of a host's name: ``ssh`` reads a name that begins with a - as an option, and launchers separate
names by commas."""


@dataclass(frozen=True, slots=True)
class Mpirun:
    """Make each launch with the ``mpirun`` of one MPI installation."""

    installation: Installation  # The installation whose ``mpirun`` is used.
    extra: Sequence[str] = ()  # Further options for the command line of ``mpirun``.
    agent: Sequence[str] = ()  # Command that starts a command on another host, in place of ``ssh``.
    at_once: ClassVar[bool] = True

    def run(self, request: LaunchRequest) -> LaunchOutcome:
        """Make a launch and return how it ended; see the protocol ``Launcher``."""
        return self.run_at_once([(self, request)])[0]

    def run_at_once(self, runs: Sequence[tuple[Launcher, LaunchRequest]]) -> list[LaunchOutcome]:
        """Make launches at the same time and return how they ended; see the protocol ``Launcher``."""
        return run_here([(request, *by.command(request, request.placement)) for by, request in runs])

    def heard(self, program: Sequence[str], placement: Placement, env: Mapping[str, str]) -> str:
        """Return the outputs of a program; see the protocol ``Hearing``."""
        return heard_here(self.command, program, placement, env)

    def command(self, request: LaunchRequest, placement: Placement) -> tuple[list[str], dict[str, str]]:
        """Return the command line and environment of ``mpirun`` for a launch on the nodes of a placement."""
        env = {**request.env, "MPI4PY_LIBMPI": str(self.installation.library)}
        if placement.hosts:
            env |= {name: os.environ[name] for name in _FOUND_BY if name in os.environ and name not in env}
        flavour, mpirun = self.installation.flavour, self.installation.mpirun
        argv = _commands.mpirun_argv(flavour, str(mpirun), placement, env, request.program, self.extra)
        words = dialect(flavour)
        return argv, {**words.surroundings(mpirun), **env, **words.mpirun_env(self.agent)}


def own_hosts(hosts: Sequence[str], scenario: Scenario) -> tuple[str, ...]:
    """Return the hosts on which the scenario's job runs.

    These are all hosts, unless other jobs run at the same time; then they are those of the job's own nodes.
    """
    first = scenario.launch.first_node
    return tuple(hosts[first - 1 :][: scenario.cluster.nodes] if first else hosts)


def on_hosts(scenario: Scenario) -> Scenario:
    """Return the scenario with the hosts of its hostfile, limited to its number of nodes.

    Raises:
        ScenarioError: the hostfile cannot be read, there are fewer hosts than nodes, or no host is named
            although several jobs run at the same time.
    """
    hosts, nodes = scenario.cluster.hosts, scenario.cluster.nodes
    if scenario.cluster.hostfile:
        path = Path(scenario.cluster.hostfile)
        option, hint = f"cluster.hostfile={path}", "a file with a host name a line"
        hosts = read_hostfile(user_text(path, option, hint, raised=ScenarioError))
    if scenario.launch.first_node and not hosts:
        why = "site.at_once is above 1, but no host is named"
        raise ScenarioError(why, "cluster.hosts or cluster.hostfile")
    if not hosts:
        return scenario
    if invalid := [host for host in hosts if not _HOST.fullmatch(host)]:
        hint = "a name without blanks and commas, that begins with no -"
        raise ScenarioError(f"{invalid[0]!r} is no host", hint)
    hosts = own_hosts(hosts, scenario)
    if nodes > len(hosts):
        raise ScenarioError(f"cluster.nodes={nodes}, but {len(hosts)} host(s): {', '.join(hosts)}")
    nodes = nodes if nodes > 1 else len(hosts)
    return replace(scenario, cluster=replace(scenario.cluster, hosts=hosts[:nodes], nodes=nodes))


def check_hosts(scenario: Scenario, agent: Sequence[str]) -> None:
    """Raise a StackError if hosts of the scenario differ in their versions of Python, MPI or this project."""
    if scenario.cluster.hosts:
        installation = find(scenario.mpi.mpirun, scenario.mpi.origin, scenario.mpi.stack)
        found_by = {name: os.environ[name] for name in _FOUND_BY if name in os.environ}
        check(scenario.cluster.hosts, agent, sys.executable, str(installation.mpirun), found_by)


def run_here(
    launches: Sequence[tuple[LaunchRequest, Sequence[str], Mapping[str, str]]], limit_s: float = math.inf
) -> list[LaunchOutcome]:
    """Make launches at the same time and return their outcomes when all have ended.

    Each request has the command line and the environment of its launcher; ``limit_s`` is a further time limit
    of each launch in seconds.

    Raises:
        StackError: a launch cannot be started.
        StorageError: there is no space for the files of a launch.
    """
    for request, argv, _ in launches:
        (request.directory / "command").write_text("\n".join(argv) + "\n", encoding="utf-8")
    try:
        ends = _processes.run_at_once([_run_of(*launch, limit_s) for launch in launches])
    except OSError as exc:
        raise StackError(f"cannot start {exc.filename}: {exc.strerror or exc}") from exc
    return [outcome(request.directory, end) for (request, *_), end in zip(launches, ends, strict=True)]


def _run_of(
    request: LaunchRequest, argv: Sequence[str], env: Mapping[str, str], limit_s: float
) -> _processes.Command:
    log, stale = request.directory, [_STALE]

    def should_repeat(end: _processes.Ended) -> bool:
        if end.exit_code and stale and stale.pop() in _last_words(log):
            return True  # the launch has not begun, so its settings are not the cause
        if request.ended_file is not None:
            request.ended_file.touch()
        return False

    timeout_s = min(request.timeout_s, limit_s)
    return _processes.Command(argv, env, log / "stdout", log / "stderr", timeout_s, should_repeat)


def heard_here(
    command: CommandLine, program: Sequence[str], placement: Placement, env: Mapping[str, str]
) -> str:
    """Return the standard output and error of a program that a launcher's command line runs on some nodes.

    Raises:
        StackError: the program cannot be started, or does not end in time.
    """
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "launch")
        place.mkdir()
        argv, command_env = command(LaunchRequest(place, tuple(program), env, placement, _HEARD_S), placement)
        try:
            end = _processes.run(argv, command_env, place / "stdout", place / "stderr", _HEARD_S)
        except OSError as exc:
            raise StackError(f"cannot start {argv[0]}: {exc.strerror or exc}") from exc
        text = "".join(user_bytes(place / name).decode(errors="replace") for name in ("stdout", "stderr"))
    if end.exit_code is None:
        nodes_text = ", ".join(placement.hosts) or "this machine"
        raise StackError(f"a launch of {placement.ranks} ranks on {nodes_text} does not end: {end.cause}")
    return text


def check_room(directory: Path) -> None:
    """Raise a StorageError if the directory has no room for a result, and so the launch is not to blame."""
    try:
        with tempfile.TemporaryFile(dir=directory) as file:
            file.write(bytes(_ROOM_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as exc:
        raise not_stored(directory, exc) from exc


def outcome(directory: Path, end: _processes.Ended) -> LaunchOutcome:
    """Return the outcome of a launch that has ended.

    The outcome follows from the probe's result file, not from the exit code: launchers return 0 when a daemon
    is lost, and some MPI libraries fail after everything was measured.

    Raises:
        StorageError: there is no result, and no space for one.
    """
    try:
        result = ProbeResult.read(directory)
    except UserError as exc:
        check_room(directory)
        return LaunchOutcome(Status.INVALID, exc.on_one_line, duration_s=end.duration_s)
    if result is not None:
        status_and_reason, hosts = status_of(result.status, result.reason), tuple(dict.fromkeys(result.hosts))
        return LaunchOutcome(*status_and_reason, result, end.duration_s, hosts=hosts)
    check_room(directory)
    status, cause = Status.CRASHED, end.cause
    if end.exit_code is None:
        status = Status.TIMEOUT
    elif end.exit_code == 0:
        status, cause = Status.LOST, "the launcher returned 0 without a result"
    elif end.exit_code in _FROM_OUTSIDE:
        status = Status.LOST
    return LaunchOutcome(status, f"{cause}: {_last_words(directory)}", duration_s=end.duration_s)


def _last_words(directory: Path) -> str:
    errors = " | ".join(last_errors(directory))[:_REASON]
    return errors or _processes.last_words(directory / "stderr", directory / "stdout", limit=_REASON)
