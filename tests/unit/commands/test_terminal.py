"""No text of a program, a file or a journal reaches a terminal as something that it would obey."""

import json
import os
import pty
import subprocess
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune import Campaign
from autotune.cli import main
from autotune.errors import AutotuneError, ending, printable
from autotune.history.folder import FILE
from tests.golden.test_campaigns import GOLDEN

HOSTILE = "\x1b]0;owned\x07\x1b[8m\x9b31mhidden\x1b[0m\r\x08\u202egnp.exe\u2066\u200b\x7f[link=http://x]y[/link][/z]"


def obeyed(text):
    """What of a text a terminal would obey, or hide."""
    kinds = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    return {c for c in text.replace("\r\n", "\n") if unicodedata.category(c) in kinds and c not in "\n\t"}


@given(st.text())
def test_nothing_is_left_that_would_be_obeyed_and_nothing_else_is_changed(text):
    assert not obeyed(printable(text))
    if not obeyed(text):
        assert printable(text) == text or any(unicodedata.category(c) in ("Cn", "Co") for c in text)
    assert printable(printable(text)) == printable(text)


@given(st.text())
def test_what_was_json_still_is(text):
    assert json.loads(printable(json.dumps({"key": text}, ensure_ascii=False))) == {"key": text}


@pytest.mark.parametrize(
    ("text", "limit", "wanted"),
    [
        ("all of it", 9, "all of it"),
        ("all of it", 8, "…of it"),
        ("all of it", 5, "…of it"),
        ("undivided", 4, "…ided"),
        ("\0\0\x1b[1mbold\x1b[0m\0 \n\tand plain\x07", 40, "bold and plain"),
        ("", 4, ""),
    ],
)
def test_the_end_of_what_was_printed_begins_with_a_word(text, limit, wanted):
    assert ending(text, limit) == wanted


@given(st.text(), st.integers(1, 50))
def test_the_end_of_what_was_printed_is_one_short_line(text, limit):
    end = ending(text, limit)
    assert len(end) <= limit + 1 and len(end.splitlines()) <= 1
    assert "\0" not in end and "\x1b" not in end


def test_ordinary_words_stay_as_they_are():
    text = "1.35× (1.31 … 1.37) ± 2 µs ≈ é 漢字 │ ━ ✓\tend\r\n"
    assert printable(text) == text


def test_the_words_of_an_error_are_plain_for_whoever_shows_them():
    assert not obeyed(str(AutotuneError(HOSTILE, HOSTILE)))


@pytest.fixture
def campaign(tmp_path, monkeypatch):
    """A campaign that says such a thing wherever a text can stand."""
    monkeypatch.chdir(tmp_path)
    directory = tmp_path / "campaign"
    directory.mkdir(mode=0o700)
    events = [json.loads(line) for line in (GOLDEN / "local" / FILE).read_text().splitlines()]
    for event in events:
        if event["event"] == "campaign":
            event["scenario"]["title"] = event["name"] = HOSTILE
            event["site"]["description"] = HOSTILE
            event["site"]["findings"] = [[HOSTILE, HOSTILE]]
            for dropped in event["space"]["dropped"]:
                dropped["reason"] = HOSTILE
        if event["event"] == "observation":
            event["reason"], event["hosts"], event["notes"] = HOSTILE, [HOSTILE], [HOSTILE]
        if event["event"] == "ended":
            event.update(state="failed", reason=HOSTILE)
    (directory / FILE).write_text("".join(f"{json.dumps(event)}\n" for event in events))
    return directory


VERBS = (
    *(["status", "campaign"], ["status", "campaign", "--json"], ["compare", "campaign", "campaign"]),
    *(["history", "campaign"], ["export", "campaign"], ["compare", "campaign", "--winners"]),
    *(["install", "campaign"], ["verify", "campaign"], ["compare", "campaign", "--guidelines"]),
    *(["status", "campaign", "--watch"], ["status", "campaign", "--repair"]),
    *(["lint", "hostile.conf"], ["import", "hostile.log"], ["status", HOSTILE], [HOSTILE]),
    *([f"conf={HOSTILE}"], ["conf=command", f"probe.options.run=[{HOSTILE}]"]),
    *(["doctor", "--knobs", HOSTILE], ["report", "campaign", "--worth", "hostile.log"]),
)  # fmt: skip


@pytest.mark.parametrize("verb", VERBS, ids=lambda words: printable(" ".join(words)))
def test_no_verb_passes_it_on(campaign, capsys, verb):
    (campaign.parent / "hostile.conf").write_text(f"btl = {HOSTILE}\n{HOSTILE} = 1\ncoll_tuned_{HOSTILE}\n")
    (campaign.parent / "hostile.log").write_text(f"# OSU MPI Allreduce {HOSTILE}\n8 {HOSTILE}\n{HOSTILE}\n")
    main(verb)
    said = capsys.readouterr()
    assert not obeyed(said.out + said.err)
    assert said.out + said.err


def test_no_file_passes_it_on(campaign):
    assert main(["report", "campaign", "--out", "page.html"]) == 0
    assert main(["history", "campaign", "--out", "rows.csv"]) == 0
    for name in ("page.html", "rows.csv"):
        text = (campaign.parent / name).read_text()
        assert "hidden" in text
        assert not obeyed(text)


def test_a_program_that_says_it_is_quoted_without_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "space.yaml").write_text("stack: command\nparameters: {x: {values: [1, 2]}}\n")
    (tmp_path / "says").write_bytes(HOSTILE.encode())
    words = [
        "conf=command",
        "space=space.yaml",
        "probe.options.run=[sh,-c,'cat says >&2; exit 1']",
        "responses.t=min",
    ]
    assert main([*words, "campaign.dir=here"]) == 3
    said = capsys.readouterr()
    assert "hidden" in said.out + said.err
    assert not obeyed(said.out + said.err)
    with pytest.raises(AutotuneError) as told:
        Campaign("command", *words[1:], "campaign.dir=there").run()
    said = capsys.readouterr()
    assert not obeyed(said.out + said.err + str(told.value))


def test_in_a_terminal_nothing_moves_but_what_the_program_itself_moves(campaign):
    ours, theirs = pty.openpty()
    done = subprocess.Popen(
        [sys.executable, "-m", "autotune", "status", str(campaign), "--watch"], stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    said = b""
    while True:
        try:
            said += os.read(ours, 1 << 16)
        except OSError:  # the last one has closed it
            break
    assert done.wait() == 0
    text = said.decode(errors="replace")
    assert "hidden" in text
    assert not obeyed(text) & set("\x07\x08\x9b\u202e\u2066\u200b\x7f")
    for sequence in ("\x1b]0;", "\x1b[8m", "\x1b]8;"):
        assert sequence not in text
