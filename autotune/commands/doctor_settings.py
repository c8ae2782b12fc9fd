"""Settings of a user under which MPI does not start here, for ``doctor``: found by starting it without them.

No table of bad values is asked: whatever the libraries refuse is named, with what they say of it.
"""

import os
import site
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath

from autotune.errors import StackError
from autotune.lint import environment_of
from autotune.resources import user_text

_READ_BY_LIBRARIES = (
    *("OMPI_", "OPAL_", "PRTE_", "PMIX_", "UCX_", "UCC_", "FI_", "HCOLL_", "ROMIO_"),
    *("MPICH_", "MPIR_", "I_MPI_", "MV2_", "MVP_", "HYDRA_", "MPIEXEC_"),
)
"""How the names of variables begin that MPI and the libraries below it read."""
_READ_BY_THE_LOADER = ("LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT", "TMPDIR")
"""Others that decide what a launch loads and where it writes; many an MPI needs these."""
_FILES = {
    ".openmpi/mca-params.conf": "OMPI_MCA_",
    ".prte/mca-params.conf": "PRTE_MCA_",
    ".pmix/mca-params.conf": "PMIX_MCA_",
    "ucx.conf": "",
}
"""Parameter file in the home directory → what the variables have in front that say the same."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One variable of the environment, or a line of a parameter file as the variable that says the same."""

    label: str
    """The variable's name, or the file with the parameter's."""
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Settings without which MPI starts here."""

    environment: Mapping[str, str]
    """An environment in which it does."""
    broken: tuple[tuple[Setting, str], ...] = ()
    """Each setting under which it does not, with the library's message."""


def fails(attempt: Callable[[], object]) -> str:
    """The message of an attempt that meets no usable MPI; empty: there is one."""
    try:
        attempt()
    except StackError as exc:
        return " ".join(exc.message.split()) or "no message"
    return ""


def diagnosed(
    attempt: Callable[[], object], env: Mapping[str, str], home: Path, empty: Path
) -> Diagnosis | None:
    """Which settings of an environment and of the files in a home directory make an attempt fail.

    Where there are such files the directory ``empty`` stands for the home in every attempt. The loader's
    variables are left out only where the libraries' own explain nothing. None: it fails without all of these,
    too.
    """
    from_files = tuple(_of_files(home))
    for begins in (_READ_BY_LIBRARIES, (*_READ_BY_LIBRARIES, *_READ_BY_THE_LOADER)):
        exported = [Setting(name, name, value) for name, value in env.items() if name.startswith(begins)]
        others = {name: value for name, value in env.items() if not name.startswith(begins)}
        if from_files:
            others |= {"HOME": str(empty), "PYTHONUSERBASE": site.getuserbase()}

        def under(settings: Sequence[Setting], others: Mapping[str, str] = others) -> str:
            with environment(_with(others, settings)):
                return fails(attempt)

        settings = [*from_files, *exported]  # a variable wins over a file
        if not under([]):
            broken = breaking(settings, under)
            kept = [one for one in settings if one not in [setting for setting, _ in broken]]
            return Diagnosis(_with(others, kept), broken)
    return None


def breaking(
    settings: Sequence[Setting], under: Callable[[Sequence[Setting]], str]
) -> tuple[tuple[Setting, str], ...]:
    """Settings whose removal leaves a set that works, each found by halving, with the message under it.

    Args:
        settings: In the order in which they are tried together.
        under: The message of an attempt under some of them; empty where it works, as under none of them.
    """
    kept, broken = list(settings), []
    while kept and (message := under(kept)):
        works, does_not = 0, len(kept)
        while does_not - works > 1:
            middle = (works + does_not) // 2
            if told := under(kept[:middle]):
                does_not, message = middle, told
            else:
                works = middle
        broken.append((kept.pop(works), message))
    return tuple(broken)


@contextmanager
def environment(env: Mapping[str, str]) -> Iterator[None]:
    """Start processes in another environment, as long as the block lasts."""
    before = dict(os.environ)
    try:
        os.environ.clear()
        os.environ.update(env)
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def files_of(home: Path) -> Iterator[Path]:
    """The parameter files of Open MPI, PRRTE, PMIx and UCX in a home directory."""
    yield from (path for name in _FILES if (path := home / name).is_file())


def _of_files(home: Path) -> Iterator[Setting]:
    for name, prefix in _FILES.items():
        if (path := home / name).is_file():
            for variable, value in environment_of(PurePath(path), user_text(path, lenient=True)).items():
                said = variable.removeprefix("OMPI_MCA_").removeprefix("PRTE_MCA_")
                yield Setting(f"~/{name}: {said}", f"{prefix}{said}", value)


def _with(env: Mapping[str, str], settings: Sequence[Setting]) -> dict[str, str]:
    return {**env, **{one.name: one.value for one in settings}}
