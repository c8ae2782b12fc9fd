"""Read, check and copy settings from parameter files that somebody wrote by hand, for ``guard keep``."""

from collections.abc import Iterator
from pathlib import Path

from autotune.errors import UserError
from autotune.exporters import exporter
from autotune.exporters.document import JsonDocument
from autotune.exporters.openmpi import CONF_FILE, UCX_FILE
from autotune.exporters.settings import RULES_FILE, values_in
from autotune.exporters.writing import write_files
from autotune.history.trial import Rule
from autotune.recommend.recommendation import Provenance, Recommendation
from autotune.resources import user_text
from autotune.space import Point
from autotune.stacks import classic_rules, coll_tuned
from autotune.stacks.installation import find
from autotune.stacks.parameter_file import environment
from autotune.stacks.ucx import detect

_PLACES = (CONF_FILE, f"etc/{CONF_FILE}", UCX_FILE, f"etc/{UCX_FILE}", f"etc/ucx/{UCX_FILE}")
_RULES = "OMPI_MCA_coll_tuned_dynamic_rules_filename"


def parameter_files(folder: Path) -> tuple[Path, ...]:
    """Return the parameter files of Open MPI and UCX in a folder, or in ``etc`` of an installation prefix."""
    return tuple(folder / name for name in _PLACES if (folder / name).is_file())


def copy_settings(files: tuple[Path, ...], mpirun: str | None, folder: Path) -> tuple[Path, ...]:
    """Copy the settings in parameter files, and in the rules file that they name, as ``export`` writes them.

    Returns:
        The paths of the parameter files that were read, and of the rules file if they name one.

    Raises:
        UserError: the files set nothing or cannot be read, or the rules that they name have no effect.
        StackError: there is no MPI on this machine.
    """
    installation = find(mpirun)
    env: dict[str, str] = {}
    for file in files:
        is_ucx = file.name == UCX_FILE
        env |= values_in(file) if is_ucx else environment(user_text(file, raised=UserError))
    if not env:
        raise UserError(f"{', '.join(map(str, files))}: nothing is set there", "guard keeps settings")
    rules_files = [Path(env[_RULES])] if env.get(_RULES) else []
    text = "".join(user_text(path, raised=UserError) for path in rules_files)
    rules = tuple(rule for path in rules_files for rule in _rules(path, text))
    ucx = detect(installation.library)
    stack = f"Open MPI {installation.version}" + (f", UCX {ucx.version}" if ucx else "")
    source = Provenance("by hand", stack=stack, env=tuple(env.items()), family="openmpi")
    recommendation = Recommendation(Point(), rules, provenance=source)
    texts = {
        **exporter("openmpi_mca").export(recommendation, folder),
        **JsonDocument().export(recommendation, folder),
        **({RULES_FILE: text} if rules else {}),
    }
    contents = {folder / name: content for name, content in texts.items()}
    write_files(contents, parents=True, public=True, below=folder)
    return (*files, *rules_files)


def _rules(path: Path, text: str) -> Iterator[Rule]:
    """Yield the rules of a classic rules file, with message sizes as benchmarks count them."""
    classic = classic_rules.read(text)
    if classic.cut:
        line, effect, remedy = classic.cut
        raise UserError(f"{path}, line {line}: {effect}", remedy)
    for table in classic.collectives:
        names = coll_tuned.algorithms(table.name)
        for entry in table.entries:
            unit_bytes = coll_tuned.threshold_bytes(table.name, 1, entry.comm_size)
            for _, row in entry.rows:
                words = {"fanout": row.fanout, "segsize": row.segment_bytes}
                options = {name: value for name, value in words.items() if value and row.algorithm}
                if row.algorithm >= len(names):
                    problem = f"{path}: {table.name} has no algorithm {row.algorithm}"
                    raise UserError(problem, ", ".join(names))
                choice = Point.of({"algorithm": names[row.algorithm], **options})
                min_bytes = -(-row.threshold_bytes // unit_bytes) if unit_bytes else 0
                yield Rule(table.name, entry.comm_size, min_bytes, choice)
