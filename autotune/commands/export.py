"""``export DIR…``: a recommendation, or several as one, as parameter files."""

import sys
from datetime import UTC, datetime
from pathlib import Path

from autotune.commands.install import agreed
from autotune.commands.site_directory import recommended
from autotune.errors import UserError
from autotune.exporters import listing
from autotune.exporters.files import export_files, how_to_use, unused
from autotune.exporters.merging import merged
from autotune.exporters.site import KEPT, SiteTree, bring_back, differences, replacing, site_tree
from autotune.exporters.user_files import Changes
from autotune.exporters.writing import write_files
from autotune.stacks import dialect
from autotune.verification.choices import ChoiceKind


def list_formats() -> None:
    """Print every format with its summary."""
    for name, summary in listing():
        sys.stdout.write(f"{name:18} {summary}\n")


def export(
    directories: tuple[Path, ...],
    wanted: tuple[str, ...],
    out: Path | None,
    kind: str = ChoiceKind.RECOMMENDED,
    prefix: Path | None = None,
    module: str = "openmpi",
    unasked: bool = False,
) -> None:
    """Write the files of one recommendation, or of several as one.

    By default in the formats of the stack, into the first campaign; or with a prefix a tree for a site there,
    whose module of the MPI can be named; ``unasked``: without the questions that ``install`` asks.

    Raises:
        AutotuneError: it needs a confirmation, and nobody gave one.
        UserError: nothing to export, what a format cannot say, or no place for files.
    """
    recommendation = merged([recommended(one, ChoiceKind(kind)) for one in directories], directories)
    if prefix:
        if wanted or out:
            raise UserError(
                "--prefix goes with neither --format nor --out", "its tree has formats of its own"
            )
        tree = site_tree(recommendation, prefix, module)
        stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%S-%fZ")
        changes = replacing(tree, stamp)
        sys.stdout.writelines(f"{line}\n" for line in differences(changes))
        agreed(recommendation, directories, changes, unasked)
        _write_tree(tree, changes, stamp)
        return
    target = out or directories[0] / "export"
    if len(directories) > 1 and out is None:
        raise UserError("several campaigns in one file", "say where to write it: --out DIR")
    formats = wanted or dialect(recommendation.provenance.family).formats
    for path in export_files(recommendation, formats, target):
        sys.stdout.write(f"{path}\n")
    if use := how_to_use(recommendation, formats, target):
        sys.stdout.write(f"use them with:\n  {use}\n")
    else:
        sys.stdout.write(f"{unused(recommendation, target)}\n")
    if stamp := recommendation.provenance.stamp:
        sys.stdout.write(f"all of this is {stamp}: no MPI ran\n")


def _write_tree(tree: SiteTree, changes: Changes, stamp: str) -> None:
    write_files(changes.contents, parents=True, public=True, below=tree.prefix)
    sys.stdout.writelines(f"{path}\n" for path in tree.files)
    ways = "\n  or: ".join(tree.uses)
    sys.stdout.write(f"use it with:\n  {ways}\n")
    sys.stdout.write(f"take it back with:\n  {tree.back}\n")
    if any(tree.prefix / KEPT in path.parents for path in changes.contents):
        sys.stdout.write(f"or bring back what it replaced with:\n  {bring_back(tree, stamp)}\n")
