"""Read files that set parameters line by line: MCA parameter files and files for ``mpirun --tune``."""

import re
from pathlib import PurePath

from autotune.lint.assignment import Assignment, Read, Source, listed
from autotune.lint.finding import Notes
from autotune.stacks.parameter_file import MCA, MCA_PREFIX, UCX_NAME, lines


def mca_file(path: PurePath, text: str, version: tuple[int, int], prefix_here: str = MCA) -> Read:
    """Read an MCA parameter file, which has lines ``key = value``.

    Args:
        path: Path of the file.
        text: Content of the file.
        version: Open MPI's (major, minor).
        prefix_here: Prefix of environment variables that are equivalent to lines of the file.
    """
    assigned: list[Assignment] = []
    notes = Notes(path)
    first_lines: dict[str, int] = {}
    for number, stripped, name, value in lines(text):
        if not name:
            notes.note(
                "MPI201", number, f"{stripped!r} is not key = value: it is skipped", "one assignment a line"
            )
            continue
        if name in first_lines:
            effect = f"{name} was already set in line {first_lines[name]}: one of them is ignored"
            notes.note("MPI202", number, effect, "keep one")
        first_lines[name] = number
        if prefix := MCA_PREFIX.match(name):
            plain = name.removeprefix(prefix[0])
            remedy = f"write {plain} = {value}" if prefix[0] == prefix_here else f"export {name}={value}"
            notes.note("MPI203", number, f"{name} names no parameter here: it is ignored", remedy)
            continue
        if UCX_NAME.fullmatch(name):
            remedy = f"write {name}={value} into ucx.conf, or export it"
            notes.note("MPI203", number, f"{name} is an environment variable: here it is ignored", remedy)
            continue
        notes.commented(number, name, value, r"(^|\s)(#|//)")
        notes.quoted(number, name, value)
        assigned.append(Assignment(path, number, name, value))
        assigned += listed(assigned[-1])
    return Read(assigned, notes.findings)


def tune_file(path: PurePath, text: str, version: tuple[int, int]) -> Read:
    """Read a file for ``mpirun --tune``, which contains options ``--mca`` and ``-x`` as on a command line."""
    assigned: list[Assignment] = []
    notes = Notes(path)
    first_lines: dict[str, int] = {}
    five = version >= (5, 0)
    if text and not text.endswith("\n"):
        effect = "without a newline at the end the last character is lost"
        notes.note("MPI207", text.count("\n") + 1, effect, "end with a newline")
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        if line[0].isspace() and five:
            notes.note("MPI208", number, "an indented line is silently dropped", "begin in column one")
            continue
        match = re.match(r"(--?)(mca|x)\s+(.*)", stripped)
        if match is None:
            aborts = "mpirun aborts: only --mca and -x are known here"
            remedy = "write --mca KEY VALUE or -x NAME=VALUE"
            notes.note("MPI209", number, aborts if five else "the line is not understood", remedy)
            continue
        dashes, option, assignment = match.groups()
        if option == "mca" and dashes == "-" and five:
            notes.note("MPI209", number, "mpirun aborts at -mca", "write --mca")
        name, _, value = assignment.partition("=" if option == "x" else " ")
        name, value = name.strip(), value.strip()
        if "#" in value:
            effect = f"a comment behind a value: {value!r} as a whole is taken for more options"
            notes.note("MPI204", number, effect, "put comments on lines of their own")
            value = value.partition("#")[0].strip()
        if re.search(r"\s", value) or value.startswith(("'", '"')):
            effect = f"the value {value!r} is cut at its first space, or keeps its quotes"
            notes.note("MPI205", number, effect, "use the parameter file for such values")
        if name in first_lines:
            lost = "mpirun aborts" if five else "one is lost"
            notes.note(
                "MPI202",
                number,
                f"{name} was already set in line {first_lines[name]}: {lost}",
                "keep one of them",
            )
        first_lines[name] = number
        assigned.append(Assignment(path, number, name, value, variable=option == "x", source=Source.TUNE))
        assigned += listed(assigned[-1])
    return Read(assigned, notes.findings)
