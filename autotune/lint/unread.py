"""Find settings in a form that the reader of scripts does not understand, which are therefore not checked."""

import re
from collections.abc import Container, Iterator

_NAME = r"(?P<name>(?:OMPI|PRTE|PMIX)_MCA_\w+|(?:UCX|UCC|NCCL|FI|I_MPI|MPIR_CVAR|MPICH|MV2|MVP)_[A-Z]\w+)"
_UNKNOWN = r"[=\"']*\\?(?:\$|\{\{|`)"
"""Beginning of a value that a shell or a template fills in, so that it cannot be checked."""
_WRITES = re.compile(r"\b(?:echo|printf|print|sed|cat|tee|awk|append)\b")
"""A command that writes the text after it."""
_SETS = re.compile(rf"(?<![\w${{]){_NAME}=(?!{_UNKNOWN})")
"""A setting inside a text; a text that only prints the value of a variable, as in ``NAME=$NAME``, does not
match."""
_PARAMETER = re.compile(r"(?<![\w-])--?mca[\s\"']+(?P<name>[a-z]\w+)[\s\"']+[^\s$\"']")
"""A parameter among options of a launcher."""
_ASSIGNS = re.compile(rf"^\s*(?:export\s+)?{_NAME}=(?!{_UNKNOWN})")
"""A line that sets a variable, in a text that may be written to any file."""
_INTO_A_FILE = re.compile(r"(?<![0-9&])>>?\s*[\"']?(?![&\s])(?P<target>[^\s\"';&|)]+)|\btee\b|\s-i[\s.]")
_NO_SETTINGS = re.compile(
    r"/dev/|\.(?:log|txt|out|err|csv|md|json|dat|tex|html)\b|(?i:log|out|result|report)"
)
"""Files that people read: logs and results."""
_FILE = re.compile(r"(?P<name>(?:mca-params|ucx)\.conf)")
"""A parameter file of a library."""
_COMMENT = re.compile(r"^\s*(?:#|--|//)")
_PRINTS = re.compile(r"^\s*(?:echo|printf)\b[^>]*$")
_OPTIONS = re.compile(r"-x|-c\b|\beval\b|^\s*\w+\+?=")
"""A line with options of a launch, with a text that a shell runs, or with the value of a variable."""


def unread(text: str, read_names: Container[str]) -> Iterator[tuple[int, str]]:
    """Yield (line, variable, parameter or file) of settings that the reader of a script did not find.

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
