"""Asking a library in a process of its own: it may crash or hang there without harm."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from autotune.errors import StackError

_TUNING = ("UCX_", "UCC_", "FI_", "OMPI_MCA_", "MPIR_CVAR_", "MPICH_", "MPIR_PARAM_")
"""What could pass for a default where the user's shell has it."""


def ask(command: Sequence[str], env: Mapping[str, str] | None = None, timeout_s: float = 60.0) -> str:
    """What a command prints to standard output, without tuning variables in its environment.

    Raises:
        StackError: it cannot be started, does not end in time, or ends badly.
    """
    clean = {k: v for k, v in os.environ.items() if not k.startswith(_TUNING)}
    try:
        done = subprocess.run(
            list(command),
            env={**clean, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise StackError(f"{command[0]} does not answer: {exc}") from exc
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        how = f"signal {-done.returncode}" if done.returncode < 0 else f"code {done.returncode}"
        raise StackError(f"{' '.join(command)} ended with {how}: {said[-1] if said else '(no word)'}")
    return done.stdout.decode(errors="replace")


def ask_module(module: str, *arguments: str, folder: Path | None = None, timeout_s: float = 60.0) -> str:
    """What a module of this package prints, run as a program.

    Args:
        module: Its full name.
        arguments: Of the program.
        folder: Where the loader looks for libraries first.
        timeout_s: Seconds until it is given up.

    Raises:
        StackError: as ``ask``.
    """
    search = [str(folder), os.environ.get("LD_LIBRARY_PATH", "")] if folder else []
    path = {"LD_LIBRARY_PATH": os.pathsep.join(filter(None, search))} if search else {}
    return ask([sys.executable, "-m", module, *arguments], path, timeout_s)
