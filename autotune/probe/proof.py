"""Check on every rank that a launch has its settings: library, environment, control variables, UCX.

Without these checks, a setting that was silently not applied would be recorded with times that were measured
without it. So each rank compares its actual settings with ``Expectation``; the error message quotes the first
rank whose settings differ.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.errors import StackError
from autotune.probe.mpit import named, same_value

if TYPE_CHECKING:
    from mpi4py import MPI

    from autotune.probe.mpit import ToolInterface
    from autotune.probe.protocol import Expectation
    from autotune.probe.ucx import UcxReport


_PML = {"pml", "OMPI_MCA_pml"}  # Names of the variable by which a launch of Open MPI can ask for UCX.


def wrong_library(expect: Expectation, loaded: Path) -> str:
    """Describe an MPI library of this rank that is not the expected one; empty if it is the expected one."""
    if not expect.library or Path(expect.library).resolve() == loaded:
        return ""
    return f"MPI library {loaded} is loaded, the launcher belongs to {Path(expect.library).resolve()}"


def missing_environment(expect: Expectation, environment: Mapping[str, str]) -> str:
    """Describe an environment variable without its expected value on this rank; empty if there is none."""
    for name, expected in expect.env.items():
        present = environment.get(name)
        if present != expected:
            state = "not set" if present is None else repr(present)
            return f"environment variable {name} is {state}, asked for {expected!r}"
    return ""


def ucx_contradiction(
    world: MPI.Intracomm, expect: Expectation, log: Path | None
) -> tuple[str, UcxReport | None]:
    """Return how UCX deviates from the expectation on this rank, in words, and the content of its log.

    All ranks must call this together, since they send each other a message. The text is empty if UCX is as
    expected. The content is None if UCX is not checked, or wrote no log.
    """
    if not expect.ucx:
        return "", None
    if log is None:
        return "UCX was not asked for a report", None
    from autotune.probe.ucx import contradiction, read_report  # imported here, as few launches use UCX

    token, received = bytearray(8), bytearray(8)
    world.Sendrecv(token, (world.rank + 1) % world.size, 0, received, (world.rank - 1) % world.size, 0)
    world.Barrier()
    ctypes.CDLL(None).fflush(None)  # write the part of UCX's log that is still in the C library's buffers
    try:
        report = read_report(log.read_text(encoding="utf-8", errors="replace"))
    except OSError as exc:
        return f"no report of UCX: {exc}", None
    requested = {**expect.env, **expect.ucx_values}
    if not any(name.startswith("UCX_") for name in requested) and not _PML & {*expect.cvars, *expect.env}:
        return "", report  # the launch sets nothing that UCX could have ignored
    return contradiction(report, requested), report


def unset_variables(expect: Expectation, tools: ToolInterface) -> tuple[str, dict[str, str]]:
    """Return a description of the first control variable with an unexpected value, and all values by name.

    The description is empty if every variable has its expected value on this rank.
    """
    applied: dict[str, str] = {}
    wrong = ""
    for name, expected in expect.cvars.items():
        try:
            value = tools.read(name)
            names = tools.variable(name).enumerator
        except StackError as exc:
            wrong = wrong or f"control variable {name}, asked for {expected!r}: {exc.message}"
            continue
        applied[name] = named(value, names)
        if not same_value(value, expected, names):
            allowed_values = f"; it takes {', '.join(f'{v} {k}' for k, v in names.items())}" if names else ""
            wrong = wrong or f"control variable {name} is {value!r}, asked for {expected!r}{allowed_values}"
    return wrong, applied
