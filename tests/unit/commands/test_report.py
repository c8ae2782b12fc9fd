"""From a campaign's directory to what its report is made of, and the page itself."""

import json
import math
import shutil
from functools import cache
from pathlib import Path

import pytest

from autotune.campaign.directory import read_campaign
from autotune.campaign.loop import CampaignLoop
from autotune.campaign.spec import BenchFacts, BenchKind, Stamp, campaign_event
from autotune.cli import main
from autotune.commands.report import report, report_input
from autotune.errors import UserError
from autotune.exporters import exporter
from autotune.history.journal import Journal
from autotune.history.trial import Cell, Estimate, Observation, Status, Subject
from autotune.space import Point
from autotune.views.report import page
from tests import example
from tests.campaigns import Silent, strategy
from tests.golden.test_exports import UCC


def observe(trial):
    choices = example.SPACE.choices("allreduce") if trial.subject is Subject.SWEEP else (Point(),)
    cells = [Cell("allreduce", 2, n, c) for n in example.SIZES for c in choices]
    times = [example.formula(trial.point, cell) * (1 + 0.01 * math.sin(trial.number)) for cell in cells]
    estimates = tuple(Estimate(c, t, t / 100, 20) for c, t in zip(cells, times, strict=True))
    return Observation(trial, Status.OK, estimates, duration_s=1.0, hosts=("node1",))


@pytest.fixture(scope="module")
def campaigns(tmp_path_factory):
    """Campaigns of so many launches, each run once: directory, strategy, history."""

    @cache
    def run(launches):
        folder = tmp_path_factory.mktemp("campaign")
        bench = BenchFacts("a formula", (("cores", "2"),), stamp=Stamp(BenchKind.SIMULATED))
        planned = strategy(
            launches,
            space=example.SPACE,
            objectives=example.OBJECTIVES,
            bench=bench,
            baseline={"launches": 2},
        )
        with Journal(folder) as journal:
            journal.append(campaign_event(planned.campaign))
            history = CampaignLoop(planned, observe, journal, Silent(), lambda: 0.0).run()
            journal.append({"event": "ended", "state": "complete", "launches": launches})
        return folder, planned, history

    return run


@pytest.fixture
def directory(campaigns, tmp_path):
    """A copy of one, to be written to."""

    def copied(launches):
        folder, *rest = campaigns(launches)
        return shutil.copytree(folder, tmp_path, dirs_exist_ok=True), *rest

    return copied


def test_the_screening_is_that_of_the_campaign(directory):
    path, planned, history = directory(14)
    inputs = report_input(read_campaign(path))
    found = planned.plan().screening(history)
    assert found is not None
    assert (inputs.effects, inputs.screening) == found
    assert inputs.stamp == "SIMULATED"
    assert list(inputs.findings) == [("cores", "2")]
    assert inputs.space.dropped == example.SPACE.dropped
    assert inputs.state == "complete"
    assert inputs.recommendation.point["UCX_TLS"] == "self,sysv"


def test_exported_files_come_with_the_line_that_uses_them(directory):
    path, _, _ = directory(14)
    assert report_input(read_campaign(path)).use == ""
    (path / "export").mkdir()
    (path / "export" / "openmpi-mca-params.conf").write_text("")
    inputs = report_input(read_campaign(path))
    assert inputs.exports == [str(path / "export" / "openmpi-mca-params.conf")]
    assert f"{path / 'export' / 'coll_tuned_rules.conf'} ./your_program" in inputs.use
    assert not inputs.idle


UCX_LOG = Path(__file__).parents[1] / "probe" / "ucx_1_20.txt"


@pytest.mark.parametrize("table", [True, False], ids=["protocols", "UCX_PROTO_ENABLE=n"])
def test_protocols_of_ucx_are_shown_where_it_tells_them(directory, table):
    path, _, _ = directory(14)
    text = UCX_LOG.read_text() if table else ""
    for observation in read_campaign(path).history.observations:
        folder = path / "launches" / f"{observation.trial.number:04}"
        folder.mkdir(parents=True)
        (folder / "ucx.node1.1.log").write_text(text)
    inputs = report_input(read_campaign(path))
    assert [name for _, name in inputs.protocols][:2] == ["eager short", "eager copy-in copy-out"][
        : 2 * table
    ]
    assert bool(inputs.before) == table


def test_a_campaign_without_a_screening_has_no_effects(directory):
    path, _, _ = directory(6)  # no room for a design
    inputs = report_input(read_campaign(path))
    assert (inputs.effects, inputs.screening) == ((), None)


def test_the_page_is_written_and_named(directory, tmp_path, capsys):
    path, _, _ = directory(14)
    report(path, None)
    assert capsys.readouterr().out == f"{path / 'report.html'}\n"
    assert "SIMULATED" in (path / "report.html").read_text(encoding="utf-8")
    with pytest.raises(UserError, match="--out"):
        report(path, tmp_path / "nowhere" / "page.html")


def test_a_directory_without_a_campaign_is_refused(tmp_path):
    with pytest.raises(UserError, match="no campaign"):
        report(tmp_path, None)


def test_a_page_is_followed_until_the_campaign_ends(directory, monkeypatch, capsys):
    """What another process writes meanwhile is on the page; the last page is the whole campaign's."""
    import autotune.commands.report as verb

    here, _, _ = directory(12)
    whole = (here / "journal.jsonl").read_bytes()
    lines = whole.splitlines(keepends=True)
    (here / "journal.jsonl").write_bytes(b"".join(lines[:8]))
    monkeypatch.setattr("autotune.campaign.directory.is_locked", lambda _: True)  # as while it is written
    pages = []

    def slept(seconds):
        assert seconds >= 30
        pages.append((here / "report.html").read_text())
        (here / "journal.jsonl").write_bytes(whole if len(pages) > 1 else b"".join(lines[:12]))

    monkeypatch.setattr(verb.time, "sleep", slept)
    report(here, None, follow=True)
    pages.append((here / "report.html").read_text())
    assert capsys.readouterr().out == f"{here / 'report.html'}\n"
    assert len(pages) == 3
    assert ['content="30"' in page for page in pages] == [True, True, False]


def test_figures_become_files(directory, capsys, tmp_path):
    here, _, _ = directory(4)
    report(here, None, figures=tmp_path / "figures")
    written = capsys.readouterr().out.splitlines()[1:]
    assert sorted(written) == sorted(map(str, (tmp_path / "figures").iterdir()))
    assert {"progress.png", "progress.svg"} <= {path.name for path in (tmp_path / "figures").iterdir()}


def test_the_page_says_of_a_file_that_nothing_here_could_read_it(directory):
    path, _, _ = directory(14)
    (path / "export").mkdir(exist_ok=True)
    (text,) = exporter("ucc_conf").export(UCC, path).values()
    (path / "export/ucc.conf").write_text(text)
    (path / "export/other.conf").write_text("x = 1\n")
    inputs = report_input(read_campaign(path))
    assert [Path(file).name for file in inputs.untried] == ["ucc.conf"]
    html = page(inputs)
    assert "ucc.conf</code>: format checked, never run here" in html
    assert "other.conf</code></li>" in html


def test_of_a_table_of_several_collectives_one_is_named(tmp_path, capsys):
    head = "source,line,benchmark,version,collective,comm_size,message_bytes,latency_us,algorithm\n"
    rows = [
        f"{a}.log,1,OSU,,{c},4,8,{us},{a}\n" for c in ("bcast", "reduce") for a, us in (("x", 2), ("y", 1))
    ]
    table = tmp_path / "several.csv"
    table.write_text(head + "".join(rows))
    assert main(["report", str(table)]) == 2
    assert "holds bcast, reduce" in capsys.readouterr().err
    assert main(["report", str(table), "--collective", "reduce"]) == 0
    assert "reduce" in table.with_suffix(".html").read_text()
    capsys.readouterr()
    for words, part in (([table, "scan"], "--collective NAME"), ([tmp_path, "scan"], "no table")):
        assert main(["report", str(words[0]), "--collective", words[1]]) == 2
        assert part in capsys.readouterr().err


def test_a_page_says_which_calls_of_a_job_are_covered(directory):
    path, _, _ = directory(14)
    assert main(["report", str(path), "--ranks", "2", "--sizes", "8..64M"]) == 0
    rows = (path / "report.html").read_text().partition("Your job")[2].partition("</table>")[0]
    assert all(word in rows for word in (">measured<", "within the limits", "beyond those measured"))
    assert main(["report", str(path), "--nodes", "7"]) == 0
    assert "not covered: measured on 1 node<" in (path / "report.html").read_text()


def test_a_job_that_tuned_itself_has_a_figure_and_its_numbers(directory, tmp_path, capsys):
    path, _, _ = directory(14)
    cell = {"collective": "bcast", "lowest_bytes": 65536, "ranks": 2, "one_node": True, "calls": 6000}
    decided = {"settled_at": 900, "algorithm": "binomial", "speedup": 1.5, "speedup_95": [1.4, None]}
    stays = {
        "settled_at": 700,
        "algorithm": "default",
        "speedup": 1.0,
        "speedup_95": [None, None],
        "saved_s": 0,
    }
    cells = [cell | decided | {"saved_s": 3.1}, cell | stays, cell | stays | {"settled_at": None}]
    document = {"format": "autotune-run-1", "command": ["mpirun", "<b>"], "cells": cells}
    document |= {"run_s": 31.0, "spent_s": 0.2, "saved_s": 3.1}
    file = tmp_path / "run.json"
    file.write_text(json.dumps(document))
    assert main(["report", str(path), "--run", str(file)]) == 0
    html = (path / "report.html").read_text().partition("A job that tuned itself")[2]
    assert "mpirun &lt;b&gt;: calls took 3.1 s less than by default in a run of 31 s" in html
    assert "spent 0.2 s trying; 1 other kinds of calls." in html
    assert "bcast 64 KiB, 2 ranks: binomial</th>" in html
    assert html.count('"name":"run"') == 1
    assert "Your job" not in html
    for damaged in ({"format": "autotune-run-1"}, document | {"cells": [cell]}, {"format": "other"}):
        file.write_text(json.dumps(damaged))
        assert main(["report", str(path), "--run", str(file)]) == 2
        assert "run.json" in capsys.readouterr().err


def test_a_job_is_given_once_and_of_a_campaign(directory, capsys):
    path, _, _ = directory(14)
    assert main(["report", str(path), "--ranks", "2", "--calls", "calls.json"]) == 2
    assert "leave them out" in capsys.readouterr().err
    assert main(["report", str(path), "--sizes", "8..x"]) == 2
    assert "LOW..HIGH" in capsys.readouterr().err


def test_a_demonstration_is_a_whole_campaign_that_anybody_can_replay(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["report", "a, b", "--demo"]) == 0
    assert capsys.readouterr().out.endswith("a, b/report.html\n")
    html = (tmp_path / "a, b/report.html").read_text()
    assert "SIMULATED" in html and 'id="why"' in html and "paid back after" in html
    made = read_campaign(tmp_path / "a, b")
    journal = (made.path / "journal.jsonl").read_bytes()
    assert main(["report", "a, b", "--demo"]) == 0  # it is there, and is not run again
    assert (made.path / "journal.jsonl").read_bytes() == journal
    assert main(["report", "again", "--demo"]) == 0
    points = [[o.trial for o in campaign.history] for campaign in (made, read_campaign(tmp_path / "again"))]
    assert points[0] == points[1]


def test_a_demonstration_does_not_replace_a_campaign(directory):
    path, _, _ = directory(14)
    assert main(["report", str(path), "--demo"]) == 2
    assert len(read_campaign(path).history) >= 14
