"""The launcher port over ``mpirun`` on this machine or on named hosts."""

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
from autotune.stacks.ports import LaunchOutcome, LaunchRequest, Placement
from hydra_plugins.autotune import _commands, _processes
from hydra_plugins.autotune._hosts import check, read_hostfile

CommandLine = Callable[[LaunchRequest, Placement], tuple[list[str], dict[str, str]]]
"""Words and environment that make a launch on given nodes."""

_HEARD_S = 120.0  # Until a program that is heard is given up.
_REASON = 400  # Characters of a launch's output in its reason.
_ROOM_BYTES = 1 << 18  # Of a result: a launch that finds less may have failed for that alone.
_STALE = "PMIx server's listener thread failed to start"
"""Message of Open MPI 5's ``mpirun`` where a killed one of its pid left a directory, which it removes."""
_FOUND_BY = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH")
"""Variables without which a rank on another node finds neither the interpreter's packages nor MPI."""

_FROM_OUTSIDE = tuple(-number for number in (signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGTERM))
"""A launcher that itself was ended by one of these: by a person, a batch system, or the kernel. Of a rank
that was, a launcher reports 128 and the number."""

_HOST = re.compile(r"[^\s,-][^\s,]*")
"""A host's name: `ssh` takes one that begins with a - for an option, and launchers part them by commas."""


@dataclass(frozen=True, slots=True)
class Mpirun:
    """Starts each launch by the launcher of one MPI installation."""

    installation: Installation  # Whose ``mpirun``.
    extra: Sequence[str] = ()  # Further words for its command line.
    agent: Sequence[str] = ()  # What starts a command on another host, in place of ``ssh``.
    at_once: ClassVar[bool] = True

    def run(self, request: LaunchRequest) -> LaunchOutcome:
        """How the run ended; see the port.

        Raises:
            StackError: ``mpirun`` itself cannot be started.
        """
        argv, env = self.command(request, request.placement)
        return run_here(request, argv, env, request.timeout_s)

    def heard(self, program: Sequence[str], placement: Placement, env: Mapping[str, str]) -> str:
        """Outputs of a program; see the port ``Hearing``."""
        return heard_here(self.command, program, placement, env)

    def command(self, request: LaunchRequest, placement: Placement) -> tuple[list[str], dict[str, str]]:
        """Words and environment of ``mpirun`` for a launch on these nodes."""
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
    """Those of a job beside which others run, at most as many as it has nodes; all where it is alone."""
    first = scenario.launch.first_node
    return tuple(hosts[first - 1 :][: scenario.cluster.nodes] if first else hosts)


def on_hosts(scenario: Scenario) -> Scenario:
    """The scenario with the hosts of its hostfile, and with as many of them as it has nodes.

    Raises:
        ScenarioError: a hostfile that cannot be read, fewer hosts than nodes, or none where jobs
            run beside each other.
    """
    hosts, nodes = scenario.cluster.hosts, scenario.cluster.nodes
    if scenario.cluster.hostfile:
        path = Path(scenario.cluster.hostfile)
        named, hint = f"cluster.hostfile={path}", "a file with a host name a line"
        hosts = read_hostfile(user_text(path, named, hint, raised=ScenarioError))
    if scenario.launch.first_node and not hosts:
        raise ScenarioError(
            "site.at_once is above 1, but no host is named", "cluster.hosts or cluster.hostfile"
        )
    if not hosts:
        return scenario
    if wrong := [host for host in hosts if not _HOST.fullmatch(host)]:
        raise ScenarioError(
            f"{wrong[0]!r} is no host", "a name without blanks and commas, that begins with no -"
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
    request: LaunchRequest, argv: Sequence[str], env: Mapping[str, str], timeout_s: float
) -> LaunchOutcome:
    """Run a launcher's command line to its end.

    Raises:
        StackError: it cannot be started.
        StorageError: there is no room for its files.
    """
    log = request.directory
    (log / "command").write_text("\n".join(argv) + "\n", encoding="utf-8")
    try:
        ended = _processes.run(argv, env, log / "stdout", log / "stderr", timeout_s)
        if ended.exit_code and _STALE in _last_words(log):  # no setting's fault: nothing has begun
            ended = _processes.run(argv, env, log / "stdout", log / "stderr", timeout_s)
    except OSError as exc:
        raise StackError(f"cannot start {argv[0]}: {exc.strerror or exc}") from exc
    return outcome(log, ended)


def heard_here(
    command: CommandLine, program: Sequence[str], placement: Placement, env: Mapping[str, str]
) -> str:
    """Both outputs of a program that a launcher's command line runs on some nodes.

    Raises:
        StackError: it cannot be started, or does not end in time.
    """
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "launch")
        place.mkdir()
        argv, own = command(LaunchRequest(place, tuple(program), env, placement, _HEARD_S), placement)
        try:
            ended = _processes.run(argv, own, place / "stdout", place / "stderr", _HEARD_S)
        except OSError as exc:
            raise StackError(f"cannot start {argv[0]}: {exc.strerror or exc}") from exc
        text = "".join(user_bytes(place / name).decode(errors="replace") for name in ("stdout", "stderr"))
    if ended.exit_code is None:
        where = ", ".join(placement.hosts) or "this machine"
        raise StackError(f"a launch of {placement.ranks} ranks on {where} does not end: {ended.cause}")
    return text


def check_room(directory: Path) -> None:
    """Refuse an outcome for a launch that found no room for its result.

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


def outcome(directory: Path, ended: _processes.Ended) -> LaunchOutcome:
    """The outcome of a launch that has ended.

    The probe's completion record decides, not the exit code: launchers return 0 when a daemon is lost, and
    some stacks fail after everything was measured.

    Raises:
        StorageError: there is no result, and no room for one.
    """
    try:
        result = ProbeResult.read(directory)
    except UserError as exc:
        check_room(directory)
        return LaunchOutcome(Status.INVALID, exc.on_one_line, duration_s=ended.duration_s)
    if result is not None:
        said, hosts = status_of(result.status, result.reason), tuple(dict.fromkeys(result.hosts))
        return LaunchOutcome(*said, result, ended.duration_s, hosts=hosts)
    check_room(directory)
    status, cause = Status.CRASHED, ended.cause
    if ended.exit_code is None:
        status = Status.TIMEOUT
    elif ended.exit_code == 0:
        status, cause = Status.LOST, "the launcher returned 0 without a result"
    elif ended.exit_code in _FROM_OUTSIDE:
        status = Status.LOST
    return LaunchOutcome(status, f"{cause}: {_last_words(directory)}", duration_s=ended.duration_s)


def _last_words(directory: Path) -> str:
    """UCX's error, else the end of the launch's output: a reason that says something."""
    errors = " | ".join(last_errors(directory))[:_REASON]
    return errors or _processes.last_words(directory / "stderr", directory / "stdout", limit=_REASON)
