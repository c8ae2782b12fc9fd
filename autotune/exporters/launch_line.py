"""Compose the command line that a user types to apply exported files (step 12 of the data flow)."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from autotune.recommend.recommendation import Recommendation

PROGRAM = "./your_program"  # Placeholder for the user's own program.
REPLACED = f"with your program in place of {PROGRAM}, and -n RANKS as you need"  # A note on a line.


def placed(recommendation: Recommendation) -> tuple[str, ...]:
    """Return the options of ``mpirun`` that place the ranks as in the measurements."""
    options = {"map_by": "--map-by", "bind_to": "--bind-to"}
    placement = recommendation.provenance.placement
    return tuple(f"{options[name]} {shlex.quote(value)}" for name, value in placement if value)


def starter(recommendation: Recommendation, name: str = "mpirun") -> str:
    """Return the path of a program of the MPI that was measured; its name alone if that is unknown."""
    path = recommendation.provenance.mpirun
    return shlex.quote(str(Path(path).with_name(name)) if path else name)


def mpirun(
    recommendation: Recommendation,
    words: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
    forwarded: Iterable[str] = (),
) -> str:
    """Return a command line of ``mpirun`` that places the ranks as in the measurements.

    ``words`` are further options, already quoted; ``variables`` are set for this one command; ``forwarded``
    names the variables that ranks on other nodes need too (Open MPI by itself forwards only its own).
    """
    assigned = [f"{name}={shlex.quote(value)}" for name, value in (variables or {}).items()]
    forward = [f"-x {name}" for name in forwarded]
    return " ".join([*assigned, starter(recommendation), *placed(recommendation), *words, *forward, PROGRAM])


def stated(mca: Mapping[str, str], variables: Mapping[str, str]) -> list[str]:
    """Return options of ``mpirun`` that set MCA parameters and environment variables without any file."""
    return [
        *(f"--mca {name} {shlex.quote(value)}" for name, value in mca.items()),
        *(f"-x {shlex.quote(f'{name}={value}')}" for name, value in variables.items()),
    ]


def sourced(path: Path, command: str, by: str = ".") -> str:
    """Return a line that sources a script with the shell's command ``by``, and then starts a command."""
    return f"{by} {shlex.quote(str(path.absolute()))}; {command}"


def parted(path: Path) -> str:
    """Return why Open MPI's lists of files cannot contain a path; empty if they can."""
    if "," not in str(path.absolute()):
        return ""
    return f"the comma in {str(path.absolute())!r} would part it: Open MPI's lists of files know no quotes"
