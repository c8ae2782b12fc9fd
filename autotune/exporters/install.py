"""Putting exported parameters into a user's own parameter file, and taking them out again (after step 12).

What is put in stands between two marker lines; everything else in the file is somebody's and stays as it is.
A line of theirs that sets the same parameter is kept as a comment inside the block and comes back on removal;
variables that only their list of environment variables sets are taken over into ours.
"""

import re
from collections.abc import Mapping

from autotune.errors import UserError

BEGIN, END = "# >>> autotune", "# <<< autotune"
_KEPT = "# replaced: "
_LIST = "mca_base_env_list"


def merged(theirs: str, block: str) -> str:
    """A parameter file with our block at its end, in place of an earlier one.

    Args:
        theirs: The file as it is; empty where there is none.
        block: ``key = value`` lines and comments, as exported.

    Raises:
        UserError: the file holds half a block, so somebody edited the markers.
    """
    foreign = without(theirs).splitlines()
    ours = {key for line in block.splitlines() if (key := _key(line))}
    kept = [line for line in foreign if _key(line) not in ours]
    replaced = [line for line in foreign if _key(line) in ours]
    theirs_listed = [line for line in replaced if _key(line) == _LIST]
    block_lines = [
        _with_list(line, theirs_listed[-1]) if theirs_listed and _key(line) == _LIST else line
        for line in block.strip().splitlines()
    ]
    lines = [*kept, *([""] if kept and kept[-1].strip() else []), BEGIN]
    lines += [f"{_KEPT}{line}" for line in replaced]
    lines += [*block_lines, END]
    return "\n".join(lines) + "\n"


def without(text: str) -> str:
    """A parameter file without our block, with the lines back that it had replaced.

    Raises:
        UserError: the file holds half a block.
    """
    lines = text.splitlines()
    begins = [i for i, line in enumerate(lines) if line.startswith(BEGIN)]
    ends = [i for i, line in enumerate(lines) if line.startswith(END)]
    if not begins and not ends:
        return text
    if len(begins) != 1 or len(ends) != 1 or ends[0] < begins[0]:
        raise UserError(
            "the markers of autotune's block are damaged",
            f"one line {BEGIN!r} and after it one line {END!r} are expected; repair or remove them by hand",
        )
    inside = lines[begins[0] : ends[0]]
    back = [line.removeprefix(_KEPT) for line in inside if line.startswith(_KEPT)]
    before = lines[: begins[0]]
    while before and not before[-1].strip():
        before.pop()
    rest = [*before, *back, *lines[ends[0] + 1 :]]
    return "\n".join(rest) + "\n" if rest else ""


def installed(text: str) -> Mapping[str, str]:
    """What our block in a parameter file sets; empty where there is none."""
    inside = text.partition(BEGIN)[2].partition(END)[0]
    pairs = (line.partition("=") for line in inside.splitlines() if _key(line))
    return {name.strip(): value.strip() for name, _, value in pairs}


def _with_list(ours: str, theirs: str) -> str:
    """Our list of environment variables with those of theirs that it does not set."""
    lists = [line.partition("=")[2].strip().split(";") for line in (theirs, ours)]
    variables = {item.partition("=")[0].strip(): item.strip() for listed in lists for item in listed if item}
    return f"{_LIST} = {';'.join(variables.values())}"


def _key(line: str) -> str:
    """The parameter that a line sets; empty for comments and blank lines."""
    match = re.match(r"\s*([\w.:-]+)\s*=", line)
    return match[1] if match else ""
