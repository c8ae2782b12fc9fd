"""The prose linter: proselint with this project's word list, over pages, comments, docstrings and messages.

    python -m tests.prose PATH …    # files, and folders of .md, .py, .yaml, .toml, .j2; exit code 1: findings

The words are in ``tests/prose.toml``, examples too; the rules in ``CONTRIBUTING.md``.
"""

import ast
import io
import re
import sys
import tokenize
import tomllib
from functools import cache
from pathlib import Path

from proselint.checks import __register__ as proselints
from proselint.registry import CheckRegistry
from proselint.registry.checks import Check, CheckFlags
from proselint.registry.checks import types as kinds
from proselint.tools import LintFile

WORDS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
KINDS = {".md", ".py", ".yaml", ".toml", ".j2"}
EXEMPT = {"tests/prose.toml"}
"""It quotes what not to write."""
_QUOTED = CheckFlags(allow_quotes=True)


@cache
def registry() -> CheckRegistry:
    """proselint's checks, ours added."""
    ours = kinds.PreferredForms({f"(?:{words})": better for words, better in WORDS["instead"].items()})
    begin = kinds.ExistenceSimple(rf'"""(?:{"|".join(WORDS["docstrings"]["begin"])}) ')
    made = CheckRegistry()
    made.register_many(proselints)
    made.register(Check(ours, path="autotune.words", message="'{1}': write '{0}'.", flags=_QUOTED))
    made.register(
        Check(begin, path="autotune.docstrings", message="Begin with the subject, not {}.", flags=_QUOTED)
    )
    return made


def blank(text: str, filler: str = "·") -> str:
    """The same lines and columns without a word."""
    return re.sub(r"[^\n]", filler, text)


def prose_of_markdown(text: str) -> str:
    """Without code, addresses of links and HTML."""
    code = r"^```.*?^```|^ {4,}[^\n]*$|``.*?``|`[^`\n]+`|\]\([^)]*\)|<!--.*?-->|^---\n.*?^---\n"
    kept = re.sub(code, lambda found: blank(found[0]), text, flags=re.MULTILINE | re.DOTALL)
    return kept.replace("\n\n", "\n·\n")  # no phrase goes on behind an empty line


_LITERALS = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}  # From Python 3.12 on.


def prose_of_python(text: str) -> str:
    """Comments, docstrings, and literals with a blank in them; names and fields of f-strings are left out."""
    lines = [blank(line, " ") for line in text.splitlines(keepends=True)]
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        literal = token.type in _LITERALS and " " in token.string
        if token.type != tokenize.COMMENT and not literal:
            continue
        kept = re.sub(r"``.*?``|\{[^{}\n]*\}|`[^`\n]+`", lambda found: blank(found[0]), token.string)
        for offset, part in enumerate(kept.splitlines(keepends=True)):
            row, column = token.start[0] - 1 + offset, 0 if offset else token.start[1]
            lines[row] = (
                lines[row][:column] + part.rstrip("\n") + lines[row][column + len(part.rstrip("\n")) :]
            )
    return "".join(lines)


def prose_of_configuration(text: str) -> str:
    """Comments, and what describes an entry."""
    kept = re.compile(r"(?:^|\s)#.*|\b(?:description|reason|summary|hint|why)\b\W*[:=].*", re.MULTILINE)
    shown, end = [], 0
    for found in kept.finditer(text):
        shown += [blank(text[end : found.start()]), found[0]]
        end = found.end()
    return "".join([*shown, blank(text[end:])])


def prose_of_template(text: str) -> str:
    """Text of a page, without tags, expressions and scripts."""
    code = r"<script.*?</script>|<code>.*?</code>|<[^>]*>|\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}"
    return re.sub(code, lambda found: blank(found[0]), text, flags=re.DOTALL)


def prose(path: Path) -> str:
    """What a person reads of a file, at its place."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        ast.parse(text)
        return prose_of_python(text)
    if path.suffix == ".j2":
        return prose_of_template(text)
    return prose_of_markdown(text) if path.suffix == ".md" else prose_of_configuration(text)


def findings(text: str, name: str = "text") -> list[str]:
    """A line for each finding, in the order of the text."""
    enabled = dict.fromkeys([*WORDS["proselint"]["checks"], "autotune"], True)
    registry()
    results = LintFile(name, text).lint({"max_errors": 10_000, "checks": enabled}) if text.strip() else []
    found = []
    for result in (one.check_result for one in results):
        start, end = result.span  # of the text behind one newline, which proselint adds
        line = text.count("\n", 0, end - 1 - len(f"\n{text}"[start:end].lstrip())) + 1
        found.append(f"{name}:{line}: {' '.join(result.message.split())} [{result.check_path}]")
    return found


def files(paths: list[str]) -> list[Path]:
    """All files in and below the paths that hold prose."""
    found = (p for one in map(Path, paths) for p in ([one] if one.is_file() else sorted(one.rglob("*"))))
    return [p for p in found if p.suffix in KINDS and p.as_posix() not in EXEMPT]


def main(paths: list[str]) -> int:
    """The exit code."""
    found = [line for path in files(paths) for line in findings(prose(path), path.as_posix())]
    sys.stdout.write("\n".join(found or [f"prose: {len(files(paths))} files, nothing found"]) + "\n")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
