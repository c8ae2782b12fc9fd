"""Find, for ``doctor``, settings of the user that keep MPI from starting, by leaving some of them out.

MPI is started with different subsets of the settings. No table of bad values is needed: each setting that a
library refuses is reported with the message of the library.
"""

import os
import site
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath

from autotune.errors import StackError
from autotune.lint.files import environment_of
from autotune.resources import user_text

_READ_BY_LIBRARIES = (
    *("OMPI_", "OPAL_", "PRTE_", "PMIX_", "UCX_", "UCC_", "FI_", "HCOLL_", "ROMIO_"),
    *("MPICH_", "MPIR_", "I_MPI_", "MV2_", "MVP_", "HYDRA_", "MPIEXEC_"),
)
"""Prefixes of the variables that MPI and the libraries below it read."""
_READ_BY_THE_LOADER = ("LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT", "TMPDIR")
"""Variables that decide which libraries a launch loads and where it writes; many MPI installations need
them."""
_FILES = {
    ".openmpi/mca-params.conf": "OMPI_MCA_",
    ".prte/mca-params.conf": "PRTE_MCA_",
    ".pmix/mca-params.conf": "PMIX_MCA_",
    "ucx.conf": "",
}
"""Maps each parameter file in the home directory to the prefix that turns the name of a parameter into the
name of the equivalent environment variable."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One environment variable, or a line of a parameter file as the equivalent environment variable."""

    label: str
    """Name of the variable, or the file and the name of the parameter, for messages."""
    name: str
    """Name of the variable."""
    value: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """An environment in which MPI starts here, and the settings that keep MPI from starting."""

    environment: Mapping[str, str]
    """The environment in which MPI starts."""
    broken: tuple[tuple[Setting, str], ...] = ()
    """Each setting that keeps MPI from starting, with the library's message."""


def fails(attempt: Callable[[], object]) -> str:
    """Return the error message of an attempt to start MPI; empty if the attempt succeeds."""
    try:
        attempt()
    except StackError as exc:
        return " ".join(exc.message.split()) or "no message"
    return ""


def diagnosed(
    attempt: Callable[[], object], env: Mapping[str, str], home: Path, empty: Path
) -> Diagnosis | None:
    """Find the environment variables and the lines of files in a home directory that keep MPI from starting.

    The variables of the loader are tried only if MPI fails even without all variables of the libraries.

    Args:
        attempt: Starts MPI; raises ``StackError`` if that fails.
        env: The environment variables.
        home: The home directory.
        empty: An empty directory, which replaces the home directory in all attempts if ``home`` contains
            parameter files.

    Returns:
        The settings at fault and an environment without them; None if MPI fails even without all of the
        settings.
    """
    from_files = tuple(_of_files(home))
    for prefixes in (_READ_BY_LIBRARIES, (*_READ_BY_LIBRARIES, *_READ_BY_THE_LOADER)):
        exported = [Setting(name, name, value) for name, value in env.items() if name.startswith(prefixes)]
        remaining_env = {name: value for name, value in env.items() if not name.startswith(prefixes)}
        if from_files:
            remaining_env |= {"HOME": str(empty), "PYTHONUSERBASE": site.getuserbase()}

        def under(settings: Sequence[Setting], remaining_env: Mapping[str, str] = remaining_env) -> str:
            with environment(_with(remaining_env, settings)):
                return fails(attempt)

        settings = [*from_files, *exported]  # variables come last because they override files
        if not under([]):
            broken = breaking(settings, under)
            harmless = [setting for setting in settings if setting not in [culprit for culprit, _ in broken]]
            return Diagnosis(_with(remaining_env, harmless), broken)
    return None


def breaking(
    settings: Sequence[Setting], under: Callable[[Sequence[Setting]], str]
) -> tuple[tuple[Setting, str], ...]:
    """Find settings such that MPI starts once they are removed; each setting is found by bisection.

    Args:
        settings: All settings; each attempt uses some of the first ones.
        under: Tries to start MPI with some of the settings; returns the error message, or an empty text if
            MPI starts. MPI must start with none of them.

    Returns:
        The settings that keep MPI from starting, each with the error message.
    """
    remaining, broken = list(settings), []
    while remaining and (message := under(remaining)):
        passing, failing = 0, len(remaining)
        while failing - passing > 1:
            middle = (passing + failing) // 2
            if failure := under(remaining[:middle]):
                failing, message = middle, failure
            else:
                passing = middle
        broken.append((remaining.pop(passing), message))
    return tuple(broken)


@contextmanager
def environment(env: Mapping[str, str]) -> Iterator[None]:
    """Replace the environment of this process and its children inside a ``with`` block."""
    previous = dict(os.environ)
    try:
        os.environ.clear()
        os.environ.update(env)
        yield
    finally:
        os.environ.clear()
        os.environ.update(previous)


def files_of(home: Path) -> Iterator[Path]:
    """Yield the parameter files of Open MPI, PRRTE, PMIx and UCX in a home directory."""
    yield from (path for name in _FILES if (path := home / name).is_file())


def _of_files(home: Path) -> Iterator[Setting]:
    for name, prefix in _FILES.items():
        if (path := home / name).is_file():
            for variable, value in environment_of(PurePath(path), user_text(path, lenient=True)).items():
                parameter = variable.removeprefix("OMPI_MCA_").removeprefix("PRTE_MCA_")
                yield Setting(f"~/{name}: {parameter}", f"{prefix}{parameter}", value)


def _with(env: Mapping[str, str], settings: Sequence[Setting]) -> dict[str, str]:
    return {**env, **{setting.name: setting.value for setting in settings}}
