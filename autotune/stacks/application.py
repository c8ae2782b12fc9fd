"""An application of the user's, started as they start it: recorded, or with files in effect.

Beside the flow of a campaign. What the application prints goes where ours goes; nothing of its command is
changed, but that Open MPI's launcher is asked to forward our variables to other nodes.
"""

import contextlib
import importlib.util
import os
import re
import resource
import select
import shutil
import signal
import struct
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import IO

from autotune.errors import StackError, UserError
from autotune.history.folder import opened_file
from autotune.probe.compiling import FLAGS, compiled
from autotune.stacks.installation import Installation, find

FOLDER = "AUTOTUNE_RECORD"  # Variable with the folder of the recorder's files.
RUN_FOLDER = "AUTOTUNE_RUN"  # Variable with the folder of the switcher's files and plan.
_LAUNCHERS = ("mpirun", "mpiexec", "orterun", "prterun")
_FLAGS = (*FLAGS, "-ftls-model=initial-exec", "-Wl,--as-needed")
_LIBRARIES = {"switcher": ("-Wl,--push-state,--no-as-needed,-lm,--pop-state",)}
"""Libraries linked although nothing before them needs any: flags that come before the source."""
_LATER = {
    "NO_LARGE": b"PMPI_Allreduce_c",
    "NO_PERSISTENT": b"PMPI_Allreduce_init",
    "NO_REVOKE": b"PMPIX_Comm_revoke",
}
"""Names for what an MPI lacks, for what is preloaded ← a function of it."""
_PASSED_ON = (signal.SIGUSR1, signal.SIGUSR2)
"""Signals of batch systems before a limit, for the application to write its state."""
_TAIL = 300  # Characters of what a program printed, in a message.
_MARKER = "AUTOTUNE_LAUNCH"  # Variable by which the guard knows what an application has started.
_GUARD = "hydra_plugins.autotune._guard"  # The program that ends what a killed driver leaves.
_PRELOAD = re.compile(r"(^|[=,;])LD_PRELOAD=")
"""Where a word of a command sets what is preloaded: ``-x LD_PRELOAD=…``, ``--export=ALL,LD_PRELOAD=…``."""
_PATIENCE_S = 10.0  # Between asking an application to end and ending it.


@dataclass(frozen=True, slots=True)
class Ran:
    """How a run of an application ended."""

    exit_code: int  # As a shell has it: 128 + N for signal N.
    seconds: float  # Wall time, the launcher's own included.
    page_faults: int = 0  # Minor ones of all its processes on this node.


def is_launcher(word: str) -> bool:
    """Whether a word of a command is an MPI's own launcher (``mpirun.openmpi``, ``mpiexec.hydra``, …)."""
    return Path(word).name.split(".")[0] in _LAUNCHERS


def installation_of(command: Sequence[str]) -> Installation:
    """The MPI whose launcher a command begins with, else the one that a campaign would use.

    Raises:
        UserError: there is no command, or its program cannot be found.
        StackError: no MPI.
    """
    if not command:
        raise UserError("no application was given", "write it behind --, e.g. -- mpirun -n 4 ./app")
    if shutil.which(command[0]) is None:
        raise UserError(f"{command[0]!r} is not a program that can be found", "give a path, or look at PATH")
    return find(command[0]) if is_launcher(command[0]) else find()


def preload(installation: Installation, fallback: Path, name: str = "recorder") -> Path:
    """The library that records or ``switcher``, for an MPI, compiled where it is not there yet.

    It calls MPI by what the process has loaded, so any compiler whose header has the same binary interface
    will do: Open MPI 4.1 and 5 share one, MPICH and Intel MPI another.

    Raises:
        StackError: no compiler fits.
    """
    open_mpi = installation.flavour == "openmpi"
    probe = Path(str(files("autotune.probe")))
    sources = probe / name
    text = (sources / f"{name}.c").read_text(encoding="utf-8")
    headers = [path.read_text(encoding="utf-8") for path in sorted(probe.glob("*er/*.h"))]
    flags = [*_FLAGS, f"-DAUTOTUNE_OPEN_MPI={int(open_mpi)}", *_LIBRARIES.get(name, ())]
    names = installation.library.read_bytes()
    flags += [f"-DAUTOTUNE_{lack}" for lack, name in _LATER.items() if b"\0%s\0" % name not in names]
    family = "Open MPI" if open_mpi else "MPICH"
    return compiled(
        name,
        (text, *headers),
        installation.library,
        [*os.get_exec_path(), str(Path(sys.executable).parent)],
        fallback,
        version=installation.version,
        flags=flags,
        include=sources,
        hint=f"the {name} is compiled with an mpicc of {family}; put one in PATH "
        "(its header is all that is used)",
    )


def recording(library: Path, folder: Path, name: str = FOLDER) -> dict[str, str]:
    """Variables with which each rank of an application leaves a file in the folder."""
    preload = " ".join(filter(None, (str(library), os.environ.get("LD_PRELOAD", ""))))
    return {"LD_PRELOAD": preload, name: str(folder.absolute())}


@contextlib.contextmanager
def passed_on(to: Callable[[int], object]) -> Iterator[None]:
    """While this lasts signals that are meant for an application go to it, and do not end us."""
    # None is a handler of somebody who is no Python, which could not be put back: it stays.
    former = {number: was for number in _PASSED_ON if (was := signal.getsignal(number)) is not None}
    for number in former:
        signal.signal(number, lambda n, _: to(n))
    try:
        yield
    finally:
        for number, was in former.items():
            signal.signal(number, was)


def run(
    command: Sequence[str],
    installation: Installation,
    variables: Mapping[str, str],
    check: Callable[[], None],
    alarm: int | None,
    out: IO[bytes] | None = None,
) -> Ran:
    """Run an application to its end, with further variables for each of its ranks.

    ``check`` raises where the work is to end, which is asked whenever ``alarm`` can be read; then the
    application is ended first.

    Raises:
        StackError: it cannot be started.
    """
    words = _with_variables(command, installation, variables)
    with _guarded() as (mark, tell):
        begin, former = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt
        try:
            process = subprocess.Popen(words, env={**os.environ, **variables, _MARKER: mark}, stdout=out)
        except OSError as exc:
            raise StackError(f"cannot start {words[0]}: {exc.strerror or exc}") from exc
        tell(process.pid)
        ended = os.pidfd_open(process.pid)
        try:
            with passed_on(process.send_signal):
                while process.poll() is None:
                    select.select([ended, *([] if alarm is None else [alarm])], (), ())
                    check()
        except BaseException:
            _end(process)
            raise
        finally:
            os.close(ended)
        seconds, code = time.monotonic() - begin, process.wait()
        faults = resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt - former
    return Ran(code if code >= 0 else 128 - code, seconds, faults)


def _with_variables(
    command: Sequence[str], installation: Installation, variables: Mapping[str, str]
) -> list[str]:
    """The words of a command whose launcher forwards the variables, and that preloads its tools as well."""
    words, own = list(command), variables.get("LD_PRELOAD", "").split(" ")[0]
    for i, word in enumerate(words if own else ()):
        if word == "LD_PRELOAD" and words[i - 1].lstrip("-") in ("env", "genv") and i + 1 < len(words):
            words[i + 1] = f"{own}:{words[i + 1]}"
        words[i] = _PRELOAD.sub(rf"\g<1>LD_PRELOAD={own}:", words[i])
    if installation.flavour != "openmpi" or not is_launcher(words[0]):
        return words
    parts: list[list[str]] = [[]]
    for word in words[1:]:  # programs of one job, each with options of its own
        parts[-1].append(word)
        if word == ":":
            parts.append([])
    for part in parts:
        given = {value.split("=")[0] for option, value in pairwise(part) if option in ("-x", "--x")}
        part[:0] = [word for name in variables if name not in given for word in ("-x", name)]
    return [words[0], *(word for part in parts for word in part)]


@contextlib.contextmanager
def _guarded() -> Iterator[tuple[str, Callable[[int], None]]]:
    """A mark for an application's environment, and what takes its pid, to end it if we are killed.

    The guard is a process beside us that waits for the end of a pipe, which the kernel closes.
    """
    driver = f"application-{uuid.uuid4().hex}"
    found = importlib.util.find_spec(_GUARD)
    if found is None or found.origin is None:
        raise StackError(f"no {_GUARD}", "is the installation whole?")
    guard = subprocess.Popen(
        [sys.executable, "-I", "-S", found.origin, driver, str(_PATIENCE_S)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )

    def tell(pid: int) -> None:
        with contextlib.suppress(BrokenPipeError):  # somebody has ended it: there is one guard less
            os.write(guard.stdin.fileno() if guard.stdin else -1, b"%f %d\n" % (time.time(), -pid))

    with guard:  # whose end closes the pipe, and waits
        yield f"{driver}:", tell
        guard.kill()  # before it sees that: what an application that has ended leaves on purpose stays


def _end(process: "subprocess.Popen[bytes]") -> None:
    """As Ctrl-C would; by force if that has no effect, or is asked for again (``timeout`` does at once)."""
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(_PATIENCE_S)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        process.kill()
        process.wait()


class Background:
    """A line of shell that runs while this lasts, with all it starts; ``ended`` reports its end.

    It is in a session of its own, which a pipe ends: when we close it, or when we are killed.
    """

    _LINE = 'exec 3<&0 </dev/null; (cat <&3 >/dev/null; kill 0) & eval "$1" 3<&-'

    def __init__(self, line: str, log: Path) -> None:
        self._line, self._log = line, log

    def __enter__(self) -> "Background":
        self._log.parent.mkdir(parents=True, exist_ok=True)
        words = ["sh", "-c", self._LINE, "sh", self._line]
        with os.fdopen(opened_file(self._log), "wb") as out:
            self._process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=out, stderr=out, start_new_session=True
            )
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        try:
            self._process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def end(self) -> None:
        """Have it end; what still runs some time after is killed when this does."""
        if self._process.stdin is not None:
            self._process.stdin.close()

    @property
    def exit_code(self) -> int | None:
        """Its own, below 0 the number of a signal; None: it runs."""
        return self._process.poll()

    @property
    def said(self) -> str:
        """Everything that it printed."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    @property
    def ended(self) -> str:
        """How it ended by itself, with the end of what it printed; empty: it runs."""
        if self.exit_code is None:
            return ""
        said = self.said[-_TAIL:].strip()
        return f"exit code {self.exit_code}" + (f", {said}" if said else "")


def why_nothing(command: Sequence[str], exit_code: int, unseen: Sequence[str] = ()) -> tuple[str, str]:
    """The problem, and a hint, of a program that ended without MPI; ``unseen``: what it used."""
    if unseen:
        return (
            f"{command[0]} communicates by {' and '.join(unseen)}, which this does not see: "
            "no rank called MPI_Init",
            "recorded are calls of MPI between MPI_Init and MPI_Finalize",
        )
    if exit_code:
        return (
            f"{command[0]} ended with exit code {exit_code} before any rank was through MPI_Init",
            "does it run without record?",
        )
    for word in command[1:] if is_launcher(command[0]) else command:
        found = shutil.which(word)
        if found and _static(Path(found)):
            return (
                f"{word} is linked statically: nothing can be recorded of it",
                "link it dynamically, or at least its MPI",
            )
    return (
        "no rank called MPI_Init of a shared library: nothing was recorded",
        "is it an MPI program, started by its own MPI's launcher, and is its MPI not linked in statically?",
    )


def _static(path: Path) -> bool:
    """Whether a file is an ELF program that no loader reads: no PT_INTERP among its program headers."""
    with contextlib.suppress(OSError, struct.error), path.open("rb") as file:
        start = file.read(64)
        if start[:5] != b"\x7fELF\x02":  # scripts, and what is not of 64 bits
            return False
        (offset,) = struct.unpack_from("<Q", start, 32)
        size, many = struct.unpack_from("<HH", start, 54)
        file.seek(offset)
        headers = file.read(size * many)
        return all(struct.unpack_from("<I", headers, size * i)[0] != 3 for i in range(many))
    return False
