"""The verification, in a campaign and by its verb, on the simulated cluster."""

import json
import shutil
from dataclasses import replace

import pytest

from autotune.campaign import turns
from autotune.campaign.directory import read_campaign
from autotune.cli import main
from autotune.errors import ExitCode
from autotune.history.journal import FILE
from autotune.history.trial import Phase, Status, Subject
from tests import program
from tests.golden.test_campaigns import GOLDEN
from tests.schemas import answer


def autotune(cwd, *words):
    return program.autotune(*words, cwd=cwd)


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    """A small simulated campaign with its verification."""
    cwd = tmp_path_factory.mktemp("verified")
    words = ("conf=allreduce_8node", "proposer=random", "budget.launches=32", "campaign.dir=one", "seed=3")
    done = autotune(cwd, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return cwd, done.stdout


def test_the_campaign_ends_with_interleaved_fresh_launches(campaign):
    cwd, shown = campaign
    record = read_campaign(cwd / "one")
    found = record.conclude()
    made = record.history.of(Phase.VERIFY).observations
    assert {o.trial.subject for o in made} == {Subject.UNTOUCHED, Subject.DEPLOYED}
    for block in {o.trial.block for o in made}:
        sides = "".join("AB"[o.trial.subject is Subject.DEPLOYED] for o in made if o.trial.block == block)
        assert (len(sides), sides.count("A")) == (4, 2)  # a heat: the simulated launches are alive at once
    assert found.verdict.complete
    assert "verification: the best settings against the defaults" in shown
    assert found.recommendation.provenance.verified.startswith("verified: ")
    assert (
        found.recommendation.provenance.verified in (cwd / "one/export/openmpi-mca-params.conf").read_text()
    )


def test_no_size_is_slower_than_the_default_beyond_its_interval(campaign):
    gains = read_campaign(campaign[0] / "one").recommended().gains
    assert gains
    assert all(g.interval[1] >= 1.0 for g in gains)


def test_the_verb_repeats_it_at_any_time(campaign):
    cwd, _ = campaign
    done = autotune(cwd, "verify", "one", "--launches", "8", "--json")
    document = answer(done.stdout)
    assert done.returncode in (0, 1)
    assert document["against"] == ["untouched"]
    assert document["stamp"].startswith("SIMULATED")
    assert document["overall"]["speedup"] > 1.0
    gained = {g.slot for g in read_campaign(cwd / "one").recommended().gains if g.interval[0] > 1.0}
    for slot in document["slots"]:  # nothing is still or no longer so that never was
        allowed = {"still better", "no longer"} if tuple(slot["slot"]) in gained else {"better", "not better"}
        assert slot["decision"] in {*allowed, "inconclusive"}
    kept = max((cwd / "one/verifications").glob("*/verification.json"), key=lambda path: path.stat().st_mtime)
    assert json.loads(kept.read_text()) == document


def test_a_campaign_is_no_better_than_itself(campaign):
    cwd, _ = campaign
    done = autotune(cwd, "verify", "one", "--launches", "24", "--against", "one", "--json")
    total = answer(done.stdout)["overall"]
    assert done.returncode in (0, 1)
    # Its launches are drawn anew each time: that the interval holds zero would fail now and then by chance.
    assert total["low"] < total["gain"] < total["high"]
    assert abs(total["gain"]) < 0.2


@pytest.fixture
def golden(tmp_path):
    """Two copies of a recorded campaign; the second one was measured with another stack."""
    for name in ("mine", "theirs"):
        shutil.copytree(GOLDEN / "simulated", tmp_path / name)
        (tmp_path / name).chmod(0o700)
    journal = tmp_path / "theirs" / FILE
    journal.write_text(journal.read_text().replace("Open MPI 5 modelled", "Open MPI 4 modelled"))
    return tmp_path


def test_every_line_names_both_sides_and_what_has_changed_is_marked(golden):
    done = autotune(golden, "verify", "mine", "--launches", "4", "--against", "theirs", "--yes")
    head, note, *lines, _ = done.stdout.splitlines()
    assert head.startswith("speed of mine over that of theirs, on 4 fresh launches")
    assert "theirs was measured with stack" in note
    assert "Open MPI 4 modelled" in note
    assert len(lines) == 4
    assert all("mine" in line and "theirs" in line for line in lines)
    assert "longer" not in "".join(lines)  # nobody said that mine was better than theirs
    launches = [line for line in done.stderr.splitlines() if line.startswith("launch ")]
    assert {line.split("  ")[1] for line in launches} == {"mine", "theirs"}


@pytest.mark.parametrize("every", [1, 3])
def test_what_fails_more_often_than_the_defaults_is_a_finding(every, golden, monkeypatch, capsys):
    observe, made = turns.launch_block, []

    def failing(entrants, heats):
        return tuple(map(spoilt, observe(entrants, heats)))

    def spoilt(observation):
        if observation.trial.subject is Subject.UNTOUCHED:
            return observation
        made.append(observation)
        crashed = replace(observation, status=Status.CRASHED, reason="signal 11", estimates=())
        return observation if len(made) % every else crashed

    monkeypatch.setattr(turns, "launch_block", failing)
    monkeypatch.chdir(golden)
    code = main(["verify", "mine", "--launches", "24", "--yes", "--json"])
    document = answer(capsys.readouterr().out)
    assert code == ExitCode.FINDING
    assert document["launches"] == 24  # how often it fails wants all of them
    assert (
        document["failures"]
        == f"mine: {12 // every} crashed of 12 launches; the defaults: none of 12 launches"
    )
    assert bool(document["slots"]) is (document["overall"] is not None) is (every > 1)
    main(["verify", "mine", "--launches", "24", "--yes"])
    assert " crashed of 12 launches; the defaults: none of 12" in capsys.readouterr().out


def test_a_model_is_not_compared_with_what_was_measured(golden):
    shutil.copytree(GOLDEN / "local", golden / "real")
    (golden / "real").chmod(0o700)
    done = autotune(golden, "verify", "mine", "--launches", "4", "--against", "real", "--yes")
    assert done.returncode == 2
    assert "real is of a real MPI, what it is compared with SIMULATED" in done.stderr
    assert not done.stdout


def test_files_cannot_be_compared_where_they_have_no_effect(campaign):
    cwd, _ = campaign
    done = autotune(cwd, "verify", "one", "--against", "one/export/openmpi-mca-params.conf")
    assert done.returncode == 2
    assert "SIMULATED" in done.stderr


def test_a_replayed_or_unknown_campaign_cannot_be_verified(tmp_path):
    done = autotune(tmp_path, "verify", "nowhere")
    assert done.returncode == 2
    assert "holds no campaign" in done.stderr
