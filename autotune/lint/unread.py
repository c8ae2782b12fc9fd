"""Settings that a file writes in a way that no reader follows: of these there is no all-clear."""

import re
from collections.abc import Container, Iterator

_NAME = r"(?P<name>(?:OMPI|PRTE|PMIX)_MCA_\w+|(?:UCX|UCC|NCCL|FI|I_MPI|MPIR_CVAR|MPICH|MV2|MVP)_[A-Z]\w+)"
_UNKNOWN = r"[=\"']*\\?(?:\$|\{\{|`)"
"""A value that something else puts in, of which nothing could be said anywhere."""
_WRITES = re.compile(r"\b(?:echo|printf|print|sed|cat|tee|awk|lineinfile|append)\b")
"""A command that writes what comes behind it."""
_SETS = re.compile(rf"(?<![\w${{]){_NAME}=(?!{_UNKNOWN})")
"""A setting in a text; what only shows a variable's value has it behind the sign."""
_ASSIGNS = re.compile(rf"^\s*(?:-\s+)?(?:export\s+|setenv\s+)?{_NAME}(?:=|\s+(?=\S+\s*$))(?!{_UNKNOWN})")
"""A line of a text that sets one, wherever the text goes."""
_INTO_A_FILE = re.compile(
    r"(?<![0-9&])>>?\s*[\"']?(?![&\s])(?P<target>[^\s\"';&|)]+)|\btee\b|\s-i[\s.]|lineinfile"
)
_NO_SETTINGS = re.compile(
    r"/dev/|\.(?:log|txt|out|err|csv|md|json|dat|tex|html)\b|(?i:log|out|result|report)"
)
"""Targets that are read by people: logs and results."""
_COMMENT = re.compile(r"^\s*(?:#|--|//)")

KINDS = ("shell", "docker", "yaml")
"""Kinds of file that write others."""


def unread(text: str, kind: str, known: Container[str]) -> Iterator[tuple[int, str]]:
    """Lines of a file, with the variable that is set there and that is not known from reading the file."""
    if kind not in KINDS:
        return
    for number, line in enumerate(text.splitlines(), start=1):
        if _COMMENT.match(line):
            continue
        target, command = _INTO_A_FILE.search(line), _WRITES.search(line)
        writes = target and command and not _NO_SETTINGS.search(target["target"] or "")
        match = _SETS.search(line, command.end()) if writes and command else None
        match = match or (_ASSIGNS.match(line) if kind != "docker" else None)
        if match and match["name"] not in known:
            yield number, match["name"]
