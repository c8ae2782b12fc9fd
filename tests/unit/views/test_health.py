"""Four questions about a campaign: each answer follows from its facts, and each no says what to do."""

from dataclasses import replace

import pytest

from autotune.campaign.directory import read_campaign
from autotune.campaign.spec import BenchKind, Stamp
from autotune.history.trial import History
from autotune.measure.machine import Disturbance
from autotune.recommend.recommendation import Checked
from autotune.views.health import health
from autotune.views.report import ReportInput, page
from tests.golden.test_campaigns import GOLDEN


@pytest.fixture(scope="module")
def campaign():
    return read_campaign(GOLDEN / "simulated")


def asked(campaign, history=None, conclusion=None):
    made = history or campaign.history
    return health(campaign.about, made, conclusion or campaign.conclude(), complete=True)


def busy(campaign, cores):
    made = campaign.history.observations
    return History((replace(made[0], extra=Disturbance(2, cores).figures), *made[1:]))


def recommending(conclusion, **changes):
    return replace(conclusion, recommendation=replace(conclusion.recommendation, **changes))


def test_each_answer_has_its_facts_and_each_no_what_to_do(campaign):
    quiet, repeat, enough, inside = asked(campaign)
    assert (quiet.answer, quiet.state) == ("not known", "not measured")  # a model has no other work
    assert repeat.answer == "no" and repeat.state.startswith("launches of one setting differ by 2.4 %")
    assert repeat.fix == "verify.max_loss=0.01 needs verify.launches=44" and repeat.fix not in repeat.state
    assert (enough.answer, enough.state) == ("no", "4 of about 16 launches of the leading setting")
    assert enough.fix.startswith("go on for about ")
    assert (inside.answer, inside.state) == ("no", "UCX_ZCOPY_THRESH=128k is the largest that was tried")
    assert inside.fix == "add values beyond it to the search space"


def test_a_machine_was_quiet_or_not_where_launches_looked(campaign):
    disturbed, *_ = asked(campaign, busy(campaign, 1.3))
    assert (disturbed.answer, disturbed.fix) == ("no", "stop other work there, or take other nodes")
    assert disturbed.state == "1 of 1 launches disturbed; at most other work on 1.3 of 2 cores"
    calm, *_ = asked(campaign, busy(campaign, 0.01))
    assert (calm.answer, calm.fix) == ("yes", "")


def test_a_verdict_had_enough_launches_and_an_inner_value_is_no_edge(campaign):
    conclusion = campaign.conclude()
    point = conclusion.recommendation.point
    source = replace(conclusion.recommendation.provenance, checked=Checked.HOLDS)
    inner = recommending(conclusion, point=point.replace(UCX_ZCOPY_THRESH="16k"), provenance=source)
    *_, enough, inside = asked(campaign, conclusion=inner)
    assert (enough.answer, enough.state) == ("yes", "8 fresh launches decided")
    assert (inside.answer, inside.state, inside.fix) == ("yes", "none is at an edge", "")
    smallest = recommending(conclusion, point=point.replace(UCX_ZCOPY_THRESH="4k"))
    assert "4k is the smallest" in asked(campaign, conclusion=smallest)[-1].state
    of_two = recommending(conclusion, point=point.replace(UCX_ZCOPY_THRESH="16k", NPS=2))
    assert asked(campaign, conclusion=of_two)[-1].well  # of two values, each is at an edge


def test_nothing_is_known_before_a_setting_and_a_table_is_not_asked(campaign):
    nothing = replace(campaign.conclude(), recommendation=None)
    assert asked(campaign, conclusion=nothing)[-1].answer == "not known"
    table = replace(campaign.about, bench=replace(campaign.about.bench, stamp=Stamp(BenchKind.REPLAYED)))
    assert health(table, campaign.history, nothing, complete=True) == ()


def test_the_cards_stand_on_the_page(campaign):
    cards = asked(campaign)
    about = campaign.about
    html = page(ReportInput("x", about.space, about.objectives, campaign.history, health=cards))
    row = html.partition('class="tiles health"')[2].partition("<nav")[0]
    assert row.count('class="tile"') == len(cards) == 4
    for card in cards:
        assert card.question in row and card.state in row and card.fix in row
