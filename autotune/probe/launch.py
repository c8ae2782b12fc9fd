"""Run the probe on every rank: read the request, check the settings, measure, and write the result.

Any mistake in the request ends all ranks in the same way, within seconds, with one line from rank 0.
"""

import math
import resource
import sys
import time
from collections.abc import Iterable, Mapping
from ctypes import CDLL
from dataclasses import dataclass, replace
from itertools import repeat
from pathlib import Path

from mpi4py import MPI

from autotune.errors import StackError, UserError
from autotune.measure.rows import mean, median
from autotune.probe.exchange import Pool
from autotune.probe.loops import Loop, took
from autotune.probe.machine import look, since
from autotune.probe.mpit import ControlVariables, ToolInterface
from autotune.probe.native import NativeLoop, load
from autotune.probe.operations import OPERATIONS
from autotune.probe.proof import missing_environment, ucx_contradiction, unset_variables, wrong_library
from autotune.probe.protocol import (
    BESIDE_CALLS,
    REQUEST,
    CellSamples,
    Expectation,
    ProbeRequest,
    ProbeResult,
    TakenOut,
)
from autotune.probe.sweeps import loop_of, sweeps

_BESIDE_SHARE = 0.02
"""Share of a launch's time for the operations of ``beside``, smaller than the difference between launches."""
_OVERHEAD_CALLS = 500  # Number of calls whose median is the cost of timing; they take about a millisecond.


def run(
    world: MPI.Intracomm,
    directory: Path,
    environment: Mapping[str, str],
    ucx_log: Path | None,
    moments: dict[str, float],
) -> int:
    """Measure the request in a directory, write the result there, and return the exit status.

    Args:
        world: All ranks of the launch.
        directory: Directory of the request and the result, which only rank 0 must be able to access.
        environment: Environment of this rank as the launcher set it.
        ucx_log: Path to which UCX in this process writes its log; None: UCX was not asked for a log.
        moments: Times at which parts of the launch began, see ``ProbeResult.moments``; the times of later
            parts are added.
    """
    moments["proof"] = time.monotonic()
    tools = ToolInterface(MPI)
    try:
        request = _request(world, directory)
    except UserError as exc:
        return _end(world, directory, ProbeResult("invalid", exc.on_one_line))
    if (
        request.reach and request.expect == Expectation()
    ):  # the tested rules may make MPI refuse the collectives by which ranks would exchange data
        from autotune.probe.rule_check import reach

        refusals = ProbeResult("ok", cells=reach(world, request), hosts=(MPI.Get_processor_name(),))
        return _written(world, directory, refusals)
    proof = _proof(world, request, tools, environment, ucx_log)
    if proof.problem:
        return _end(world, directory, ProbeResult(*proof.problem, notes=proof.notes, applied=proof.applied))
    if ucx_log and world.rank:
        ucx_log.unlink(missing_ok=True)  # this rank has read its log; only rank 0's is kept
    if request.reach:
        from autotune.probe.rule_check import reach

        parameters = _parameters(world, tools)
        cells = reach(world, request)
        reached = ProbeResult(
            "ok", "", cells, notes=proof.notes, applied=proof.applied, parameters=parameters
        )
        return _end(world, directory, reached)
    return _end(world, directory, _measure(world, request, directory, tools, proof, moments))


@dataclass(frozen=True, slots=True)
class _Proof:
    """Result of checking the settings; all ranks have the same problem, but notes and values of their own."""

    problem: tuple[str, str] | None  # Status and reason; None: all ranks have the expected settings.
    notes: tuple[str, ...]  # UCX's warnings.
    applied: Mapping[str, str]  # Variable → the value that was read from it.


def _request(world: MPI.Intracomm, directory: Path) -> ProbeRequest:
    """Return the request, read by rank 0 and checked by all ranks alike."""
    text, problem = "", ""
    if world.rank == 0:
        try:
            text = (directory / REQUEST).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as exc:
            problem = f"cannot read {directory / REQUEST}: {exc}"
    text, problem = _from_rank_0(world, (text, problem))
    if problem:
        raise UserError(problem)
    request = ProbeRequest.from_json(text)
    if request.ranks and request.ranks != world.size:
        raise UserError(f"the request is for {request.ranks} ranks, the launch has {world.size}")
    for size in request.comm_sizes:
        if size > world.size:
            raise UserError(f"communicator size {size} with {world.size} ranks", f"allowed: 1 … {world.size}")
    return request


def _proof(
    world: MPI.Intracomm,
    request: ProbeRequest,
    tools: ToolInterface,
    environment: Mapping[str, str],
    ucx_log: Path | None,
) -> _Proof:
    """Check every rank's settings.

    The problem is that of the first check that fails, as the lowest rank on which it fails describes it.
    """
    expect = request.expect
    cvars_wrong, applied = unset_variables(expect, tools)
    ucx_wrong, report = ucx_contradiction(world, expect, ucx_log)
    notes: tuple[str, ...] = ()
    if report is not None:
        notes = tuple(f"UCX says: {warning}" for warning in report.warnings)
        applied |= {f"ucx {configuration}": " ".join(lanes) for configuration, lanes in report.lanes.items()}
    checks = (
        ("invalid", wrong_library(expect, tools.library)),
        ("not_applied", missing_environment(expect, environment)),
        ("not_applied", cvars_wrong),
        ("not_applied", ucx_wrong),
        ("not_applied", _unread(expect.ucx_values)),
    )
    for status, problem in checks:
        for rank, reason in enumerate(world.allgather(problem)):
            if reason:
                return _Proof((status, f"rank {rank}: {reason}"), notes, applied)
    return _Proof(None, notes, applied)


def _unread(values: Mapping[str, str]) -> str:
    if not values:
        return ""
    from autotune.probe.ucx import unread  # imported here, since not every launch uses UCX

    return unread(values)


def _measure(
    world: MPI.Intracomm,
    request: ProbeRequest,
    directory: Path,
    tools: ToolInterface,
    proof: _Proof,
    moments: dict[str, float],
) -> ProbeResult:
    moments["kernel"] = time.monotonic()
    kernel, notes = None, list(proof.notes)
    if request.timing != "python":
        try:
            kernel = load(world, tools.library, directory)
        except StackError as exc:
            if request.timing == "native":
                return ProbeResult("invalid", f"timing=native is not possible here: {exc.message}")
            notes.append(f"calls are timed through mpi4py: {exc.message}")
    variables = ControlVariables(tools)
    moments["checks"] = time.monotonic()
    taken_out: Mapping[str, TakenOut] = {}
    machine: Mapping[str, float] = {}
    later_notes: list[str] = []
    if request.heat is None:
        first_look = look()
        cells, later_notes, timed = sweeps(world, request, kernel, variables)
        if interference := since(world, first_look):
            machine = interference.figures
        other_calls_s = _other_calls_s(world, request, kernel, variables)
    else:
        from autotune.probe.heat import measure_heat  # imported here, as few launches need it

        try:
            cells, other_cells, timed, taken_out = measure_heat(
                world, request, request.heat, kernel, variables
            )
        except StackError as exc:
            return ProbeResult("invalid", exc.on_one_line)
        other_calls_s = _means(other_cells)
    memory_bytes = math.nan
    if request.memory:
        own_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0
        memory_bytes = world.allreduce(own_bytes, MPI.MAX)
    loop = loop_of(MPI.COMM_SELF, kernel)
    return ProbeResult(
        status="ok",
        cells=tuple(cells),
        hosts=tuple(world.allgather(MPI.Get_processor_name())),
        library=MPI.Get_library_version().strip("\0").splitlines()[0],
        timing=loop.name,
        overhead_s=float(world.allreduce(_overhead_s(loop, request.collectives[0]), MPI.MAX)),
        memory_bytes=memory_bytes,
        notes=(*notes, *later_notes),
        applied={**proof.applied, **variables.read_back},
        machine=machine,
        taken_out=taken_out,
        beside=other_calls_s,
        moments={**moments, "calls": timed.begun_s},
        timed_s=timed.seconds,
    )


def _other_calls_s(
    world: MPI.Intracomm, request: ProbeRequest, kernel: CDLL | None, variables: ControlVariables
) -> dict[str, float]:
    """Measure the operations of ``ProbeRequest.beside`` briefly; the result is complete on rank 0."""
    cells: list[CellSamples] = []
    for other_request in request.other_calls(world.size):
        min_samples = min(request.min_samples, BESIDE_CALLS)
        share_s = request.budget_s * _BESIDE_SHARE / len(request.beside)
        glance = replace(other_request, budget_s=share_s, min_samples=min_samples)
        cells += sweeps(world, glance, kernel, variables, first_s=math.inf)[0]
    return _means(cells)


def _means(cells: Iterable[CellSamples]) -> dict[str, float]:
    """Map ``NAME SIZE`` of each operation to a call's seconds: the mean in a visit, its median over visits.

    A visit is a block of calls in a turn. A time in the tight loop has a key of its own, ``NAME SIZE tight``.
    Invalid samples are left out.
    """
    times_s = {}
    for cell in cells:
        visits: dict[int, list[float]] = {}
        flags = cell.validity if cell.validity is not None else repeat(0)
        rounds = cell.rounds if cell.rounds is not None else repeat(0)
        for seconds, flag, visit in zip(cell.samples_s, flags, rounds, strict=False):
            if not flag:
                visits.setdefault(visit, []).append(seconds)
        if cell.status == "ok" and visits:
            times_s[f"{cell.collective} {cell.message_bytes}"] = median(map(mean, visits.values()))
            if "other_loop_mean_s" in cell.extra:
                times_s[f"{cell.collective} {cell.message_bytes} tight"] = cell.extra["other_loop_mean_s"]
    return times_s


def _overhead_s(loop: Loop, collective: str) -> float:
    """Return the median time that timing adds to a call, in seconds.

    The loop in C is timed without any call, which leaves two readings of the clock. The loop through mpi4py
    makes the call on a communicator of one rank, which measures mpi4py's own work and the entry into the
    library.
    """
    if isinstance(loop, NativeLoop):
        begins, ends = loop.run_nothing(_OVERHEAD_CALLS)
        return median(took(begins, ends))
    operation = OPERATIONS[collective]
    comm, pool = operation.connect(MPI.COMM_SELF), Pool(operation, 0, 1, 8)
    window = pool.window(comm)
    exchange = pool.exchange(comm, 8, window)
    begins, ends = loop.run(exchange, _OVERHEAD_CALLS)
    exchange.close()
    pool.close(window)
    comm.Free()
    return median(took(begins, ends))


def _parameters(world: MPI.Intracomm, tools: ToolInterface) -> dict[str, str]:
    """Return, on rank 0, every control variable → its value, or each rank's value if ranks differ."""
    all_values = world.gather(tools.values()) or []
    names = sorted({name for values in all_values for name in values})
    by_name = {name: [values.get(name, "") for values in all_values] for name in names}
    return {
        name: " | ".join(by_name[name] if len(set(by_name[name])) > 1 else by_name[name][:1])
        for name in names
    }


def _from_rank_0(world: MPI.Intracomm, words: tuple[str, str]) -> tuple[str, str]:
    """Return rank 0's texts on every rank, sent by messages to which no rule for collectives applies."""
    rank, size, reached = world.rank, world.size, 1
    while reached < size:
        if rank < reached:
            if rank + reached < size:
                world.send(words, dest=rank + reached)
        elif rank < 2 * reached:
            words = world.recv(source=rank - reached)
        reached *= 2
    return words


def _end(world: MPI.Intracomm, directory: Path, result: ProbeResult) -> int:
    """Write the result on rank 0, and return the exit status, which is the same on all ranks."""
    return int(world.bcast(_written(world, directory, result)))


def _written(world: MPI.Intracomm, directory: Path, result: ProbeResult) -> int:
    """Write the result on rank 0, with its problem on standard error, and return this rank's exit status."""
    status = 2 if result.status == "invalid" else 0
    if world.rank == 0:
        if result.reason:
            sys.stderr.write(f"autotune.probe: {result.status}: {result.reason}\n")
        try:
            result.write(directory)
        except OSError as exc:
            sys.stderr.write(f"autotune.probe: cannot write the result: {exc}\n")
            status = 2
        sys.stderr.flush()
    return status
