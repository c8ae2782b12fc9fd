"""Describe the MPI implementations, each in a module of its own.

A module has the names and the syntax of its implementation, detects an installation on this machine, and
turns a trial (the settings of one launch) into a launch. A *dialect* knows the names and the syntax of an
implementation, whether or not it is installed. To add an implementation, write a module with a subclass of
``words.Dialect``, and add a line to ``DIALECTS``.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autotune.stacks.words import Dialect

DIALECTS = {
    "openmpi": "openmpi:OpenMpiDialect",
    "mpich": "mpich:MpichDialect",
    "intelmpi": "mpich:IntelMpiDialect",
    "command": "words:CommandDialect",
    "recorded": "words:RecordedDialect",
}
"""Maps the name of a stack (``Space.stack``) to the module and the class of its dialect."""


def dialect(name: str) -> "Dialect":
    """Return the dialect of a stack; an unknown stack gets the base class, which knows what all share."""
    module, _, cls = DIALECTS.get(name, "words:Dialect").partition(":")
    words: Dialect = getattr(import_module(f"autotune.stacks.{module}"), cls)()
    return words


def implementations() -> dict[str, "Dialect"]:
    """Return name → dialect of each implementation that has a launcher, in a fixed order."""
    dialects = {name: dialect(name) for name in DIALECTS}
    return {name: words for name, words in dialects.items() if words.banner}
