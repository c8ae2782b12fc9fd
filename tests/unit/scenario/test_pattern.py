"""Patterns of users': RE2 finds what Python's own matcher finds, at once, and refuses what would not end."""

import re

import pytest

from autotune.errors import ScenarioError, UserError
from autotune.scenario.pattern import check_pattern, found

LONG = 1_000_000 * "a" + "!"


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("took ([0-9.]+) s", "x\ntook 1.5 s\ntook 2.5 s\n"),
        ("took (?P<seconds>[0-9.]+)", "took 1.5 s"),
        ("t: (.*)$", "t: 1\nt: 2\n"),
        ("t: (.*)$", "t: 2"),
        (r"t: (\d+)\n", "t: 2\n"),
        (r"(?m)^t: (\S+)$", "t: 1\nu: 3\nt: 2\n"),
        (r"(?i)time\s+(\S+?)µs", "TIME   3µs Time 4µs"),
        (r"(?s)begin.*?(\d+)", "begin\n\n 7 begin 8"),
        ("x(?:(y)|z)", "xz xy"),
        (r"(\d*)", "a1b"),
        ("none (.)", "nothing"),
    ],
)
def test_what_is_found_is_what_pythons_matcher_finds(pattern, text):
    check_pattern(pattern, "here")
    assert [*found(pattern, text)] == re.findall(pattern, text)


@pytest.mark.parametrize("pattern", ["(a+)+$x", "(a|aa)+$x", "((?:a*)*)b", "(.*a){9}$x", "(a*)*$x"])
def test_a_pattern_on_which_backtracking_never_ends_is_done_at_once(pattern):
    check_pattern(pattern.replace("(", "(?:").replace("(?:?:", "(?:").replace("(?:", "(", 1), "here")
    assert [*found(pattern, LONG)] == []


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(", "missing )"),
        (r"(a)\1", "invalid escape sequence: \\1; the syntax is RE2's: there are no back-references"),
        ("(?P<n>a)(?P=n)", "no look-around"),
        ("(?<!a)(b)", "(?<"),
        ("(?=a)(b)", "(?="),
        ("(a++)", "++"),
        ("a", "has 0 groups; needed: exactly one"),
        ("(a)(b)", "has 2 groups"),
        ("((a?){900})", "at most 1000"),
        ("(a{2000})", "{2000}"),
        ("(\udcff)", "no UTF-8"),
    ],
)
@pytest.mark.parametrize("raised", [UserError, ScenarioError])
def test_what_is_no_pattern_is_refused_with_what_is_wrong(pattern, message, raised, capfd):
    with pytest.raises(raised) as refused:
        check_pattern(pattern, "probe.options.patterns.t", raised)
    assert type(refused.value) is raised
    said = f"{refused.value.message}; {refused.value.hint}"
    assert said.startswith(f"probe.options.patterns.t={pattern!r}")
    assert message in said
    assert capfd.readouterr() == ("", "")
