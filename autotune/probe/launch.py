"""A launch from inside: request → proofs → sweeps → result, on every rank.

Whatever is wrong with the request ends all ranks alike, within seconds, with one line on rank 0.
"""

import math
import resource
import sys
from collections.abc import Iterable, Mapping
from ctypes import CDLL
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from mpi4py import MPI

from autotune.errors import StackError, UserError
from autotune.measure.machine import UsualCore
from autotune.probe.exchange import Pool
from autotune.probe.heat import measure_heat
from autotune.probe.loops import Loop
from autotune.probe.machine import look, since
from autotune.probe.mpit import ControlVariables, ToolInterface
from autotune.probe.native import NativeLoop, load
from autotune.probe.operations import OPERATIONS
from autotune.probe.proof import missing_environment, ucx_contradiction, unset_variables, wrong_library
from autotune.probe.protocol import (
    BESIDE_BYTES,
    BESIDE_CALLS,
    REQUEST,
    CellSamples,
    Expectation,
    Heat,
    ProbeRequest,
    ProbeResult,
)
from autotune.probe.rule_check import reach
from autotune.probe.steadiness import Steadiness
from autotune.probe.sweeps import loop_of, sweeps
from autotune.probe.ucx import unread

_BESIDE_SHARE = 0.02  # Of a launch's time, for what is measured beside: less than launches differ by.
_OVERHEAD_CALLS = 500  # Whose median is the cost of timing; all of them take about a millisecond.


def run(world: MPI.Intracomm, directory: Path, environment: Mapping[str, str], ucx_log: Path | None) -> int:
    """Measure the request in a directory and write the result there, if rank 0 sees it; the exit status.

    The environment is as the launcher gave it to this rank; UCX writes to its log what it does in this
    process, unless it was not asked to.
    """
    tools = ToolInterface(MPI)
    try:
        request = _request(world, directory)
    except UserError as exc:
        return _end(world, directory, ProbeResult("invalid", exc.on_one_line))
    if request.reach and request.expect == Expectation():  # rules may refuse what ranks would agree by
        refusals = ProbeResult("ok", cells=reach(world, request), hosts=(MPI.Get_processor_name(),))
        return _written(world, directory, refusals)
    proof = _proof(world, request, tools, environment, ucx_log)
    if proof.problem:
        return _end(world, directory, ProbeResult(*proof.problem, notes=proof.notes, applied=proof.applied))
    if ucx_log and world.rank:
        ucx_log.unlink(missing_ok=True)  # it has been read; rank 0's is kept
    if request.reach:
        parameters = _parameters(world, tools)
        cells = reach(world, request)
        found = ProbeResult("ok", "", cells, notes=proof.notes, applied=proof.applied, parameters=parameters)
        return _end(world, directory, found)
    return _end(world, directory, _measure(world, request, directory, tools, proof))


@dataclass(frozen=True, slots=True)
class _Proof:
    """The check of the expectation; the same problem on all ranks, notes and values of this one."""

    problem: tuple[str, str] | None  # Status and reason.
    notes: tuple[str, ...]
    applied: Mapping[str, str]


def _request(world: MPI.Intracomm, directory: Path) -> ProbeRequest:
    """The request, read by rank 0, checked by all alike."""
    text, problem = "", ""
    if world.rank == 0:
        try:
            text = (directory / REQUEST).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as exc:
            problem = f"cannot read {directory / REQUEST}: {exc}"
    text, problem = _told(world, (text, problem))
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
    """Whether every rank is as asked; the first check and the lowest rank that differs are quoted."""
    expect = request.expect
    cvars_wrong, applied = unset_variables(expect, tools)
    ucx_wrong, report = ucx_contradiction(world, expect, ucx_log)
    notes: tuple[str, ...] = ()
    if report is not None:
        notes = tuple(f"UCX says: {warning}" for warning in report.warnings)
        applied |= {f"ucx {where}": " ".join(lanes) for where, lanes in report.lanes.items()}
    checks = (
        ("invalid", wrong_library(expect, tools.library)),
        ("not_applied", missing_environment(expect, environment)),
        ("not_applied", cvars_wrong),
        ("not_applied", ucx_wrong),
        ("not_applied", unread(expect.ucx_values) if expect.ucx_values else ""),
    )
    for status, problem in checks:
        for rank, theirs in enumerate(world.allgather(problem)):
            if theirs:
                return _Proof((status, f"rank {rank}: {theirs}"), notes, applied)
    return _Proof(None, notes, applied)


def _measure(
    world: MPI.Intracomm,
    request: ProbeRequest,
    directory: Path,
    tools: ToolInterface,
    proof: _Proof,
) -> ProbeResult:
    """All sweeps, and what the machine was like meanwhile."""
    kernel, notes = None, list(proof.notes)
    if request.timing != "python":
        try:
            kernel = load(world, tools.library, directory)
        except StackError as exc:
            if request.timing == "native":
                return ProbeResult("invalid", f"timing=native is not possible here: {exc.message}")
            notes.append(f"calls are timed through mpi4py: {exc.message}")
    variables = ControlVariables(tools)

    if request.heat is not None:
        return _measure_heat(world, request, request.heat, kernel, variables, notes, tools, proof)
    patience_s = request.patience_s if kernel else 0.0  # without the kernel nobody sees the cores
    steadiness, began = Steadiness(request.usual_core, patience_s), look()
    cells, remarks = sweeps(world, request, kernel, variables, steadiness)
    seen = since(world, began)
    beside = _beside_s(world, request, kernel, variables)
    used, library = _memory(world, tools) if request.memory else (np.nan, {})
    if request.memory and not library:
        notes.append("this MPI library has no performance variable that counts its own bytes")
    loop = loop_of(MPI.COMM_SELF, kernel)
    return ProbeResult(
        status="ok",
        cells=tuple(cells),
        hosts=tuple(world.allgather(MPI.Get_processor_name())),
        library=MPI.Get_library_version().strip("\0").splitlines()[0],
        timing=loop.name,
        overhead_s=float(world.allreduce(_overhead_s(loop, request.collectives[0]), MPI.MAX)),
        memory_bytes=used,
        library_bytes=library,
        notes=(*notes, *remarks),
        applied={**proof.applied, **variables.read_back},
        machine={**(seen.figures if seen else {}), **steadiness.figures},
        beside=beside,
    )


def _measure_heat(
    world: MPI.Intracomm,
    request: ProbeRequest,
    heat: Heat,
    kernel: CDLL | None,
    variables: ControlVariables,
    notes: list[str],
    tools: ToolInterface,
    proof: _Proof,
) -> ProbeResult:
    """All sweeps, in turns with other jobs."""
    try:
        seen = measure_heat(world, request, heat, kernel, variables)
    except StackError as exc:
        return ProbeResult("invalid", exc.on_one_line)
    loop = loop_of(MPI.COMM_SELF, kernel)
    used, library = _memory(world, tools) if request.memory else (np.nan, {})
    return ProbeResult(
        status="ok",
        cells=seen.cells,
        hosts=tuple(world.allgather(MPI.Get_processor_name())),
        library=MPI.Get_library_version().strip("\0").splitlines()[0],
        timing=loop.name,
        overhead_s=float(world.allreduce(_overhead_s(loop, request.collectives[0]), MPI.MAX)),
        notes=tuple(notes),
        applied={**proof.applied, **variables.read_back},
        memory_bytes=used,
        library_bytes=library,
        taken_out=seen.taken_out,
        beside=_medians(seen.beside),
    )


def _beside_s(
    world: MPI.Intracomm, request: ProbeRequest, kernel: CDLL | None, variables: ControlVariables
) -> dict[str, float]:
    """A glance at the patterns beside what was asked for, on all ranks, as the stack is; known to rank 0."""
    if not request.beside or world.size < 2:
        return {}
    glance = replace(
        request,
        collectives=request.beside,
        sizes_bytes=BESIDE_BYTES,
        choices={},
        comm_sizes=(),
        budget_s=request.budget_s * _BESIDE_SHARE,
        min_samples=min(request.min_samples, BESIDE_CALLS),
        loop="interleaved",
        other_loop="tight",
    )
    cells, _ = sweeps(world, glance, kernel, variables, Steadiness(UsualCore(), 0.0), first_s=math.inf)
    return _medians(cells)


def _medians(cells: Iterable[CellSamples]) -> dict[str, float]:
    """Name and size of a pattern beside the request → median seconds, in either loop."""
    seen = {}
    for cell in cells:
        if cell.status == "ok" and len(cell.valid_s):
            seen[f"{cell.collective} {cell.message_bytes}"] = float(np.median(cell.valid_s))
            if "other_loop_s" in cell.extra:
                seen[f"{cell.collective} {cell.message_bytes} tight"] = cell.extra["other_loop_s"]
    return seen


def _overhead_s(loop: Loop, collective: str) -> float:
    """Median seconds that the timing of a call costs itself, by a loop on a communicator of one rank.

    In C: no call at all, which leaves two readings of the clock. Through mpi4py: the same call on a
    communicator of one rank, which is mpi4py's own work and the library's way in and out.
    """
    if isinstance(loop, NativeLoop):
        begins, ends = loop.run_nothing(_OVERHEAD_CALLS)
        return float(np.median(ends - begins))
    operation = OPERATIONS[collective]
    comm, pool = operation.connect(MPI.COMM_SELF), Pool(operation, 0, 1, 8)
    window = pool.window(comm)
    exchange = pool.exchange(comm, 8, window)
    begins, ends = loop.run(exchange, _OVERHEAD_CALLS)
    exchange.close()
    pool.close(window)
    comm.Free()
    return float(np.median(ends - begins))


def _parameters(world: MPI.Intracomm, tools: ToolInterface) -> dict[str, str]:
    """Every control variable with its value on all ranks, on rank 0; nothing on the others."""
    everyone = world.gather(tools.values()) or []
    names = sorted({name for values in everyone for name in values})
    held = {name: [values.get(name, "") for values in everyone] for name in names}
    return {name: " | ".join(held[name] if len(set(held[name])) > 1 else held[name][:1]) for name in names}


def _memory(world: MPI.Intracomm, tools: ToolInterface) -> tuple[float, dict[str, float]]:
    """Peak resident set, and what the library counts itself, each on the largest rank."""
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0
    everyone = world.allgather((used, tools.memory()))
    names = sorted({name for _, counted in everyone for name in counted})
    return max(used for used, _ in everyone), {
        name: max(counted.get(name, 0.0) for _, counted in everyone) for name in names
    }


def _told(world: MPI.Intracomm, words: tuple[str, str]) -> tuple[str, str]:
    """Rank 0's words on every rank: down a tree of sends, where no rule for collectives reaches."""
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
    """The result written by rank 0; the exit status, alike on all ranks."""
    return int(world.bcast(_written(world, directory, result)))


def _written(world: MPI.Intracomm, directory: Path, result: ProbeResult) -> int:
    """Write the result and say in one line what was wrong, on rank 0; this rank's exit status."""
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
