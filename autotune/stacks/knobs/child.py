"""Asking a library in a process of its own: it may crash or hang there without harm."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from autotune.errors import StackError
from autotune.stacks.installation import run

_TUNING = ("UCX_", "UCC_", "FI_", "OMPI_MCA_", "MPIR_CVAR_", "MPICH_", "MPIR_PARAM_", "I_MPI_ADJUST_")
"""Prefixes of variables in the user's shell that could be mistaken for defaults."""


def ask(command: Sequence[str], env: Mapping[str, str] | None = None) -> str:
    """Standard output of a command, without tuning variables in its environment.

    Raises:
        StackError: it cannot be started, does not end in time, or ends badly.
    """
    clean = {k: v for k, v in os.environ.items() if not k.startswith(_TUNING)}
    done = run(command, {**clean, **(env or {})})
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        how = f"signal {-done.returncode}" if done.returncode < 0 else f"code {done.returncode}"
        raise StackError(f"{' '.join(command)} ended with {how}: {said[-1] if said else '(no word)'}")
    return done.stdout.decode(errors="replace")


def ask_module(module: str, *arguments: str, folder: Path) -> str:
    """Output of a module of this package, run as a program that looks for libraries in a folder first.

    Raises:
        StackError: as ``ask``.
    """
    search = [str(folder), os.environ.get("LD_LIBRARY_PATH", "")]
    path = {"LD_LIBRARY_PATH": os.pathsep.join(filter(None, search))}
    return ask([sys.executable, "-P", "-m", module, *arguments], path)
