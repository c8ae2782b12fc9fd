"""Run the command line: every verb, including ``tune``, which runs a campaign."""

import gc
import logging
import os
import re
import sys
from contextlib import suppress
from difflib import get_close_matches
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import typer

from autotune.cli import campaign, results  # noqa: F401 - each declares its verbs
from autotune.cli.app import cli, take_verbs
from autotune.commands.companions import companions
from autotune.commands.terminal import hold_streams, plain_output
from autotune.errors import STORAGE, AutotuneError, ExitCode, naming_extras

take_verbs(companion.verbs for companion in companions())

_OBJECTS = 100_000
"""Number of new objects after which the garbage collector runs. Reading a journal of thousands of launches
creates millions of objects and no garbage; with Python's default of 700 new objects, the collector took half
of the reading time."""


def main(words: list[str]) -> int:
    """Run the verb that the words of the command line name, and return the exit code."""
    hold_streams()
    try:
        os.getcwd()  # noqa: PTH109 - it is called only to see whether the directory exists
    except OSError as exc:
        _say(f"the directory that this was started in: {exc.strerror}\n  start it in another one")
        return ExitCode.MISTAKE
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # other characters are printed as question marks
            stream.reconfigure(errors="replace")
    with suppress(RuntimeError):  # Open MPI 5.0 needs HOME, which timers and Slurm's epilogs do not set
        os.environ.setdefault("HOME", str(Path.home()))
    os.environ.setdefault("HOME", "/")
    logging.raiseExceptions = False  # else each line that Hydra logs to a closed pipe prints a traceback
    with plain_output():
        return _run(words)


def _run(words: list[str]) -> int:
    gc.set_threshold(_OBJECTS, *gc.get_threshold()[1:])
    try:
        with naming_extras():
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
    except BrokenPipeError:  # the reader, such as head, has closed the pipe
        _close_output()
        return ExitCode.WELL
    except SystemExit as exc:
        if not isinstance(exc.__context__, BrokenPipeError):
            raise
        _close_output()  # Click and Rich turn a closed pipe into SystemExit
        return ExitCode.WELL
    except OSError as exc:
        if exc.errno not in STORAGE:
            if exc.filename is None:
                raise
            _say(f"{_brief(os.fsdecode(exc.filename))}: {exc.strerror}")
            return ExitCode.MISTAKE
        _close_output()
        target = exc.filename or "what this prints"
        _say(f"cannot write {target}: {exc.strerror}\n  make room, or write elsewhere")
        return ExitCode.LOCKED
    except Exception as exc:
        usage = getattr(exc, "format_message", None)
        if usage is None:
            raise
        complaint = " ".join(usage().split()).replace(": Value error, ", ": ")  # the words are pydantic's
        _say(f"{complaint}\n  {_meant(complaint)}see: {_help_of(getattr(exc, 'ctx', None))}")
        return ExitCode.MISTAKE
    return code if isinstance(code, int) else ExitCode.WELL


def _say(message: str) -> None:
    """Print the message that ends the program; if it cannot be printed, the exit code remains."""
    with suppress(OSError):
        sys.stderr.write(f"autotune: {message}\n")


def _meant(complaint: str) -> str:
    """Return a question about the most similar of the values that a message of Click's lists."""
    match = re.search(r"'([^']*)' is not one of (.*)", complaint)
    close = get_close_matches(match[1], re.findall(r"'([^']*)'", match[2]), 1) if match else []
    return f"did you mean {close[0]!r}? " if close else ""


def _help_of(context: Any) -> str:
    """Return the command that shows the help of the verb whose command line Click has refused."""
    verbs: list[str] = []
    while context is not None and context.parent is not None:
        verbs, context = [context.info_name, *verbs], context.parent
    return " ".join(["autotune", *verbs, "--help"])


def _close_output() -> None:
    """Point standard output to the null device, so that later writes and the flush at exit do not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _brief(text: str) -> str:
    """Shorten every word of a message to 200 characters."""
    return re.sub(r"(\S{200})\S+", r"\1…", text)
