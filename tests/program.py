"""The program as a user starts it, on a machine that belongs to no Slurm cluster."""

import os
import subprocess
import sys

_ENV = {k: v for k, v in os.environ.items() if not k.startswith("SLURM")} | {
    "SLURM_CONF": "/no/such/slurm.conf"
}


def autotune(*words, cwd, timeout_s=280, **env):
    """Run ``python -m autotune`` with these words, and variables, to its end."""
    return subprocess.run(
        [sys.executable, "-m", "autotune", *words],
        cwd=cwd,
        env=_ENV | env,
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )
