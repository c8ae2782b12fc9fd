"""Find in anybody's parameter files whatever an MPI stack would silently ignore or misread.

A function for each kind of file takes text and returns findings; ``lint`` recognises the kinds and looks at
the files together, for a rules file means nothing without the parameters that point to it.

=================  =========================================
module             kind of file
=================  =========================================
``rules``          rules of ``coll_tuned``; ``json_rules``: those in JSON
``parameters``     MCA parameter files, ``--tune`` files
``scripts``        scripts: what reaches each launch, whose options ``launch`` reads
``shell``          the commands that a shell runs, path by path (``words``, ``worlds``); ``csh``: those of csh
``recipes``        modules, YAML, Dockerfiles, EasyBuild's recipes
``settings``       what such parameters mean together; those of the launcher: ``runtime``
``selection``      lists of components; ``values``: what a library refuses, cuts or takes for another
``ucx``            ``ucx.conf``; ``written``: parameter files that a script writes
``vendors``        variables of MPICH's family and libfabric
``traps``          plugins: files and variables of further libraries
=================  =========================================
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path, PurePath

from autotune.lint.assignment import Reach, Read
from autotune.lint.finding import DEFAULT, STACKS, Finding, version_of
from autotune.lint.parameters import mca_file, tune_file
from autotune.lint.recipes import docker_file, easybuild_file, environment_file, module_file, yaml_file
from autotune.lint.rules import rules_file
from autotune.lint.runtime import prte_file
from autotune.lint.scripts import shell_file, stated_releases, stated_versions
from autotune.lint.selection import FRAMEWORKS
from autotune.lint.settings import released, settings, together
from autotune.lint.traps import traps, unusable
from autotune.lint.ucx import ucx_file, variables
from autotune.lint.vendors import beside, vendors
from autotune.lint.worlds import MOST_PATHS
from autotune.stacks.knobs import Knob
from autotune.stacks.knobs.recorded import recorded
from autotune.stacks.known import KNOWN

__all__ = ["DEFAULT", "STACKS", "Finding", "environment_of", "lint", "unusable"]

_READERS: Mapping[str, Callable[[PurePath, str, tuple[int, int]], Read]] = {
    "mca": mca_file,
    "prte": prte_file,
    "tune": tune_file,
    "shell": shell_file,
    "ucx": ucx_file,
    "module": module_file,
    "yaml": yaml_file,
    "docker": docker_file,
    "easybuild": easybuild_file,
    "environment": environment_file,
    "other": lambda path, text, version: Read((), ()),
}
"""Kind of file that assigns → what reads it; ``other`` is nothing that a stack reads."""

_SCRIPTS = (".sh", ".csh", ".tcsh", ".slurm", ".sbatch", ".batch", ".bash", ".job", ".pbs", ".lsf", ".ksh")
_SHELL_LINE = re.compile(r"^#(?:PBS|SBATCH|BSUB|\$ -|FLUX:|flux:|COBALT|PJM) ", re.MULTILINE)
_LAUNCH = re.compile(
    r"^[^\S\n]*(?:export|setenv) \w+|^[^\S\n]*(?:\S+/)?(?:mpirun|mpiexec|srun|aprun|jsrun) |"
    r"^[^\S\n]*(?:if \[+ |fi$|done$|alias \w+=)",
    re.MULTILINE,
)
_SHELL = re.compile(r"(export|setenv|module|source|\.|srun|mpirun|mpiexec|alias|if|unset) ")
_INTERPRETED = re.compile(r"#!(?!.*(?:\b(?:ba|da|z|a|m?k|t?c)?sh\d*\b|[$@{<%])).*\w")
"""No shell, nor a word that something else puts in."""
_MODULE = re.compile(
    r"^\s*(?:(?:pushenv|setenv|prepend_path|whatis|help|load|depends_on)\s*\(|module-whatis\s)", re.M
)
_DOCKER = re.compile(r"^(?:FROM\s+\S+|ARG\s+\w+|# syntax=)", re.MULTILINE)
_EASYBUILD = re.compile(r"^(?:easyblock|toolchain|moduleclass)\s*=", re.MULTILINE)
_YAML = re.compile(
    r"^(?:---\s*|(?:apiVersion|spack|packages|modules|services|version|kind|env):.*)$", re.MULTILINE
)
_RULES_KEY = re.compile(r'"(collectives|rule_file_version|module)"')

_BEGINNINGS = "|".join([*FRAMEWORKS, *KNOWN["common"]["beginnings"].split()])
_PARAMETER = re.compile(rf"(?:[OMPI]{{3,5}}_MCA_|PRTE_MCA_|PMIX_MCA_|UCX_|(?:{_BEGINNINGS})(?:_\w+)?\s*$)")

_VARIABLE = re.compile(r"((?:OMPI|PRTE|PMIX)_MCA_\w+|[A-Z_][A-Z0-9_]*|[a-z]+_proxy)=")
"""A line of an environment file: names are those of variables, not of parameters."""
_READ_BY_A_LIBRARY = re.compile(
    r"(?:OMPI|PRTE|PMIX)_MCA_|UCX_|NCCL_|UCC_|FI_|I_MPI_|MPICH_|MPIR_CVAR_|MV[2P]_"
)
_OWN_NAMES = ("ucx.conf", "ucc.conf", "nccl.conf", ".nccl.conf")
"""Names under which a library looks for its own file: whatever is not its own in it is ignored."""
_NAMED_ENVIRONMENT = re.compile(r"environment|env(?:\.\w+)?|.*\.env|\.env\.\w+")
"""How environment files are called."""

_OF_PRRTE = re.compile(r"prte_\w+\s*=")
"""A line that Open MPI's own parameter files have no use for."""

_SAYING = ("shell", "module", "docker", "yaml", "easybuild")
"""Kinds of file that may say for which Open MPI they are."""

_OF_ANY = (*_SAYING, "mca", "tune")
"""Those that are for any, if they do not; ``mca-params`` is for the one that is judged for."""

_OLDER = (4, 1)
"""The oldest version whose reading is known; a file that names none, or an older one, may be for any."""

_OUTCOME = re.compile(r"ignore|abort|refuse")
_LACKED = re.compile(rf"no (?:{'|'.join(FRAMEWORKS)}) '?[^\s:']+")

_COLLECTIVES = 22  # COLLCOUNT of Open MPI's coll_base_functions.h: neither their number nor an id is larger.
_RULES_NAMES = ("", ".conf", ".rules", ".dat")
_DOCUMENTS = (".md", ".html", ".rst", ".csv", ".json", ".jsonl", ".py", ".c", ".log", ".out", ".yaml", ".yml")
"""Ends of names of files in which commands only stand as a text, or in another reader's words."""
_OTHERS = (".fish", ".nu", ".ps1", ".bat", ".cmd", ".service", ".timer", ".socket", ".mount", ".target")
"""Ends of names of files for shells that are not followed, and for systemd, which has words of its own."""
_TEXTS = re.compile(
    r"(?i:readme|install|changes|changelog|news|todo|copying|license|(?:gnu)?makefile|cmakelists)(?:\.\w+)?$|"
    r".*\.(?:readme|mk)$"
)
"""How texts for people, and files of ``make``, are called."""
_PROSE = re.compile(r"(?:[*+-] |\d{4}-\d\d-\d\d\b|[A-Z][a-z]+ [a-z].*[.,:;]$|.*[a-z]\.$)")
"""How lines of a text for people begin or end: of a log of changes, of a description."""
_TOLD = re.compile(
    r"rule-file-version|num\S* of (?:coll|com)|#\s*(?:coll\w* )?ID\b|comm?(?:unicator)? size", re.I
)

_CARRIED = {
    **dict.fromkeys(
        ("mca", "tune"), "becomes part of each value: the job aborts where that names a component"
    ),
    "shell": "becomes part of each value",
}
"""Kind of file → what a carriage return does there; rules files and ``ucx.conf`` skip it."""


def lint(
    files: Mapping[PurePath, str],
    mpi: str = "",
    known: Collection[str] | None = None,
    exists: Callable[[str], bool] | None = None,
    nodes: int | None = None,
    knobs: Mapping[str, Knob] | None = None,
    components: Mapping[str, Collection[str]] | None = None,
) -> tuple[Finding, ...]:
    """Everything in these files that the stack would ignore, misread or refuse, in order of file and line.

    Args:
        files: Path → text.
        mpi: One of ``STACKS``; empty: what a script loads, else ``openmpi5``.
        known: Names of all MCA parameters of the stack; None: only those that this project knows are judged.
        exists: Whether a file that a parameter names is there; None: not asked.
        nodes: Of the jobs that use the files; None: several.
        knobs: MCA parameters and UCX's variables by name, as the libraries that are installed here say.
        components: Framework of Open MPI → its components here, where this version is installed.

    Raises:
        UserError: a stack that is not known.
    """
    asked = version_of(mpi) if mpi else None
    usual = version_of(mpi or DEFAULT)
    ucx = [name for name in knobs or () if name.startswith("UCX_")]
    # What libfabric lists as texts, the record has words of.
    words = {name: knob for name, knob in recorded().items() if name.startswith("FI_") and knob.allowed}
    knobs = {**recorded(), **(knobs or {}), **words}
    findings: list[Finding] = []
    launches: list[tuple[Reach, tuple[tuple[int, int], ...], bool]] = []
    around = [Reach()]
    own: dict[str, list[str]] = {}
    meant: list[tuple[tuple[tuple[int, int], ...], bool]] = []
    for path, said in files.items():
        kind = kind_of(path, said)
        text = said.replace("\r\n", "\n")
        says = (text, str(path)) if kind in _SAYING else (str(path),)
        told = (asked,) if asked else next(filter(None, map(stated_versions, says)), ())
        named = min(told) >= _OLDER if told else kind not in _OF_ANY or "mca-params" in path.name
        every = () if named else (usual, _OLDER)
        versions = tuple(dict.fromkeys((*(max(one, _OLDER) for one in told), *every))) or (usual,)
        meant.append((versions, named))
        version = versions[0]
        findings += _carried(path, said, kind)
        if kind == "rules":
            here_is = _release(knobs) if version == usual else ()
            findings += rules_file(path, text, version, here_is)
            continue
        if kind in traps():
            findings += traps()[kind].file(path, text)
            own.setdefault(kind, []).append(said)
            continue
        reads = {one: _READERS[kind](path, text, one) for one in versions}
        read = reads[version]

        def judged(version: tuple[int, int], its: Mapping[tuple[int, int], Read] = reads) -> list[Finding]:
            here = (known, exists, knobs, components)
            others = (None, exists, _but_openmpi(knobs))
            return [
                *its[version].findings,
                *settings(its[version].assigned, version, *(here if version == usual else others)),
            ]

        findings += [*_in_all(versions, judged, named), *vendors(read.assigned, text)]
        findings += variables(read.assigned, ucx, text)
        findings += released(read.assigned, next(filter(None, map(stated_releases, says)), ()))
        launches += [(reach, versions, named) for reach in read.launches]
        if not read.launches:
            left = read.left or (Reach(tuple(read.assigned)),)
            around = [one.beside(other) for one in around for other in left][:MOST_PATHS]
    if not launches:
        launches = [(Reach(), *max(meant, key=lambda its: its[1], default=((usual,), True)))]
    for one, (reach, versions, named) in product(around, launches):
        both = one.beside(reach)
        findings += _in_all(versions, partial(together, both, one_node=nodes == 1), named)
        findings += beside(both.assigned, files.values(), own)
    order = list(files)
    return tuple(sorted(dict.fromkeys(findings), key=lambda f: (order.index(f.file), f.line)))


def _in_all(
    versions: Sequence[tuple[int, int]],
    judged: Callable[[tuple[int, int]], Sequence[Finding]],
    named: bool,
) -> list[Finding]:
    """Findings for the first of the versions that a file may be for, which hold for all of them.

    Where the file does not name these, the others are kept as what is not sure.
    """
    first, *others = map(judged, versions)
    same = [{_said(finding) for finding in its} for its in others]
    holds = [all(_said(finding) in its for its in same) for finding in first]
    return [
        finding if so else replace(finding, sure=False)
        for finding, so in zip(first, holds, strict=True)
        if so or not named
    ]


def _said(finding: Finding) -> tuple[int, str, str]:
    """The outcome of a line, in whatever words a version has it, and the component that this one lacks."""
    outcome, lacked = _OUTCOME.search(finding.effect), _LACKED.search(finding.effect)
    what = outcome[0] if outcome else re.sub(r"\d+", "", finding.effect)
    return finding.line, what, lacked[0] if lacked else ""


def _but_openmpi(knobs: Mapping[str, Knob]) -> Mapping[str, Knob]:
    """The installed libraries but Open MPI, for files of another version of it."""
    return {name: knob for name, knob in knobs.items() if knob.layer != "openmpi"}


def _release(knobs: Mapping[str, Knob]) -> tuple[int, ...]:
    """Which Open MPI is installed here, as far as its listing says."""
    said = next((knob.version for knob in knobs.values() if knob.layer == "openmpi"), "")
    return tuple(map(int, re.findall(r"\d+", said)))[:3]


def _carried(path: PurePath, said: str, kind: str) -> Iterator[Finding]:
    if "\r\n" in said and kind in _CARRIED:
        line = 1 + said[: said.index("\r\n")].count("\n")
        effect = f"lines end in a carriage return, which {_CARRIED[kind]}"
        if first := re.match(r"#!.*?(\s-\S+)?\r\n", said):
            effect += f", and the {'option' if first[1] else 'interpreter'} in the first line is not found"
        yield Finding(path, line, effect, "write Unix line ends (dos2unix)")


def kind_of(path: PurePath, text: str) -> str:
    """The kind of a file, by its content and then its name: one that has a reader, or ``other``."""
    lines = [line.strip() for line in text.splitlines()]
    said = [line for line in lines if line and not line.startswith("#")]
    first = said[0] if said else ""
    if _is_rules(said):
        return "rules"
    if _TEXTS.match(path.name) or path.suffix in _OTHERS or path.parent.name == "environment.d":
        return "other"
    if path.suffix in _SCRIPTS:
        return "other" if _INTERPRETED.match(text) else "shell"
    own = path.name in _OWN_NAMES or "mca-params" in path.name
    if not own and _is_environment(path, said):
        return "environment"
    begins = re.match(r"UCX_\w+=", first) and "mca" not in path.name
    if path.name == "ucx.conf" or (begins and _is_ucx(path, said)):
        return "ucx"
    if kind := next((name for name, one in traps().items() if one.reads(path, first)), ""):
        return kind
    if first.startswith("{"):
        return "rules" if _RULES_KEY.search(text) else "other"
    if lines and lines[0].startswith("#!"):
        return "other" if _INTERPRETED.match(lines[0]) else "shell"
    if recipe := _recipe(path, text, lines[0] if lines else ""):
        return recipe
    if "mca-params" not in path.name and (_SHELL.match(first) or _SHELL_LINE.search(text)):
        return "shell"
    if re.match(r"--?(?:mca|x)\s", first):
        return "tune"
    if path.suffix in _DOCUMENTS:
        return "other"
    if path.parent.name == ".prte" or re.match(r"prte-mca-params|prte\.conf", path.name):
        return "prte" if path.name != "prte.conf" else "other"
    conf = path.suffix == ".conf"
    if "mca-params" not in path.name and _assigns(said, "=") and any(map(_OF_PRRTE.match, said)):
        return "prte"
    if not conf and "mca-params" not in path.name and _is_mostly_of(said, "_MCA_"):
        return "other"
    if "mca-params" in path.name or (conf and not said) or _assigns(said, r"[=\s]" if conf else "="):
        return "mca"
    if path.suffix in _RULES_NAMES and first[:1].isdigit() and _has_numbers(said):
        return "rules"
    prose = sum(bool(_PROSE.match(line)) for line in said)
    told = path.suffix != ".txt" and 4 * prose < len(said)
    return "shell" if told and _LAUNCH.search(text) else "other"


def _is_ucx(path: PurePath, said: Sequence[str]) -> bool:
    """Whether lines of a file that begins as UCX's are all its own, where its name does not say so."""
    return path.suffix == ".conf" or all(re.match(r"UCX_\w+\s*=|\[|[A-Z][\w ]+=", line) for line in said)


def _is_mostly_of(said: Sequence[str], part: str) -> bool:
    """Whether most lines set variables whose names have a part: of Open MPI's own files none has."""
    matches = [_VARIABLE.match(line) for line in said]
    return 2 * sum(part in match[1] for match in matches if match) > len(said)


def _is_environment(path: PurePath, said: Sequence[str]) -> bool:
    """Whether all lines set variables, some of them a library's, and of more than one program.

    A list of one library's alone is that library's own file, unless it is called otherwise.
    """
    matches = [_VARIABLE.match(line) for line in said]
    names = [match[1] for match in matches if match]
    if not names or len(names) < len(said) or not any(map(_READ_BY_A_LIBRARY.match, names)):
        return False
    several = len({name.partition("_")[0] for name in names}) > 1
    return several or bool(_NAMED_ENVIRONMENT.fullmatch(path.name)) or path.suffix not in ("", ".conf")


def _recipe(path: PurePath, text: str, first: str) -> str:
    """The kind of a file of another tool's that sets variables; empty: it is none."""
    if first.startswith("#%Module") or path.suffix == ".lua" or (not path.suffix and _MODULE.search(text)):
        return "module"
    if path.suffix == ".eb" or len(_EASYBUILD.findall(text)) > 1:
        return "easybuild"
    if path.suffix in (".yaml", ".yml") or (path.suffix not in _DOCUMENTS and _YAML.match(text)):
        return "yaml"
    named = re.match(r"(?:Docker|Container)file", path.name) or path.suffix in (".dockerfile", ".Dockerfile")
    return "docker" if named and _DOCKER.search(text) else ""


def _has_numbers(said: Sequence[str]) -> bool:
    """Whether most lines are numbers, but for a comment or one word: rules that somebody got wrong."""
    if not _counts(said):
        return False
    numbers = [re.fullmatch(r"(?:\w+\s+)?[-+\dxa-fA-F,\s]+\w?", line.partition("#")[0]) for line in said]
    return 2 * sum(map(bool, numbers)) > len(said)


def _counts(said: Sequence[str]) -> bool:
    """Whether the first two numbers can be how many collectives there are, and the id of one."""
    return all(int(n) <= _COLLECTIVES for n in re.findall(r"\d+", " ".join(said[:2]))[:2])


def _is_rules(said: Sequence[str]) -> bool:
    """Whether lines are rules: counts on lines of their own and rows of four or five, or words say so."""
    first = said[0] if said else ""
    if first.startswith("rule-file-version") or (first[:1].isdigit() and _TOLD.search("\n".join(said[:4]))):
        return True
    rows = [line.partition("#")[0].split() for line in said]
    numbers = [token for row in rows for token in row]
    whole = len(numbers) > 7 and all(re.fullmatch(r"\d+|0x[0-9a-f]+", token) for token in numbers)
    return (
        whole
        and _counts(said)
        and (len(rows) == 1 or (len(rows[0]) == 1 and {len(row) for row in rows} <= {1, 4, 5}))
    )


def _assigns(said: Sequence[str], sign: str) -> bool:
    """Whether most lines set MCA parameters: names of a framework of Open MPI or the like before a sign."""
    names = [bool(_PARAMETER.match(re.split(sign, line)[0])) for line in said if re.search(sign, line)]
    return 2 * sum(names) > len(said)


def environment_of(path: PurePath, text: str) -> dict[str, str]:
    """The environment variables that set the same as the file."""
    kind = kind_of(path, text)
    if kind == "rules":
        return {
            "OMPI_MCA_coll_tuned_use_dynamic_rules": "1",
            "OMPI_MCA_coll_tuned_dynamic_rules_filename": str(Path(path).absolute()),
        }
    if kind in traps():
        return dict(traps()[kind].environment(text))
    assignments = _READERS[kind](path, text, version_of(DEFAULT)).assigned
    return {a.name if a.variable else f"OMPI_MCA_{a.name}": a.value for a in assignments}
