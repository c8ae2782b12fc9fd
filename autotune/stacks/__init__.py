"""MPI implementations, one module each: names and syntax, detection, and how a trial becomes a launch.

A *dialect* knows the names and the syntax of an implementation, whether or not it is installed. To add an
implementation, write a module with a subclass of ``words.Dialect``, and add a line to ``DIALECTS``.
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
    """Return the dialect of a stack; for an unknown stack, the base class with what all stacks share."""
    module, _, cls = DIALECTS.get(name, "words:Dialect").partition(":")
    words: Dialect = getattr(import_module(f"autotune.stacks.{module}"), cls)()
    return words


def implementations() -> dict[str, "Dialect"]:
    """Return the dialects of the implementations that have a launcher, by name, in a fixed order."""
    dialects = {name: dialect(name) for name in DIALECTS}
    return {name: words for name, words in dialects.items() if words.banner}
