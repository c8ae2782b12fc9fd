"""The verification, in a campaign and by its verb, on the simulated cluster."""

import json
import subprocess
import sys

import pytest

from autotune.campaign.directory import read_campaign
from autotune.history.trial import Phase, Subject


def autotune(cwd, *words):
    return subprocess.run(
        [sys.executable, "-m", "autotune", *words],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    """A small simulated campaign with its verification."""
    cwd = tmp_path_factory.mktemp("verified")
    words = ("conf=allreduce_8node", "proposer=random", "budget.launches=12", "campaign.dir=one", "seed=3")
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
        assert sides in ("ABBA", "BAAB")
    assert found.verdict.complete
    assert "Verification: fresh launches of both" in shown
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
    document = json.loads(done.stdout)
    assert done.returncode in (0, 1)
    assert document["against"] == ["untouched"]
    assert document["stamp"].startswith("SIMULATED")
    assert document["overall"]["speedup"] > 1.0
    assert {slot["decision"] for slot in document["slots"]} <= {"still better", "no longer", "cannot tell"}
    (kept,) = (cwd / "one/verifications").glob("*/verification.json")
    assert json.loads(kept.read_text()) == document


def test_a_campaign_is_no_better_than_itself(campaign):
    cwd, _ = campaign
    done = autotune(cwd, "verify", "one", "--launches", "16", "--against", "one", "--json")
    total = json.loads(done.stdout)["overall"]
    assert done.returncode in (0, 1)
    assert total["low"] <= 0.0 <= total["high"]
    assert abs(total["gain"]) < 0.2


def test_files_cannot_be_compared_where_they_have_no_effect(campaign):
    cwd, _ = campaign
    done = autotune(cwd, "verify", "one", "--against", "one/export/openmpi-mca-params.conf")
    assert done.returncode == 2
    assert "SIMULATED" in done.stderr


def test_a_replayed_or_unknown_campaign_cannot_be_verified(tmp_path):
    done = autotune(tmp_path, "verify", "nowhere")
    assert done.returncode == 2
    assert "holds no campaign" in done.stderr
