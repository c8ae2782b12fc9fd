"""``install DIR`` and ``uninstall``: a recommendation in the user's own parameter files, and out again."""

import sys
from datetime import UTC, datetime
from pathlib import Path

from autotune.campaign.directory import read_campaign
from autotune.errors import StackError, UserError
from autotune.exporters import exporter
from autotune.exporters.install import installed, merged, without
from autotune.exporters.launch_line import placed
from autotune.exporters.openmpi import CONF_FILE
from autotune.exporters.openmpi_files import UCX_FILE
from autotune.exporters.origin import is_ours
from autotune.exporters.settings import RULES_FILE, settings
from autotune.stacks.installation import find


def install(directory: Path) -> None:
    """Merge the recommendation into the user's own files: Open MPI's and, where it is needed, UCX's."""
    recommendation = read_campaign(directory).recommended()
    files = exporter("openmpi_mca").export(recommendation, _folder())
    blocks = {target: files[name] for name, target in _targets().items() if name in files}
    texts = {target: merged(_text(target), block) for target, block in blocks.items()}
    _folder().mkdir(exist_ok=True)
    for path in (*texts, _folder() / RULES_FILE):
        _back_up(path)
    if RULES_FILE in files:
        (_folder() / RULES_FILE).write_text(files[RULES_FILE])
    for target, text in texts.items():
        target.write_text(text)
        number = len(installed(text))
        sys.stdout.write(f"{target}: {number} parameters [{recommendation.provenance.verified}]\n")
    for what in (*placed(recommendation), *settings(recommendation, directory).environment_only):
        sys.stdout.write(
            f"not in any file: {what}, which belongs on the command line or into the environment\n"
        )
    for name, value in recommendation.provenance.boot:
        sys.stdout.write(f"measured on nodes with {name}={value}, which is firmware\n")
    sys.stdout.write("take them out again with: python -m autotune uninstall\n")
    try:
        prefix = find().mpirun.resolve().parent.parent
        sys.stdout.write(f"for all users of this machine: {prefix / 'etc' / CONF_FILE} (not written)\n")
    except StackError:
        pass


def uninstall() -> None:
    """Take the recommendation out of the user's own parameter files."""
    holding = [target for target in _targets().values() if installed(_text(target))]
    if not holding:
        raise UserError(f"{_targets()[CONF_FILE]} holds nothing of autotune's", "nothing was changed")
    for target in holding:
        _back_up(target)
        left = without(_text(target))
        if left.strip():
            target.write_text(left)
        else:
            target.unlink()
        sys.stdout.write(f"{target}: as it was before\n")
    rules = _folder() / RULES_FILE
    if rules.exists() and is_ours(rules.read_text()):
        rules.unlink()


def _folder() -> Path:
    """Where Open MPI looks for a user's own files."""
    return Path.home() / ".openmpi"


def _targets() -> dict[str, Path]:
    """Exported file → the user's own file of the same kind."""
    return {CONF_FILE: _folder() / "mca-params.conf", UCX_FILE: Path.home() / UCX_FILE}


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def _back_up(path: Path) -> None:
    """Copy a file aside under today's date and time; a copy of the same second is the same."""
    if path.exists():
        stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%SZ")
        copy = path.with_name(f"{path.name}.{stamp}")
        copy.write_bytes(path.read_bytes())
        sys.stdout.write(f"kept {path} as {copy}\n")
