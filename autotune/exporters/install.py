"""Exported parameters in a user's own file, Open MPI's or UCX's, and out of it again (after step 12).

What is put in stands between two marker lines; everything else in the file is somebody's and stays as it
is, whatever bytes it has. A line of theirs that sets the same parameter becomes a comment in its place. The
markers hold checksums: of the file as it was, so that taking out gives it back byte by byte or says that it
was edited, and of each line between them, so that a line somebody else put there stays.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from zlib import crc32

from autotune.errors import UserError

BEGIN, END = "# >>> autotune", "# <<< autotune"
_KEPT = "# replaced: "
_NO_FILE = "no file"


@dataclass(frozen=True, slots=True)
class Rest:
    """A file without our block."""

    content: bytes | None  # What is left; None: nothing, and there was no file before.
    as_before: bool  # Whether it is what it was, byte by byte; else somebody edited it since.


def merged(theirs: bytes | None, block: str) -> bytes:
    """A parameter file with our block at its end, in place of an earlier one.

    ``theirs`` is the file as it is, if there is one; a block is ``key = value`` lines and comments.

    Raises:
        UserError: the file holds half a block, so somebody edited the markers.
    """
    before = without(theirs).content
    foreign = (before or b"").decode("latin-1")  # any bytes, and the same ones when encoded again
    ours = block.strip().encode().decode("latin-1").split("\n")
    taken = {key for line in ours if (key := _key(line))}
    lines = [
        f"{_KEPT}{line}" if _key(line) in taken or line.startswith(_KEPT) else line
        for line in foreign.split("\n")
    ]
    gap = "" if not foreign else "\n" if foreign.endswith("\n") else "\n\n"
    begin = f"{BEGIN} (before: {_NO_FILE if before is None else checksum(before)})"
    end = f"{END} ({' '.join(_sum(line) for line in ours)})"
    return "\n".join(["\n".join(lines) + gap + begin, *ours, end, ""]).encode("latin-1")


def without(content: bytes | None) -> Rest:
    """A parameter file without our block, with the lines back that it had replaced.

    Raises:
        UserError: the file holds half a block.
    """
    lines = (content or b"").decode("latin-1").split("\n")
    begins = [i for i, line in enumerate(lines) if line.startswith(BEGIN)]
    ends = [i for i, line in enumerate(lines) if line.startswith(END)]
    if not begins and not ends:
        return Rest(content, as_before=True)
    if len(begins) != 1 or len(ends) != 1 or ends[0] < begins[0]:
        raise UserError(
            "the markers of autotune's block are damaged",
            f"one line {BEGIN!r} and after it one line {END!r} are expected; repair or remove them by hand",
        )
    (begin,), (end,) = begins, ends
    sums = set(re.findall(r"\w+", lines[end].removeprefix(END)))
    edits = [line for line in lines[begin + 1 : end] if _sum(line) not in sums]
    head = "".join(f"{line.removeprefix(_KEPT)}\n" for line in lines[:begin])
    tail = "\n".join([*edits, *lines[end + 1 :]])
    before = lines[begin].partition("before: ")[2].rstrip(")\r")
    if not head + tail and before == _NO_FILE:
        return Rest(None, as_before=True)
    # A blank line parts the block from what stands above it, whose last line may have had no end.
    exact = [head[: len(head) - gap].encode("latin-1") for gap in (1, 2, 0)]
    for candidate in () if tail else exact:
        if checksum(candidate) == before:
            return Rest(candidate, as_before=True)
    rest = (head.removesuffix("\n") if head.endswith("\n\n") else head) + tail
    return Rest(rest.encode("latin-1") if rest or before != _NO_FILE else None, as_before=False)


def installed(content: bytes | None) -> Mapping[str, str]:
    """Variables that our block in a parameter file sets; empty where there is none."""
    inside = (content or b"").decode("latin-1").partition(BEGIN)[2].partition(END)[0]
    pairs = (line.partition("=") for line in inside.split("\n") if _key(line))
    return {name.strip(): value.strip() for name, _, value in pairs}


def checksum(content: bytes) -> str:
    """Checksum of a file, as the markers hold it."""
    return f"{crc32(content):08x}"


def _sum(line: str) -> str:
    return checksum(line.rstrip("\r").encode("latin-1"))[:4]


def _key(line: str) -> str:
    """The parameter that a line sets; empty for comments and blank lines."""
    match = re.match(r"\s*([\w.:-]+)\s*=", line)
    return match[1] if match else ""
