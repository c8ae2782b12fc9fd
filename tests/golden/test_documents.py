"""The examples in the documents are what the program prints."""

import re
import shlex
from pathlib import Path

import pytest

from autotune.cli import main

ROOT = Path(__file__).parents[2]
EXAMPLES = [
    (path.relative_to(ROOT / "docs"), command, shown)
    for path in sorted((ROOT / "docs").rglob("*.md"))
    for command, shown in re.findall(
        r"^\$ python -m autotune (.+)\n((?:.*\n)*?)(?:```|(?=\$ ))", path.read_text("utf-8"), re.MULTILINE
    )
]


@pytest.mark.parametrize(
    ("command", "shown"),
    [example[1:] for example in EXAMPLES],
    ids=[f"{path} {command}" for path, command, _ in EXAMPLES],
)
def test_the_example_is_what_is_printed(command, shown, capfd, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert main(shlex.split(command)) == 0
    printed = capfd.readouterr()
    assert printed.out + printed.err == shown


def test_there_are_examples():
    assert {str(path) for path, *_ in EXAMPLES} >= {"screening.md"}
