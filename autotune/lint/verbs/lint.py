"""``lint FILE…``: report what the MPI would silently ignore or misread in files and scripts."""

import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path, PurePath

from autotune.errors import ExitCode, StackError, UserError
from autotune.exporters.origin import nodes_of, other_version
from autotune.lint.files import kind_of, unjudged, unusable
from autotune.lint.files import lint as linted
from autotune.lint.finding import DEFAULT
from autotune.lint.kinds import UNREAD
from autotune.resources import user_text
from autotune.stacks.installation import find
from autotune.stacks.knobs import Knob
from autotune.stacks.knobs.listing import read
from autotune.stacks.knobs.openmpi import components


def lint(paths: tuple[Path, ...], mpi: str, nodes: int | None = None, everything: bool = False) -> int:
    """Print what the MPI would ignore or misread in files, and return the exit code.

    The exit code is 1 if there is a finding. Otherwise it is 5 if something was not judged: a file of a kind
    in ``UNREAD``, or a line that makes a setting in a way that ``lint`` does not follow; else 0.

    A finding that depends on more than the content of the files is a note, which does not affect the exit
    code. Folders are left out and named on standard error, because a pattern of the shell such as
    ``export/*`` matches them too.

    Args:
        paths: The files.
        mpi: Name of the MPI, such as ``openmpi5``; empty means the version that a file states, otherwise
            ``DEFAULT``.
        nodes: Number of nodes of the jobs that use the files; None means the number that the files state,
            otherwise several.
        everything: Whether to print notes too.

    Raises:
        UserError: a file cannot be read, the MPI is unknown, or all paths are folders.
    """
    folders = [path for path in paths if path.is_dir()]
    if len(folders) == len(paths):
        raise UserError(f"{folders[0]} is a folder", f"name its files: {folders[0]}/*")
    files: dict[PurePath, str] = {}
    for path in paths:
        if path not in folders:
            files[path] = user_text(path, raised=UserError, line_ends=True)
    sys.stderr.writelines(f"left out: {folder} is a folder\n" for folder in folders)
    kinds = {path: kind_of(path, text) for path, text in files.items()}
    unread_files = {path: UNREAD[kind] for path, kind in kinds.items() if kind in UNREAD}
    sys.stderr.writelines(f"not judged: {path} {why}\n" for path, why in unread_files.items())
    lines = [f"{path}:{line}: {name}" for path, line, name in unjudged(files)]
    sys.stderr.writelines(
        f"not judged: {line} is set or written in a way that is not followed\n" for line in lines
    )
    sys.stderr.writelines(f"not judged, a plugin is left out: {why}\n" for why in unusable())
    with suppress(StackError):
        version = find(stack="openmpi").version
        remarks = ((path, other_version(text, version)) for path, text in files.items())
        sys.stderr.writelines(f"{path}: {words}\n" for path, words in remarks if words)
    nodes = measured_on(files.values()) if nodes is None else nodes
    knobs, parts = installed(mpi or DEFAULT)
    all_findings = linted(files, mpi, names_of(knobs), lambda n: Path(n).exists(), nodes, knobs, parts)
    findings = [finding for finding in all_findings if finding.sure]
    for finding in all_findings if everything else findings:
        sys.stdout.write(f"{finding}\n")
    count, plural = len(files) - len(unread_files), "s" * (len(findings) != 1)
    sys.stdout.write(f"{len(findings)} finding{plural} in {count} file(s) for {mpi or DEFAULT}\n")
    if notes := 0 if everything else len(all_findings) - len(findings):
        sys.stdout.write(f"{notes} note{'s' * (notes != 1)} not shown: --all, or --mpi for one version\n")
    return ExitCode.FINDING if findings else ExitCode.UNKNOWN if unread_files or lines else ExitCode.WELL


def measured_on(texts: Iterable[str]) -> int | None:
    """Return the largest number of nodes that files state for their campaign; None if no file states any."""
    return max((n for n in map(nodes_of, texts) if n is not None), default=None)


def names_of(knobs: Mapping[str, Knob]) -> frozenset[str] | None:
    """Return the names of those variables that are Open MPI's parameters; None if there are none."""
    openmpi_knobs = (knob for knob in knobs.values() if knob.layer == "openmpi")
    return frozenset(name for knob in openmpi_knobs for name in (knob.name, *knob.inherits)) or None


def installed(mpi: str) -> tuple[Mapping[str, Knob], Mapping[str, tuple[str, ...]]]:
    """Return the variables of the libraries on this machine by name, and Open MPI's components by framework.

    The variables are those of UCX and libfabric. If ``mpi`` names the installed MPI, its variables are
    included; otherwise the second mapping is empty. Both mappings are empty if no MPI is found.
    """
    try:
        installation = find()
        knobs = read("ucx", installation) + read("libfabric", installation)
        if mpi != f"{installation.flavour}{installation.version.split('.')[0]}":
            return {knob.name: knob for knob in knobs}, {}
        knobs += read(installation.flavour, installation)
        return {name: k for k in knobs for name in (k.name, *k.children, *k.inherits)} | {
            k.name: k for k in knobs
        }, components(installation.mpirun)
    except StackError:
        return {}, {}
