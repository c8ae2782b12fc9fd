"""Launches of ``program.py`` under a stack, with algorithms forced as the project forces them."""

import contextlib
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from autotune.collectives import COLLECTIVES
from autotune.stacks import coll_tuned, mpich
from autotune.stacks.installation import find
from autotune.stacks.knobs import openmpi
from autotune.stacks.knobs.knob import Knob
from autotune.stacks.knobs.mpich import read
from tests.integration.mpirun import CROWDED, ROOT, launcher

PROGRAM = Path(__file__).with_name("program.py")
STACKS = ("", "OPENMPI41", "MPICH", "INTEL")  # As in AUTOTUNE_PYTHON_*; empty: of this interpreter.
SILENT_S = 20.0  # After which a launch that writes nothing hangs.
MOST_STOPS = 2  # Launches that a collective may end or stop; what comes behind need not be known then.
SEGMENT_BYTES = 8192  # One of those in the shipped spaces.

FORCED = (
    *("allreduce", "reduce", "bcast", "allgather", "allgatherv", "alltoall", "alltoallv", "gather"),
    *("scatter", "reduce_scatter", "reduce_scatter_block", "barrier", "scan", "exscan"),
    *("iallreduce", "ireduce", "ibcast", "iallgather", "iscan", "iexscan"),
)
"""Collectives with algorithms in some stack; the last ones do not block: coll_libnbc of Open MPI has some."""

CHOICES = {"posix": (1, 2), "composition": (1, 2)}
CHOICES |= {"device": (1,), "adapt": (1,), "component": (1,), "intranode": (1,)}
"""What other variables than those of the algorithms choose → numbers of nodes into which MPICH divides the
ranks: MPICH's, as ``mpich.chosen_by`` names them, since it composes collectives inside and between nodes;
Open MPI's components sm and adapt; Intel MPI's way within a node."""

NODES = (1, 2)

Cell = tuple[str, str]  # A collective and a case.


@dataclass(frozen=True)
class Forced:
    """An algorithm as it is forced; an empty name is the untouched library."""

    collective: str
    algorithm: str = ""
    segment_bytes: int = 0
    choice: str = ""  # What the variable chooses, where it is not the algorithm proper: ``posix``, …
    nodes: int = 1  # Into how many nodes MPICH is told to divide the ranks of this machine.

    @property
    def row(self) -> str:
        """The row of the table: the collective, and what is chosen."""
        return f"{self.collective} {self.choice}".rstrip()

    @property
    def title(self) -> str:
        """In words."""
        cut = f" in segments of {self.segment_bytes} bytes" if self.segment_bytes else ""
        chosen = f"{self.choice} {self.algorithm}".strip()
        return f"{chosen}{cut}{self.place}"

    @property
    def place(self) -> str:
        """Where, if not on a single node."""
        return f", {self.nodes} nodes" if self.nodes > 1 else ""


class Stack:
    """An MPI whose algorithms are checked."""

    def __init__(self, python: str) -> None:
        beside = Path(python).with_name("mpiexec")  # Intel's mpirun wants it in PATH
        self.python, self.mpirun = python, str(beside) if beside.exists() else launcher(python)
        installation = find(self.mpirun)
        self.flavour, self.version = installation.flavour, installation.version
        self.library, self.named = str(installation.library), f"{self.flavour} {self.version}"

    def forcible(self, collective: str) -> list[Forced]:
        """What can be forced here."""
        if collective.startswith("i"):
            return [Forced(collective, name) for name in self._nonblocking.get(collective, ())]
        known = COLLECTIVES[collective]
        if self.flavour == "openmpi" and known.openmpi and known.openmpi.algorithms:
            major, minor = (int(part) for part in self.version.split(".")[:2])
            names = coll_tuned.algorithms(collective, (major, minor))[1:]
            cut = coll_tuned.SEGMENTED.get(collective, ())
            return [
                *(Forced(collective, name) for name in names),
                *(Forced(collective, name, SEGMENT_BYTES) for name in names if name in cut),
            ]
        if self.flavour == "mpich" and known.mpich:
            return [Forced(collective, name) for name in mpich.algorithms(collective)[1:]]
        if self.flavour == "intelmpi":
            return [Forced(collective, name) for name in known.intel]
        return []

    @cached_property
    def _knobs(self) -> tuple[Knob, ...]:
        """All variables that the library declares."""
        if self.flavour == "mpich":
            return read(Path(self.library))
        return openmpi.read(Path(self.mpirun)) if self.flavour == "openmpi" else ()

    @cached_property
    def _nonblocking(self) -> Mapping[str, tuple[str, ...]]:
        """Collective that does not block → algorithms of Open MPI's coll_libnbc, as it declares them."""
        named = ((re.fullmatch(r"coll_libnbc_(\w+)_algorithm", k.name), k.allowed) for k in self._knobs)
        return {match[1]: tuple(v for v in words if v != "ignore") for match, words in named if match}

    @cached_property
    def _declared(self) -> Mapping[tuple[str, str], tuple[str, tuple[str, ...]]]:
        """(collective, choice) → a variable beside the algorithms, and its values in the library's words."""
        if self.flavour == "intelmpi":
            by_default = "I_MPI_COLL_INTRANODE", ("pt2pt",)
            return {(c, "intranode"): by_default for c, known in COLLECTIVES.items() if known.intel}
        values: dict[tuple[str, str], tuple[str, tuple[str, ...]]] = {}
        for knob in self._knobs:
            collective, choice = mpich.chosen_by(knob.name)
            if choice in CHOICES:
                words = tuple(v for v in knob.allowed if v not in mpich.OWN[choice])
                values[collective, choice] = knob.name, words
            if match := re.fullmatch(r"coll_adapt_(\w+)_algorithm", knob.name):
                values[match[1], "adapt"] = knob.name, tuple(re.findall(r"\b([1-9]): ", knob.documentation))
            if knob.name == "coll_sm_priority":
                for name in ("allreduce", "reduce", "bcast", "barrier"):
                    values[name, "component"] = knob.name, ("sm",)
        return values

    def chosen(self, collective: str, choice: str) -> list[Forced]:
        """What else chooses how a collective that blocks runs: within a node, and over several of them."""
        if collective.startswith("i"):
            return []
        _, names = self._declared.get((collective, choice), ("", ()))
        return [Forced(collective, name, 0, choice, nodes) for nodes in CHOICES[choice] for name in names]

    def listed(
        self, choices: Iterable[str] = ("", *CHOICES), collectives: Iterable[str] = FORCED
    ) -> list[Forced]:
        """All that can be forced here."""
        return [
            one
            for choice in choices
            for collective in collectives
            for one in (self.chosen(collective, choice) if choice else self.forcible(collective))
        ]

    def variables(self, forced: Forced) -> dict[str, str]:
        """The words that force it."""
        divided = {"MPIR_CVAR_NUM_CLIQUES": str(forced.nodes), "MPIR_CVAR_CLIQUES_BY_BLOCK": "1"}
        divided = divided if forced.nodes > 1 else {}
        if not forced.algorithm:
            return divided
        if forced.choice:
            variable, _ = self._declared[forced.collective, forced.choice]
            if forced.choice == "component":
                return {f"OMPI_MCA_{variable}": "95"}
            if forced.choice == "adapt":
                return {"OMPI_MCA_coll_adapt_priority": "90", f"OMPI_MCA_{variable}": forced.algorithm}
            # The library counts some calls before it takes its shared memory: here all calls are checked.
            uncounted = {"MPIR_CVAR_POSIX_NUM_COLLS_THRESHOLD": "0"} if self.flavour == "mpich" else {}
            return {**uncounted, variable: forced.algorithm, **divided}
        name, algorithm = forced.collective, forced.algorithm
        if name.startswith("i"):
            return {f"OMPI_MCA_coll_libnbc_{name}_algorithm": algorithm}
        if self.flavour == "openmpi":
            prefix = f"OMPI_MCA_coll_tuned_{name}_algorithm"
            return {
                "OMPI_MCA_coll_tuned_use_dynamic_rules": "1",
                prefix: str(coll_tuned.algorithm_id(name, algorithm)),
                **({f"{prefix}_segmentsize": str(forced.segment_bytes)} if forced.segment_bytes else {}),
            }
        if self.flavour == "mpich":
            word = mpich.check(name, algorithm)
            return {"MPIR_CVAR_DEVICE_COLLECTIVES": "none", f"MPIR_CVAR_{name.upper()}_INTRA_ALGORITHM": word}
        return {f"I_MPI_ADJUST_{name.upper()}": str(mpich.intel_id(name, algorithm))}

    def environment(self) -> dict[str, str]:
        """Of every launch: more ranks than cores yield, and a wheel finds itself."""
        from autotune.stacks import dialect

        own = dialect(self.flavour).surroundings(Path(self.mpirun))
        quiet = {k: v for k, v in own.items() if k not in ("I_MPI_DEBUG", "MPIR_CVAR_DEBUG_SUMMARY")}
        yielding = {
            "openmpi": {},
            "mpich": {"MPIR_CVAR_ENABLE_HEAVY_YIELD": "1"},
            "intelmpi": {"I_MPI_FABRICS": "shm", "I_MPI_THREAD_YIELD": "2", "I_MPI_PIN": "0"},
        }
        return {**os.environ, **ROOT, **quiet, **yielding[self.flavour], "MPI4PY_LIBMPI": self.library}


@dataclass
class Ended:
    """One launch."""

    faults: dict[Cell, str]
    called: set[Cell]
    done: set[str]


def launch(stack: Stack, ranks: int, forced: Iterable[Forced], skip: Iterable[Cell] = ()) -> Ended:
    """Call all cases of these collectives, up to the first that ends or stops the launch."""
    forced = list(forced)
    environment = stack.environment()
    for one in forced:
        environment |= stack.variables(one)
    request = {"collectives": [one.collective for one in forced], "skip": sorted(skip)}
    with tempfile.TemporaryDirectory() as folder:
        options = CROWDED if stack.flavour == "openmpi" else ()
        words = [stack.mpirun, "-n", str(ranks), *options, stack.python, str(PROGRAM)]
        log = Path(folder) / "log"
        with log.open("wb") as said:
            process = subprocess.Popen(
                [*words, folder, json.dumps(request)],
                env=environment,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            hung = _waited(process, Path(folder))
        return _ended(Path(folder), ranks, "" if hung else log.read_text(errors="replace"), hung)


def _waited(process: subprocess.Popen[bytes], folder: Path) -> bool:
    """Wait for the launch; whether it was ended because nothing came any more."""
    size, since = -1, time.monotonic()
    while True:
        try:
            process.wait(0.2)
            return False
        except subprocess.TimeoutExpired:
            now = sum(file.stat().st_size for file in folder.glob("*.jsonl"))
            if now != size:
                size, since = now, time.monotonic()
            if time.monotonic() - since > SILENT_S:
                _end(process)
                return True


def _end(process: subprocess.Popen[bytes]) -> None:
    """Its launcher first, which ends the ranks; then the whole group."""
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(10)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


_SIGNAL = re.compile(
    r"(?i)signal:? ?\(?(\d+)\)?|exit(?:ed on)? signal (\d+)|EXIT CODE: (\d+)|KILLED BY SIGNAL: (\d+)"
)


def _ended(folder: Path, ranks: int, said: str, hung: bool) -> Ended:
    """What the ranks wrote; a case that began and did not end on all ranks has its fault too."""
    faults: dict[Cell, str] = {}
    done: list[set[str]] = []
    ends, last = 0, []
    for rank in range(ranks):
        file = folder / f"{rank}.jsonl"
        lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        begun = [(words[1], words[2]) for words in lines if words[0] == "begin"]
        done.append({words[1] for words in lines if words[0] == "done"})
        for words in lines:
            if words[0] == "fault":
                faults.setdefault((words[1], words[2]), words[3])
        ends += bool(lines) and lines[-1][0] == "end"
        last.append(begun)
    if ends < ranks:
        slowest = min(last, key=len)
        at = slowest[-1] if slowest else ("", "")
        errors = [cell for cell, text in faults.items() if text.startswith("error: ")]
        if hung and not errors:
            faults[at] = f"hangs: nothing came for {SILENT_S:.0f} s"
        elif not errors:
            found = _SIGNAL.search(said)
            number = next(filter(None, found.groups()), "") if found else ""
            asserted = re.search(r"Assertion failed.*(?:\n.*)?", said)
            tail = " ".join((asserted[0] if asserted else said[-300:]).split())
            faults[at] = f"crashes: signal {number}" if number else f"ends early: {tail}"
    return Ended(faults, set.intersection(*map(set, last)), set.intersection(*done))


@dataclass
class Outcome:
    """Faults of algorithms at one number of ranks."""

    faults: dict[Forced, dict[str, str]] = field(default_factory=dict)
    cases: int = 0


def outcome(
    stack: Stack, ranks: int, collectives: Iterable[str] = FORCED, choices: Iterable[str] = ("", *CHOICES)
) -> Outcome:
    """All algorithms on so many ranks, several collectives in a launch; what fails is confirmed alone."""
    result = Outcome()
    for together in _launches(stack, ranks, list(collectives), list(choices)):
        forced = {one.collective: one for one in together}
        faults, called = _all_cases(stack, ranks, forced)
        result.cases += called
        for collective, one in forced.items():
            own = {case: text for (c, case), text in faults.items() if c == collective}
            if own and len(forced) > 1:  # a fault of another collective may have changed this one's memory
                alone, _ = _all_cases(stack, ranks, {collective: one})
                own = {case: text for (c, case), text in alone.items() if c == collective}
            if own:
                result.faults[one] = own
                case, text = next(iter(own.items()))
                name = one.title or "untouched"
                sys.stderr.write(
                    f"{stack.named}, {ranks} ranks: {collective} {name}: {len(own)}, {case}: {text}\n"
                )
    return result


def _launches(
    stack: Stack, ranks: int, collectives: list[str], choices: list[str]
) -> Iterator[tuple[Forced, ...]]:
    """What is forced together: one choice for each collective; first the untouched library."""
    lists = {choice: [stack.listed([choice], [c]) for c in collectives] for choice in choices}
    untouched = {
        (one.collective, one.nodes): Forced(one.collective, nodes=one.nodes)
        for listed in lists.values()
        for one in itertools.chain(*listed)
    }
    for nodes in NODES:
        if alike := tuple(one for (_, where), one in untouched.items() if where == nodes < ranks):
            yield alike
    for listed in lists.values():
        for nodes in NODES:
            here = [[one for one in _usable(each, ranks) if one.nodes == nodes < ranks] for each in listed]
            for together in itertools.zip_longest(*here):
                yield tuple(one for one in together if one)


def _usable(listed: Iterable[Forced], ranks: int) -> list[Forced]:
    """Without the one that is never forced but on two ranks (see ``coll_tuned.PAIRS_ONLY``)."""
    return [one for one in listed if ranks == 2 or one.algorithm != coll_tuned.PAIRS_ONLY]


def _all_cases(stack: Stack, ranks: int, forced: Mapping[str, Forced]) -> tuple[dict[Cell, str], int]:
    """Faults of all cases, with a launch more for each that ends or stops one."""
    faults: dict[Cell, str] = {}
    called: set[Cell] = set()
    left = dict(forced)
    stops: dict[str, int] = {}
    while left:
        ended = launch(stack, ranks, left.values(), faults.keys() | called)
        faults |= ended.faults
        called |= ended.called
        finished = set(left) & ended.done
        left = {c: one for c, one in left.items() if c not in finished}
        if left:
            at = next(iter(left))
            stops[at] = stops.get(at, 0) + 1
            if not ended.called or stops[at] >= MOST_STOPS:
                left.pop(at)
    return faults, len(called)


def python_of(stack: str) -> str:
    """The interpreter of one of ``STACKS``; empty: it is not here."""
    return os.environ.get(f"AUTOTUNE_PYTHON_{stack}", "") if stack else sys.executable
