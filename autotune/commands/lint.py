"""``lint FILE…``: what the MPI stack would silently ignore or misread in anybody's files."""

import sys
from pathlib import Path, PurePath

from autotune.errors import ExitCode, StackError, UserError
from autotune.lint import lint as linted
from autotune.resources import user_text
from autotune.stacks.installation import find
from autotune.stacks.knobs.listing import read


def lint(paths: tuple[Path, ...], mpi: str, nodes: int | None = None) -> int:
    """Print what the stack would ignore or misread; 1 where there is something.

    Folders among files are left out and named: a pattern of the shell (``export/*``) names both.

    Raises:
        UserError: a file that cannot be read, a stack that is not known, or nothing but folders.
    """
    folders = [path for path in paths if path.is_dir()]
    if len(folders) == len(paths):
        raise UserError(f"{folders[0]} is a folder", f"name its files: {folders[0]}/*")
    files: dict[PurePath, str] = {}
    for path in paths:
        if path not in folders:
            files[path] = user_text(path, raised=UserError, line_ends=True)
    sys.stderr.writelines(f"left out: {folder} is a folder\n" for folder in folders)
    findings = linted(files, mpi, _known(mpi), lambda name: Path(name).exists(), nodes)
    for finding in findings:
        sys.stdout.write(f"{finding}\n")
    sys.stdout.write(
        f"{len(findings)} finding{'s' * (len(findings) != 1)} in {len(files)} file(s) for {mpi}\n"
    )
    return ExitCode.FINDING if findings else ExitCode.WELL


def _known(mpi: str) -> frozenset[str] | None:
    """Names of all parameters, where the stack that is judged for is installed here."""
    try:
        here = find()
        judged = mpi == f"{here.flavour}{here.version.split('.')[0]}"
        knobs = read(here.flavour, here) if judged else ()
    except StackError:
        return None
    return frozenset(name for knob in knobs for name in (knob.name, *knob.inherits)) or None
