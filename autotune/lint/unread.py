"""Find settings that are not checked, because the reader of scripts does not understand their form."""

import re
from collections.abc import Container, Iterator

_NAME = r"(?P<name>(?:OMPI|PRTE|PMIX)_MCA_\w+|(?:UCX|UCC|NCCL|FI|I_MPI|MPIR_CVAR|MPICH|MV2|MVP)_[A-Z]\w+)"
_UNKNOWN = r"[=\"']*\\?(?:\$|\{\{|`)"
"""Beginning of a value that a shell or a template fills in, so that it cannot be checked."""
_WRITES = re.compile(r"\b(?:echo|printf|print|sed|cat|tee|awk|append)\b")
"""Command that writes the text behind the command."""
_SETS = re.compile(rf"(?<![\w${{]){_NAME}=(?!{_UNKNOWN})")
"""Setting inside a text; a text that prints the value of a variable (``NAME=$NAME``) does not match."""
_PARAMETER = re.compile(r"(?<![\w-])--?mca[\s\"']+(?P<name>[a-z]\w+)[\s\"']+[^\s$\"']")
"""Parameter among the options of a launcher."""
_ASSIGNS = re.compile(rf"^\s*(?:export\s+)?{_NAME}=(?!{_UNKNOWN})")
"""Line that sets a variable, in a text that may be written to any file."""
_INTO_A_FILE = re.compile(r"(?<![0-9&])>>?\s*[\"']?(?![&\s])(?P<target>[^\s\"';&|)]+)|\btee\b|\s-i[\s.]")
_NO_SETTINGS = re.compile(
    r"/dev/|\.(?:log|txt|out|err|csv|md|json|dat|tex|html)\b|(?i:log|out|result|report)"
)
"""Part of the path of a file that only people read, such as a log or a file of results."""
_FILE = re.compile(r"(?P<name>(?:mca-params|ucx)\.conf)")
"""Name of a parameter file of a library."""
_COMMENT = re.compile(r"^\s*(?:#|--|//)")
_PRINTS = re.compile(r"^\s*(?:echo|printf)\b[^>]*$")
_OPTIONS = re.compile(r"-x|-c\b|\beval\b|^\s*\w+\+?=")
"""Line with options of a launch, with a text that a shell will run, or with the value of a variable."""


def unread(text: str, read_names: Container[str]) -> Iterator[tuple[int, str]]:
    """Yield (line, name of the variable, parameter or file) of settings that the reader of a script missed.

    Args:
        text: Content of the script.
        read_names: Names of the variables and parameters that the reader found.
    """
    for number, line in enumerate(text.splitlines(), start=1):
        if _COMMENT.match(line):
            continue
        target, command = _INTO_A_FILE.search(line), _WRITES.search(line)
        writes = target and command and not _NO_SETTINGS.search(target["target"] or "")
        match = _SETS.search(line, command.end()) if writes and command else None
        match = match or _ASSIGNS.match(line)
        if match is None and target:
            match = _FILE.search(line, target.start())
        if match is None and not _PRINTS.match(line):
            match = _PARAMETER.search(line) or (_SETS.search(line) if _OPTIONS.search(line) else None)
        if match and match["name"] not in read_names:
            yield number, match["name"]
