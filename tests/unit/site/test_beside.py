"""``site.at_once``: which jobs of a site run beside each other, with which nodes and node-hours."""

import json
import math
import os
from dataclasses import replace
from types import SimpleNamespace

import pytest

from autotune.cli import main
from autotune.errors import Interrupted, StorageError
from autotune.history.events import State
from autotune.history.journal import locked
from autotune.scenario.whole_site import Wishes
from autotune.site.beside import run_side_by_side
from autotune.site.directory import SiteDirectory, job_folder, read_site
from autotune.site.next_job import allowed_h, cut_short, hours, upcoming

WISHED = Wishes(("allreduce",), (1, 2, 4), (4, 8), None, (8,))
SMALL = (
    *("hydra/launcher=simulated", "site.nodes=[1,2,4]", "site.ppn=[4]", "site.collectives=[bcast]"),
    *("sizes=[8,64k]", "budget.launches=3", "verify.enabled=false", "--quiet"),
)


def asked(at_once, node_hours=None):
    return {
        "site": {"at_once": at_once},
        "budget": {"launches": 6, "node_hours": node_hours},
        "verify": {"enabled": False, "launches": 0, "other_loop": "ignored"},
        "launch": {"heats": True},
        "simulate": {"at_once": False},
        "baseline": {"launches": 3},
        "proposer": {"name": "random"},
        "probe": {"budget_s": 1.0, "max_samples": 9, "sync": "barrier"},
    }


@pytest.mark.parametrize(
    ("at_once", "jobs"),
    [(1, [(1, 4)]), (2, [(1, 4), (1, 8)]), (9, [(1, 4), (1, 8), (2, 4)])],
)
def test_jobs_that_are_made_whatever_others_show_are_beside_each_other(at_once, jobs, tmp_path):
    assert list(upcoming(SiteDirectory(tmp_path, WISHED, {}), asked(at_once), [])) == jobs


def test_jobs_beside_each_other_have_nodes_of_their_own(tmp_path):
    site = SiteDirectory(tmp_path, replace(WISHED, nodes=(2, 3)), {})
    assert list(upcoming(site, asked(2), [])) == [(2, 4)]


def test_jobs_beside_each_other_share_the_node_hours(tmp_path):
    site = SiteDirectory(tmp_path, WISHED, {})
    one_h = 6 * 2.5 / 3600  # launches of a start and the probe's budget
    assert list(upcoming(site, asked(9, 2.5 * one_h), [])) == [(1, 4), (1, 8)]
    document = asked(9, 6 * one_h)
    jobs = upcoming(site, document, [])
    shares = [allowed_h(site, document, job, jobs) for job in jobs]
    assert sum(shares) == pytest.approx(hours(document))
    assert shares[2] == pytest.approx(2 * shares[0])  # on two nodes
    assert allowed_h(site, asked(9), (1, 4), jobs) == math.inf


def test_what_a_job_has_used_is_no_part_of_what_is_left_to_it(tmp_path):
    history = [SimpleNamespace(duration_s=36.0, ok=True)]
    begun = {(2, 4): SimpleNamespace(history=history, state=State.INTERRUPTED)}
    site = SiteDirectory(tmp_path, WISHED, begun)
    assert allowed_h(site, asked(1, 1.0), (2, 4)) == pytest.approx(1.0)
    assert allowed_h(site, asked(1, 1.0), (1, 4)) == pytest.approx(0.98)


@pytest.mark.parametrize(
    ("state", "more", "beside", "again"),
    [
        (State.INTERRUPTED, 1, [(1, 4), (2, 4)], True),
        (State.INTERRUPTED, 1, [(1, 4)], False),  # it had all that was left
        (State.INTERRUPTED, 0, [(1, 4), (2, 4)], False),  # and would be asked for without end
        (State.FAILED, 1, [(1, 4), (2, 4)], False),
        (State.COMPLETE, 1, [(1, 4), (2, 4)], False),
    ],
)
def test_a_job_that_its_share_ended_may_have_what_others_left(state, more, beside, again, tmp_path):
    def site(launches):
        made = SimpleNamespace(history=[None] * launches, state=state)
        return SiteDirectory(tmp_path, WISHED, {(1, 4): made})

    assert cut_short(site(2), site(2 + more), (1, 4), beside) is again


def found(directory):
    """Of each job what its journal says of its launches."""
    launches = {}
    for path in directory.glob("jobs/*/journal.jsonl"):
        events = map(json.loads, path.read_text().splitlines())
        observed = [(e["trial"], e["estimates"]) for e in events if e["event"] == "observation"]
        launches[path.parent.name] = observed
    return launches


def test_beside_each_other_jobs_find_what_they_find_one_after_another(tmp_path, capfd):
    assert main(["conf=site", f"campaign.dir={tmp_path / 'one'}", *SMALL]) == 0
    capfd.readouterr()
    assert main(["conf=site", f"campaign.dir={tmp_path / 'two'}", *SMALL, "site.at_once=2"]) == 0
    said = capfd.readouterr().out
    assert said.count("beside others: small jobs come first") == 2
    assert set(found(tmp_path / "two")) == {"1x4", "2x4", "4x4"}
    assert found(tmp_path / "two") == found(tmp_path / "one")
    campaigns = read_site(tmp_path / "two").campaigns
    nodes = {job: made.about.scenario.launch.first_node for job, made in campaigns.items()}
    assert nodes == {(1, 4): 1, (2, 4): 2, (4, 4): None}
    files = {p.name: p.read_text() for p in (tmp_path / "one/export").iterdir()}
    assert {p.name for p in (tmp_path / "two/export").iterdir()} == set(files)


def test_a_site_goes_on_with_another_number_at_once(tmp_path, capsys):
    assert main(["conf=site", f"campaign.dir={tmp_path}", *SMALL]) == 0
    assert main(["conf=site", f"campaign.dir={tmp_path}", *SMALL, "site.at_once=2"]) == 0
    assert main(["plan", "conf=site", f"campaign.dir={tmp_path}", *SMALL[:-1], "site.at_once=0"]) == 2
    assert "site.at_once=0" in capsys.readouterr().err


def test_a_job_that_another_process_makes_is_waited_for(tmp_path, capsys):
    """As of a site that was killed, whose jobs end by themselves; this one before its first word."""
    job_folder(tmp_path, (1, 4)).mkdir(parents=True)
    held = locked(job_folder(tmp_path, (1, 4)))
    try:
        assert main(["conf=site", f"campaign.dir={tmp_path}", *SMALL]) == 4
    finally:
        os.close(held)
    assert "1 × 4 ranks" in capsys.readouterr().err


def test_what_a_job_cannot_do_is_said_and_the_others_go_on(tmp_path, capsys):
    origin = {"name": "site", "launcher": {"_target_": "os.system"}}
    codes = run_side_by_side({"a": {}, "b": {}}, origin, True, tmp_path / "beside")
    assert codes == [2, 2]
    assert capsys.readouterr().out.count("\na:\n") == 1


class Ended:
    """A job that has ended, in place of a process."""

    def __init__(self, line, log):
        self.exit_code, self.printed = int(log.stem), "said\n"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def end(self):
        pass


@pytest.mark.parametrize(("code", "error"), [(4, StorageError), (130, Interrupted)])
def test_a_job_that_could_not_go_on_ends_the_site(code, error, tmp_path, monkeypatch):
    monkeypatch.setattr("autotune.site.beside.Background", Ended)
    with pytest.raises(error, match=str(code)):
        run_side_by_side({"0": {}, str(code): {}}, {}, True, tmp_path / "beside")


def test_a_job_that_a_signal_ended_is_a_campaign_that_cannot_go_on(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("autotune.site.beside.Background", Ended)
    assert run_side_by_side({"-9": {}}, {}, True, tmp_path / "beside") == [3]
    assert "ended by signal 9" in capsys.readouterr().out
