"""``conf=site`` on the simulated cluster: jobs, resuming, files, the page; and what it refuses."""

import json
import os
import shutil
from dataclasses import replace

import pytest

from autotune.cli import main
from autotune.commands.site_directory import Sample, SiteDirectory, read_site
from autotune.history.folder import WISHES
from autotune.history.journal import locked
from autotune.site import Decision
from autotune.structure import plain

SMALL = (
    *("hydra/launcher=simulated", "site.nodes=[1,2]", "site.ppn=[4]", "site.collectives=[allreduce,bcast]"),
    *("sizes=[8,1k,64k]", "budget.launches=4", "verify.enabled=false"),
)


def words(directory, *more):
    return ["conf=site", f"campaign.dir={directory}", *SMALL, *more]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    directory = tmp_path_factory.mktemp("site") / "mine"
    assert main(words(directory, "--quiet")) == 0
    return directory


def test_each_job_is_a_campaign_and_all_have_one_set_of_files(made, capsys):
    assert sorted(p.name for p in (made / "jobs").iterdir()) == ["1x4", "2x4"]
    assert (made / "export").is_dir()
    assert main(["status", str(made), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [(j["nodes"], j["ppn"], j["state"]) for j in told["jobs"]] == [
        (1, 4, "complete"),
        (2, 4, "complete"),
    ]
    assert told["node_hours"] > 0


def test_a_complete_site_launches_nothing_more(made, capsys):
    journals = {p: p.read_bytes() for p in made.glob("jobs/*/journal.jsonl")}
    assert main(words(made)) == 0
    assert {p: p.read_bytes() for p in made.glob("jobs/*/journal.jsonl")} == journals
    assert "1 × 4 ranks: complete" in capsys.readouterr().out


def test_a_site_that_ended_before_its_files_writes_them(made, capsys):
    written = {p.name for p in (made / "export").iterdir()}
    shutil.rmtree(made / "export")
    assert main(words(made)) == 0
    assert {p.name for p in (made / "export").iterdir()} == written


def test_the_page_has_a_map_of_each_collective(made, tmp_path):
    assert main(["report", str(made), "--out", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text()
    assert page.count("<table>") == 2
    assert "allreduce, 4 ranks a node" in page


def test_all_jobs_are_exported_together(made, tmp_path, capsys):
    assert main(["export", str(made), "--out", str(tmp_path / "out")]) == 0
    assert str(tmp_path / "out") in capsys.readouterr().out


def test_other_wishes_need_another_directory(made, capsys):
    assert main(words(made, "site.nodes=[1,2,4]")) == 2
    assert "other wishes" in capsys.readouterr().err


def test_a_budget_of_node_hours_leaves_large_jobs_to_prediction(tmp_path, capsys):
    few = words(tmp_path, "site.nodes=[1,2,64]", "budget.node_hours=0.02")
    assert main(["plan", *few]) == 0
    planned = capsys.readouterr().out
    assert planned.count("measured") == 2
    assert "predicted, or left to the library" in planned
    assert main([*few, "--quiet"]) == 0
    told = capsys.readouterr().out
    assert "64 × 4 ranks: not measured; 0 of 6 slots predicted" in told
    assert "too few node counts" in told


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("site.nodes=[0]", "site.nodes"),
        ("site.collectives=[alreduce]", "allreduce"),
        ("site.nod=[1]", "site.nod"),
        ("site.memory_gib=1e-5", "sizes up to 1024 fit"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_runs(word, said, tmp_path, capsys):
    assert main(["plan", *words(tmp_path / "none", word)]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_other_verbs_refuse_a_whole_site(tmp_path, capsys):
    assert main(["measure", *words(tmp_path)]) == 2
    assert "whole site" in capsys.readouterr().err


def test_watch_ends_with_the_site(made, capsys):
    assert main(["watch", str(made)]) == 0
    assert "2 × 4 ranks: complete" in capsys.readouterr().out


@pytest.mark.parametrize("verb", ["history", "verify", "compare", "winners"])
def test_a_verb_of_one_campaign_says_where_a_site_has_them(verb, made, capsys):
    assert main([verb, str(made)]) in (2, 3)
    told = capsys.readouterr().err
    assert "whole site" in told
    assert str(made / "jobs") in told


def test_two_do_not_make_a_site_at_once(made, capsys):
    held = locked(made, WISHES)
    try:
        assert main(words(made)) == 4
    finally:
        os.close(held)
    assert "another process" in capsys.readouterr().err


def test_a_site_is_not_begun_afresh(tmp_path, capsys):
    assert main(words(tmp_path / "site", "campaign.fresh=true")) == 2
    assert "campaign.fresh" in capsys.readouterr().err
    assert not (tmp_path / "site").exists()


def test_a_plan_is_near_what_is_used(made, tmp_path, capsys):
    """The modelled jobs take little longer than their start; a plan before any launch knows the launches."""
    assert main(["status", str(made), "--json"]) == 0
    used = json.loads(capsys.readouterr().out)["node_hours"]
    assert main(["plan", *words(tmp_path / "none", "probe.budget_s=0.1")]) == 0
    planned = float(capsys.readouterr().out.partition("together ")[2].split()[0])
    assert used / 1.5 <= planned + 0.005
    assert planned - 0.005 <= used * 1.5


def test_a_sample_says_how_the_predictions_did(made, tmp_path, monkeypatch, capsys):
    """Written as it is before its job is measured: of two predictions one is far off."""
    site = tmp_path / "site"
    shutil.copytree(made, site)
    found = read_site(site).measured
    slow, right = [m for m in found if m.shape.nodes == 2 and m.choice][:2]
    planted = [replace(m, time_s=2 * m.time_s) if m is slow else m for m in found]
    monkeypatch.setattr(SiteDirectory, "measured", planted)
    predicted = tuple(Decision(m.shape, m.choice, gain=0.5, low=0.1) for m in (slow, right))
    (site / "sample.json").write_text(json.dumps(plain(Sample((2, 4), 1.645, predicted))))
    assert main(["status", str(site), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["sample"]
    assert told.startswith("sample: of 2 predictions for 2 × 4 ranks 1 proved more than 5% slower")
    assert main(["report", str(site), "--out", str(tmp_path / "page.html")]) == 0
    assert told in (tmp_path / "page.html").read_text()
