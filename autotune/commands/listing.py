"""``plan --list``: print the available scenarios and search spaces, with a sentence about each."""

import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

from autotune.resources import folder

_WIDTH, _INDENT = 80, 4
_SENTENCE = re.compile(r"(.*?[^\d])[.:](?:\s|$)", re.DOTALL)
"""Matches a text up to the full stop or colon that ends its first sentence; the dot in ``5.0`` ends none."""


def listing() -> None:
    """Print the names of all scenarios and search spaces, with the first sentence of each file's comment."""
    kinds = {
        "scenarios: conf=NAME": folder("conf") / "conf",
        "search spaces: space=NAME": folder("search_spaces"),
    }
    for heading, directory in kinds.items():
        sys.stdout.write(f"{heading}\n")
        for path in sorted(directory.glob("*.yaml")):
            sentence = textwrap.fill(f"{_first_sentence(path)}.", _WIDTH - _INDENT)
            sys.stdout.write(f"  {path.stem}\n{textwrap.indent(sentence, ' ' * _INDENT)}\n")
        sys.stdout.write("\n")


def _first_sentence(path: Path) -> str:
    text = " ".join(_comment(path.read_text(encoding="utf-8")))
    match = _SENTENCE.match(text)
    return " ".join((match[1] if match else text).split())


def _comment(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if not line.startswith("#"):
            return
        if not line.startswith(("# @", "# yaml-language-server:")):
            yield line.removeprefix("#").strip()
