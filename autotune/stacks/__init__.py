"""One module for each MPI implementation: its words, what is installed, a trial rendered (step 5).

To add one: a module with a subclass of ``words.Dialect``, and a line in ``DIALECTS``.
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
"""Every ``Space.stack`` with the module and the class that knows its words."""


def dialect(name: str) -> "Dialect":
    """The words of a stack; of one that nobody here knows, those that all have in common."""
    module, _, cls = DIALECTS.get(name, "words:Dialect").partition(":")
    made: Dialect = getattr(import_module(f"autotune.stacks.{module}"), cls)()
    return made


def implementations() -> dict[str, "Dialect"]:
    """All that have a launcher, by name, in order."""
    known = {name: dialect(name) for name in DIALECTS}
    return {name: words for name, words in known.items() if words.banner}
