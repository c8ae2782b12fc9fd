"""The Python API does what the command line does, on the same journal."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pandas as pd
import pytest

import autotune
from autotune import Campaign, explain, lint_files, load_space
from autotune.cli import main
from autotune.errors import AutotuneError, JournalError, ScenarioError, SpaceError, UserError
from autotune.history.events import State
from tests.schemas import answer

WORDS = ("hydra/launcher=simulated", "proposer=random", "sizes=[8,4k,1M]")
SHORT = ("budget.launches=16",)


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    folder = tmp_path_factory.mktemp("api")
    campaign = Campaign("allreduce_8node", *WORDS, *SHORT, f"campaign.dir={folder / 'ran'}")
    planned = campaign.plan()
    assert not campaign.directory.exists()  # nothing written before it is run
    assert "not begun" in repr(campaign)
    assert campaign.run(quiet=True) == 0
    return campaign, planned


def journal_of(directory):
    """What was tried and seen, wherever in the journal it stands."""
    events = map(json.loads, (directory / "journal.jsonl").read_text().splitlines())
    told = [e for e in events if e["event"] in ("trial", "observation")]
    return [{key: value for key, value in e.items() if key not in ("line", "crc")} for e in told]


def test_it_makes_the_trials_that_the_command_makes(ran, tmp_path, capsys):
    campaign, _ = ran
    assert main(["conf=allreduce_8node", *WORDS, *SHORT, f"campaign.dir={tmp_path / 'command'}"]) == 0
    assert journal_of(campaign.directory) == journal_of(tmp_path / "command")
    assert campaign.state is State.COMPLETE
    assert sorted(path.name for path in (campaign.directory / "export").iterdir()) == sorted(
        path.name for path in (tmp_path / "command" / "export").iterdir()
    )


def test_the_history_is_the_table_that_the_verb_writes(ran, tmp_path):
    campaign, _ = ran
    table = tmp_path / "history.parquet"
    assert main(["history", str(campaign.directory), "--all", "--out", str(table)]) == 0
    pd.testing.assert_frame_equal(campaign.history, pd.read_parquet(table), check_dtype=False)


def test_a_plan_counts_what_was_then_launched(ran):
    campaign, planned = ran
    by_phase = campaign.history.groupby("phase")["trial"].nunique()
    launches = planned.set_index("phase")["launches"]
    for phase in ("screening", "search"):
        assert by_phase[phase] == launches[phase] > 0
    assert 0 < by_phase["baseline"] <= launches["baseline"]  # several settings may share one of them
    assert by_phase["verify"] <= planned.set_index("phase")["most"]["verification"]
    assert (planned["node_hours"] <= planned["node_hours_most"]).all()


def test_effects_and_gains_are_those_of_the_campaign(ran):
    campaign, _ = ran
    effects, gains = campaign.effects, campaign.gains
    assert set(effects["objective"]) == {"latency", "bandwidth"}
    assert set(effects["factor"]) <= set(campaign.space.job_wide)
    strongest = effects[effects["objective"] == "latency"].sort_values("p_value").iloc[0]
    assert strongest["effect_low"] < strongest["effect"] < strongest["effect_high"]
    assert list(gains["message_bytes"]) == [8, 4096, 1048576]
    assert (gains["speedup_low"] < gains["speedup"]).all()
    assert (gains["speedup"] < gains["speedup_high"]).all()
    measured = gains["default_us"] / gains["tuned_us"]  # medians of each side, not of pairs
    assert measured.tolist() == pytest.approx(gains["speedup"].tolist(), rel=0.03)
    assert campaign.verdict is not None
    assert campaign.verdict.recommendation.point == campaign.recommendation.point


def test_files_and_page_go_where_they_are_asked_to(ran, tmp_path):
    campaign, _ = ran
    paths = campaign.export("json", out=tmp_path / "files")
    assert [path.parent for path in paths] == [tmp_path / "files"]
    assert json.loads(paths[0].read_text())
    page = campaign.report(tmp_path / "page.html")
    assert page.read_text().startswith("<!doctype html>")
    with pytest.raises(UserError, match="choice=best"):
        campaign.export(choice="best")
    with pytest.raises(UserError):
        campaign.export("floppy")


def test_worth_is_what_the_verb_says(ran, tmp_path, capsys):
    campaign, _ = ran
    calls = tmp_path / "calls.csv"
    calls.write_text("collective,comm_size,message_bytes,count\nallreduce,288,8,1e6\n")
    words = ["--calls", str(calls), "--application-s", "100", "--json"]
    assert main(["worth", str(campaign.directory), *words]) == 0
    told = answer(capsys.readouterr().out)
    found = campaign.worth(calls, application_s=100.0)
    assert (found.saved_per_hour_s, found.calls) == (told["saved_per_hour_s"], told["calls"])
    assert list(found.interval_per_hour_s) == told["interval_per_hour_s"]
    with pytest.raises(UserError, match="application"):
        campaign.worth(calls)


def test_an_opened_campaign_goes_on_where_it_was_cut(ran, tmp_path):
    campaign, _ = ran
    whole = (campaign.directory / "journal.jsonl").read_bytes().splitlines(keepends=True)
    cut = tmp_path / "cut"
    cut.mkdir()
    (cut / "journal.jsonl").write_bytes(b"".join(whole[:15]))
    opened = Campaign.open(cut)
    assert opened.state is State.INTERRUPTED
    seen = len(opened.history)
    assert opened.recommendation is None or opened.verdict is None
    assert opened.run(quiet=True) == 0
    assert len(opened.history) > seen  # read anew
    assert journal_of(cut) == journal_of(campaign.directory)
    with pytest.raises(UserError, match="has begun"):
        opened.plan()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("no_such_scenario",), "no_such_scenario"),
        (("allreduce_8node", "budgt.launches=3"), "budgt"),
        (("allreduce_8node", "-m", "seed=1,2"), "-m is for the command line"),
        (("allreduce_8node", "--cfg=job"), "--cfg is for the command line"),
        (("allreduce_8node", "conf=command"), "conf is for the command line"),
    ],
)
def test_mistakes_are_told_when_they_are_made(words, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ScenarioError, match=said):
        Campaign(*words)
    assert not list(tmp_path.iterdir())


def test_a_notebook_shows_a_campaign_and_its_results(ran, tmp_path):
    campaign, _ = ran
    shown = campaign._repr_html_()
    assert "allreduce_8node: complete, " in shown
    assert "SIMULATED" in shown
    assert shown.count("<tr>") == 1 + len(campaign.gains)
    assert campaign.recommendation._repr_html_() in shown
    assert campaign.verdict.text.partition(":")[0] in campaign.verdict._repr_html_()
    fresh = Campaign("allreduce_8node", *WORDS, f"campaign.dir={tmp_path / 'fresh'}")
    assert fresh._repr_html_() == f"<p>&lt;Campaign {tmp_path / 'fresh'}: not begun&gt;</p>"


def test_a_verification_is_that_of_the_verb(ran):
    campaign, _ = ran
    result = campaign.verify(launches=8, quiet=True, yes=True)
    assert result.path.parent.parent == campaign.directory / "verifications"
    kept = json.loads(result.path.read_text())
    assert kept["launches"] <= 8
    assert [list(c.slot) for c in result.comparisons] == [row["slot"] for row in kept["slots"]]
    assert result.holds is not any(row["loses"] or row["decision"] == "no longer" for row in kept["slots"])
    assert f"on {kept['launches']} fresh launches" in result.text
    assert result._repr_html_().count("<tr>") == 1 + len(result.comparisons)
    with pytest.raises(UserError, match="files have no effect there"):
        campaign.verify(against=[campaign.directory / "journal.jsonl"], quiet=True, yes=True)


def test_what_is_simulated_is_installed_on_request_alone(ran, tmp_path, monkeypatch):
    campaign, _ = ran
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(UserError, match="choice=best"):
        campaign.install(choice="best")
    with pytest.raises(AutotuneError, match="not installed: these results are SIMULATED"):
        campaign.install(choice="recommended")
    assert list(tmp_path.iterdir()) == []
    files = campaign.install(choice="recommended", yes=True)
    assert files
    assert all(path.is_relative_to(tmp_path) for path in files)
    assert main(["install", "--remove"]) == 0


def test_files_are_checked_as_by_the_verb(tmp_path, capsys):
    wrong = tmp_path / "mca-params.conf"
    wrong.write_text("coll_tuned_use_dynamic_rules = 1\nbtl = 'self,tcp'\n")
    code = main(["lint", str(wrong)])
    printed = capsys.readouterr().out
    report = lint_files(wrong)
    assert (report.n_sure > 0, code) == (True, 1)
    assert "".join(f"{finding}\n" for finding in report.findings) + report.count in printed
    assert {finding.file for finding in report.findings} == {wrong}
    assert len(lint_files(wrong, everything=True).findings) == report.n_sure + report.n_hidden
    assert "self,tcp" in report._repr_html_()
    (tmp_path / "notes.xyz").write_text("nothing that is known\n")
    assert lint_files(tmp_path / "notes.xyz").unjudged
    for nothing in ((), (tmp_path,), (tmp_path / "absent",)):
        with pytest.raises(UserError):
            lint_files(*nothing)


def test_a_call_is_explained_as_by_the_verb(tmp_path, capsys):
    rules = tmp_path / "rules.conf"
    rules.write_text("1\n2 # allreduce\n1\n2\n2\n0 1 0 0\n4096 4 0 0\n")
    assert main(["lint", str(rules), "--explain", "--ranks", "64", "--bytes", "4k", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    answers = explain(rules, 64, "4k")
    assert [(a.collective, a.algorithm or None, a.line or None) for a in answers] == [
        (row["collective"], row["algorithm"], row["line"]) for row in told["calls"]
    ]
    assert [(a.collective, a.algorithm, a.line) for a in answers] == [("allreduce", "ring (4)", 7)]
    assert explain(rules, 64, 4096, collective="allreduce") == answers
    with pytest.raises(UserError, match="no size"):
        explain(rules, 64, -1)
    (tmp_path / "notes.xyz").write_text("nothing that is known\n")
    with pytest.raises(UserError, match="unknown kind"):
        explain(tmp_path / "notes.xyz", 64, 8)


def test_what_is_no_campaign_is_not_opened(tmp_path):
    with pytest.raises(UserError, match="holds no campaign"):
        Campaign.open(tmp_path)
    (tmp_path / "journal.jsonl").write_text("{}\nnonsense\n{}\n")
    with pytest.raises(JournalError):
        Campaign.open(tmp_path)


def test_spaces_by_name_and_by_path(tmp_path):
    shipped = load_space("openmpi_ucx_local")
    assert "UCX_TLS" in shipped.job_wide
    mine = tmp_path / "mine.yaml"
    mine.write_text("parameters: {UCX_TLS: {values: [all, self], default: all}}\n")
    assert [p.name for p in load_space(mine).parameters] == ["UCX_TLS"]
    with pytest.raises(SpaceError, match="openmpi_ucx_local"):
        load_space("openmpi_ucx_locl")


def test_the_package_offers_what_its_stub_declares():
    assert dir(autotune) == [
        *("Campaign", "__version__", "diagnose", "explain", "lint_files", "load_space", "record")
    ]
    stub = (Path(autotune.__file__).parent / "__init__.pyi").read_text()
    for name in dir(autotune):
        assert name in stub
        assert getattr(autotune, name)
    with pytest.raises(AttributeError, match="Compaign"):
        autotune.Compaign  # noqa: B018 - the access itself is tested


def test_another_thread_is_told_what_it_may_not_do(ran):
    campaign, _ = ran
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: campaign.state).result() is State.COMPLETE
        for work in (campaign.run, campaign.resume, campaign.plan):
            with pytest.raises(UserError, match="main thread"):
                pool.submit(work).result()
