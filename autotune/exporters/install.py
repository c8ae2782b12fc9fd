"""Add exported parameters to a parameter file of Open MPI or UCX, and remove them again (after step 12).

The parameters are added as a block between two marker lines. Everything else in the file belongs to the user
and stays unchanged, byte by byte, except that a line that sets a parameter of the block becomes a comment.
The markers contain checksums. With the checksum of the original file, removing the block either restores
this file exactly or reports that somebody edited it. With the checksums of the block's lines, a line that
somebody else added to the block is recognised and not removed.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from zlib import crc32

from autotune.errors import UserError

BEGIN, END = "# >>> autotune", "# <<< autotune"
_COMMENTED_OUT = "# replaced: "
_NO_FILE = "no file"


@dataclass(frozen=True, slots=True)
class Rest:
    """Holds the content of a parameter file without this program's block."""

    content: bytes | None  # Remaining content; None if nothing remains and there was no file before.
    as_before: bool  # Whether this is the original file, byte by byte; else somebody edited the file since.


def merged(content: bytes | None, block: str) -> bytes:
    """Return the content of a parameter file with a block added at its end; an earlier block is replaced.

    Args:
        content: The present content of the file; None if there is no file.
        block: Lines ``key = value``, and comments.

    Raises:
        UserError: Only one of the two markers is in the file, so somebody edited them.
    """
    without_block = without(content).content
    text = (without_block or b"").decode("latin-1")  # latin-1 keeps all bytes unchanged
    block_lines = block.strip().encode().decode("latin-1").split("\n")
    set_keys = {key for line in block_lines if (key := _key(line))}
    lines = [
        f"{_COMMENTED_OUT}{line}" if _key(line) in set_keys or line.startswith(_COMMENTED_OUT) else line
        for line in text.split("\n")
    ]
    gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
    begin = f"{BEGIN} (before: {_NO_FILE if without_block is None else checksum(without_block)})"
    end = f"{END} ({' '.join(_sum(line) for line in block_lines)})"
    return "\n".join(["\n".join(lines) + gap + begin, *block_lines, end, ""]).encode("latin-1")


def without(content: bytes | None) -> Rest:
    """Return a parameter file without its block; lines that the block had turned into comments are restored.

    Raises:
        UserError: The markers of the block are damaged.
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
    head = "".join(f"{line.removeprefix(_COMMENTED_OUT)}\n" for line in lines[:begin])
    tail = "\n".join([*edits, *lines[end + 1 :]])
    sum_before = lines[begin].partition("before: ")[2].rstrip(")\r")
    if not head + tail and sum_before == _NO_FILE:
        return Rest(None, as_before=True)
    # ``merged`` added one line feed before the block, or two if the text did not end with one, or none if the
    # text was empty.
    exact = [head[: len(head) - gap].encode("latin-1") for gap in (1, 2, 0)]
    for candidate in () if tail else exact:
        if checksum(candidate) == sum_before:
            return Rest(candidate, as_before=True)
    remaining = (head.removesuffix("\n") if head.endswith("\n\n") else head) + tail
    return Rest(remaining.encode("latin-1") if remaining or sum_before != _NO_FILE else None, as_before=False)


def installed(content: bytes | None) -> Mapping[str, str]:
    """Return the variables that the block in a parameter file sets; empty if there is no block."""
    inside = (content or b"").decode("latin-1").partition(BEGIN)[2].partition(END)[0]
    pairs = (line.partition("=") for line in inside.split("\n") if _key(line))
    return {name.strip(): value.strip() for name, _, value in pairs}


def checksum(content: bytes) -> str:
    """Return the checksum of a file's content, in the form that the markers contain."""
    return f"{crc32(content):08x}"


def _sum(line: str) -> str:
    return checksum(line.rstrip("\r").encode("latin-1"))[:4]


def _key(line: str) -> str:
    match = re.match(r"\s*([\w.:-]+)\s*=", line)
    return match[1] if match else ""
