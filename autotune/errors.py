"""Define all errors that this project raises on purpose.

::

    AutotuneError                    exit code
    ├── UserError (ValueError)           2       the user's input: scenario, space, table, point
    │   ├── ScenarioError                        a key or value of the scenario
    │   ├── SpaceError                           a search-space file or a point outside of it
    │   └── TableError                           a table or file that the user gave
    ├── StackError (RuntimeError)        2       no usable MPI, launcher or compiler here
    ├── CampaignError (RuntimeError)     3       a campaign that cannot go on
    │   ├── JournalError                         a journal that cannot be read or belongs elsewhere
    │   ├── LockedError                  4       somebody else is writing this campaign
    │   └── StorageError                 4       the disk is full or read-only
    └── Interrupted                    130       Ctrl-C, SIGTERM or SIGHUP, after all results were saved
        └── HandedOver                   0       a job of the batch system continues the work
            └── UnansweredError          6       and only this job will have the requested result

``ExitCode`` explains the codes. A failed *launch* raises no error: it is data, an ``Observation`` whose
``status`` shows what happened.
"""

import errno
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Self


class ExitCode(IntEnum):
    """Lists the exit codes of the program, from which a script knows how the program ended."""

    meaning: str

    def __new__(cls, code: int, meaning: str) -> Self:
        """Create a member that equals its number and has the meaning as an attribute."""
        member = int.__new__(cls, code)
        member._value_, member.meaning = code, meaning
        return member

    WELL = 0, "well; also when a job of the batch system goes on with the campaign"
    FINDING = 1, "a finding that is not a success"
    MISTAKE = 2, "a mistake in the input, or no usable MPI"
    STUCK = 3, "a campaign that cannot go on"
    LOCKED = 4, "it cannot be written: another process writes the campaign, or the disk refuses it"
    UNKNOWN = 5, "nothing is said of a file, or of a line of it: its kind is not known"
    UNANSWERED = 6, "a job was submitted, or is under way, that will answer: nothing is said yet"
    INTERRUPTED = 130, "interrupted; the same command continues"


def printable(text: str) -> str:
    """Return a text in which characters that a terminal interprets or does not show are replaced.

    Texts from files and programs may contain such characters. Line ends, tabs and spaces stay. Control
    characters (C0 and C1, so every escape sequence), characters that change the direction of writing or have
    no width, and halves of surrogate pairs are replaced by JSON's escapes, so that a JSON text stays valid.
    """
    return _SUSPECT.sub(_by_number, text)


def ending(text: str, limit: int) -> str:
    """Return the end of what a program printed, on one line: ``limit`` characters at most, and whole words.

    Escape sequences and control characters are left out; ``…`` stands for what was cut.
    """
    line = " ".join(_CONTROLS.sub("", text).split())
    if len(line) <= limit:
        return line
    last = line[-limit:]
    whole = line[-limit - 1] == " " or " " not in last
    return f"…{last if whole else last.partition(' ')[2]}"


_CONTROLS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|[\x00-\x08\x0e-\x1f\x7f-\x9f]")
_SUSPECT = re.compile(r"\r(?!\n)|[^\r\n\t -~]")


def _by_number(match: re.Match[str]) -> str:
    from unicodedata import category  # imported here since texts seldom have such characters

    character = match[0]
    if character.isprintable() or category(character) == "Zs":
        return character
    return f"\\u{ord(character):04x}" if ord(character) < 1 << 16 else json.dumps(character)[1:-1]


class AutotuneError(Exception):
    """Raised with a message for the user, and with a hint about what is allowed or what to do."""

    exit_code: ExitCode = ExitCode.FINDING

    def __init__(self, message: str, hint: str = "") -> None:
        message, hint = printable(message), printable(hint)
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  {self.hint}" if self.hint else self.message

    @property
    def on_one_line(self) -> str:
        """Return message and hint on one line, for a log or for the reason why a launch failed."""
        return " — ".join(filter(None, (self.message, self.hint))).replace("\n", " ")


class UserError(AutotuneError, ValueError):
    """Raised when the user's input is wrong."""

    exit_code = ExitCode.MISTAKE


class ScenarioError(UserError):
    """Raised when a key or a value of the scenario is wrong."""


class SpaceError(UserError):
    """Raised when a search-space file is wrong, or a point lies outside its space."""


class TableError(UserError):
    """Raised when a table or a file that the user gave cannot be used."""


class StackError(AutotuneError, RuntimeError):
    """Raised when the MPI stack, launcher or compiler that is needed cannot be used here."""

    exit_code = ExitCode.MISTAKE


class CampaignError(AutotuneError, RuntimeError):
    """Raised when a campaign cannot go on."""

    exit_code = ExitCode.STUCK


class JournalError(CampaignError):
    """Raised when a journal is damaged, has a newer format, or belongs to another campaign."""


class LockedError(CampaignError):
    """Raised when another process is writing this campaign."""

    exit_code = ExitCode.LOCKED


class Interrupted(AutotuneError):  # noqa: N818 - this is no error: the user asked for it
    """Raised when the user or the batch system has interrupted the work; all results so far are saved."""

    exit_code = ExitCode.INTERRUPTED


STORAGE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.EIO})
"""Values of ``errno`` for a disk that is full or not writable."""


class StorageError(CampaignError):
    """Raised when nothing can be written because the disk is full or read-only; earlier data are not lost."""

    exit_code = ExitCode.LOCKED


def allowed(value: object, choices: Iterable[object]) -> str:
    """Return a hint that lists the allowed values, and asks whether the most similar one was meant.

    Args:
        value: The value that is not allowed.
        choices: The allowed values.
    """
    from difflib import get_close_matches  # imported here since ranks import this module and seldom need it

    names = [str(choice) for choice in choices]
    close = get_close_matches(str(value), names, n=1)
    guess = f"did you mean {close[0]!r}? " if close else ""
    return f"{guess}allowed: {', '.join(names) if names else '(nothing)'}"


BROUGHT = {
    **dict.fromkeys(("ax", "botorch", "gpytorch", "torch"), "tune"),
    **dict.fromkeys(("pandas", "pyDOE3", "scipy", "threadpoolctl"), "tune"),
    **dict.fromkeys(("jinja2", "plotly", "submitit"), "tune"),
    "optuna": "optuna",
    **dict.fromkeys(("smac", "ConfigSpace"), "smac"),
    "pyarrow": "parquet",
    "statsmodels": "studies",
    "matplotlib": "figures",
    "otf2": "traces",
    "pycubexr": "cubex",
}
"""Maps each library that the light installation lacks to the extra of ``pyproject.toml`` that brings it."""


def installing(extra: str) -> str:
    """Return the command that installs the libraries of an extra of ``pyproject.toml``."""
    return f"pip install 'mpi-autotune[{extra}]'"


@contextmanager
def naming_extras() -> Iterator[None]:
    """Explain how to install a library, if an import inside the context fails because an extra brings it.

    Raises:
        UserError: such a library is not installed; the message contains its name, and the hint the command
            that installs it.
    """
    try:
        yield
    except ImportError as exc:
        library = (exc.name or "").partition(".")[0]
        if library not in BROUGHT:
            raise
        message = f"this needs a library that is not here: {library}"
        raise UserError(message, installing(BROUGHT[library])) from exc


def check_installed(purpose: str, *libraries: str) -> None:
    """Check that libraries which extras bring are installed, without importing them.

    Call this before work that would be lost if a library were missed at its end.

    Raises:
        UserError: a library is not installed; the message contains the purpose, and the hint the command that
            installs the library.
    """
    from importlib.util import find_spec  # imported here since ranks import this module and never need it

    for library in libraries:
        if find_spec(library) is None:
            message = f"{purpose} needs a library that is not here: {library}"
            raise UserError(message, installing(BROUGHT[library]))


@contextmanager
def needing(extra: str, purpose: str) -> Iterator[None]:
    """Explain how to install a library, if an import inside the context fails because it is missing.

    Args:
        extra: Name of the extra of ``pyproject.toml`` that installs the library.
        purpose: The feature that needs the library, in words.

    Raises:
        UserError: a library is not installed; the message contains the purpose, and the hint the command that
            installs the library.
    """
    try:
        yield
    except ImportError as exc:
        raise UserError(f"{purpose} needs a library that is not here: {exc}", installing(extra)) from exc


class HandedOver(Interrupted):
    """Raised when this process ends without an error because a job of the batch system continues its work."""

    exit_code = ExitCode.WELL


class UnansweredError(HandedOver):
    """Raised when only a job of the batch system will have the result that a command asks for.

    An example of such a command is ``guard check``.
    """

    exit_code = ExitCode.UNANSWERED
