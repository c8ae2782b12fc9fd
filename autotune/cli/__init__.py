"""The command line: every verb, the campaign itself among them."""

import gc
import logging
import os
import re
import sys
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path

import typer

from autotune.cli import campaign, guard, results, tools  # noqa: F401 - each declares its verbs
from autotune.cli.app import cli
from autotune.commands.terminal import hold_streams, plain_output
from autotune.errors import STORAGE, AutotuneError, ExitCode

_OBJECTS = 100_000
"""New ones between looks for cycles: a journal of thousands of launches makes millions, none of them garbage,
and with Python's own 700 half of the time that reading takes went into looking."""


def main(words: list[str]) -> int:
    """Run a verb; the exit code."""
    hold_streams()
    try:
        os.getcwd()  # noqa: PTH109 - of a path nothing is wanted
    except OSError as exc:
        _say(f"the directory that this was started in: {exc.strerror}\n  start it in another one")
        return ExitCode.MISTAKE
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a sign that it lacks, a name that is no UTF-8: a ?
            stream.reconfigure(errors="replace")
    with suppress(RuntimeError):  # Open MPI 5.0 does not start without it, and timers and epilogs have none
        os.environ.setdefault("HOME", str(Path.home()))
    os.environ.setdefault("HOME", "/")
    logging.raiseExceptions = False  # each of Hydra's lines for a pipe that is closed would be a traceback
    with plain_output():
        return _run(words)


def _run(words: list[str]) -> int:
    gc.set_threshold(_OBJECTS, *gc.get_threshold()[1:])
    try:
        code = cli(args=words, standalone_mode=False)
        sys.stdout.flush()
    except AutotuneError as error:
        _say(_brief(str(error)))
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return ExitCode.INTERRUPTED
    except MemoryError:
        _say("there is not enough memory for what is asked\n  read or ask for less")
        return ExitCode.MISTAKE
    except BrokenPipeError:  # head has seen enough
        _close_output()
        return ExitCode.WELL
    except SystemExit as exc:
        if not isinstance(exc.__context__, BrokenPipeError):
            raise
        _close_output()  # so say Click and Rich that head has
        return ExitCode.WELL
    except OSError as exc:
        if exc.errno not in STORAGE:
            if exc.filename is None:
                raise
            _say(f"{_brief(os.fsdecode(exc.filename))}: {exc.strerror}")
            return ExitCode.MISTAKE
        _close_output()
        where = exc.filename or "what this prints"
        _say(f"cannot write {where}: {exc.strerror}\n  make room, or write elsewhere")
        return ExitCode.LOCKED
    except Exception as exc:
        usage = getattr(exc, "format_message", None)
        if usage is None:
            raise
        _say(f"{usage()}\n  see: autotune --help")
        return ExitCode.MISTAKE
    return code if isinstance(code, int) else ExitCode.WELL


def _say(message: str) -> None:
    """Print what ends the program; where nobody reads it, its exit code still says it."""
    with suppress(OSError):
        sys.stderr.write(f"autotune: {message}\n")


def _close_output() -> None:
    """Have nobody write to standard output any more, the interpreter's end included."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _brief(text: str) -> str:
    """A message in which no word fills the screen."""
    return re.sub(r"(\S{200})\S+", r"\1…", text)
