"""Ten questions on the output of ``make tune``, answered by what is printed: the page quotes the program."""

import re

import pytest

from tests.unit.test_docs import DOCS, ROOT

PAGE = (DOCS / "output.md").read_text("utf-8")
SECTIONS = re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]
SOURCES = " ".join(
    " ".join(
        re.sub(r'"\s*\n\s*f?"', "", path.read_text("utf-8")) for path in (ROOT / "autotune").rglob("*.py")
    ).split()
)
WORDS = (
    *("MPI", "pml in use", "dropped", "needs ", "phase", "elapsed", "left", "tried", "latency", "bandwidth"),
    *("interference: ", "further launches affected are summarised at the end", "knob = level", "recommended"),
    *("the stack's own defaults", "difference within the noise", "speed-up (95 %)", "in the other loop"),
    *("fresh launches", "of launches would not show on"),
)


def test_there_are_ten_questions_each_with_an_answer():
    assert [int(one.split(".")[0]) for one in SECTIONS] == list(range(1, 11))
    for section in SECTIONS:
        question, _, answer = section.partition("\n")
        assert question.endswith("?") and len(re.sub(r"```.*?```", "", answer, flags=re.DOTALL).split()) > 10


@pytest.mark.parametrize("words", WORDS)
def test_what_the_page_quotes_is_what_the_program_prints(words):
    quoted = " ".join(" ".join(re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)).split())
    assert words.strip() in quoted
    assert words in SOURCES
