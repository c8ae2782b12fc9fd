"""``install DIR`` and ``uninstall``: a recommendation in the user's own parameter file, and out again."""

import sys
from datetime import UTC, datetime
from pathlib import Path

from autotune.campaign.directory import read_campaign
from autotune.errors import StackError, UserError
from autotune.exporters import exporter
from autotune.exporters.install import installed, merged, without
from autotune.exporters.openmpi import CONF_FILE
from autotune.exporters.origin import is_ours
from autotune.exporters.settings import RULES_FILE
from autotune.stacks.installation import find


def install(directory: Path) -> None:
    """Merge the recommendation into the user's own parameter file."""
    recommendation = read_campaign(directory).recommended()
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
    if rules.exists() and is_ours(rules.read_text()):
        rules.unlink()
    sys.stdout.write(f"{target}: as it was before\n")


def _back_up(path: Path) -> None:
    """Copy a file aside under today's date and time; a copy of the same second is the same."""
    if path.exists():
        stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%SZ")
        copy = path.with_name(f"{path.name}.{stamp}")
        copy.write_bytes(path.read_bytes())
        sys.stdout.write(f"kept {path} as {copy}\n")
