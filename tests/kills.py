"""Campaigns that are killed at random moments until they are complete: what is lost, doubled or left running.

    python -m tests.kills [--simulated 160] [--real 40] [--heats 60] [--seed 0]

*simulated*: the driver is killed (SIGKILL, one time in four SIGTERM, SIGINT or SIGHUP) in all phases; in the
end its journal must tell the same trials and observations as one that was never killed. *real*: a campaign on
``mpirun``; driver, launcher or a rank is killed. *heats*: the same while launches are alive at once, and one
time in four all of them are killed together with their driver. A trial or an observation that is there twice
is *doubled*, one that was in the journal before a kill and is not after it is *lost*, a process of the
campaign that outlives its driver by more than seconds is an *orphan*, as is shared memory that nobody has
open. Exit code 1 where there is any.
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
from hydra_plugins.autotune._guard import SEGMENTS, SHARED, _open_files

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
HEATS = (
    *("conf=allreduce_local", "sizes=[8,8k]", "proposer=random", "budget.launches=3", "probe.budget_s=0.3"),
    *("verify.launches=4", "screening.enabled=false", "export=[json]"),
)
GENTLE = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
HEAT_S = 1.5
"""About what a heat of ``HEATS`` takes from its ranks' first moment on."""
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


def ranks_of(directory: Path) -> dict[int, str]:
    """Ranks of a campaign's launches that are alive: pid → the launch."""
    ranks = {}
    for pid in of_campaign(directory):
        with suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if b"python" in words[0] and b"autotune.probe" in words:
                ranks[pid] = words[words.index(b"autotune.probe") + 1].decode()
    return ranks


def guards(pid: int) -> bool:
    """Whether a process ends what is left of launches."""
    with suppress(OSError):
        return b"_guard.py" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def left_shared(before: set[str]) -> list[str]:
    """Shared memory of MPI libraries and of turns that came since, and that nobody has open."""
    since = {str(path) for prefix in SEGMENTS for path in SHARED.glob(f"{prefix}*")} - before
    return sorted(since - set(_open_files())) if since else []


def strike(pid: int, longest_s: float, rng: random.Random) -> dict[int, str]:
    """Wait for a random moment; the process to kill and its kind, by its pid."""
    time.sleep(rng.uniform(0, longest_s) * rng.random())
    victims = [one for one in family(pid) if lives(one)]
    victim = rng.choice(victims) if victims else pid
    return {victim: "driver" if victim == pid else "launcher or rank"} if victims else {}


def strike_in_heat(pid: int, directory: Path, longest_s: float, rng: random.Random) -> dict[int, str]:
    """Wait for a random moment of a heat; the processes to kill and their kinds, by their pids."""
    while lives(pid):
        if len(set(ranks_of(directory).values())) > 1:
            time.sleep(rng.uniform(0, longest_s))
            ranks = ranks_of(directory)
            if len(set(ranks.values())) > 1:
                kinds = {one: "rank" if one in ranks else "launcher" for one in family(pid) if lives(one)}
                kinds[pid] = "driver"
                kind = rng.choice(("driver", "launcher", "rank", "all"))
                victims = [one for one in kinds if kind in ("all", kinds[one])]
                if kind == "all":  # but for the guards, of which one has to be left (launchers/…/_guard.py)
                    return dict.fromkeys((one for one in victims if not guards(one)), kind)
                if victims:
                    return {rng.choice(victims): kind}
        time.sleep(0.02)
    return {}


def kill_until_complete(
    directory: Path,
    words: tuple[str, ...],
    kills: int,
    longest_s: float,
    rng: random.Random,
    out: Outcome,
    heats: bool = False,
) -> int:
    """Continue a campaign, killed up to so many times, to its end; how many kills it took.

    ``heats``: the kills fall into heats, within so many seconds of their beginning.
    """
    made, shared = 0, {str(path) for path in SHARED.iterdir()}
    while True:
        before, pid = facts(directory), driver(directory, words)
        if made < kills:
            victims = strike_in_heat(pid, directory, longest_s, rng) if heats else strike(pid, longest_s, rng)
            gentle = set(victims) == {pid} and rng.random() < 0.25
            number = rng.choice(GENTLE) if gentle else signal.SIGKILL
            for victim in victims:
                with suppress(ProcessLookupError):
                    os.kill(victim, number)
            if victims:
                made += 1
                out.kills[f"{next(iter(victims.values()))} {number.name}"] += 1
        _, status = os.waitpid(pid, 0)
        after = facts(directory)
        if after and len(after) > len(before):
            out.phases[next(json.loads(e)["phase"] for e in reversed(after) if '"phase"' in e)] += 1
        if before != after[: len(before)]:
            out.faults.append(f"{directory.name}: lost")
        numbers = Counter((e["event"], e.get("number", e.get("trial"))) for e in map(json.loads, after))
        out.faults += [f"{directory.name}: doubled {which}" for which, n in numbers.items() if n > 1]
        deadline = time.monotonic() + PATIENCE_S
        while (left := [*of_campaign(directory), *left_shared(shared)]) and time.monotonic() < deadline:
            time.sleep(0.05)
        out.faults += [f"{directory.name}: orphan {one}" for one in left]
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0:
            out.campaigns += 1
            return made
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 1:
            out.faults.append(f"{directory.name}: exit code 1")
            return made


def hunt(
    folder: Path,
    words: tuple[str, ...],
    kills: int,
    each: int,
    rng: random.Random,
    *,
    same: bool,
    heat_s: float = 0.0,
) -> Outcome:
    """Campaigns one after the other until so many kills were made, each killed up to ``each`` times.

    Args:
        folder: Where they live.
        words: Of each.
        kills: Together.
        each: Of one campaign at most.
        rng: Of moments and victims.
        same: Whether each must tell in the end what one tells that was never killed.
        heat_s: Kill within so many seconds of a heat's beginning alone; 0: at any time.
    """
    out = Outcome()
    started = time.monotonic()
    if not heat_s:
        kill_until_complete(folder / "whole", words, 0, 0, rng, out)
    took_s, whole = time.monotonic() - started, facts(folder / "whole")
    made = 0
    while made < kills and not out.faults:
        directory = folder / f"killed{out.campaigns}"
        most, within_s = min(each, kills - made), heat_s or took_s
        done = kill_until_complete(directory, words, most, within_s, rng, out, heats=heat_s > 0)
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
    words.add_argument("--heats", type=int, default=60)
    words.add_argument("--seed", type=int, default=0)
    asked, faulty = words.parse_args(), False
    for name, line, kills, same, heat_s in (
        ("simulated", SIMULATED, asked.simulated, True, 0.0),
        ("real", REAL, asked.real, False, 0.0),
        ("heats", HEATS, asked.heats, False, HEAT_S),
    ):
        if not kills:
            continue
        with tempfile.TemporaryDirectory() as folder:
            rng = random.Random(asked.seed)
            out = hunt(Path(folder), line, kills, 8, rng, same=same, heat_s=heat_s)
        faulty |= bool(out.faults)
        print(f"{name}: {sum(out.kills.values())} kills, {out.campaigns} campaigns; {dict(out.kills)}")
        print(f"  phases when killed: {dict(out.phases)}")
        print(f"  lost, doubled, orphans, differences: {len(out.faults)}", *out.faults, sep="\n    ")
    return int(faulty)


if __name__ == "__main__":
    sys.exit(main())
