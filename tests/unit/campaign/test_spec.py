"""A campaign's description goes through the journal and comes back; what earlier versions wrote is read."""

import json

import pytest

from autotune.campaign.spec import BenchKind, Stamp, campaign_event, campaign_of
from autotune.scenario import defaults
from autotune.structure import plain
from tests.campaigns import strategy
from tests.golden.test_campaigns import CAMPAIGNS, GOLDEN


def events(name):
    return [json.loads(line) for line in (GOLDEN / name / "journal.jsonl").read_text().splitlines()]


def written(event):
    return json.dumps(plain(event), separators=(",", ":"))


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_what_an_earlier_version_wrote_is_written_again_byte_by_byte(name):
    line = (GOLDEN / name / "journal.jsonl").read_text().splitlines()[1]
    assert written(campaign_event(campaign_of(json.loads(line)))) == line


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_the_space_keeps_its_fingerprint(name):
    event = events(name)[1]
    assert campaign_of(event).space.fingerprint == event["fingerprint"]


def test_a_description_comes_back():
    campaign = strategy(7).campaign
    assert campaign_of(json.loads(written(campaign_event(campaign)))) == campaign


def test_what_an_earlier_version_did_not_know_is_as_it_is_by_default():
    event = events("local")[1]
    del event["scenario"]["confirm"], event["scenario"]["probe"]["estimator"]
    event["scenario"]["of_a_later_version"] = event["site"]["of_a_later_version"] = 1
    scenario = campaign_of(event).scenario
    assert scenario.confirm.share == defaults()["confirm"]["share"]
    assert scenario.probe.estimator == defaults()["probe"]["estimator"]
    assert scenario.probe.budget_s == 1.5  # what it did write


@pytest.mark.parametrize(
    ("text", "stamp"),
    [
        ("", Stamp()),
        ("SIMULATED", Stamp(BenchKind.SIMULATED)),
        ("SIMULATED (calibrated from a (b))", Stamp(BenchKind.SIMULATED, "calibrated from a (b)")),
        ("REPLAYED (from t.csv)", Stamp(BenchKind.REPLAYED, "from t.csv")),
    ],
)
def test_a_stamp_reads_as_it_is_written(text, stamp):
    assert Stamp.of(text) == stamp
    assert str(stamp) == text
    assert bool(stamp) == bool(text)
