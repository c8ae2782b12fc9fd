"""Campaigns that are killed at random moments until they are complete: what is lost, doubled or left running.

    python -m tests.kills [--simulated 160] [--real 40] [--seed 0]

*simulated*: the driver is killed (SIGKILL, one time in four SIGTERM, SIGINT or SIGHUP) in all phases; in the
end its journal must tell the same trials and observations as one that was never killed. *real*: a campaign on
``mpirun``; driver, launcher or a rank is killed. A trial or an observation that is there twice is *doubled*,
one that was in the journal before a kill and is not after it is *lost*, a process of the campaign that
outlives its driver by more than seconds is an *orphan*. Exit code 1 where there is any.
"""

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from autotune.cli import main as autotune
from autotune.commands import hydra_bridge, tune
from autotune.history.journal import FILE, read_events

LOADED = (hydra_bridge, tune)
"""What a driver imports late is there before the fork."""

SIMULATED = (
    *("conf=allreduce_8node", "hydra/launcher=simulated", "sizes=[8,8k,1M]", "proposer=random"),
    *("budget.launches=24", "verify.launches=8", "export=[json]"),
)
REAL = (
    *("conf=allreduce_local", "sizes=[8,64k]", "proposer=random", "budget.launches=6", "probe.budget_s=0.3"),
    *("verify.enabled=false", "screening.enabled=false", "export=[json]"),
)
GENTLE = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
PATIENCE_S = 60.0
"""An orphan may take so long to notice that its driver is gone."""


@dataclass
class Outcome:
    """What became of campaigns that were killed."""

    kills: Counter[str] = field(default_factory=Counter)
    """By what was killed."""
    phases: Counter[str] = field(default_factory=Counter)
    """By the phase that the journal was in."""
    campaigns: int = 0
    """That were completed."""
    faults: list[str] = field(default_factory=list)
    """Lost, doubled, orphans, differences, tracebacks, in words."""


def driver(directory: Path, words: tuple[str, ...]) -> int:
    """The pid of a process that runs or continues a campaign: a fork, so that imports take no time."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.setsid()
        said = os.open(directory.with_suffix(".out"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for stream in (1, 2):
            os.dup2(said, stream)
        code = autotune([*words, f"campaign.dir={directory}"])
        sys.stdout.flush()
    finally:
        os._exit(code)


def facts(directory: Path) -> list[str]:
    """Trials and observations of a journal, as text without what only says when."""
    events = read_events(directory) if (directory / FILE).exists() else ()
    return [json.dumps(e, sort_keys=True) for e in events if e["event"] in ("trial", "observation")]


def family(pid: int) -> list[int]:
    """A process and its descendants."""
    found = [pid]
    for one in found:
        for task in Path(f"/proc/{one}/task").glob("*/children"):
            with suppress(OSError):
                found += map(int, task.read_text().split())
    return found


def lives(pid: int) -> bool:
    """Whether it is there, and not only waited for."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def of_campaign(directory: Path) -> list[int]:
    """Processes whose command line names the campaign."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if str(directory).encode() in path.read_bytes():
                found.append(int(path.parent.name))
    return found


def kill_until_complete(
    directory: Path, words: tuple[str, ...], kills: int, longest_s: float, rng: random.Random, out: Outcome
) -> int:
    """Continue a campaign, killed up to so many times, to its end; how many kills it took."""
    made = 0
    while True:
        before, pid = facts(directory), driver(directory, words)
        if made < kills:
            time.sleep(rng.uniform(0, longest_s) * rng.random())
            victims = [one for one in family(pid) if lives(one)]
            if victims:
                victim = rng.choice(victims)
                number = rng.choice(GENTLE) if victim == pid and rng.random() < 0.25 else signal.SIGKILL
                with suppress(ProcessLookupError):
                    os.kill(victim, number)
                    made += 1
                    out.kills[f"{'driver' if victim == pid else 'launcher or rank'} {number.name}"] += 1
        _, status = os.waitpid(pid, 0)
        after = facts(directory)
        if after and len(after) > len(before):
            out.phases[next(json.loads(e)["phase"] for e in reversed(after) if '"phase"' in e)] += 1
        if before != after[: len(before)]:
            out.faults.append(f"{directory.name}: lost")
        numbers = Counter((e["event"], e.get("number", e.get("trial"))) for e in map(json.loads, after))
        out.faults += [f"{directory.name}: doubled {which}" for which, n in numbers.items() if n > 1]
        deadline = time.monotonic() + PATIENCE_S
        while (left := of_campaign(directory)) and time.monotonic() < deadline:
            time.sleep(0.05)
        out.faults += [f"{directory.name}: orphan {pid}" for pid in left]
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0:
            out.campaigns += 1
            return made
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 1:
            out.faults.append(f"{directory.name}: exit code 1")
            return made


def hunt(
    folder: Path, words: tuple[str, ...], kills: int, each: int, rng: random.Random, *, same: bool
) -> Outcome:
    """Campaigns one after the other until so many kills were made, each killed up to ``each`` times.

    Args:
        folder: Where they live.
        words: Of each.
        kills: Together.
        each: Of one campaign at most.
        rng: Of moments and victims.
        same: Whether each must tell in the end what one tells that was never killed.
    """
    out = Outcome()
    started = time.monotonic()
    kill_until_complete(folder / "whole", words, 0, 0, rng, out)
    took_s, whole = time.monotonic() - started, facts(folder / "whole")
    made = 0
    while made < kills and not out.faults:
        directory = folder / f"killed{out.campaigns}"
        done = kill_until_complete(directory, words, min(each, kills - made), took_s, rng, out)
        made += done
        if same and facts(directory) != whole:
            out.faults.append(f"{directory.name}: other trials or observations than without kills")
        said = directory.with_suffix(".out").read_text(errors="replace")
        if "Traceback" in said:
            out.faults.append(f"{directory.name}: a traceback: {said[-2000:]}")
    return out


def main() -> int:
    """Kill, and print what became of it."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--simulated", type=int, default=160)
    words.add_argument("--real", type=int, default=40)
    words.add_argument("--seed", type=int, default=0)
    asked, faulty = words.parse_args(), False
    for name, line, kills, same in (
        ("simulated", SIMULATED, asked.simulated, True),
        ("real", REAL, asked.real, False),
    ):
        if not kills:
            continue
        with tempfile.TemporaryDirectory() as folder:
            out = hunt(Path(folder), line, kills, 8, random.Random(asked.seed), same=same)
        faulty |= bool(out.faults)
        print(f"{name}: {sum(out.kills.values())} kills, {out.campaigns} campaigns; {dict(out.kills)}")
        print(f"  phases when killed: {dict(out.phases)}")
        print(f"  lost, doubled, orphans, differences: {len(out.faults)}", *out.faults, sep="\n    ")
    return int(faulty)


if __name__ == "__main__":
    sys.exit(main())
