"""Implement the launcher port by ``mpirun``, on this machine or on named hosts."""

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
"""Returns words and environment that make a launch on given nodes."""

_HEARD_S = 120.0  # Time limit in seconds of a program whose output is read.
_REASON = 400  # Number of characters of a launch's output in its reason.
_ROOM_BYTES = 1 << 18
"""Space in bytes that a result may need: a launch that finds less may have failed for that reason alone."""
_STALE = "PMIx server's listener thread failed to start"
"""Message of Open MPI 5's ``mpirun`` if a killed one with the same pid left a directory, which it then
removes."""
_FOUND_BY = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH")
"""Variables without which a rank on another node finds neither the interpreter's packages nor MPI."""

_FROM_OUTSIDE = tuple(-number for number in (signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGTERM))
"""Exit codes of a launcher that was itself ended by a signal: by a person, a batch system, or the kernel. For
a rank that was, a launcher reports 128 and the signal's number."""

_HOST = re.compile(r"[^\s,-][^\s,]*")
"""A host's name: ``ssh`` takes one that begins with a - for an option, and launchers separate them by
commas."""


@dataclass(frozen=True, slots=True)
class Mpirun:
    """Start each launch by the launcher of one MPI installation."""

    installation: Installation  # The installation whose ``mpirun`` is used.
    extra: Sequence[str] = ()  # Further words for its command line.
    agent: Sequence[str] = ()  # Command that starts a command on another host, in place of ``ssh``.
    at_once: ClassVar[bool] = True

    def run(self, request: LaunchRequest) -> LaunchOutcome:
        """Run a launch and return how it ended; see the port.

        Raises:
            StackError: ``mpirun`` itself cannot be started.
        """
        return self.run_at_once([(self, request)])[0]

    def run_at_once(self, runs: Sequence[tuple[Launcher, LaunchRequest]]) -> list[LaunchOutcome]:
        """Run launches that are alive at once and return how they ended; see the port.

        Raises:
            StackError: ``mpirun`` itself cannot be started.
        """
        return run_here([(request, *by.command(request, request.placement)) for by, request in runs])

    def heard(self, program: Sequence[str], placement: Placement, env: Mapping[str, str]) -> str:
        """Return the outputs of a program; see the port ``Hearing``."""
        return heard_here(self.command, program, placement, env)

    def command(self, request: LaunchRequest, placement: Placement) -> tuple[list[str], dict[str, str]]:
        """Return words and environment of ``mpirun`` for a launch on these nodes."""
        env = {**request.env, "MPI4PY_LIBMPI": str(self.installation.library)}
        if placement.hosts:
            env |= {name: os.environ[name] for name in _FOUND_BY if name in os.environ and name not in env}
        argv = _commands.mpirun_argv(
            self.installation.flavour,
            str(self.installation.mpirun),
            placement,
            env,
            request.program,
            self.extra,
        )
        words = dialect(self.installation.flavour)
        return argv, {**words.surroundings(self.installation.mpirun), **env, **words.mpirun_env(self.agent)}


def own_hosts(hosts: Sequence[str], scenario: Scenario) -> tuple[str, ...]:
    """Return the hosts of a job that runs beside others, at most as many as its nodes.

    A job that runs alone has all of them.
    """
    first = scenario.launch.first_node
    return tuple(hosts[first - 1 :][: scenario.cluster.nodes] if first else hosts)


def on_hosts(scenario: Scenario) -> Scenario:
    """Return the scenario with the hosts of its hostfile, limited to its number of nodes.

    Raises:
        ScenarioError: a hostfile that cannot be read, fewer hosts than nodes, or none where jobs run beside
            each other.
    """
    hosts, nodes = scenario.cluster.hosts, scenario.cluster.nodes
    if scenario.cluster.hostfile:
        path = Path(scenario.cluster.hostfile)
        option, hint = f"cluster.hostfile={path}", "a file with a host name a line"
        hosts = read_hostfile(user_text(path, option, hint, raised=ScenarioError))
    if scenario.launch.first_node and not hosts:
        raise ScenarioError(
            "site.at_once is above 1, but no host is named", "cluster.hosts or cluster.hostfile"
        )
    if not hosts:
        return scenario
    if invalid := [host for host in hosts if not _HOST.fullmatch(host)]:
        raise ScenarioError(
            f"{invalid[0]!r} is no host", "a name without blanks and commas, that begins with no -"
        )
    hosts = own_hosts(hosts, scenario)
    if nodes > len(hosts):
        raise ScenarioError(f"cluster.nodes={nodes}, but {len(hosts)} host(s): {', '.join(hosts)}")
    nodes = nodes if nodes > 1 else len(hosts)
    return replace(scenario, cluster=replace(scenario.cluster, hosts=hosts[:nodes], nodes=nodes))


def check_hosts(scenario: Scenario, agent: Sequence[str]) -> None:
    """Ask every host of the scenario whether it is fit.

    Raises:
        StackError: some are not; they are named.
    """
    if scenario.cluster.hosts:
        installation = find(scenario.mpi.mpirun, scenario.mpi.origin, scenario.mpi.stack)
        found_by = {name: os.environ[name] for name in _FOUND_BY if name in os.environ}
        check(scenario.cluster.hosts, agent, sys.executable, str(installation.mpirun), found_by)


def run_here(
    launches: Sequence[tuple[LaunchRequest, Sequence[str], Mapping[str, str]]], limit_s: float = math.inf
) -> list[LaunchOutcome]:
    """Run launches at once to their ends and return their outcomes.

    Args:
        launches: Requests, each with the words and the environment of its launcher.
        limit_s: Time limit of each launch in seconds, in addition to its own.

    Raises:
        StackError: one cannot be started.
        StorageError: there is no room for the files of one.
    """
    for request, argv, _ in launches:
        (request.directory / "command").write_text("\n".join(argv) + "\n", encoding="utf-8")
    try:
        ends = _processes.run_at_once(
            [_run_of(request, argv, env, limit_s) for request, argv, env in launches]
        )
    except OSError as exc:
        raise StackError(f"cannot start {exc.filename}: {exc.strerror or exc}") from exc
    return [outcome(request.directory, end) for (request, *_), end in zip(launches, ends, strict=True)]


def _run_of(
    request: LaunchRequest, argv: Sequence[str], env: Mapping[str, str], limit_s: float
) -> _processes.Command:
    log, stale = request.directory, [_STALE]

    def should_repeat(end: _processes.Ended) -> bool:
        if end.exit_code and stale and stale.pop() in _last_words(log):
            return True  # the launch has not begun, so this is not its setting's fault
        if request.ended_file is not None:
            request.ended_file.touch()
        return False

    timeout_s = min(request.timeout_s, limit_s)
    return _processes.Command(argv, env, log / "stdout", log / "stderr", timeout_s, should_repeat)


def heard_here(
    command: CommandLine, program: Sequence[str], placement: Placement, env: Mapping[str, str]
) -> str:
    """Return both outputs of a program that a launcher's command line runs on some nodes.

    Raises:
        StackError: it cannot be started, or does not end in time.
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
    """Raise an error if there is no room for a result, so that such a launch gets no outcome.

    Raises:
        StorageError: nothing can be written there.
    """
    try:
        with tempfile.TemporaryFile(dir=directory) as file:
            file.write(bytes(_ROOM_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as exc:
        raise not_stored(directory, exc) from exc


def outcome(directory: Path, end: _processes.Ended) -> LaunchOutcome:
    """Return the outcome of a launch that has ended.

    The probe's completion record decides, not the exit code: launchers return 0 when a daemon is lost, and
    some stacks fail after everything was measured.

    Raises:
        StorageError: there is no result, and no room for one.
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
    """Return UCX's error, else the end of the launch's output, as the reason of a failure."""
    errors = " | ".join(last_errors(directory))[:_REASON]
    return errors or _processes.last_words(directory / "stderr", directory / "stdout", limit=_REASON)
