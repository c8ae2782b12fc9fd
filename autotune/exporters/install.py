"""Exported parameters in a user's own file, Open MPI's or UCX's, and out of it again (after step 12).

What is put in stands between two marker lines; everything else in the file is somebody's and stays as it is.
A line of theirs that sets the same parameter is kept as a comment inside the block and comes back on removal.
"""

import re
from collections.abc import Mapping

from autotune.errors import UserError

BEGIN, END = "# >>> autotune", "# <<< autotune"
_KEPT = "# replaced: "


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
    lines = [*kept, *([""] if kept and kept[-1].strip() else []), BEGIN]
    lines += [f"{_KEPT}{line}" for line in replaced]
    lines += [*block.strip().splitlines(), END]
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


def _key(line: str) -> str:
    """The parameter that a line sets; empty for comments and blank lines."""
    match = re.match(r"\s*([\w.:-]+)\s*=", line)
    return match[1] if match else ""
