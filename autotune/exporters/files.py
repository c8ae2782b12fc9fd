"""Writing what exporters say (step 12 of the flow)."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from autotune.campaign.directory import Record
from autotune.exporters import exporter
from autotune.recommend.front import Recommendation

_BY_STACK: Mapping[str, tuple[str, ...]] = {
    "openmpi": ("openmpi_mca", "env_sh"),
    "command": ("json", "summary"),
    "recorded": (),  # nobody knows what the columns of a table set
}


def default_formats(record: Record) -> tuple[str, ...]:
    """The formats that suit the campaign's stack."""
    return _BY_STACK.get(record.space.stack, ("env_sh",))


def export_files(recommendation: Recommendation, formats: Sequence[str], directory: Path) -> tuple[Path, ...]:
    """Write the files of all formats into a directory; each path once, in order.

    Raises:
        UserError: an unknown format, or a recommendation that a format cannot say.
    """
    texts: dict[str, str] = {}
    for name in formats:
        texts.update(exporter(name).export(recommendation, directory.absolute()))
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (directory / name).write_text(text)
    return tuple(directory / name for name in texts)


def how_to_use(record: Record, directory: Path) -> str:
    """The one line that puts the exported files into force."""
    conf = directory.absolute() / "openmpi-mca-params.conf"
    if conf.exists():
        return f"OMPI_MCA_mca_base_param_files={conf} mpirun … your_program"
    script = directory.absolute() / "autotune-env.sh"
    if script.exists():
        return f". {script}"
    recommendation = record.recommendation
    return str(recommendation.point) if recommendation else ""
