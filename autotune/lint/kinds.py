"""The kind of a file that a stack, a tool or a shell reads, by its content and then by its name."""

import re
from collections.abc import Sequence
from pathlib import PurePath

from autotune.lint.selection import FRAMEWORKS
from autotune.lint.traps import traps
from autotune.stacks.known import KNOWN

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
