"""Verbs of versions before 1.0: understood, with a line that says what they are called now."""

import pytest

from autotune.cli import app, main
from autotune.cli.app import _renamed, cli

PAIRS = [
    (["watch", "c"], ["status", "c", "--watch"]),
    (["repair", "c"], ["status", "c", "--repair"]),
    (["list"], ["plan", "--list"]),
    (["space", "--from", "c"], ["export", "c", "--space"]),
    (["space", "--from=c"], ["export", "c", "--space"]),
    (["winners", "a", "b", "--out", "t.csv"], ["compare", "a", "b", "--out", "t.csv", "--winners"]),
    (["guidelines", "a.log", "--rate", "0.1"], ["compare", "a.log", "--rate", "0.1", "--guidelines"]),
    (["worth", "c", "--calls", "x.csv", "--json"], ["report", "c", "--worth", "x.csv", "--json"]),
    (["worth", "c", "--calls=x.csv"], ["report", "c", "--worth=x.csv"]),
    (["explain", "f", "--ranks", "4"], ["lint", "f", "--ranks", "4", "--explain"]),
    (["knobs", "--stack", "ucx"], ["doctor", "--stack", "ucx", "--knobs"]),
    (["uninstall", "--site"], ["install", "--site", "--remove"]),
]


@pytest.mark.parametrize(("old", "new"), PAIRS, ids=lambda words: " ".join(words))
def test_an_old_verb_is_the_new_one_and_says_so(old, new, capsys):
    assert _renamed(old) == new
    assert capsys.readouterr().err.startswith(f"{old[0]}: say {new[0]} --")
    assert _renamed(new) == new
    assert capsys.readouterr().err == ""


def test_every_old_verb_is_tried_and_none_is_listed():
    assert {old[0] for old, _ in PAIRS} == set(app._RENAMED)
    names = {command.name or command.callback.__name__: command for command in cli.registered_commands}
    groups = {group.name for group in cli.registered_groups}
    assert not names.keys() & set(app._RENAMED)
    listed = {name for name, command in names.items() if not command.hidden}
    assert names.keys() - listed == {"completion"}
    assert len(listed | groups) <= 20


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["status", "c", "--watch", "--repair"], "--watch and --repair"),
        (["compare", "c", "--winners", "--guidelines"], "--winners and --guidelines"),
        (["compare", "c", "--plot", "p.html"], "--out and --plot belong to --winners"),
        (["compare", "c", "--collective", "bcast"], "--collective belongs to --guidelines"),
        (["report", "c", "--worth", "x.csv", "--follow"], "--worth writes no page"),
        (["report", "c", "--application-s", "3"], "belong to --worth"),
        (["export", "--space"], "--space takes one campaign"),
        (["export", "c", "--space", "--format", "shell"], "--space takes one campaign"),
        (["install"], "install of nothing"),
        (["install", "c", "--remove"], "--remove takes --site alone"),
        (["lint", "f", "--ranks", "4"], "belong to --explain"),
        (["lint", "f", "--explain", "--ranks", "4"], "lacks --ranks or --bytes"),
        (["lint", "f", "g", "--explain", "--ranks", "4", "--bytes", "8"], "--explain takes one file"),
        (["doctor", "--csv"], "belong to --knobs"),
        (["doctor", "--knobs", "--nodes", "2"], "say nothing of --knobs"),
        (["plan", "--list", "conf=x"], "--list stands alone"),
        (["tune", "--quiet", "--verbose", "conf=x"], "--quiet and --verbose"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_options_that_do_not_go_together_are_one_message(words, message, capsys):
    assert main(words) == 2
    err = capsys.readouterr().err
    assert message in err
    assert "Traceback" not in err
