"""``export DIR…``: write a recommendation, or several merged into one, as parameter files."""

import sys
from datetime import UTC, datetime
from pathlib import Path

from autotune.commands.everybody import for_everybody, recommended
from autotune.commands.install import confirm, mention
from autotune.errors import UserError
from autotune.exporters import listing
from autotune.exporters.files import export_files, how_to_use, notes_on, unused
from autotune.exporters.merging import merged
from autotune.exporters.prefix import KEPT, SiteTree, bring_back, differences, replacing, site_tree
from autotune.exporters.user_files import Changes
from autotune.exporters.writing import write_files
from autotune.stacks import dialect
from autotune.verification.choices import ChoiceKind


def list_formats() -> None:
    """Print the name of every file format, with a summary of it."""
    for name, summary in listing():
        sys.stdout.write(f"{name:18} {summary}\n")


def export(
    directories: tuple[Path, ...],
    format_names: tuple[str, ...],
    out: Path | None,
    kind: str | None = None,
    prefix: Path | None = None,
    module: str = "openmpi",
    confirmed: bool = False,
) -> None:
    """Write a recommendation as files; the recommendations of several campaigns or sites are merged first.

    ``out`` is by default ``export`` in the first directory, ``format_names`` are by default the usual formats
    of the MPI, and ``kind`` names the choice (a value of ``ChoiceKind``) that is exported.

    If a ``prefix`` is given, the files are instead a tree below this directory, for all users of a site. The
    tree's module file then requires ``module``, the environment module of the site's MPI (empty: there is
    none). In this case ``kind`` is by default the harmless choice. ``confirmed`` skips the questions about
    doubtful results.

    Raises:
        AutotuneError: a confirmation is needed and was not given, or every verified setting slows other
            calls.
        UserError: there is nothing to export, a format cannot express the setting, or files cannot be
            written.
    """
    choice = ChoiceKind(kind or (ChoiceKind.HARMLESS if prefix else ChoiceKind.RECOMMENDED))
    read = for_everybody if prefix else recommended
    recommendation = merged([read(directory, choice) for directory in directories], directories)
    if prefix:
        if format_names or out:
            raise UserError(
                "--prefix goes with neither --format nor --out", "its tree has formats of its own"
            )
        tree = site_tree(recommendation, prefix, module)
        stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%S-%fZ")
        changes = replacing(tree, stamp)
        sys.stdout.writelines(f"{line}\n" for line in differences(changes))
        confirm(recommendation, directories, changes, confirmed)
        _write_tree(tree, changes, stamp)
        return
    target = out or directories[0] / "export"
    if len(directories) > 1 and out is None:
        raise UserError("several campaigns in one file", "say where to write it: --out DIR")
    mention(recommendation, directories, "export", confirmed)
    formats = format_names or dialect(recommendation.provenance.family).formats
    for path in export_files(recommendation, formats, target):
        sys.stdout.write(f"{path}\n")
    use = how_to_use(recommendation, formats, target)
    sys.stdout.write(f"use them with:\n  {use}\n" if use else f"{unused(recommendation, target)}\n")
    sys.stdout.writelines(f"{note}\n" for note in notes_on(recommendation, use))
    if stamp := recommendation.provenance.stamp:
        sys.stdout.write(f"all of this is {stamp}: no MPI ran\n")


def _write_tree(tree: SiteTree, changes: Changes, stamp: str) -> None:
    write_files(changes.contents, parents=True, public=True, below=tree.prefix)
    sys.stdout.writelines(f"{path}\n" for path in tree.files)
    ways = "\n  or: ".join(tree.uses)
    sys.stdout.write(f"use it with:\n  {ways}\ntake it back with:\n  {tree.back}\n")
    if any(tree.prefix / KEPT in path.parents for path in changes.contents):
        sys.stdout.write(f"or bring back what it replaced with:\n  {bring_back(tree, stamp)}\n")
