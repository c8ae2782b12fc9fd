"""No more is said than was shown: nowhere that nothing is lost, and no bound of what is unverified."""

import math
import re
from pathlib import Path

import pytest

from autotune.verification.choices import ChoiceKind
from tests.unit.verification.test_choices import told
from tests.unit.verification.test_rounds import RING, Machine, posix_and_ring, run, searched, verifier

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = ("autotune", "launchers", "conf", "docs", "notebooks", "benchmarks", "search_spaces")
SAID = sorted(
    path
    for folder in FOLDERS
    for path in (ROOT / folder).rglob("*")
    if path.suffix in (".py", ".md", ".yaml", ".ipynb", ".j2", ".js", ".css")
)
TOO_MUCH = re.compile(
    r"never[\s_]+slower|no\s+size\s+slower|no\s+size\s+is\s+slower|slower\s+at\s+no\b", re.I
)
BOUND = re.compile(r"no size more than \d+ % slower \(95 %\)")


@pytest.mark.parametrize("path", [ROOT / "README.md", *SAID], ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_is_said_to_lose_nothing(path):
    assert TOO_MUCH.findall(path.read_text(encoding="utf-8")) == []


def test_the_bound_stands_in_what_is_verified_and_is_one_that_the_launches_show():
    machine = Machine(posix_and_ring)
    history = run(verifier(), machine, searched(machine))
    verdict = verifier().verdict(history)
    (said,) = BOUND.findall(verdict.text)
    shown = min(c.at_least for c in verdict.rounds[-1].comparisons)
    assert int(re.search(r"\d+", said)[0]) >= -100 * shown
    assert BOUND.search(told(history)[ChoiceKind.OVERALL].unverified) is None


def test_no_choice_that_is_not_verified_has_a_bound():
    machine = Machine(posix_and_ring)
    for choice in told(searched(machine)).values():
        assert "not verified" in choice.text
        assert not BOUND.search(choice.text + choice.unverified)
        assert "slower" not in choice.text + choice.unverified


def test_a_gain_that_too_few_launches_bound_is_said_without_an_interval():
    """After a rule fell, the sizes that it leaves have the launches of one block."""

    def ring_is_lucky(tls, choice, size):
        return posix_and_ring(tls, choice, size) * (0.5 if choice == RING and size == 1024 else 1.0)

    machine = Machine(posix_and_ring, ring_is_lucky)
    history = run(verifier(setting_launches=8), machine, searched(machine, ("all", "self,posix")))
    verdict = verifier(setting_launches=8).verdict(history)
    assert not verdict.rounds[-1].total.low > -math.inf
    assert "0.00" not in verdict.text and "1000" not in verdict.text and BOUND.search(verdict.text)
