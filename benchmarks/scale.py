"""How a campaign grows: seconds and memory of ``status``, of a resume and of the next launches by trials.

A simulated campaign on eight nodes is run for a few launches; its observations are then repeated at drawn
points, with their times moved by a few per cent, until the journal has so many trials. Each figure is one
command: wall time, in brackets processor time (what the wall time is where nothing else runs), and the
largest resident set. *status* is asked for the first time, again, and while another process writes the
campaign and has added launches. *resume* continues with one more launch that is drawn at random, *propose*
with one that ``curve`` chooses; the difference between the two is the price of a proposal, with the import of
PyTorch. A model costs nothing.

    python benchmarks/scale.py [--trials 32,2000,5000]
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from autotune.campaign.directory import read_campaign
from autotune.history.events import observation_event, started_event, trial_event
from autotune.history.journal import Journal
from autotune.history.trial import Observation, Phase
from autotune.space import Point

ROOT = Path(__file__).parents[1]
ONE_THREAD = {"OMP_NUM_THREADS": "1"}
"""So that processor time says what a quiet machine would take."""


def asked(directory: Path, launches: int, proposer: str) -> list[str]:
    """The words of a campaign with so many launches."""
    return [
        *("conf=allreduce_8node", "hydra/launcher=simulated", "verify.enabled=false", "confirm.share=0"),
        "screening.enabled=false",  # so that every launch after the baseline is the proposer's
        *(f"campaign.dir={directory}", f"budget.launches={launches}", f"proposer={proposer}"),
    ]


def grow(directory: Path, n: int) -> None:
    """A journal of ``n`` trials in place of a directory that does not exist."""
    timed(asked(directory, min(n, 64), "random"))
    campaign = read_campaign(directory)
    rng = np.random.default_rng(n)
    sweeps = [o for o in campaign.history if o.trial.phase is Phase.SEARCH and o.ok]
    with Journal(directory) as journal:
        for number in range(len(campaign.history) + 1, n + 1):
            append(
                journal,
                moved(sweeps[number % len(sweeps)], rng),
                number,
                campaign.about.space.draw(rng, 1)[0],
            )


def append(journal: Journal, observation: Observation, number: int, point: Point) -> None:
    """One more launch."""
    trial = replace(observation.trial, number=number, point=point)
    journal.append(trial_event(trial))
    journal.append(observation_event(replace(observation, trial=trial)))


def while_running(directory: Path) -> str:
    """What ``status`` takes beside a writer that has added launches since it was asked last."""
    campaign = read_campaign(directory)
    last = campaign.history.observations[-1]
    with Journal(directory) as journal:
        journal.append(started_event(os.getpid(), os.uname().nodename))
        for added in range(1, 11):
            append(journal, last, len(campaign.history) + added, last.trial.point)
        return timed(["status", str(directory)])


def proposed(directory: Path, launches: int) -> str:
    """What a resume takes whose one launch ``curve`` chooses.

    Raises:
        SystemExit: something else chose it.
    """
    figures = timed(asked(directory, launches, "curve"))
    if not any(
        "expected to take" in o.trial.note for o in read_campaign(directory).history.observations[-2:]
    ):
        raise SystemExit(f"{directory}: curve proposed nothing")
    return figures


def moved(observation: Observation, rng: np.random.Generator) -> Observation:
    """A launch like this one, slower or faster by some per cent."""
    factor = float(np.exp(rng.normal(0, 0.05)))
    estimates = [replace(e, median_s=e.median_s * factor) for e in observation.estimates]
    return replace(observation, estimates=tuple(estimates))


def timed(words: Sequence[str]) -> str:
    """Wall and processor seconds and peak memory of one command.

    Raises:
        SystemExit: it failed.
    """
    with tempfile.TemporaryFile() as said:
        started, command = time.perf_counter(), [sys.executable, "-m", "autotune", *words]
        child = subprocess.Popen(command, cwd=ROOT, stdout=said, stderr=said, env=os.environ | ONE_THREAD)
        _, status, used = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - started
        if status:
            said.seek(0)
            raise SystemExit(said.read().decode())
    return f"{seconds:.2f} s ({used.ru_utime + used.ru_stime:.2f}), {used.ru_maxrss / 1024:.0f} MiB"


def main() -> None:
    """Print the table."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--trials", default="32,500,2000,5000")
    print("| trials | journal | status, first | again | while it runs | resume | propose (curve) |")
    print("|---:|---:|---:|---:|---:|---:|---:|")
    for n in map(int, words.parse_args().trials.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            directory = Path(folder) / "campaign"
            grow(directory, n)
            size = (directory / "journal.jsonl").stat().st_size / 2**20
            figures = [
                timed(["status", str(directory)]),
                timed(["status", str(directory)]),
                while_running(directory),
                timed(asked(directory, n + 11, "random")),
                proposed(directory, n + 12),
            ]
            print(f"| {n} | {size:.1f} MiB |", " | ".join(figures), "|", flush=True)


if __name__ == "__main__":
    main()
