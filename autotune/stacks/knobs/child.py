"""Ask a library for its variables in a separate process, so that a crash or a hang does no harm."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from autotune.errors import StackError
from autotune.stacks.installation import run

_TUNING = ("UCX_", "UCC_", "FI_", "OMPI_MCA_", "MPIR_CVAR_", "MPICH_", "MPIR_PARAM_", "I_MPI_ADJUST_")
"""Prefixes of variables whose values in the user's shell a library would report as its defaults."""


def ask(command: Sequence[str], env: Mapping[str, str] | None = None) -> str:
    """Return the standard output of a command that runs without the user's tuning variables but with ``env``.

    Raises:
        StackError: the command cannot be started, does not end in time, or fails.
    """
    clean = {k: v for k, v in os.environ.items() if not k.startswith(_TUNING)}
    process = run(command, {**clean, **(env or {})})
    if process.returncode:
        errors = process.stderr.decode(errors="replace").strip().splitlines()
        how = f"signal {-process.returncode}" if process.returncode < 0 else f"code {process.returncode}"
        raise StackError(f"{' '.join(command)} ended with {how}: {errors[-1] if errors else '(no word)'}")
    return process.stdout.decode(errors="replace")


def ask_module(module: str, *arguments: str, folder: Path) -> str:
    """Run a module of this package as a program that loads libraries from ``folder``, and return its output.

    Raises:
        StackError: as ``ask``.
    """
    search = [str(folder), os.environ.get("LD_LIBRARY_PATH", "")]
    path = {"LD_LIBRARY_PATH": os.pathsep.join(filter(None, search))}
    return ask([sys.executable, "-P", "-m", module, *arguments], path)
