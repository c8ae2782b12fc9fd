"""Whether a launch is what was asked for, on every rank: library, environment, control variables, UCX.

A setting that was silently not applied would be booked as a result of that setting. So each rank compares
what it has with ``Expectation``; the first rank that differs is quoted.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from autotune.errors import StackError
from autotune.probe.mpit import named, same_value
from autotune.probe.ucx import UcxReport, contradiction, read_report

if TYPE_CHECKING:
    from mpi4py import MPI

    from autotune.probe.mpit import ToolInterface
    from autotune.probe.protocol import Expectation


_PML = {"pml", "OMPI_MCA_pml"}  # Names by which a launch of Open MPI asks for UCX itself.


def wrong_library(expect: Expectation, loaded: Path) -> str:
    """In words, what is wrong with the MPI library of this rank; empty: nothing."""
    if not expect.library or Path(expect.library).resolve() == loaded:
        return ""
    return f"MPI library {loaded} is loaded, the launcher belongs to {Path(expect.library).resolve()}"


def missing_environment(expect: Expectation, environment: Mapping[str, str]) -> str:
    """In words, which variable this rank does not see as asked; empty: none."""
    for name, wanted in expect.env.items():
        present = environment.get(name)
        if present != wanted:
            state = "not set" if present is None else repr(present)
            return f"environment variable {name} is {state}, asked for {wanted!r}"
    return ""


def ucx_contradiction(
    world: MPI.Intracomm, expect: Expectation, log: Path | None
) -> tuple[str, UcxReport | None]:
    """In words, what UCX does otherwise than asked on this rank, and its report; on every rank alike."""
    if not expect.ucx:
        return "", None
    if log is None:
        return "UCX was not asked for a report", None
    token, heard = np.zeros(1), np.zeros(1)
    world.Sendrecv(token, (world.rank + 1) % world.size, 0, heard, (world.rank - 1) % world.size, 0)
    world.Barrier()
    ctypes.CDLL(None).fflush(None)  # UCX writes its log through the C library's buffers
    try:
        report = read_report(log.read_text(encoding="utf-8", errors="replace"))
    except OSError as exc:
        return f"no report of UCX: {exc}", None
    asked = {**expect.env, **expect.ucx_values}
    if not any(name.startswith("UCX_") for name in asked) and not _PML & {*expect.cvars, *expect.env}:
        return "", report  # the stack's own choice: there is nothing that could have been ignored
    return contradiction(report, asked), report


def unset_variables(expect: Expectation, tools: ToolInterface) -> tuple[str, dict[str, str]]:
    """The problem with this rank's control variables (empty: none), and the values read."""
    applied: dict[str, str] = {}
    wrong = ""
    for name, wanted in expect.cvars.items():
        try:
            value = tools.read(name)
            names = tools.variable(name).enumerator
        except StackError as exc:
            wrong = wrong or f"control variable {name}, asked for {wanted!r}: {exc.message}"
            continue
        applied[name] = named(value, names)
        if not same_value(value, wanted, names):
            listed = f"; it takes {', '.join(f'{v} {k}' for k, v in names.items())}" if names else ""
            wrong = wrong or f"control variable {name} is {value!r}, asked for {wanted!r}{listed}"
    return wrong, applied
