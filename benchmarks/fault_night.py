"""What a night of faults costs: a campaign of 400 trials on a well simulated cluster and on a sick one.

On the sick one 5 % of the launches hang, 5 % crash and 2 % give a wrong result in a cell, and the campaign is
killed (SIGKILL) after every 20 trials and started again. What either ends with, verified, is priced by the
noise-free model; printed is by how much the sick night's is slower, in the geometric mean of the objectives.

    python benchmarks/fault_night.py [--seeds 10] [--first 0] [--launches 400] [--every 20]
"""

import argparse
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from simulated_optimum import SPACE, cost

from autotune.campaign.directory import read_campaign
from autotune.history.journal import FILE

FAULTS = ("simulate.faults.hang=0.05", "simulate.faults.crash=0.05", "simulate.faults.wrong_result=0.02")


def night(directory: Path, seed: int, launches: int, faults: tuple[str, ...], every: int) -> str:
    """Run a campaign to its end, killed after each so many trials (0: never); what became of them."""
    words = [f"seed={seed}", f"budget.launches={launches}", f"campaign.dir={directory}", "export=[]", *faults]
    command = [sys.executable, "-m", "autotune", "conf=allreduce_8node", "hydra/launcher=simulated", *words]
    started, kills, returned = time.monotonic(), 0, -signal.SIGKILL
    while returned == -signal.SIGKILL:
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        child = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL)
        limit = observed(directory) + every
        while every and child.poll() is None:
            time.sleep(0.1)
            if observed(directory) >= limit:
                child.kill()
                kills += 1
                break
        returned = child.wait()
    if returned:
        raise RuntimeError(f"{directory}: exit code {returned}")
    history = read_campaign(directory).history
    again = [o.ok for o in history if o.trial.repeats]
    return (
        f"{dict(Counter(o.status.value for o in history))}, {len(again)} made again ({sum(again)} well), "
        f"{kills} kills, {time.monotonic() - started:.0f} s"
    )


def observed(directory: Path) -> int:
    """Trials that were observed so far."""
    journal = directory / FILE
    return journal.read_bytes().count(b'{"event":"observation"') if journal.exists() else 0


def price(directory: Path) -> float:
    """Of what a campaign ends with: mean over the objectives of the logarithm of their true value."""
    return cost(SPACE.complete(read_campaign(directory).recommended().point))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--launches", type=int, default=400)
    parser.add_argument("--every", type=int, default=20)
    options = parser.parse_args()
    excesses = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(options.first, options.first + options.seeds):
            clean, sick = Path(folder) / f"{seed}-clean", Path(folder) / f"{seed}-sick"
            print(f"seed {seed}: clean {night(clean, seed, options.launches, (), 0)}", flush=True)
            said = night(sick, seed, options.launches, FAULTS, options.every)
            excesses.append(math.expm1(price(sick) - price(clean)))
            print(f"seed {seed}: sick  {said}\nseed {seed}: {excesses[-1]:+.2%}", flush=True)
    within = sum(excess <= 0.02 for excess in excesses)
    print(f"worst {max(excesses):+.2%}, within 2 % in {within} of {len(excesses)} seeds")


if __name__ == "__main__":
    main()
