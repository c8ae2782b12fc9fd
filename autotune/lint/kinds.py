"""Recognise, by content and name, the kind of a file that an MPI, a tool or a shell reads."""

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
"""First line that names an interpreter other than a shell; lines with a placeholder do not match."""
_CSH = re.compile(r"#!\s*\S*(?:/|env\s+)t?csh\b")
_SETENV = re.compile(r"^[^\S\n]*setenv\s+\w+", re.MULTILINE)
_BOURNE = re.compile(
    r"^[^\S\n]*(?:export\s+\w|fi\b|done\b)|\A#!\s*\S*(?:/|env\s+)(?:ba|k|z|da)?sh\b", re.MULTILINE
)
_MODULE = re.compile(
    r"^\s*(?:(?:pushenv|setenv|prepend_path|whatis|help|load|depends_on)\s*\(|module-whatis\s)", re.M
)
_RECIPES = (".lua", ".eb", ".yaml", ".yml", ".dockerfile", ".Dockerfile", ".def")
_EASYBUILD = re.compile(r"^(?:easyblock|toolchain|moduleclass)\s*=", re.MULTILINE)
_YAML = re.compile(
    r"^(?:---\s*|(?:apiVersion|spack|packages|modules|services|version|kind|env):.*)$", re.MULTILINE
)
_RULES_KEY = re.compile(r'"(collectives|rule_file_version|module)"')

_BEGINNINGS = "|".join([*FRAMEWORKS, *KNOWN["common"]["beginnings"].split()])
_PARAMETER = re.compile(rf"(?:[OMPI]{{3,5}}_MCA_|PRTE_MCA_|PMIX_MCA_|UCX_|(?:{_BEGINNINGS})(?:_\w+)?\s*$)")

_VARIABLE = re.compile(r"((?:OMPI|PRTE|PMIX)_MCA_\w+|[A-Z_][A-Z0-9_]*|[a-z]+_proxy)=")
"""Line of a file of environment variables; names of MCA parameters do not match."""
_READ_BY_A_LIBRARY = re.compile(
    r"(?:OMPI|PRTE|PMIX)_MCA_|UCX_|NCCL_|UCC_|FI_|I_MPI_|MPICH_|MPIR_CVAR_|MV[2P]_"
)
_OWN_NAMES = ("ucx.conf", "ucc.conf", "nccl.conf", ".nccl.conf")
"""Names of files that one library reads for its own variables, ignoring variables of other libraries."""
_NAMED_ENVIRONMENT = re.compile(r"environment|env(?:\.\w+)?|.*\.env|\.env\.\w+")
"""Usual names of files of environment variables."""

_OF_PRRTE = re.compile(r"prte_\w+\s*=")
"""A line with a parameter of PRRTE, which has no effect in a parameter file of Open MPI."""

UNREAD = {
    "other": "is of an unknown kind",
    "csh": "is a script for csh, whose commands are not followed",
    "recipe": "is a module file, a recipe or a manifest, whose settings are not followed",
}
"""Maps each kind of file that is not checked to a text that says why."""

_COLLECTIVES = 22  # COLLCOUNT in Open MPI's coll_base_functions.h: upper limit of counts and ids in a file.
_RULES_NAMES = ("", ".conf", ".rules", ".dat")  # Suffixes that names of rules files may have.
_DOCUMENTS = (".md", ".html", ".rst", ".csv", ".json", ".jsonl", ".py", ".c", ".log", ".out", ".yaml", ".yml")
"""Suffixes of files in which commands are only quoted, or have the syntax of another language."""
_OTHERS = (".fish", ".nu", ".ps1", ".bat", ".cmd", ".service", ".timer", ".socket", ".mount", ".target")
"""Suffixes of files for shells that this project cannot parse, and for systemd, which has its own syntax."""
_TEXTS = re.compile(
    r"(?i:readme|install|changes|changelog|news|todo|copying|license|(?:gnu)?makefile|cmakelists)(?:\.\w+)?$|"
    r".*\.(?:readme|mk)$"
)
"""Usual names of makefiles, and of files that people read."""
_PROSE = re.compile(r"(?:[*+-] |\d{4}-\d\d-\d\d\b|[A-Z][a-z]+ [a-z].*[.,:;]$|.*[a-z]\.$)")
"""Line of a text for people, such as a log of changes or a description."""
_TOLD = re.compile(
    r"rule-file-version|num\S* of (?:coll|com)|#\s*(?:coll\w* )?ID\b|comm?(?:unicator)? size", re.I
)


def kind_of(path: PurePath, text: str) -> str:
    """Return the kind of a file: one of those that ``lint`` can read, or one of ``UNREAD``.

    The kind is recognised by the name of the file and by its lines that are neither empty nor comments.
    """
    lines = [line.strip() for line in text.splitlines()]
    code_lines = [line for line in lines if line and not line.startswith("#")]
    first = code_lines[0] if code_lines else ""
    if _is_rules(code_lines):
        return "rules"
    if _TEXTS.match(path.name) or path.suffix in _OTHERS or path.parent.name == "environment.d":
        return "other"
    if path.suffix in _SCRIPTS:
        return _script(path, text)
    is_library_file = path.name in _OWN_NAMES or "mca-params" in path.name
    if not is_library_file and _is_environment(path, code_lines):
        return "environment"
    begins = re.match(r"UCX_\w+=", first) and "mca" not in path.name
    if path.name == "ucx.conf" or (begins and _is_ucx(path, code_lines)):
        return "ucx"
    if kind := next((name for name, trap in traps().items() if trap.reads(path, first)), ""):
        return kind
    if first.startswith("{"):
        return "rules" if _RULES_KEY.search(text) else "other"
    if lines and lines[0].startswith("#!"):
        return _script(path, text)
    if _is_recipe(path, text):
        return "recipe"
    if "mca-params" not in path.name and (_SHELL.match(first) or _SHELL_LINE.search(text)):
        return _script(path, text)
    if re.match(r"--?(?:mca|x)\s", first):
        return "tune"
    if path.suffix in _DOCUMENTS:
        return "other"
    if path.parent.name == ".prte" or re.match(r"prte-mca-params|prte\.conf", path.name):
        return "prte" if path.name != "prte.conf" else "other"
    conf = path.suffix == ".conf"
    if "mca-params" not in path.name and _assigns(code_lines, "=") and any(map(_OF_PRRTE.match, code_lines)):
        return "prte"
    if not conf and "mca-params" not in path.name and _is_mostly_of(code_lines, "_MCA_"):
        return "other"
    if (
        "mca-params" in path.name
        or (conf and not code_lines)
        or _assigns(code_lines, r"[=\s]" if conf else "=")
    ):
        return "mca"
    if path.suffix in _RULES_NAMES and first[:1].isdigit() and _has_numbers(code_lines):
        return "rules"
    prose = sum(bool(_PROSE.match(line)) for line in code_lines)
    is_likely_script = path.suffix != ".txt" and 4 * prose < len(code_lines)
    return _script(path, text) if is_likely_script and _LAUNCH.search(text) else "other"


def _script(path: PurePath, text: str) -> str:
    """Return the kind of a script: for a Bourne shell, for csh, or for another interpreter."""
    if _INTERPRETED.match(text):
        return "other"
    only_of_csh = _SETENV.search(text) and not _BOURNE.search(text)
    return "csh" if path.suffix in (".csh", ".tcsh") or _CSH.match(text) or only_of_csh else "shell"


def _is_ucx(path: PurePath, code_lines: Sequence[str]) -> bool:
    """Whether a file that begins with a UCX variable is a ``ucx.conf``, by its suffix or by all its lines."""
    return path.suffix == ".conf" or all(
        re.match(r"UCX_\w+\s*=|\[|[A-Z][\w ]+=", line) for line in code_lines
    )


def _is_mostly_of(code_lines: Sequence[str], part: str) -> bool:
    """Whether most lines set variables with ``part`` in their names."""
    matches = [_VARIABLE.match(line) for line in code_lines]
    return 2 * sum(part in match[1] for match in matches if match) > len(code_lines)


def _is_environment(path: PurePath, code_lines: Sequence[str]) -> bool:
    """Whether a file of this kind can set any environment variable, not only those of one library.

    A list with variables of only one library counts as that library's own file, unless the name of the file
    says otherwise.
    """
    matches = [_VARIABLE.match(line) for line in code_lines]
    names = [match[1] for match in matches if match]
    if not names or len(names) < len(code_lines) or not any(map(_READ_BY_A_LIBRARY.match, names)):
        return False
    several = len({name.partition("_")[0] for name in names}) > 1
    return several or bool(_NAMED_ENVIRONMENT.fullmatch(path.name)) or path.suffix not in ("", ".conf")


def _is_recipe(path: PurePath, text: str) -> bool:
    """Whether a file belongs to a tool that sets variables: modules, containers, Spack, EasyBuild, YAML."""
    named = path.suffix in _RECIPES or re.match(r"(?:Docker|Container)file", path.name)
    is_module = text.startswith("#%Module") or (not path.suffix and _MODULE.search(text))
    is_yaml = path.suffix not in _DOCUMENTS and _YAML.match(text)
    return bool(named or is_module or is_yaml or len(_EASYBUILD.findall(text)) > 1)


def _has_numbers(code_lines: Sequence[str]) -> bool:
    """Whether most lines have only numbers and at most one word, as in a rules file with mistakes."""
    if not _counts(code_lines):
        return False
    numbers = [
        re.fullmatch(r"(?:\w+\s+)?[-+\dxa-fA-F,\s]+\w?", line.partition("#")[0]) for line in code_lines
    ]
    return 2 * sum(map(bool, numbers)) > len(code_lines)


def _counts(code_lines: Sequence[str]) -> bool:
    """Whether the first two numbers can be a number of collectives and the id of a collective."""
    return all(int(n) <= _COLLECTIVES for n in re.findall(r"\d+", " ".join(code_lines[:2]))[:2])


def _is_rules(code_lines: Sequence[str]) -> bool:
    """Whether lines are a rules file, by its header, its comments, or its counts and rows of numbers."""
    first = code_lines[0] if code_lines else ""
    if first.startswith("rule-file-version") or (
        first[:1].isdigit() and _TOLD.search("\n".join(code_lines[:4]))
    ):
        return True
    rows = [line.partition("#")[0].split() for line in code_lines]
    numbers = [token for row in rows for token in row]
    all_numbers = len(numbers) > 7 and all(re.fullmatch(r"\d+|0x[0-9a-f]+", token) for token in numbers)
    return (
        all_numbers
        and _counts(code_lines)
        and (len(rows) == 1 or (len(rows[0]) == 1 and {len(row) for row in rows} <= {1, 4, 5}))
    )


def _assigns(code_lines: Sequence[str], sign: str) -> bool:
    """Whether most lines with the pattern ``sign`` set MCA parameters, by the names in front of it."""
    names = [bool(_PARAMETER.match(re.split(sign, line)[0])) for line in code_lines if re.search(sign, line)]
    return 2 * sum(names) > len(code_lines)
