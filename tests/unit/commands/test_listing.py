"""``list``, and what a word that is no verb is answered with."""

import pytest

from autotune.cli import main
from autotune.resources import folder


def test_every_scenario_and_space_has_a_sentence_in_80_columns(capsys):
    assert main(["plan", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    names = [line.strip() for line in lines if line.startswith("  ") and not line.startswith("   ")]
    shipped = [*(folder("conf") / "conf").glob("*.yaml"), *folder("search_spaces").glob("*.yaml")]
    assert sorted(names) == sorted(path.stem for path in shipped)
    assert all(lines[lines.index(f"  {name}") + 1].startswith("    ") for name in names)
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    ("word", "meant"),
    [(word, "conf=allreduce_local") for word in ("allreduce_local", "alreduce_local")]
    + [("reprot", "report")],
)
def test_a_word_that_is_no_verb_gets_a_suggestion(capsys, word, meant):
    assert main([word]) == 2
    assert capsys.readouterr().err == f"autotune: there is no verb {word!r}\n  did you mean {meant}?\n"


def test_help_has_whole_summaries(capsys):
    assert main(["--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert shown.count("...") == 1  # [ARGS]...
    assert (
        "Print all measurements as a table, a row for each trial and cell (CSV to stdout by default)."
        in shown
    )
