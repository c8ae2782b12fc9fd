"""Files for everybody's jobs hold the best setting that slows no other call, or what was asked for."""

from dataclasses import replace
from pathlib import Path

import pytest

from autotune.campaign.conclusion import Conclusion
from autotune.campaign.directory import CampaignDirectory, read_campaign
from autotune.cli import main
from autotune.commands import everybody
from autotune.errors import ExitCode
from autotune.exporters.document import JsonDocument, Summary, recommendation_of
from autotune.exporters.openmpi import OpenMpiMca
from autotune.exporters.origin import remarks
from autotune.history.events import State
from autotune.history.trial import History
from autotune.recommend.other_calls import OtherCall, OtherDecision
from autotune.recommend.recommendation import Checked, Recommendation
from autotune.space import Point
from autotune.verification.choices import Choice, ChoiceKind
from tests.golden.test_campaigns import GOLDEN
from tests.unit.commands.test_install import GOOD, home_without_mpi

PLACE = ("pingpong", 8192, 1e-6, 1.7e-6)
SLOW = OtherCall(*PLACE, 0.6, 0.57, 0.63, 0.02, 0.58, OtherDecision.SLOWER)
EVEN = OtherCall("barrier", 0, 1e-6, 1e-6, 1.0, 0.97, 1.03, 0.01, 0.98, OtherDecision.NOT_SLOWER, tight=True)
OPEN = OtherCall("bcast", 8, 1e-6, 1e-6, 1.0, 0.5, 2.0, 0.3, 0.6, OtherDecision.INCONCLUSIVE)
PLAIN = replace(GOOD, point=Point(), rules=(), average=(1.08, 1.05, 1.11), others=(EVEN,))
HARMFUL, HARMLESS = (
    replace(GOOD, others=(SLOW, EVEN)),
    replace(
        PLAIN,
        provenance=replace(
            GOOD.provenance, env=(("OMPI_MCA_pml", "ob1"),), placement=(), verified="verified: 1.08×"
        ),
    ),
)


def choice(recommendation: Recommendation, kind=ChoiceKind.RECOMMENDED) -> Choice:
    return Choice(kind, recommendation, recommendation.point, Checked.HOLDS, ())


@pytest.fixture
def home(tmp_path, monkeypatch):
    return home_without_mpi(tmp_path, monkeypatch) / "mca-params.conf"


@pytest.fixture
def concludes(monkeypatch):
    """Has every campaign conclude with these choices."""

    def with_choices(*choices):
        found = Conclusion({}, (), None, None, choices[0].recommendation, choices)
        about = read_campaign(GOLDEN / "simulated").about
        campaign = CampaignDirectory(Path("campaign"), about, History(), State.COMPLETE, "")
        monkeypatch.setattr(everybody, "read_campaign", lambda _: campaign)
        monkeypatch.setattr(CampaignDirectory, "conclude", lambda _: found)

    return with_choices


def test_install_takes_the_harmless_one_and_says_why(home, concludes, capsys):
    concludes(choice(HARMFUL), choice(HARMLESS, ChoiceKind.HARMLESS))
    assert main(["install", "campaign"]) == 0
    assert "pml = ob1" in home.read_text()
    assert "dynamic_rules" not in home.read_text()
    said = capsys.readouterr().out
    assert "the harmless setting, 1.08×: the best one" in said
    assert (
        "it makes other calls slower, 0.60× (0.57 … 0.63) at 8192 B of pingpong; --choice recommended" in said
    )


def test_install_takes_the_best_where_it_is_asked_for_and_says_what_it_slows(home, concludes, capsys):
    concludes(choice(HARMFUL), choice(HARMLESS, ChoiceKind.HARMLESS))
    assert main(["install", "campaign", "--choice", "recommended"]) == 0
    assert "dynamic_rules" in home.read_text()
    said = capsys.readouterr().out
    assert said.startswith("this setting is for programs that mostly call ")
    assert "0.60× (0.57 … 0.63) at 8192 B of pingpong\n" in said


def test_install_refuses_where_no_verified_setting_is_harmless(home, concludes, capsys):
    concludes(choice(HARMFUL))
    assert main(["install", "campaign", "--yes"]) == ExitCode.FINDING
    told = capsys.readouterr().err
    assert "0.60× (0.57 … 0.63) at 8192 B of pingpong" in told
    assert "--choice recommended takes it all the same" in told
    assert not home.parent.exists()
    assert main(["install", "campaign", "--choice", "recommended"]) == 0
    assert home.exists()


@pytest.mark.parametrize("undecided", [(), (OPEN,)])
def test_a_best_setting_that_slows_nothing_is_installed_and_what_is_not_known_is_told(
    home, concludes, capsys, undecided
):
    concludes(choice(replace(HARMFUL, others=(EVEN, *undecided))))
    assert main(["install", "campaign"]) == 0
    assert "dynamic_rules" in home.read_text()
    said = capsys.readouterr().out
    assert ("too few launches to say whether bcast is slower\n" in said) is bool(undecided)
    assert ("slower" in said) is bool(undecided)


def test_a_tree_for_a_site_takes_the_harmless_one_and_files_of_a_campaign_the_best(
    tmp_path, concludes, capsys
):
    concludes(choice(HARMFUL), choice(HARMLESS, ChoiceKind.HARMLESS))
    prefix, out = tmp_path / "opt", tmp_path / "out"
    assert main(["export", "campaign", "--prefix", str(prefix)]) == 0
    (script,) = prefix.glob("openmpi-*/*.sh")
    assert "OMPI_MCA_pml" in script.read_text()
    assert "dynamic_rules" not in script.read_text()
    assert main(["export", "campaign", "--out", str(out)]) == 0
    assert "dynamic_rules" in (out / "autotune-env.sh").read_text()
    concludes(choice(HARMFUL))
    capsys.readouterr()
    assert main(["export", "campaign", "--prefix", str(tmp_path / "other")]) == ExitCode.FINDING
    assert "--choice recommended" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()
    assert main(["export", "campaign", "--prefix", str(prefix), "--choice", "recommended", "--yes"]) == 0
    assert "dynamic_rules" in script.read_text()


def test_other_calls_come_back_from_a_document_and_stand_in_the_summary(tmp_path):
    for others in (HARMFUL.others, ()):
        (text,) = JsonDocument().export(replace(HARMFUL, others=others), tmp_path).values()
        assert ('"others"' in text) is bool(others)
        assert recommendation_of(text).others == others
    (summary,) = Summary().export(HARMFUL, tmp_path).values()
    assert "| pingpong | 8 KiB | 1.00 | 1.70 | 0.60× (0.57 … 0.63) | slower |" in summary
    assert "| barrier, tight | — | 1.00 | 1.00 | 1.00× (0.97 … 1.03) | not slower |" in summary


def test_what_an_application_gains_counts_what_else_becomes_slower():
    effects = {gain.slot: gain for gain in HARMFUL.effects}
    slowed = effects["pingpong", HARMFUL.provenance.ranks, 8192]
    assert slowed.saved[0] == pytest.approx(1 - 1 / 0.6)
    assert slowed.interval == pytest.approx(
        (0.6 * 2.718281828 ** (-0.0392), 0.6 * 2.718281828**0.0392), rel=1e-3
    )
    assert not any(slot[0] == "barrier" for slot in effects)  # back to back, as no program between others


def test_files_say_in_their_head_for_whom_they_are(tmp_path):
    verified = f"verified: 1.15×; {HARMFUL.scope}"
    told = replace(HARMFUL, provenance=replace(HARMFUL.provenance, verified=verified))
    assert any("for programs that mostly call" in line for line in remarks(told))
    (conf,) = (t for n, t in OpenMpiMca().export(told, tmp_path).items() if n.startswith("openmpi-mca"))
    assert "# verified: 1.15×; for programs that mostly call" in conf
