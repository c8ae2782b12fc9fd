"""``status`` on campaigns in every state, and on what is none; its relatives say the same of the latter."""

import json
import os
import re
import shlex
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from threading import Timer

import pytest

from autotune.campaign.directory import read_campaign
from autotune.cli import main
from autotune.commands.kept_status import KEPT, store_status, stored_status
from autotune.commands.status import Keeper, progress
from autotune.history.events import State, ended_event, started_event
from autotune.history.journal import FILE, Journal, read_events, sealed
from autotune.views.standing import Standing
from tests.golden.test_campaigns import GOLDEN
from tests.schemas import answer


@pytest.fixture
def said(tmp_path, monkeypatch, capsys):
    """The exit code of a verb and everything that it printed."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        code = main([*words])
        told = capsys.readouterr()
        return code, told.out + told.err

    return run


@pytest.fixture
def begun(tmp_path):
    """A campaign with some launches, whose last word is that a process which still lives has started."""
    shutil.copytree(GOLDEN / "simulated", tmp_path / "campaign")
    (tmp_path / "campaign").chmod(0o700)
    path = tmp_path / "campaign" / FILE
    lines = path.read_text().splitlines(keepends=True)
    events = [json.loads(line)["event"] for line in lines]
    kept = lines[: events.index("observation") + 4]
    started = json.dumps(started_event(os.getpid(), os.uname().nodename)) + "\n"
    path.write_text("".join([*kept[:2], started, *kept[3:]]))
    return tmp_path / "campaign"


def test_a_campaign_runs_as_long_as_its_lock_is_held(said, begun):
    with Journal(begun):
        code, words = said("status", "campaign")
        assert code == 0
        assert ": running, phase 2 of 4, screening" in words
        assert re.search(r" of launches, about [\dminsh ]+ left", words)
    code, words = said("status", "campaign")
    assert code == 0
    assert "interrupted (it was ended without a word; the same command continues it)" in words


def test_watching_ends_with_the_campaign(said, begun):
    writer = Journal(begun)
    Timer(0.3, writer.close).start()
    code, words = said("status", "campaign", "--watch")
    assert code == 0
    assert "interrupted" in words
    assert words.split() == said("status", "campaign")[1].split()


def test_what_is_under_way_is_named_while_it_runs(said, begun):
    lines = (begun / FILE).read_text().splitlines(keepends=True)
    last = max(i for i, line in enumerate(lines) if json.loads(line)["event"] == "trial")
    (begun / FILE).write_text("".join(lines[: last + 1]))
    number = json.loads(lines[last])["number"]
    assert "now        launch" not in said("status", "campaign")[1]
    with Journal(begun):
        assert f"now        launch {number}, for " in said("status", "campaign")[1]
        assert answer(said("status", "campaign", "--json")[1])["under_way"] == [number]


def test_verbs_give_one_number_for_one_speed_up(said, tmp_path):
    shutil.copytree(GOLDEN / "simulated", tmp_path / "campaign")
    (row,) = answer(said("compare", "campaign", "--json")[1])["campaigns"]
    assert row["gain"] == f"{row['speedup']:.2f}×"  # four fresh launches give no interval
    assert f", {row['speedup']:.2f}× the default [{row['verified']}]" in said("status", "campaign")[1]


def test_a_campaign_without_a_verdict_says_in_four_lines_what_to_do(said, tmp_path):
    shutil.copytree(GOLDEN / "local", tmp_path / "campaign")
    words = said("status", "campaign")[1]
    labels = ("use now", "promising", "why", "go on with")
    places = [words.index(f"\n  {label:<10} ") for label in labels]
    assert places == sorted(places)
    assert "use now    the stack's own defaults\n" in words
    assert re.search(r"promising  .*: 1\.34× on 4 fresh launches; 8 B of allreduce keeps it open", words)
    assert words.splitlines()[-1] == f"    {shlex.join([sys.executable, '-m', 'autotune', 'campaign'])}"
    ending = json.loads(said("status", "campaign", "--json")[1])["ending"]
    assert ending["command"] in words and ending["seconds"] > 0
    assert said("export", "campaign", "--format", "summary", "--out", "files")[0] == 0
    summary = (tmp_path / "files/summary.md").read_text()
    assert f"Promising: {ending['promising']}" in summary and f"    {ending['command']}" in summary


def test_a_campaign_that_runs_offers_no_command_to_go_on(said, begun):
    with Journal(begun):
        assert "go on with" not in said("status", "campaign")[1]


def test_a_job_that_ended_before_the_campaign_began_is_said_to_have(said, tmp_path):
    (tmp_path / "campaign/slurm").mkdir(parents=True)
    code, words = said("status", "campaign")
    assert code == 2
    assert "its job ended before the campaign began" in words
    assert "slurm/*_log.out" in words


VERBS = (("status",), ("compare",), ("report",), ("history",), ("export",), ("export", "--space"))


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_every_verb_says_the_same_of_what_is_no_campaign(said, tmp_path, verb):
    for name in ("empty", "foreign", "damaged"):
        (tmp_path / name).mkdir(mode=0o700)
    (tmp_path / "foreign/readme.txt").write_text("hello\n")
    (tmp_path / "damaged" / FILE).write_text('{"event":"journal","version":1}\n{"event":\n')
    for name in ("empty", "foreign", "nowhere"):
        code, words = said(*verb, name)
        assert (code, words.splitlines()[0]) == (2, f"autotune: {name} holds no campaign")
    code, words = said(*verb, "damaged")
    assert code == 3
    assert "damaged/journal.jsonl, line 2 is damaged" in words
    assert "status damaged --repair" in words


@pytest.mark.parametrize("state", ["running", *(state for state in State if state is not State.RUNNING)])
@pytest.mark.parametrize("verb", VERBS[:4], ids=" ".join)
def test_verbs_that_only_look_work_in_every_state(said, begun, verb, state):
    journal = Journal(begun)
    if state != "running":
        journal.append({"event": "ended", "state": state, "reason": "somehow"})
        journal.close()
    code, words = said(*verb, "campaign")
    assert code == 0, words
    if verb[0] in ("status", "compare"):
        assert state in words
    if state == "running":
        journal.close()


def test_what_was_said_of_a_long_campaign_is_said_at_once_while_its_journal_is_as_it_was(
    said, begun, monkeypatch
):
    monkeypatch.setattr("autotune.commands.status.LONG", 2)
    first = said("status", "campaign"), said("status", "campaign", "--json")
    assert (begun / KEPT).stat().st_mode & 0o777 == 0o600
    with monkeypatch.context() as nothing_is_read:
        nothing_is_read.setattr("autotune.commands.status.status", None)
        assert (said("status", "campaign"), said("status", "campaign", "--json")) == first
    with Journal(begun) as journal:
        assert ": running, phase" in said("status", "campaign")[1]
        journal.append(ended_event(State.FAILED, reason="the disk"))
    assert "failed (the disk)" in said("status", "campaign")[1]
    (begun / KEPT).write_text("{")
    assert "failed (the disk)" in said("status", "campaign")[1]


@pytest.fixture
def added(begun):
    """The trials and observations that the campaign made after it had begun, as events in pairs."""
    made = read_events(GOLDEN / "simulated")
    known = {event["number"] for event in read_events(begun) if event["event"] == "trial"}
    trials = {e["number"]: e for e in made if e["event"] == "trial" and e["number"] not in known}
    seen = {e["trial"]: e for e in made if e["event"] == "observation"}
    return [(trial, seen[number]) for number, trial in trials.items() if number in seen]


def test_a_long_campaign_that_runs_is_counted_on_from_what_was_concluded(said, begun, added, monkeypatch):
    monkeypatch.setattr("autotune.commands.status.LONG", 2)
    with Journal(begun) as journal:
        before = answer(said("status", "campaign", "--json")[1])
        assert before["state"] == "running"
        assert "concluded_after" not in before
        for trial, observation in added[:3]:
            journal.append(trial)
            journal.append(observation)
        journal.append(added[3][0])
        with monkeypatch.context() as nothing_is_read:
            nothing_is_read.setattr("autotune.commands.status.read_campaign", None)
            grown, words = answer(said("status", "campaign", "--json")[1]), said("status", "campaign")[1]
        (begun / KEPT).unlink()
        whole = answer(said("status", "campaign", "--json")[1])
        assert grown.pop("concluded_after") == before["launches"] == whole["launches"] - 3
        assert grown.pop("left_s") == pytest.approx(whole.pop("left_s"), abs=0.2)
        judged = ("verified", "verdict", "recommendation", "speedup", "choices", "ending")
        assert {k: v for k, v in grown.items() if k not in judged} == {
            k: v for k, v in whole.items() if k not in judged
        }
        assert f"found      after {before['launches']} launches; those since" in words
        assert f"now        launch {added[3][0]['number']}, for " in words


def test_what_was_kept_names_the_path_of_the_caller_and_the_python_that_runs(said, begun, monkeypatch):
    monkeypatch.setattr("autotune.commands.status.LONG", 2)
    told = said("status", "campaign")[1]
    command = shlex.join([sys.executable, "-m", "autotune"])
    assert f"    {command} campaign\n" in told == stored_status(Path("campaign")).text
    monkeypatch.setattr(sys, "executable", "/opt/python3")
    elsewhere = stored_status(begun)
    assert f"    /opt/python3 -m autotune {begun}\n" in elsewhere.text
    state = json.loads(elsewhere.json)
    assert state["directory"] == str(begun)
    assert state["ending"]["command"] == f"/opt/python3 -m autotune {begun}"
    assert elsewhere.text == told.replace(f"{command} campaign", f"/opt/python3 -m autotune {begun}")


@pytest.mark.parametrize(
    ("standing", "words"),
    [
        (
            Standing("tls=sm, of campaign: 1.10×", exported=True),
            "tls=sm, of campaign: 1.10×; files in {}/export",
        ),
        (
            Standing("the stack's own defaults", "a campaign: 1.08×", unfinished=True),
            "the stack's own defaults",
        ),
    ],
)
def test_what_is_kept_is_facts_which_no_word_of_theirs_can_change(said, begun, monkeypatch, standing, words):
    """A setting's text may hold the very words of a path, of the Python or of a command."""
    current, said_of = progress(begun), f"setting of {shlex.quote(sys.executable)} -m autotune {begun}"
    store_status(begun, replace(current, standing=standing, found=(said_of,)))
    monkeypatch.setattr(sys, "executable", "/opt/python3")
    for directory in (Path("campaign"), begun):
        kept = stored_status(directory)
        assert kept.standing == standing
        assert f"{said_of}\n" in kept.text
        ending = json.loads(kept.json)["ending"]
        assert ending["use_now"] == words.format(directory)
        assert ending["command"] == (f"/opt/python3 -m autotune {directory}" if standing.unfinished else "")
    assert not [
        word
        for word in (str(begun), sys.executable)
        if word in (begun / KEPT).read_text().replace(said_of, "")
    ]


@pytest.mark.parametrize("damage", ["altered", "another"])
def test_what_was_kept_of_a_journal_says_nothing_of_a_damaged_or_another_one(
    said, begun, added, monkeypatch, damage
):
    monkeypatch.setattr("autotune.commands.status.LONG", 2)
    with Journal(begun) as journal:
        said("status", "campaign")
        journal.append(added[0][0])
        text = (begun / FILE).read_bytes()
        if damage == "altered":
            with (begun / FILE).open("r+b") as file:
                file.write(text[:-30] + b"x" + text[-29:])
            code, words = said("status", "campaign")
            assert (code, "is damaged" in words) == (3, True)
    if damage == "another":
        (begun / FILE).rename(begun / "old")
        (begun / FILE).write_bytes(text)
        with Journal(begun):
            assert "concluded_after" not in answer(said("status", "campaign", "--json")[1])


def test_a_running_campaign_keeps_what_status_says_of_it(said, begun, added, monkeypatch):
    monkeypatch.setattr("autotune.commands.status.LONG", 2)
    with Journal(begun) as journal:
        keeper, campaign = Keeper(begun, journal), read_campaign(begun)
        keeper.keep(campaign.about, campaign.history)
        kept = (begun / KEPT).read_text()
        for event in added[0]:
            journal.append(event)
        later = read_campaign(begun)
        keeper.keep(later.about, later.history)  # not so soon again
        assert (begun / KEPT).read_text() == kept
        grown = answer(said("status", "campaign", "--json")[1])
        assert grown["concluded_after"] == len(campaign.history) == grown["launches"] - 1
        journal.append(ended_event(State.COMPLETE, launches=grown["budget_launches"]))
        keeper.keep(later.about, later.history, State.COMPLETE)
    monkeypatch.setattr("autotune.commands.status.read_campaign", None)
    complete = answer(said("status", "campaign", "--json")[1])
    assert (complete["state"], complete["launches"]) == ("complete", len(later.history))


def test_what_is_kept_is_not_written_through_a_link(said, begun, monkeypatch, tmp_path):
    monkeypatch.setattr("autotune.commands.status.LONG", 2)
    (tmp_path / "mine").write_text("mine")
    (begun / KEPT).symlink_to(tmp_path / "mine")
    assert said("status", "campaign")[0] == 0
    assert (tmp_path / "mine").read_text() == "mine"
    assert not (begun / KEPT).is_symlink()


def test_of_what_is_kept_no_altered_figure_is_told(said, begun, monkeypatch):
    monkeypatch.setattr("autotune.commands.status.LONG", 2)
    words = said("status", "campaign"), said("status", "campaign", "--json")
    text = (begun / KEPT).read_text()
    digits = [at for at, character in enumerate(text) if character.isdigit()]
    for at in digits[:: max(1, len(digits) // 60)]:
        (begun / KEPT).write_text(f"{text[:at]}{(int(text[at]) + 1) % 10}{text[at + 1 :]}")
        assert stored_status(begun) is None
    unsealed = {key: value for key, value in json.loads(text).items() if key not in ("line", "crc")}
    (begun / KEPT).write_text(json.dumps(unsealed | {"found": ["  best 100×"]}) + "\n")
    assert (said("status", "campaign"), said("status", "campaign", "--json")) == words


def test_what_somebody_else_has_kept_is_not_told(said, begun):
    found = (begun / FILE).stat()
    theirs = {
        "of": [found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns],
        "document": {"campaign": "theirs", "state": "complete", "reason": "", "trials": [], "launches": 1},
        "found": ["  best 100×"],
    }
    told = said("status", "campaign")
    for proof in ({}, {"seal": "0" * 64}, {"seal": None}):
        (begun / KEPT).write_bytes(sealed({"event": "status", **theirs, **proof}, 1))
        assert said("status", "campaign") == told


def test_a_pipe_in_its_place_is_not_waited_for(said, begun):
    os.mkfifo(begun / KEPT)
    assert said("status", "campaign")[0] == 0
