"""Public test programs of MPICH and Open MPI as they are, and with another algorithm at each call.

    python -m tests.programs FOLDER ... [--ranks 2 4] [--stacks OPENMPI41 ...] [--only REGEX]

A FOLDER is in a checkout of ``github.com/pmodels/mpich`` (``test/mpi/coll``; Debian's source package has
it, too, which ``.ci/run`` unpacks), of ``open-mpi/ompi`` (``test/simple``) or of
``open-mpi/ompi-tests-public``. Its C programs that call what is switched are compiled
by the MPI of this environment and by the others of ``tests.suites``. Exit code 1 where one that ends well
fails or says something else under ``AUTOTUNE_RUN_MODE=random`` (numbers aside), or nothing was switched.
"""

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from autotune.application.verbs.run import MODE, events
from autotune.stacks.application import RUN_FOLDER, installation_of, preload, recording
from autotune.stacks.switched import SWITCHED, offers, plan, unlocked
from tests.integration.mpirun import CROWDED, ROOT, YIELDING, launcher, python_of
from tests.suites import STACKS

_CALLS = re.compile(rf"\bM(?:PI|Test)_(?:{'|'.join(name.capitalize() for name in SWITCHED)})\b")
_NUMBERS = re.compile(r"0x[0-9a-f]+|\d+(\.\d+)?(e[-+]\d+)?")
_HAS = (
    *("STDIO_H", "STDLIB_H", "STDINT_H", "STDARG_H", "STRING_H", "UNISTD_H", "SYS_TIME_H", "SYS_RESOURCE_H"),
    *("LONG_LONG", "LONG_DOUBLE", "FLOAT__COMPLEX", "DOUBLE__COMPLEX", "LONG_DOUBLE__COMPLEX", "_BOOL"),
    *("GETRUSAGE", "MPI_WIN_CREATE", "MPI_IO"),
)
_THREADS = ("PACKAGE_NONE 1", "PACKAGE_POSIX 2", "PACKAGE_NAME THREAD_PACKAGE_POSIX")
_HEADERS = {
    "mpitestconf.h": "".join(
        [f"#define HAVE_{name} 1\n" for name in _HAS] + [f"#define THREAD_{name}\n" for name in _THREADS]
    ),
    "dtpoolsconf.h": "",
    "mtest_mpix.h": "",
}
"""What MPICH's configure would find out."""
_PARTS = ("mtest_common", "dtypes", "mtest", "mtest_single")
_CPU_S, _LIMIT_S = 60, 900
"""Of a process that waits in a loop, and of one that sleeps."""


@dataclass(frozen=True)
class Program:
    """A compiled program and its arguments."""

    name: str
    argv: tuple[str, ...]


def chosen(folders: Iterable[Path], only: str) -> dict[Path, tuple[str, ...]]:
    """Sources that call what is switched → arguments, of the first line of MPICH's list of tests."""
    found = {}
    for source in (one for folder in folders for one in sorted(folder.rglob("*.c"))):
        text = source.read_text(errors="replace")
        if _CALLS.search(text) and re.search(r"\bmain\(|\brun\(const", text) and re.search(only, str(source)):
            lists = [one.read_text() for one in source.parent.glob("testlist*")]
            line = re.search(rf"(?m)^{re.escape(source.stem)} .*$", "\n".join(lists))
            found[source] = tuple(re.findall(r"arg=(\S+)", line[0] if line else ""))
    return found


def built(sources: Mapping[Path, tuple[str, ...]], python: str, to: Path, jobs: int) -> list[Program]:
    """Compile what this MPI's compiler takes."""
    (to / "include").mkdir()  # dtpools includes its header from above it
    for name, text in _HEADERS.items():
        (to / name).write_text(text)
    mpicc = [Path(python).with_name("mpicc"), "-w", "-g", "-O1", "-DTEST_UNIFORM_COUNT=70001"]
    mpicc += [f"-I{to}", f"-I{to}/include"]
    top = next(
        (one for path in sources for one in path.parents if (one / "include/mpitest.h").exists()), None
    )
    harness: list[Path] = []
    if top:
        mpicc += [f"-I{top}/include", f"-I{top}/dtpools/include"]
        parts = [*(top / f"util/{name}.c" for name in _PARTS), *(top / "dtpools/src").glob("*.c")]
        subprocess.run([*mpicc, "-c", *parts], cwd=to, check=True)
        harness = [to / f"{part.stem}.o" for part in parts]

    def one(item: tuple[Path, tuple[str, ...]]) -> Program | None:
        source, arguments = item
        text, out = source.read_text(errors="replace"), to / f"{source.parent.name}-{source.stem}"
        with_main = [top / "util/run_mpitests.c"] if top and "run(const" in text else []
        own = [*with_main, *harness] if '"mpitest.h"' in text else []
        argv = [*mpicc, "-o", out, source, *own, "-lm", "-lpthread"]
        if subprocess.run(argv, capture_output=True, check=False).returncode:
            return None
        return Program(f"{source.parent.name}/{source.stem}", (str(out), *arguments))

    with ThreadPoolExecutor(jobs) as pool:
        return [made for made in pool.map(one, sources.items()) if made]


@dataclass(frozen=True)
class Outcome:
    """How a program ended."""

    code: int
    said: tuple[str, ...]
    calls: int = 0
    """That were switched, on rank 0 of each communicator."""


def outcome(program: Program, python: str, ranks: int, switched: bool) -> Outcome:
    """Run a program, by MPI alone or switched as ``run --reductions`` does."""
    installation = installation_of([launcher(python)])
    options = CROWDED if installation.flavour == "openmpi" else ()
    limited = ["sh", "-c", f'ulimit -t {_CPU_S} -c 0; exec "$@"', "sh"]
    argv = [*limited, launcher(python), "-n", str(ranks), *options, *program.argv]
    with tempfile.TemporaryDirectory() as name:
        folder, environment = Path(name), {**os.environ, **ROOT, **YIELDING}
        if switched:
            (folder / "plan").write_text(plan(offers(installation), 0.005, False, True, ()))
            library = preload(installation, folder, "switcher")
            environment |= {**recording(library, folder, RUN_FOLDER), MODE: "random"}
            environment |= unlocked(installation)
        try:
            done = subprocess.run(
                argv,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=_LIMIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Outcome(-1, ("it does not end",))
        said = _NUMBERS.sub("N", done.stdout.decode(errors="replace"))
        calls = sum(cell.calls for cell in events(path.read_text() for path in folder.glob("*.run")).cells)
        return Outcome(done.returncode, tuple(sorted(said.splitlines())), calls)


def compared(
    programs: Iterable[Program], python: str, ranks: int, jobs: int
) -> dict[Program, tuple[Outcome, Outcome]]:
    """Program → its outcome untouched and switched."""
    with ThreadPoolExecutor(jobs) as pool:
        both = {
            one: [pool.submit(outcome, one, python, ranks, switched) for switched in (False, True)]
            for one in programs
        }
        return {one: (a.result(), b.result()) for one, (a, b) in both.items()}


def differs(pair: tuple[Outcome, Outcome]) -> bool:
    """Whether a program that ends well does not when it is switched, or says something else."""
    plain, other = pair
    return not plain.code and (other.code != 0 or plain.said != other.said)


def main() -> int:
    """Compare, and say what came out."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--stacks", nargs="+", choices=STACKS, default=STACKS)
    parser.add_argument("--only", default="")
    asked = parser.parse_args()
    sources, jobs, worse = chosen(asked.folders, asked.only), os.cpu_count() or 1, False
    for name in asked.stacks:
        if name and f"AUTOTUNE_PYTHON_{name}" not in os.environ:
            continue
        python = python_of(name)
        with tempfile.TemporaryDirectory() as folder:
            programs = built(sources, python, Path(folder), jobs)
            for ranks in asked.ranks:
                pairs = compared(programs, python, ranks, jobs)
                calls = sum(b.calls for _, b in pairs.values())
                sys.stdout.write(
                    f"{name or 'this MPI'}, {ranks} ranks: {len(programs)} of {len(sources)} programs, "
                    f"{sum(a.code != 0 for a, _ in pairs.values())} fail; "
                    f"switched {sum(b.code != 0 for _, b in pairs.values())}, {calls:,} calls\n"
                )
                for program, (a, b) in pairs.items():
                    if differs((a, b)):
                        worse = True
                        words = shlex.join([program.name, *program.argv[1:]])
                        sys.stdout.write(f"  {words}: {a.code} {[*a.said][:3]}, {b.code} {[*b.said][:3]}\n")
                worse |= not calls
                sys.stdout.flush()
    return int(worse)


if __name__ == "__main__":
    sys.exit(main())
