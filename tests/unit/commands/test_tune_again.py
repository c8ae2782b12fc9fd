"""A campaign and its directory: what gets into it, and the same command when it is there already."""

import json
import re
import shlex
import sys

import pytest

from autotune.cli import main
from autotune.errors import ExitCode
from autotune.history.journal import Journal, read_events

CAMPAIGN = ("conf=allreduce_8node", "hydra/launcher=simulated", "proposer=random", "campaign.dir=here",
            "budget.launches=6", "sizes=[8,64k]")  # fmt: skip


@pytest.fixture
def tune(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def run(*words):
        code = main([*CAMPAIGN, *words])
        said = capsys.readouterr()
        return code, said.out + said.err

    return run


@pytest.mark.parametrize(
    ("word", "key"),
    [
        ("mpi.env.TOKEN=${oc.env:TOKEN}", "mpi.env.TOKEN"),
        ("mpi.env.TOKEN='a ${oc.env:TOKEN}'", "mpi.env.TOKEN"),
        ("collective=[${oc.env:TOKEN}]", "collective.0"),
        ("hydra.launcher._target_=${oc.env:TOKEN}", "hydra.launcher._target_"),
    ],
)
def test_a_secret_of_the_environment_reaches_no_journal(tune, tmp_path, monkeypatch, word, key):
    monkeypatch.setenv("TOKEN", "hunter2")
    code, said = tune(word)
    assert code == ExitCode.MISTAKE
    assert f"{key} comes out of the environment" in said
    assert "hunter2" not in said
    assert not (tmp_path / "here").exists()


def test_a_path_may_come_out_of_the_environment_and_is_for_the_user_alone(tune, tmp_path, monkeypatch):
    monkeypatch.setenv("SCRATCH", str(tmp_path / "scratch"))
    assert tune("campaign.dir=${oc.env:SCRATCH}", "verify.enabled=false")[0] == 0
    assert (tmp_path / "scratch").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "scratch/journal.jsonl").stat().st_mode & 0o777 == 0o600


def exported(tmp_path):
    return {path.name: path.read_text() for path in (tmp_path / "here/export").iterdir()}


def launches(tmp_path):
    return sum(event["event"] == "observation" for event in read_events(tmp_path / "here"))


def test_what_is_asked_of_a_complete_campaign_is_done(tune, tmp_path):
    assert tune("verify.enabled=false")[0] == 0
    assert any("UNVERIFIED" in text for text in exported(tmp_path).values())

    code, said = tune("verify.enabled=true", "verify.launches=8")
    assert code == 0, said
    made = launches(tmp_path)
    assert made > 6
    for name, text in exported(tmp_path).items():
        assert "UNVERIFIED" not in text, name
    assert main(["status", "here"]) == 0

    assert tune("verify.launches=8", "export=[summary,json]")[0] == 0
    assert "recommendation.json" in exported(tmp_path)
    assert launches(tmp_path) == made

    code, said = tune("verify.launches=8", "export=[summary,json]")
    assert "is complete" in said

    code, said = tune("verify.launches=8", "budget.launches=7", "export=[summary,json]")
    assert code == 0, said
    assert launches(tmp_path) > made
    assert "UNVERIFIED" not in exported(tmp_path)["recommendation.json"]


def test_a_campaign_that_has_used_its_budget_names_the_command_that_goes_on_and_that_does(tune, tmp_path):
    short = ("verify.launches=4", "budget.total_launches=16")
    code, said = tune(*short)
    assert code == 0, said
    command = shlex.join([sys.executable, "-m", "autotune", "here"])
    assert re.search(rf"Go on with about .* more:\n  {re.escape(command)}\n", said)
    assert "Use now    the stack's own defaults" in said
    made = launches(tmp_path)

    code, said = tune(*short)
    assert code == 0 and launches(tmp_path) == made
    assert said.startswith("here has used its budget, and has no verdict; this goes on, for about ")
    assert said.splitlines()[1] == f"  {command}"

    assert main(["here", "--quiet"]) == 0
    assert launches(tmp_path) > made
    changed = [event for event in read_events(tmp_path / "here") if event["event"] == "changed"]
    assert [event["scenario"].keys() for event in changed] == [{"budget"}]
    assert changed[0]["scenario"]["budget"]["total_launches"] > 16

    made = launches(tmp_path)
    assert tune(*short)[0] == 0  # that budget is used up all the more
    assert launches(tmp_path) == made
    assert sum(event["event"] == "changed" for event in read_events(tmp_path / "here")) == 1


def test_a_search_that_is_over_and_found_nothing_names_no_command(tune, tmp_path, capsys):
    (tmp_path / "small.yaml").write_text(
        "stack: openmpi\nparameters:\n  UCX_TLS: {values: [all, 'self,sm,tcp']}\n"
    )
    code, said = tune("space=small.yaml", "budget.launches=10", "verify.launches=4")
    assert code == 0, said
    assert "Use now    the stack's own defaults\nWhy        the search found nothing that is faster\n" in said
    assert "Go on with" not in said
    made = launches(tmp_path)
    assert main(["here"]) == 0
    assert "here is complete" in (again := capsys.readouterr().out)
    assert "goes on" not in again
    assert launches(tmp_path) == made


def test_going_on_with_a_campaign_that_was_killed_changes_nothing_in_it(tune, tmp_path):
    assert tune("verify.launches=4")[0] == 0
    path = tmp_path / "here/journal.jsonl"
    whole = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(whole[:9]))
    assert main(["tune", "here", "--quiet"]) == 0

    def made(lines):
        events = [json.loads(line) for line in lines]
        return [e.get("number", e.get("trial")) for e in events if e["event"] in ("trial", "observation")]

    assert made(path.read_bytes().splitlines()) == made(whole)
    assert not [e for e in read_events(tmp_path / "here") if e["event"] == "changed"]


def test_a_campaign_that_is_not_verified_is_verified_by_going_on(tune, tmp_path):
    assert tune("verify.enabled=false", "verify.launches=8")[0] == 0
    made = launches(tmp_path)
    assert main(["here", "--quiet"]) == 0
    assert launches(tmp_path) > made
    assert not any("UNVERIFIED" in text for text in exported(tmp_path).values())


def test_the_plan_rests_on_the_launches_that_the_directory_holds(tune, capsys):
    def planned():
        assert main(["plan", *CAMPAIGN]) == 0
        return capsys.readouterr().out

    assert "as on recorded machines, differ by 3.0 %" in planned()
    assert tune()[0] == 0
    assert "launches of one setting" in (told := planned())
    assert "recorded machines" not in told


@pytest.mark.parametrize("word", ["sizes=[8]", "budget.launchs=9", "budget", "seed=2"])
def test_what_cannot_change_in_a_campaign_that_was_begun_is_refused(tune, tmp_path, capsys, word):
    assert tune("verify.enabled=false")[0] == 0
    made = launches(tmp_path)
    assert main(["here", word]) == ExitCode.MISTAKE
    assert f"{word}: cannot be changed in a campaign that was begun" in capsys.readouterr().err
    assert launches(tmp_path) == made


@pytest.mark.parametrize(
    "words",
    [("./nowhere",), ("campaigns/nowhere",), ("empty",), ("tune", "nowhere"), ("tune", "empty", "--yes")],
)
def test_a_directory_without_a_campaign_gets_one_clear_message(tmp_path, monkeypatch, capsys, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    assert main([*words]) == ExitCode.MISTAKE
    name = words[len(words) > 1].removeprefix("./")
    said = f"autotune: {name} holds no campaign\n  expected a directory with a journal.jsonl\n"
    assert capsys.readouterr().err == said


def test_a_word_that_is_like_no_verb_is_no_campaign_either(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["xyzzy"]) == ExitCode.MISTAKE
    assert capsys.readouterr().err.startswith("autotune: there is no verb and no campaign 'xyzzy'\n")


def test_a_fresh_start_beside_a_running_campaign_is_refused(tune, tmp_path):
    assert tune("verify.enabled=false")[0] == 0
    with Journal(tmp_path / "here"):
        code, said = tune("verify.enabled=false", "campaign.fresh=true")
    assert code == ExitCode.LOCKED
    assert "being written by another process" in said
    assert not (tmp_path / "here.1").exists()
    assert tune("verify.enabled=false", "campaign.fresh=true")[0] == 0
    assert (tmp_path / "here.1/journal.jsonl").exists()


def test_a_mistake_does_not_put_the_campaign_aside(tune, tmp_path):
    assert tune("verify.enabled=false")[0] == 0
    assert tune("campaign.fresh=true", "probe.estimator=mean_of_all")[0] == ExitCode.MISTAKE
    assert not (tmp_path / "here.1").exists()


@pytest.mark.parametrize("away", ["rm", "truncate -s 50", "cp /dev/null"])
def test_a_journal_that_goes_away_ends_its_campaign(tmp_path, monkeypatch, capsys, away):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "space.yaml").write_text("stack: command\nparameters: {x: {values: [1, 2]}}\n")
    (tmp_path / "program").write_text(f"#!/bin/sh\n{away} here/journal.jsonl\necho '{{\"t\": 1.5}}'\n")
    (tmp_path / "program").chmod(0o755)
    words = ["conf=command", "space=space.yaml", "probe.options.run=[./program]", "responses.t=min"]
    assert main([*words, "campaign.dir=here"]) == ExitCode.STUCK
    said = capsys.readouterr().err
    assert "here/journal.jsonl was " in said
    assert "while the campaign ran: 4 events had been written" in said
