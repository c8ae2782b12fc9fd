"""Halo codes with the files that were tuned for them: what these were predicted to save of a run, and saved.

    python -m benchmarks.halo_applications [CASE …] [--comd SOURCES] [--rows rows.json] [--write TABLE.md]

Each is recorded five times, tuned for by ``conf=application`` and proved by ``verify --app``, on two ranks.
``own`` is ``halo.c`` beside this, ``comd`` the proxy application of a public repository, which is fetched and
built here, or built from ``--comd``; ``lammps`` is Debian's, on its Open MPI. ``-slow`` cases start from
settings that a user's own files made slow, ``-heap`` ones never give back their heap. A row is kept
in ``--rows`` and replaced when measured again.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from autotune.application.documents import read_calls
from autotune.application.verbs.verify import RESULT
from autotune.errors import UserError

HERE = Path(__file__).parent
BIN = Path(sys.executable).parent
COMD, COMMIT = "https://github.com/ECP-copa/CoMD", "3d48396b77ca8caa3124bc2391f9139c3ffb556c"
RENDEZVOUS = {
    ".openmpi/mca-params.conf": "pml = ucx\nopal_common_ucx_tls = any\nopal_common_ucx_devices = any\n",
    "ucx.conf": "UCX_RNDV_THRESH=0\n",
}
"""A user's own files, by which the smallest message waits for a handshake."""
TCP = {".openmpi/mca-params.conf": "btl = self,tcp\n"}
HEAP = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_")
UCX = ("fix.pml=ucx", "fix.UCX_TLS=all")
"""Beside the former: what is set there by another file than the campaign's is no level of a parameter."""


@dataclass(frozen=True)
class Case:
    """An application under settings."""

    said: str  # What it is, and from what it starts.
    build: Callable[[Path, Path | None], list[str]]
    """Its command, made in a folder out of sources, if any were given."""
    files: dict[str, str]  # A user's own, below HOME.
    words: tuple[str, ...] = ()  # For ``tune``.
    env: tuple[str, ...] = ()  # Variables of all that runs, which get 64 MiB.


def own(width: int, steps: int) -> Callable[[Path, Path | None], list[str]]:
    """The code beside this, with messages of so many doubles."""

    def build(folder: Path, _: Path | None) -> list[str]:
        subprocess.run([BIN / "mpicc", "-O2", HERE / "halo.c", "-o", folder / "halo"], check=True)
        return ["mpirun", "-n", "2", str(folder / "halo"), str(width), "8", str(steps)]

    return build


def comd(folder: Path, sources: Path | None) -> list[str]:
    """The proxy application for molecular dynamics, with as few atoms as its cells allow: copper at 600 K."""
    tree = folder / "CoMD"
    if sources is None:
        subprocess.run(["git", "clone", "--quiet", COMD, tree], check=True)
        subprocess.run(["git", "-C", tree, "checkout", "--quiet", COMMIT], check=True)
    else:
        shutil.copytree(sources, tree)
    make = tree / "src-mpi/Makefile"
    shutil.copy(tree / "src-mpi/Makefile.vanilla", make)
    words = ["make", "--quiet", "-C", str(make.parent), f"CC={BIN / 'mpicc'} -w"]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    size = "-i 2 -j 1 -k 1 -x 8 -y 4 -z 4 --nSteps 2500 --printRate 2500"
    return ["mpirun", "-n", "2", str(tree / "bin/CoMD-mpi"), *size.split()]


def lammps(folder: Path, _: Path | None) -> list[str]:
    """Debian's, with the melt of its examples, of 512 atoms."""
    text = (HERE.parent / "tests/data/applications/melt.in").read_text(encoding="utf-8")
    melt = folder / "melt.in"
    melt.write_text(text.replace("0 12 0 12 0 12", "0 8 0 4 0 4").replace("run 400", "run 10000"))
    return ["mpirun.openmpi", "-n", "2", "lmp", "-in", str(melt)]


CASES = {
    "own": Case("`halo.c`, 1 KiB, as it is here", own(128, 400_000), {}),
    "own-8k": Case("`halo.c`, 8 KiB, as it is here", own(1024, 100_000), {}),
    "own-slow": Case("`halo.c`, 128 B, `UCX_RNDV_THRESH=0`", own(16, 100_000), RENDEZVOUS, UCX),
    "comd": Case("CoMD, as it is here", comd, {}, ("--anyway",)),
    "comd-heap": Case("CoMD, heap kept", comd, {}, ("--anyway",), HEAP),
    "comd-slow": Case("CoMD, `btl=self,tcp`", comd, TCP, ("--anyway",)),
    "comd-slow-heap": Case("CoMD, `btl=self,tcp`, heap kept", comd, TCP, ("--anyway",), HEAP),
    "lammps": Case("LAMMPS, as it is here", lammps, {}, ("--anyway",)),
    "lammps-slow": Case("LAMMPS, `btl=self,tcp`", lammps, TCP, ("--anyway",)),
}


def measured(case: Case, sources: Path | None, seconds: float, launches: int) -> dict[str, Any]:
    """The row of a case: its document of ``verify --app``, with the share of MPI in its time."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        home = place / "home"
        home.mkdir()
        for path, text in case.files.items():
            (home / path).parent.mkdir(exist_ok=True)
            (home / path).write_text(text, encoding="utf-8")
        command = case.build(place, sources)
        root = dict.fromkeys(("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"), "1")
        paths = {"HOME": str(home), "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
        env = {**os.environ, **root, **paths, "OMP_NUM_THREADS": "1"} | dict.fromkeys(case.env, f"{64 << 20}")

        def autotune(*words: str, ends: tuple[int, ...] = (0,)) -> str:
            argv = [sys.executable, "-m", "autotune", *words]
            done = subprocess.run(argv, cwd=place, env=env, stdout=subprocess.PIPE, text=True)
            sys.stderr.write(done.stdout)
            if done.returncode not in ends:
                raise UserError(f"{' '.join(words)} ended with exit code {done.returncode}")
            return done.stdout

        autotune("record", "--runs", "5", "--", *command)
        recorded = read_calls(place / "calls.json")
        words = ("conf=application", "calls=calls.json", "campaign.dir=campaign", "seed=1", *case.words)
        limits = (f"budget.total_seconds={seconds:g}", "budget.launches=30", "verify.max_loss=0.2")
        autotune("tune", *words, *limits, ends=(0, 1))
        try:
            autotune("verify", "campaign", "--app", "--launches", str(launches), "--", *command, ends=(0, 1))
        except UserError as exc:
            return {"said": case.said, "nothing": str(exc)}
        (kept,) = (place / "campaign/verifications").glob(f"application-*/{RESULT}")
        document: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
    mpi = sum(recorded.families_s.values()) / recorded.run_s
    return {**document, "verdict": document["said"], "said": case.said, "mpi": mpi}


def table(rows: dict[str, dict[str, Any]]) -> str:
    """The rows in Markdown."""
    lines = ["| application | in MPI | predicted | measured | page faults | |", "|---|---|---|---|---|---|"]
    for row in rows.values():
        if "nothing" in row:
            lines.append(f"| {row['said']} | | | | | the campaign found nothing better |")
            continue
        shares = [_span(row[f"{side}_share"]) for side in ("predicted", "measured")]
        faults = f"{100 * row['page_faults_share']:.1f} %" if row.get("page_faults_share") else ""
        ends = f"{row['verdict']}, {row['agreement']}"
        lines.append(f"| {row['said']} | {row['mpi']:.0%} | {' | '.join(shares)} | {faults} | {ends} |")
    head = (
        "# Halo codes with their files\n\nShare of a run that the tuned files save, two ranks on a virtual\n"
        f"machine with two cores (Intel Xeon), {date.today():%d %B %Y}, `benchmarks/halo_applications.py`.\n"
        "Messages are predicted with what they wait, which files may or may not save: their\n"
        "interval begins at 0.\n\n"
    )
    return head + "\n".join(lines) + "\n"


def _span(ends: list[float | None]) -> str:
    """Per cent with its interval; None: an open end."""
    value, low, high = (None if end is None else f"{round(100 * end, 1) + 0.0}" for end in ends)
    return f"{value} % ({low or '−∞'} … {high or '∞'})"


def main() -> None:
    """Measure, keep and write."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    asked.add_argument("cases", nargs="*", choices=[[], *CASES], default=[])
    asked.add_argument("--comd", type=Path, help="a tree of CoMD's sources")
    asked.add_argument("--rows", type=Path, default=Path("rows.json"))
    asked.add_argument("--write", type=Path)
    asked.add_argument("--seconds", type=float, default=90.0, help="of a campaign")
    asked.add_argument("--launches", type=int, default=24, help="of a proof, at most")
    its = asked.parse_args()
    rows = json.loads(its.rows.read_text(encoding="utf-8")) if its.rows.exists() else {}
    for name in its.cases:
        rows[name] = measured(CASES[name], its.comd, its.seconds, its.launches)
        its.rows.write_text(json.dumps(rows), encoding="utf-8")
    text = table(rows)
    if its.write:
        its.write.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
