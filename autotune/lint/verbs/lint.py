"""``lint FILE…``: report what the MPI would silently ignore or misread in files and scripts."""

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path, PurePath
from typing import NamedTuple

from autotune.errors import ExitCode, StackError, UserError, allowed
from autotune.exporters.origin import nodes_of, other_version
from autotune.lint.codes import chosen
from autotune.lint.files import kind_of, unjudged, unusable
from autotune.lint.files import lint as linted
from autotune.lint.finding import DEFAULT
from autotune.lint.kinds import UNREAD
from autotune.lint.output import FORMATS, Report, Unjudged
from autotune.resources import MOST_BYTES, decoded, user_text
from autotune.stacks.installation import find
from autotune.stacks.knobs import Knob
from autotune.stacks.knobs.listing import read
from autotune.stacks.knobs.openmpi import components

_STDIN = Path("-")
"""Stands for standard input among the files."""


class Asked(NamedTuple):
    """The user's request: for which jobs files are checked, and which findings are wanted."""

    mpi: str = ""
    """Name of the MPI, such as ``openmpi5``; empty: the version that a file states, otherwise ``DEFAULT``."""
    nodes: int | None = None
    """Number of nodes of the jobs; None: the number that the files state, otherwise several."""
    everything: bool = False
    """Whether to print notes too."""
    select: tuple[str, ...] = ()
    """Codes, or beginnings of codes, of the findings that are wanted; none means all."""
    ignore: tuple[str, ...] = ()
    """Those of the findings that are not wanted."""


def lint(paths: tuple[Path, ...], asked: Asked, form: str = "text", stdin_name: str = "") -> int:
    """Print what the MPI would ignore or misread in files, and return the exit code.

    The exit code is 1 if there is a finding. Otherwise it is 5 if something was not judged: a file of a kind
    in ``UNREAD``, or a line that makes a setting in a way that ``lint`` does not follow; else 0.

    A finding that depends on more than the content of the files is a note, which does not affect the exit
    code. Folders are left out and named on standard error, because a pattern of the shell such as
    ``export/*`` matches them too. ``$AUTOTUNE_DOCS`` is the address of ``docs/lint.md`` for links in SARIF.

    Args:
        paths: The files; ``-`` is standard input.
        asked: The request.
        form: One of ``FORMATS``.
        stdin_name: Name that standard input is shown under, and by which its kind is recognised.

    Raises:
        UserError: a file cannot be read, the MPI, the format or a code is unknown, or all paths are folders.
    """
    if form not in FORMATS:
        raise UserError(f"--format {form}", allowed(form, FORMATS))
    files = _files(paths, stdin_name)
    report = reported(files, asked)
    sys.stderr.writelines(f"not judged: {one}\n" for one in report.unjudged)
    sys.stderr.writelines(f"not judged, a plugin is left out: {why}\n" for why in unusable())
    with suppress(StackError):
        version = find(stack="openmpi").version
        remarks = ((path, other_version(text, version)) for path, text in files.items())
        sys.stderr.writelines(f"{path}: {words}\n" for path, words in remarks if words)
    sys.stdout.write(FORMATS[form](report))
    return ExitCode.FINDING if report.n_sure else ExitCode.UNKNOWN if report.unjudged else ExitCode.WELL


def reported(files: Mapping[PurePath, str], asked: Asked) -> Report:
    """Return what the MPI would ignore or misread in files, given the text of each by its path.

    Raises:
        UserError: the MPI or a code is unknown.
    """
    codes = chosen(asked.select, asked.ignore)
    not_judged = tuple(_unjudged(files))
    mpi = asked.mpi or DEFAULT
    nodes = measured_on(files.values()) if asked.nodes is None else asked.nodes
    knobs, parts = installed(mpi)
    found = linted(files, asked.mpi, names_of(knobs), lambda n: Path(n).exists(), nodes, knobs, parts)
    wanted = [finding for finding in found if finding.code in codes]
    shown = tuple(finding for finding in wanted if finding.sure or asked.everything)
    n_judged = len(files) - sum(not one.line for one in not_judged)
    folder, docs = Path.cwd(), os.environ.get("AUTOTUNE_DOCS", "")
    return Report(mpi, n_judged, shown, len(wanted) - len(shown), not_judged, folder, docs)


def _files(paths: tuple[Path, ...], stdin_name: str) -> dict[PurePath, str]:
    """Return the text of each file by its path, and print the names of folders, which are left out."""
    if stdin_name and _STDIN not in paths:
        raise UserError(
            "--stdin-filename names standard input, which is not read", "lint - --stdin-filename …"
        )
    folders = [path for path in paths if path != _STDIN and path.is_dir()]
    if len(folders) == len(paths):
        raise UserError(f"{folders[0]} is a folder", f"name its files: {folders[0]}/*")
    files: dict[PurePath, str] = {}
    for path in paths:
        if path == _STDIN:
            files[PurePath(stdin_name or path)] = _stdin()
        elif path not in folders:
            files[path] = user_text(path, raised=UserError, line_ends=True)
    sys.stderr.writelines(f"left out: {folder} is a folder\n" for folder in folders)
    return files


def _stdin() -> str:
    content = sys.stdin.buffer.read(MOST_BYTES + 1)
    try:
        if len(content) > MOST_BYTES:
            raise ValueError(f"it has more than {MOST_BYTES >> 20} MiB")
        return decoded(content)
    except ValueError as exc:
        raise UserError(f"standard input cannot be read: {exc}", "a text in UTF-8") from exc


def _unjudged(files: Mapping[PurePath, str]) -> Iterator[Unjudged]:
    """Yield the files of unknown kinds, then the lines that are not followed."""
    for path, text in files.items():
        if (kind := kind_of(path, text)) in UNREAD:
            yield Unjudged(path, 0, UNREAD[kind])
    for path, line, name in unjudged(files):
        yield Unjudged(path, line, f"{name} is set or written in a way that is not followed")


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
