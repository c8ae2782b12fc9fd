"""``lint``, ``install`` and ``uninstall``: parameter files on this machine."""

import re
import sys
from datetime import UTC, datetime
from pathlib import Path, PurePath

from autotune.campaign.directory import read_record
from autotune.errors import StackError, UserError
from autotune.exporters import exporter
from autotune.exporters.install import installed, merged, without
from autotune.exporters.openmpi import CONF_FILE
from autotune.exporters.settings import RULES_FILE
from autotune.lint import lint as linted
from autotune.stacks.installation import find, output


def lint(paths: tuple[Path, ...], mpi: str, nodes: int | None = None) -> int:
    """Print what the stack would ignore or misread; 1 where there is something."""
    files: dict[PurePath, str] = {}
    for path in paths:
        try:
            files[path] = path.read_text()
        except (OSError, UnicodeDecodeError) as exc:
            raise UserError(f"{path} cannot be read: {exc}") from exc
    findings = linted(files, mpi, _known(mpi), lambda name: Path(name).exists(), nodes)
    for finding in findings:
        sys.stdout.write(f"{finding}\n")
    sys.stdout.write(
        f"{len(findings)} finding{'s' * (len(findings) != 1)} in {len(files)} file(s) for {mpi}\n"
    )
    return 1 if findings else 0


def install(directory: Path) -> None:
    """Merge the recommendation into the user's own parameter file."""
    recommendation = read_record(directory).recommendation
    if recommendation is None:
        raise UserError(
            f"{directory} recommends nothing yet", f"python -m autotune status {directory} says how far it is"
        )
    home = Path.home() / ".openmpi"
    target = home / "mca-params.conf"
    files = exporter("openmpi_mca").export(recommendation, home)
    theirs = target.read_text() if target.exists() else ""
    text = merged(theirs, files[CONF_FILE])
    home.mkdir(exist_ok=True)
    for path in (target, home / RULES_FILE):
        _back_up(path)
    if RULES_FILE in files:
        (home / RULES_FILE).write_text(files[RULES_FILE])
    target.write_text(text)
    sys.stdout.write(f"{target}: {len(installed(text))} parameters [{recommendation.provenance.verified}]\n")
    sys.stdout.write("take them out again with: python -m autotune uninstall\n")
    try:
        prefix = find().mpirun.resolve().parent.parent
        sys.stdout.write(f"for all users of this machine: {prefix / 'etc' / CONF_FILE} (not written)\n")
    except StackError:
        pass


def uninstall() -> None:
    """Take the recommendation out of the user's own parameter file."""
    home = Path.home() / ".openmpi"
    target = home / "mca-params.conf"
    text = target.read_text() if target.exists() else ""
    if not installed(text):
        raise UserError(f"{target} holds nothing of autotune's", "nothing was changed")
    _back_up(target)
    left = without(text)
    if left.strip():
        target.write_text(left)
    else:
        target.unlink()
    rules = home / RULES_FILE
    if rules.exists() and rules.read_text().startswith("# autotune: "):
        rules.unlink()
    sys.stdout.write(f"{target}: as it was before\n")


def _back_up(path: Path) -> None:
    """Copy a file aside under today's date and time; a copy of the same second is the same."""
    if path.exists():
        stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%SZ")
        copy = path.with_name(f"{path.name}.{stamp}")
        copy.write_bytes(path.read_bytes())
        sys.stdout.write(f"kept {path} as {copy}\n")


def _known(mpi: str) -> frozenset[str] | None:
    """Names of all parameters, where the stack that is judged for is installed here."""
    try:
        here = find()
        if here.flavour != "openmpi" or mpi != f"openmpi{here.version.split('.')[0]}":
            return None
        text = output([str(here.mpirun.resolve().with_name("ompi_info")), "--parsable", "--all"])
    except StackError:
        return None
    # Some parameters are listed under their synonyms only.
    names = re.findall(r"^mca:\w+:[\w-]+:param:(\w+):(?:synonym_of:name:(\w+))?", text, re.MULTILINE)
    return frozenset(name for pair in names for name in pair if name) or None
