"""mpi4py's own test suite as it is, and with another algorithm at each call: what fails in addition.

    python -m tests.suites [--ranks 2 4] [--modules REGEX] [--stacks OPENMPI41 ...]

The suite is that of the source archive of the mpi4py which is pinned here, fetched by pip. It runs on the MPI
of this environment and on those of AUTOTUNE_PYTHON_OPENMPI41 and AUTOTUNE_PYTHON_MPICH where these are set.
Exit code 1 where a test fails under ``AUTOTUNE_RUN_MODE=random`` alone, where one of both does not come to
its end, or where nothing was switched.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.integration.mpirun import CROWDED, ROOT, YIELDING, launcher, python_of

STACKS = ("", "OPENMPI41", "MPICH")
ON_EACH = pytest.mark.parametrize(
    "name",
    [
        pytest.param("", marks=pytest.mark.mpi),
        pytest.param("OPENMPI41", marks=pytest.mark.mpi41),
        pytest.param("MPICH", marks=pytest.mark.mpich),
    ],
)
"""A test on each of them."""
OPENMPI = [
    pytest.param("", marks=pytest.mark.mpi, id="5"),
    pytest.param("OPENMPI41", marks=pytest.mark.mpi41, id="4.1"),
]
"""Of a fixture or a test on Open MPI 5 and 4.1."""
SERIALIZED = {"MPI4PY_RC_THREAD_LEVEL": "serialized"}
"""With its default, MPI_THREAD_MULTIPLE, nothing is switched."""
_FAILED = re.compile(r"(?m)^(?:FAIL|ERROR): (\w+ \([\w.]+\))")  # another rank's words may follow on the line
_RAN = re.compile(r"(?m)^Ran (\d+) tests")


@dataclass(frozen=True)
class Outcome:
    """How the suite ended on all ranks."""

    ran: int
    failed: frozenset[str]
    code: int
    calls: int = 0
    """That could be switched, on rank 0 of each communicator."""
    said: str = ""
    """Its last lines."""


def fetched(folder: Path) -> Path:
    """The unpacked source archive of mpi4py."""
    wanted = f"mpi4py=={version('mpi4py')}"
    words = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary=mpi4py"]
    subprocess.run([*words, "--dest", str(folder), wanted], check=True)
    (archive,) = folder.glob("mpi4py-*.tar.gz")
    with tarfile.open(archive) as packed:
        safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # from Python 3.11.4 on
        packed.extractall(folder, **safe)  # noqa: S202
    return folder / archive.name.removesuffix(".tar.gz")


def outcome(suite: Path, python: str, ranks: int, modules: str, switched: bool) -> Outcome:
    """Run the suite's modules whose names match."""
    options = CROWDED if "mpich" not in launcher(python) else ()
    program = [python, "test/main.py", "--quiet", *(["-i", modules] if modules else [])]
    argv = [launcher(python), "-n", str(ranks), *options, *program]
    environment = {**os.environ, **ROOT, **SERIALIZED, **YIELDING, "AUTOTUNE_RUN_MODE": "random"}
    document = suite / "run.json"
    if switched:
        verb = ["run", "--reductions", "--out", str(document), "--"]
        argv = [sys.executable, "-m", "autotune", *verb, *argv]
    done = subprocess.run(argv, cwd=suite, env=environment, capture_output=True, check=False)
    said = (done.stdout + done.stderr).decode(errors="replace")
    cells = json.loads(document.read_text())["cells"] if switched else []
    ran = min([int(n) for n in _RAN.findall(said)], default=0)
    calls = sum(c["calls"] for c in cells)
    return Outcome(ran, frozenset(_FAILED.findall(said)), done.returncode, calls, said[-2000:])


def main() -> int:
    """Compare, and say what came out."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--modules", default="")
    parser.add_argument("--stacks", nargs="+", choices=STACKS, default=STACKS)
    asked = parser.parse_args()
    worse = False
    with tempfile.TemporaryDirectory() as folder:
        suite = fetched(Path(folder))
        for name in asked.stacks:
            here = not name or f"AUTOTUNE_PYTHON_{name}" in os.environ
            for ranks in asked.ranks if here else ():
                plain = outcome(suite, python_of(name), ranks, asked.modules, switched=False)
                other = outcome(suite, python_of(name), ranks, asked.modules, switched=True)
                more = other.failed - plain.failed
                worse |= bool(more) or other.ran != plain.ran or not other.calls
                sys.stdout.write(
                    f"{name or 'this MPI'}, {ranks} ranks: {plain.ran} tests, {len(plain.failed)} fail; "
                    f"switched {other.ran}, {len(other.failed)} fail, {other.calls:,} calls\n"
                    + "".join(f"  only when switched: {one}\n" for one in sorted(more))
                    + "".join(one.said for one in (plain, other) if not one.ran)
                )
                sys.stdout.flush()
    return int(worse)


if __name__ == "__main__":
    sys.exit(main())
