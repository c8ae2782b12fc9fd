"""Run a user's application by the user's own command, to record its MPI calls or to switch algorithms.

This is not part of a tuning campaign. The output of the application goes to the outputs of this process. The
command is not changed, with two exceptions: Open MPI's launcher gets options to forward this module's
variables to other nodes, and libraries that the command preloads are preloaded after this module's library.
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

from autotune.errors import StackError, UserError, ending
from autotune.history.folder import opened_file
from autotune.probe.compiling import FLAGS, compiled
from autotune.stacks.installation import Installation, find

FOLDER = "AUTOTUNE_RECORD"  # Variable with the path of the folder for the recorder's files.
RUN_FOLDER = "AUTOTUNE_RUN"  # Variable with the path of the folder for the switcher's files and plan.
_LAUNCHERS = ("mpirun", "mpiexec", "orterun", "prterun")
_FLAGS = (*FLAGS, "-ftls-model=initial-exec", "-Wl,--as-needed")
_LIBRARIES = {"switcher": ("-Wl,--push-state,--no-as-needed,-lm,--pop-state",)}
"""Maps a preloaded library to linker flags that keep the linker from dropping other libraries in use."""
_LATER = {
    "NO_LARGE": b"PMPI_Allreduce_c",
    "NO_PERSISTENT": b"PMPI_Allreduce_init",
    "NO_REVOKE": b"PMPIX_Comm_revoke",
}
"""Maps a macro to a function of MPI. The macro is defined if the MPI library does not export the function;
the source of the preloaded library then does without the feature to which the function belongs."""
_PASSED_ON = (signal.SIGUSR1, signal.SIGUSR2)
"""Signals that batch systems send before a time limit; an application may then write a checkpoint."""
_TAIL = 300  # Characters that a message quotes from the end of a program's output.
_MARKER = "AUTOTUNE_LAUNCH"  # Variable by which the guard recognises the processes of an application.
_GUARD = "hydra_plugins.autotune._guard"  # Program that ends the application if this process is killed.
_PRELOAD = re.compile(r"(^|[=,;])LD_PRELOAD=")
"""Place in a word of a command that sets LD_PRELOAD: ``-x LD_PRELOAD=…``, ``--export=ALL,LD_PRELOAD=…``."""
_PATIENCE_S = 10.0  # Seconds between asking an application to end and killing it.


@dataclass(frozen=True, slots=True)
class Ran:
    """Says how a run of an application ended."""

    exit_code: int  # Exit code as a shell reports it: 128 + N for signal N.
    seconds: float  # Wall time in seconds, including the time of the launcher.
    page_faults: int = 0  # Number of minor page faults of all processes of the run on this node.


def is_launcher(word: str) -> bool:
    """Whether a word of a command is an MPI's own launcher (``mpirun.openmpi``, ``mpiexec.hydra``, …)."""
    return Path(word).name.split(".")[0] in _LAUNCHERS


def installation_of(command: Sequence[str]) -> Installation:
    """Return the MPI whose launcher a command begins with, else the MPI that a campaign would use.

    Raises:
        UserError: the command is empty, or its program cannot be found.
        StackError: there is no usable MPI.
    """
    if not command:
        raise UserError("no application was given", "write it behind --, e.g. -- mpirun -n 4 ./app")
    if shutil.which(command[0]) is None:
        raise UserError(f"{command[0]!r} is not a program that can be found", "give a path, or look at PATH")
    return find(command[0]) if is_launcher(command[0]) else find()


def preload(installation: Installation, fallback: Path, name: str = "recorder") -> Path:
    """Return the path of a library to preload into the application; it is compiled if it does not exist yet.

    The library calls the MPI that the process has loaded, so it can be compiled with the header of any MPI
    that has the same binary interface: Open MPI 4.1 and 5 share one, MPICH and Intel MPI another.

    Args:
        installation: The MPI of the application.
        fallback: Folder for the compiled library if the usual folder cannot be written.
        name: ``recorder`` or ``switcher``.

    Raises:
        StackError: there is no compiler with such a header.
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
    """Return the variables with which the preloaded ``library`` makes each rank write a file into a folder.

    The library reads the folder from the variable ``name``.
    """
    preload = " ".join(filter(None, (str(library), os.environ.get("LD_PRELOAD", ""))))
    return {"LD_PRELOAD": preload, name: str(folder.absolute())}


@contextlib.contextmanager
def passed_on(to: Callable[[int], object]) -> Iterator[None]:
    """Forward the signals of ``_PASSED_ON`` to an application, so that they do not end this process.

    ``to`` sends the signal with a given number to the application.
    """
    # getsignal returns None for a handler that was not set from Python. Python could not restore such a
    # handler, so it is not replaced.
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
    """Run an application to its end, with further environment variables for each of its ranks.

    Args:
        command: Words of the user's command.
        installation: The MPI of the application.
        variables: Environment variables that each rank gets.
        check: Function that is called whenever ``alarm`` can be read. If it raises, the application is ended
            and the exception is passed on.
        alarm: A file descriptor; None: ``check`` is only called when the application has ended.
        out: File for the application's standard output; None: the standard output of this process.

    Raises:
        StackError: the application cannot be started.
    """
    words = _with_variables(command, installation, variables)
    with _guarded() as (mark, tell):
        begin, former = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt
        try:
            process = subprocess.Popen(words, env={**os.environ, **variables, _MARKER: mark}, stdout=out)
        except OSError as exc:
            raise StackError(f"cannot start {words[0]}: {exc.strerror or exc}") from exc
        tell(process.pid)
        process_end = os.pidfd_open(process.pid)
        try:
            with passed_on(process.send_signal):
                while process.poll() is None:
                    select.select([process_end, *([] if alarm is None else [alarm])], (), ())
                    check()
        except BaseException:
            _end(process)
            raise
        finally:
            os.close(process_end)
        seconds, code = time.monotonic() - begin, process.wait()
        faults = resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt - former
    return Ran(code if code >= 0 else 128 - code, seconds, faults)


def _with_variables(
    command: Sequence[str], installation: Installation, variables: Mapping[str, str]
) -> list[str]:
    """Return the command with options to forward the variables to all ranks.

    Libraries that the command preloads are still preloaded, after the one in ``variables``.
    """
    words, preloaded = list(command), variables.get("LD_PRELOAD", "").split(" ")[0]
    for i, word in enumerate(words if preloaded else ()):
        if word == "LD_PRELOAD" and words[i - 1].lstrip("-") in ("env", "genv") and i + 1 < len(words):
            words[i + 1] = f"{preloaded}:{words[i + 1]}"
        words[i] = _PRELOAD.sub(rf"\g<1>LD_PRELOAD={preloaded}:", words[i])
    if installation.flavour != "openmpi" or not is_launcher(words[0]):
        return words
    parts: list[list[str]] = [[]]
    for word in words[1:]:  # a colon separates the programs of one job, which have separate options
        parts[-1].append(word)
        if word == ":":
            parts.append([])
    for part in parts:
        exported = {value.split("=")[0] for option, value in pairwise(part) if option in ("-x", "--x")}
        part[:0] = [word for name in variables if name not in exported for word in ("-x", name)]
    return [words[0], *(word for part in parts for word in part)]


@contextlib.contextmanager
def _guarded() -> Iterator[tuple[str, Callable[[int], None]]]:
    """Start a guard: a separate process that ends the application if this process is killed.

    Yields a mark for the application's environment, and a function that gives the application's process
    id to the guard. The guard waits for the end of a pipe, which the kernel closes when this process ends.
    """
    driver = f"application-{uuid.uuid4().hex}"
    guard_module = importlib.util.find_spec(_GUARD)
    if guard_module is None or guard_module.origin is None:
        raise StackError(f"no {_GUARD}", "is the installation whole?")
    guard = subprocess.Popen(
        [sys.executable, "-I", "-S", guard_module.origin, driver, str(_PATIENCE_S)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )

    def tell(pid: int) -> None:
        with contextlib.suppress(BrokenPipeError):  # the guard was killed: the application runs without one
            os.write(guard.stdin.fileno() if guard.stdin else -1, b"%f %d\n" % (time.time(), -pid))

    with guard:  # leaving this context closes the pipe and waits for the guard
        yield f"{driver}:", tell
        guard.kill()  # before the pipe closes, so that processes which an application left on purpose survive


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Ask a process to end, and kill it if it does not end in time or if Ctrl-C is pressed again.

    The command ``timeout`` signals both that process and this one, so a second interrupt may follow at once.
    """
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(_PATIENCE_S)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        process.kill()
        process.wait()


class Background:
    """Runs a shell command line in the background while the context lasts; ``ended`` reports its end.

    The line and all processes that it starts run in a session of their own, which ends when this process
    closes a pipe or is killed.
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
        """Ask the line to end; processes that still run ten seconds after the context's end are killed."""
        if self._process.stdin is not None:
            self._process.stdin.close()

    @property
    def exit_code(self) -> int | None:
        """The exit code of the line, −N for signal N; None while the line runs."""
        return self._process.poll()

    @property
    def printed(self) -> str:
        """Everything that the line has printed."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    @property
    def ended(self) -> str:
        """How the line ended by itself, in words, with the end of its output; empty while the line runs."""
        if self.exit_code is None:
            return ""
        printed = ending(self.printed, _TAIL)
        return f"exit code {self.exit_code}" + (f", {printed}" if printed else "")


def why_nothing(command: Sequence[str], exit_code: int, unseen: Sequence[str] = ()) -> tuple[str, str]:
    """Return the probable reason why no rank of an application was recorded, and a hint.

    Args:
        command: Words of the user's command.
        exit_code: Exit code of the command.
        unseen: Libraries other than MPI through which the application's processes communicated.
    """
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
        program = shutil.which(word)
        if program and _static(Path(program)):
            return (
                f"{word} is linked statically: nothing can be recorded of it",
                "link it dynamically, or at least its MPI",
            )
    return (
        "no rank called MPI_Init of a shared library: nothing was recorded",
        "is it an MPI program, started by its own MPI's launcher, and is its MPI not linked in statically?",
    )


def _static(path: Path) -> bool:
    """Whether a file is a statically linked ELF program: it has no program header of type PT_INTERP."""
    with contextlib.suppress(OSError, struct.error), path.open("rb") as file:
        start = file.read(64)
        if start[:5] != b"\x7fELF\x02":  # a script, or no 64-bit program
            return False
        (offset,) = struct.unpack_from("<Q", start, 32)
        size, many = struct.unpack_from("<HH", start, 54)
        file.seek(offset)
        headers = file.read(size * many)
        return all(struct.unpack_from("<I", headers, size * i)[0] != 3 for i in range(many))
    return False
