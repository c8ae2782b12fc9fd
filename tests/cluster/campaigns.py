"""Campaigns on the proving ground: starting them, waiting for what they do, reading what they left."""

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .ground import Cluster

SITE = Path(__file__).parent / "site"


@dataclass(frozen=True)
class Tuning:
    """One campaign's command and directory."""

    cluster: Cluster
    directory: Path
    settings: tuple[str, ...] = field(default=())
    space: Path = SITE / "space.yaml"

    @property
    def words(self) -> tuple[str, ...]:
        """``python -m autotune …``."""
        return (
            *("python", "-m", "autotune", "--config-dir", str(SITE), "conf=small"),
            *(f"space={self.space}", f"campaign.dir={self.directory}", *self.settings),
        )

    def run(self, *before: str, timeout_s: float = 400.0) -> subprocess.CompletedProcess[str]:
        """Run it to its end on the login node, ``before`` in front of it (``salloc …``)."""
        return self.cluster.run(*before, *self.words, timeout_s=timeout_s)

    @contextmanager
    def started(self, *before: str) -> Iterator[subprocess.Popen[bytes]]:
        """It runs while the body does things to the cluster; at the end of the body it is waited for."""
        with (self.directory.parent / "said").open("wb") as out:
            process = self.cluster.start("timeout", "--kill-after=5", "600", *before, *self.words, out=out)
            try:
                yield process
                process.wait(620)
            finally:
                if process.poll() is None:
                    process.kill()
                    process.wait()

    @property
    def account(self) -> str:
        """What there is to read about it: what it printed, Slurm's queue, processes of launches."""
        logs = [self.directory.parent / "said", *self.directory.glob("slurm/*_log.out")]
        texts = [f"--- {log}\n{log.read_text(errors='replace')[-3000:]}" for log in logs if log.exists()]
        slurm = self.cluster.run("sh", "-c", "squeue; sinfo -N -l").stdout
        return "\n".join([*texts, slurm, *self.orphans()])

    @property
    def events(self) -> list[dict[str, Any]]:
        """The journal."""
        path = self.directory / "journal.jsonl"
        text = path.read_text() if path.exists() else ""
        return [json.loads(line) for line in text.splitlines() if line.endswith("}")]

    @property
    def observations(self) -> list[dict[str, Any]]:
        """Of the journal, in order."""
        return [event for event in self.events if event["event"] == "observation"]

    @property
    def statuses(self) -> list[str]:
        """Of the observations."""
        return [one["status"] for one in self.observations]

    @property
    def state(self) -> str:
        """How the last process ended, as the journal has it."""
        return next((e["state"] for e in reversed(self.events) if e["event"] == "ended"), "")

    def launching(self, number: int) -> bool:
        """Whether the ranks of a launch are running now."""
        words = f"autotune.probe {self.directory}/launches/{number:04d}"
        return len(self.cluster.processes(words)) >= 8

    def jobs(self) -> dict[str, str]:
        """The state of every job that Slurm remembers."""
        said = self.cluster.run("scontrol", "show", "job", "-o").stdout
        fields = [dict(w.partition("=")[::2] for w in line.split() if "=" in w) for line in said.splitlines()]
        return {one["JobId"]: one["JobState"] for one in fields if "JobId" in one}

    def queue_is_empty(self) -> bool:
        """Whether no job waits or runs."""
        said = self.cluster.run("squeue", "-h")
        return said.returncode == 0 and not said.stdout.strip()

    def orphans(self) -> list[str]:
        """Command lines of what a launch left behind: ranks, daemons of MPI, steps."""
        wanted = ("autotune.probe", "prted", "mpirun", "_slurm_trial", "slurmstepd")
        return [words for _, words in self.cluster.processes() if any(name in words for name in wanted)]


def wait_until(condition: Callable[[], bool], timeout_s: float = 240.0, say: Tuning | None = None) -> None:
    """Poll until the condition holds; where it never does, say what the campaign printed."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s:.0f} s\n{say.account if say else ''}")
        time.sleep(0.1)
