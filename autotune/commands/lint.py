"""``lint FILE…``: what the MPI stack would silently ignore or misread in anybody's files."""

import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path, PurePath

from autotune.errors import ExitCode, StackError, UserError
from autotune.exporters.origin import nodes_of, other_version
from autotune.lint import DEFAULT, kind_of, unjudged, unusable
from autotune.lint import lint as linted
from autotune.resources import user_text
from autotune.stacks.installation import find
from autotune.stacks.knobs import Knob
from autotune.stacks.knobs.listing import read
from autotune.stacks.knobs.openmpi import components


def lint(paths: tuple[Path, ...], mpi: str, nodes: int | None = None, everything: bool = False) -> int:
    """Print what the stack would ignore or misread; 1 where there is something, 5 for what is not judged.

    Not judged are files of a kind that is not known, and lines that write a library's variable to where lint
    does not follow.

    What depends on more than the files say is a note: it decides no exit code, and is printed if asked for.

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
    others = [path for path, text in files.items() if kind_of(path, text) == "other"]
    sys.stderr.writelines(f"not checked: {path} is of an unknown kind\n" for path in others)
    lines = [f"{path}:{line}: {name}" for path, line, name in unjudged(files)]
    sys.stderr.writelines(f"not judged: {line} is set in a way that is not followed\n" for line in lines)
    sys.stderr.writelines(f"not judged, a plugin is left out: {why}\n" for why in unusable())
    with suppress(StackError):
        version = find(stack="openmpi").version
        said = ((path, other_version(text, version)) for path, text in files.items())
        sys.stderr.writelines(f"{path}: {words}\n" for path, words in said if words)
    nodes = measured_on(files.values()) if nodes is None else nodes
    knobs, parts = installed(mpi or DEFAULT)
    found = linted(files, mpi, names_of(knobs), lambda n: Path(n).exists(), nodes, knobs, parts)
    findings = [finding for finding in found if finding.sure]
    for finding in found if everything else findings:
        sys.stdout.write(f"{finding}\n")
    judged, s = len(files) - len(others), "s" * (len(findings) != 1)
    sys.stdout.write(f"{len(findings)} finding{s} in {judged} file(s) for {mpi or DEFAULT}\n")
    if notes := 0 if everything else len(found) - len(findings):
        sys.stdout.write(f"{notes} note{'s' * (notes != 1)} not shown: --all, or --mpi for one version\n")
    return ExitCode.FINDING if findings else ExitCode.UNKNOWN if others or lines else ExitCode.WELL


def measured_on(texts: Iterable[str]) -> int | None:
    """Nodes of the campaign that exported these files; None where none says so."""
    return max((n for n in map(nodes_of, texts) if n is not None), default=None)


def names_of(knobs: Mapping[str, Knob]) -> frozenset[str] | None:
    """Names of Open MPI's parameters among variables of the libraries here; None: none is known."""
    own = (knob for knob in knobs.values() if knob.layer == "openmpi")
    return frozenset(name for knob in own for name in (knob.name, *knob.inherits)) or None


def installed(mpi: str) -> tuple[Mapping[str, Knob], Mapping[str, tuple[str, ...]]]:
    """Variables of the libraries here: UCX's, and Open MPI's where it is the one checked for."""
    try:
        here = find()
        knobs = read("ucx", here) + read("libfabric", here)
        if mpi != f"{here.flavour}{here.version.split('.')[0]}":
            return {knob.name: knob for knob in knobs}, {}
        knobs += read(here.flavour, here)
        return {name: k for k in knobs for name in (k.name, *k.children, *k.inherits)} | {
            k.name: k for k in knobs
        }, components(here.mpirun)
    except StackError:
        return {}, {}
