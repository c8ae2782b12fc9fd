"""How a campaign ends whose exported files do not do what they say."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from autotune.campaign.directory import read_campaign
from autotune.campaign.same_moment import at_one_moment
from autotune.commands.hydra_bridge import run_task
from autotune.commands.report import report_input
from autotune.commands.tune import interrupted, tune
from autotune.errors import CampaignError, ExitCode
from autotune.history.journal import read_events
from autotune.views.report import page

WORDS = (
    "conf=allreduce_8node",
    "hydra/launcher=simulated",
    "cluster.nodes=2",
    "cluster.ppn=2",
    "sizes=[8,64k,1M]",
)
SMALL = ("proposer=random", "budget.launches=6", "verify.enabled=false", "fix.component=tuned")


def test_files_that_are_refuted_end_with_a_finding_and_are_not_offered(tmp_path, monkeypatch, capsys):
    """A simulated cluster reads no files: as a site with a stack it shows that the rules are not reached."""
    monkeypatch.chdir(tmp_path)

    def believed(scenario, site):
        return tune(scenario, replace(site, stack=SimpleNamespace(fixed={}, coll=("han", "tuned"))))

    assert run_task(believed, [*WORDS, *SMALL]) == ExitCode.FINDING
    said = capsys.readouterr().out
    assert "NOT PROVED: none of" in said
    assert "use them with" not in said
    directory = tmp_path / "campaigns/allreduce_8node"
    assert not report_input(read_campaign(directory)).use
    assert run_task(believed, [*WORDS, *SMALL]) == ExitCode.FINDING  # as often as it is asked
    assert f"do not do what they say: {directory.relative_to(tmp_path)}" in capsys.readouterr().out


def test_files_of_a_simulated_campaign_are_offered_for_trying(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run_task(tune, [*WORDS, *SMALL]) == ExitCode.WELL
    said = capsys.readouterr().out
    assert "they hold a setting that is not verified; to try it\n  mpirun " in said
    assert "with your program in place of ./your_program" in said
    assert report_input(read_campaign(tmp_path / "campaigns/allreduce_8node")).use in said


def test_a_budget_that_ends_before_the_search_is_named_as_the_reason(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ("proposer=random", "verify.enabled=false", "screening.enabled=false")
    with pytest.raises(CampaignError, match="ended before any setting was searched; launches so far: 2"):
        run_task(tune, [*WORDS, *words, "budget.launches=1"])
    assert run_task(tune, [*WORDS, *words, "budget.launches=4"]) == ExitCode.WELL  # as the message says


def test_of_files_that_set_nothing_terminal_and_page_say_so(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ("proposer=random", "budget.launches=2", "verify.enabled=false", "screening.enabled=false")
    assert run_task(tune, [*WORDS, *words]) == ExitCode.WELL
    said = capsys.readouterr().out
    assert "they set nothing" in said
    assert "use them with" not in said
    text = page(report_input(read_campaign(tmp_path / "campaigns/allreduce_8node")))
    assert "They set nothing" in text
    assert "This line uses them" not in text


def test_what_is_said_of_an_interrupted_campaign_is_true_of_its_directory(tmp_path):
    (tmp_path / "journal.jsonl").write_text("{}\n")
    assert "nothing is lost" in str(interrupted(tmp_path))
    message = str(interrupted(tmp_path / "gone"))
    assert "nothing is lost" not in message
    assert "was removed while the campaign ran, and its launches are lost" in message


def test_a_resume_reads_its_journal_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    few = ("proposer=random", "verify.enabled=false", "screening.enabled=false", "budget.launches=")
    assert run_task(tune, [*WORDS, *few[:-1], f"{few[-1]}3"]) == ExitCode.WELL
    reads = []
    monkeypatch.setattr(
        "autotune.history.journal.read_events", lambda folder: reads.append(folder) or read_events(folder)
    )
    assert run_task(tune, [*WORDS, *few[:-1], f"{few[-1]}4"]) == ExitCode.WELL
    assert len(reads) == 1
    assert len(at_one_moment(read_campaign(tmp_path / "campaigns/allreduce_8node").history)) == 4
