"""Find settings in a form that no reader of ``lint`` understands, which are therefore not checked."""

import re
from collections.abc import Container, Iterator

_NAME = r"(?P<name>(?:OMPI|PRTE|PMIX)_MCA_\w+|(?:UCX|UCC|NCCL|FI|I_MPI|MPIR_CVAR|MPICH|MV2|MVP)_[A-Z]\w+)"
_UNKNOWN = r"[=\"']*\\?(?:\$|\{\{|`)"
"""Beginning of a value that a shell or a template fills in, so that it cannot be checked."""
_WRITES = re.compile(r"\b(?:echo|printf|print|sed|cat|tee|awk|lineinfile|append)\b")
"""A command that writes the text after it."""
_SETS = re.compile(rf"(?<![\w${{]){_NAME}=(?!{_UNKNOWN})")
"""A setting inside a text; a text that only prints the value of a variable, as in ``NAME=$NAME``, does not
match."""
_ASSIGNS = re.compile(rf"^\s*(?:-\s+)?(?:export\s+|setenv\s+)?{_NAME}(?:=|\s+(?=\S+\s*$))(?!{_UNKNOWN})")
"""A line that sets a variable, in a text that may be written to any file."""
_INTO_A_FILE = re.compile(
    r"(?<![0-9&])>>?\s*[\"']?(?![&\s])(?P<target>[^\s\"';&|)]+)|\btee\b|\s-i[\s.]|lineinfile"
)
_NO_SETTINGS = re.compile(
    r"/dev/|\.(?:log|txt|out|err|csv|md|json|dat|tex|html)\b|(?i:log|out|result|report)"
)
"""Files that people read: logs and results."""
_COMMENT = re.compile(r"^\s*(?:#|--|//)")

KINDS = ("shell", "docker", "yaml")
"""Kinds of file with commands that write other files."""


def unread(text: str, kind: str, read_names: Container[str]) -> Iterator[tuple[int, str]]:
    """Yield (line, variable) of settings of library variables that the reader of the file did not find.

    Args:
        text: Content of the file.
        kind: Kind of the file.
        read_names: Names of the variables that the reader found.
    """
    if kind not in KINDS:
        return
    for number, line in enumerate(text.splitlines(), start=1):
        if _COMMENT.match(line):
            continue
        target, command = _INTO_A_FILE.search(line), _WRITES.search(line)
        writes = target and command and not _NO_SETTINGS.search(target["target"] or "")
        match = _SETS.search(line, command.end()) if writes and command else None
        match = match or (_ASSIGNS.match(line) if kind != "docker" else None)
        if match and match["name"] not in read_names:
            yield number, match["name"]
