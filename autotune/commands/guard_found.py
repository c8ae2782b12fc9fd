"""Parameter files that somebody wrote by hand, as settings to be kept: what they said, copied and checked."""

from collections.abc import Iterator
from pathlib import Path

from autotune.errors import UserError
from autotune.exporters import exporter
from autotune.exporters.document import JsonDocument
from autotune.exporters.openmpi import CONF_FILE
from autotune.exporters.openmpi_files import UCX_FILE
from autotune.exporters.script_check import values_in
from autotune.exporters.settings import RULES_FILE
from autotune.exporters.writing import write_files
from autotune.history.trial import Rule
from autotune.lint.parameters import mca_file
from autotune.recommend.recommendation import Provenance, Recommendation
from autotune.resources import user_text
from autotune.space import Point
from autotune.stacks import classic_rules, coll_tuned
from autotune.stacks.installation import find
from autotune.stacks.ucx import detect

_PLACES = (CONF_FILE, f"etc/{CONF_FILE}", UCX_FILE, f"etc/{UCX_FILE}", f"etc/ucx/{UCX_FILE}")
_RULES = "coll_tuned_dynamic_rules_filename"


def found_files(folder: Path) -> tuple[Path, ...]:
    """Parameter files of Open MPI and UCX in a folder, or in ``etc`` below a prefix."""
    return tuple(folder / name for name in _PLACES if (folder / name).is_file())


def copied(files: tuple[Path, ...], mpirun: str | None, into: Path) -> tuple[Path, ...]:
    """Write what the files say into a folder, with the rules that they name, as an export would.

    Returns:
        The files, and the rules file that they name.

    Raises:
        UserError: they set nothing, or something that cannot be read, or rules that are not in effect.
        StackError: no MPI here.
    """
    here = find(mpirun)
    version = (int(here.version.split(".")[0]), int(here.version.split(".")[1]))
    env: dict[str, str] = {}
    sources = list(files)
    for file in files:
        if file.name == UCX_FILE:
            env |= values_in(file)
            continue
        for a in mca_file(file, user_text(file, raised=UserError), version).assigned:
            env[a.name if a.variable else f"OMPI_MCA_{a.name}"] = a.value
    if not env:
        raise UserError(f"{', '.join(map(str, files))}: nothing is set there", "guard keeps settings")
    rules: tuple[Rule, ...] = ()
    text = ""
    if named := env.get(f"OMPI_MCA_{_RULES}"):
        sources.append(Path(named))
        text = user_text(Path(named), raised=UserError)
        rules = tuple(_rules(Path(named), text))
    ucx = detect(here.library)
    stack = f"Open MPI {here.version}" + (f", UCX {ucx.version}" if ucx else "")
    source = Provenance("by hand", stack=stack, env=tuple(env.items()), family="openmpi")
    recommendation = Recommendation(Point(), rules, provenance=source)
    made = {
        **exporter("openmpi_mca").export(recommendation, into),
        **JsonDocument().export(recommendation, into),
        **({RULES_FILE: text} if rules else {}),
    }
    contents = {into / name: content for name, content in made.items()}
    write_files(contents, parents=True, public=True, below=into)
    return tuple(sources)


def _rules(path: Path, text: str) -> Iterator[Rule]:
    """The rows of a classic file, by message sizes as benchmarks count them."""
    read = classic_rules.read(text)
    if read.cut:
        line, effect, remedy = read.cut
        raise UserError(f"{path}, line {line}: {effect}", remedy)
    for its in read.collectives:
        for entry in its.entries:
            each = coll_tuned.threshold_bytes(its.name, 1, entry.comm_size)
            for _, row in entry.rows:
                words = {"fanout": row.fanout, "segsize": row.segment_bytes}
                given = {name: value for name, value in words.items() if value and row.algorithm}
                names = coll_tuned.algorithms(its.name)
                if row.algorithm >= len(names):
                    raise UserError(f"{path}: {its.name} has no algorithm {row.algorithm}", ", ".join(names))
                choice = Point.of({"algorithm": names[row.algorithm], **given})
                least = -(-row.threshold_bytes // each) if each else 0
                yield Rule(its.name, entry.comm_size, least, choice)
