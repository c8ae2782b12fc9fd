"""The example in docs/screening.md is what the program prints."""

from pathlib import Path

from autotune.screening.table import render, screen

DOCS = Path(__file__).parents[2] / "docs"


def test_the_example_is_what_is_printed():
    report = screen(DOCS / "examples" / "cast_fatigue.csv", list("ABCDEFG"), ["life:max"])
    text = (DOCS / "screening.md").read_text(encoding="utf-8")
    shown = text.partition("--factors A,B,C,D,E,F,G --responses life:max\n")[2].partition("```")[0]
    assert shown == render(report)
