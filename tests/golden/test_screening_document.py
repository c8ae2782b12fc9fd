"""The examples in docs/screening.md are what the program prints."""

import re
import shlex
from pathlib import Path

import pytest

from autotune.cli import main

ROOT = Path(__file__).parents[2]
EXAMPLES = re.findall(
    r"^\$ python -m autotune (.+)\n((?:.*\n)*?)```",
    (ROOT / "docs" / "screening.md").read_text(encoding="utf-8"),
    re.MULTILINE,
)


@pytest.mark.parametrize(("command", "shown"), EXAMPLES, ids=[command for command, _ in EXAMPLES])
def test_the_example_is_what_is_printed(command, shown, capfd, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert main(shlex.split(command)) == 0
    printed = capfd.readouterr()
    assert printed.out + printed.err == shown


def test_there_are_examples():
    assert len(EXAMPLES) == 3
