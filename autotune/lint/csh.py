"""Translate csh scripts line by line into Bourne shell syntax, so that one parser reads both.

Only assignments and constructs that decide which commands are run are translated. Conditions become quoted
texts, because nothing is run.
"""

import re
from collections.abc import Mapping
from pathlib import PurePath

_SHEBANG = re.compile(r"#!\s*\S*(?:/|env\s+)t?csh\b")
_OTHER = re.compile(r"#!\s*\S*(?:/|env\s+)(?:ba|k|z|da)?sh\b")
_SETENV = re.compile(r"^\s*setenv\s+\w+", re.MULTILINE)
_BOURNE = re.compile(r"^\s*(?:export\s+\w|fi\b|done\b)", re.MULTILINE)

_LINES: Mapping[str, str] = {
    r"(\s*)if\s*(\(.*\))\s*then\s*(?:#.*)?": r"\1if : '\2'; then",
    r"(\s*)else\s+if\s*(\(.*\))\s*then\s*(?:#.*)?": r"\1elif : '\2'; then",
    r"(\s*)if\s*(\([^()]*\))\s+(?!then)(\S.*[^\\])": r"\1if : '\2'; then \3; fi",
    r"(\s*)endif\s*(?:#.*)?": r"\1fi",
    r"(\s*)foreach\s+(\w+)\s*\((.*)\)\s*": r"\1for \2 in \3; do",
    r"(\s*)while\s*(\(.*\))\s*": r"\1while : '\2'; do",
    r"(\s*)end\s*(?:#.*)?": r"\1done",
    r"(\s*)switch\s*\((.*)\)\s*": r"\1case \2 in",
    r"(\s*)case\s+(\S+):\s*": r"\1\2)",
    r"(\s*)default:\s*": r"\1*)",
    r"(\s*)breaksw\s*": r"\1;;",
    r"(\s*)endsw\s*": r"\1esac",
    r"(\s*)setenv\s+(\w+)\s*": r"\1export \2=",
    r"(\s*)setenv\s+(\w+)\s+(\S.*)": r"\1export \2=\3",
    r"(\s*)unsetenv\s+(\w+)(.*)": r"\1unset \2\3",
    r"(\s*)set\s+(\w+)\s*=\s*(\(.*\)|\S.*)": r"\1\2=\3",
    r"(\s*)@\s+(\w+)\s*=.*": r"\1\2=$\2",
}
"""Maps the pattern of a csh line to its replacement in Bourne shell syntax."""
_PATTERNS = tuple((re.compile(pattern), new) for pattern, new in _LINES.items())


def is_csh(path: PurePath, text: str) -> bool:
    """Whether a script is for csh, judging by its first line, its name, or ``setenv``, which only csh has."""
    if _SHEBANG.match(text) or path.suffix in (".csh", ".tcsh"):
        return True
    return not _OTHER.match(text) and bool(_SETENV.search(text)) and not _BOURNE.search(text)


def translated(text: str) -> str:
    """Return a csh script in Bourne shell syntax, with the same number of lines."""
    return "\n".join(map(_line, text.split("\n")))


def _line(line: str) -> str:
    for pattern, new in _PATTERNS:
        if match := pattern.fullmatch(line):
            return match.expand(new.replace("'\\2'", f"'{_quoted(match)}'") if "'\\2'" in new else new)
    return line


def _quoted(match: re.Match[str]) -> str:
    return re.sub(r"['\\]", ".", match[2])
