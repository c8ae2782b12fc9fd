"""The line that applies exported files, as a user types it (step 12 of the flow)."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from autotune.recommend.recommendation import Recommendation

PROGRAM = "… your_program"  # Where the user's own words go.


def placed(recommendation: Recommendation) -> tuple[str, ...]:
    """The options of ``mpirun`` that place the ranks as they were placed when measured."""
    options = {"map_by": "--map-by", "bind_to": "--bind-to"}
    placement = recommendation.provenance.placement
    return tuple(f"{options[name]} {shlex.quote(value)}" for name, value in placement if value)


def mpirun(
    recommendation: Recommendation,
    words: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
    forwarded: Iterable[str] = (),
) -> str:
    """A line of ``mpirun`` that places the ranks.

    Words are further options, quoted; variables are set for this one command; the variables named to
    be forwarded reach ranks on other nodes too: Open MPI forwards only its own.
    """
    assigned = [f"{name}={shlex.quote(value)}" for name, value in (variables or {}).items()]
    forward = [f"-x {name}" for name in forwarded]
    return " ".join([*assigned, "mpirun", *placed(recommendation), *words, *forward, PROGRAM])


def stated(mca: Mapping[str, str], variables: Mapping[str, str]) -> list[str]:
    """Options of ``mpirun`` that say everything themselves."""
    return [
        *(f"--mca {name} {shlex.quote(value)}" for name, value in mca.items()),
        *(f"-x {shlex.quote(f'{name}={value}')}" for name, value in variables.items()),
    ]


def sourced(path: Path, command: str, by: str = ".") -> str:
    """A line that reads a script and then starts a command."""
    return f"{by} {shlex.quote(str(path.absolute()))}; {command}"


def parted(path: Path) -> str:
    """Why lists of files cannot hold a path; empty: they can."""
    if "," not in str(path.absolute()):
        return ""
    return f"the comma in {str(path.absolute())!r} would part it: Open MPI's lists of files know no quotes"
