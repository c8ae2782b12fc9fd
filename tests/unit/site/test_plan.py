"""``plan`` and ``measure`` of ``conf=site``: what its jobs take before they are made."""

import json

import pytest

from autotune.campaign.observing import measurement_of
from autotune.cli import main
from autotune.site.costs import TimedJob, TimedLaunch, sizes_within, sweep_s
from autotune.site.directory import read_site
from tests.schemas import answer

SMALL = (
    *("hydra/launcher=simulated", "site.nodes=[1,2]", "site.ppn=[4]", "site.collectives=[allreduce,bcast]"),
    *("sizes=[8,1k,64k]", "budget.launches=4", "verify.enabled=false", "simulate.at_once=false"),
)

TIMED = {"took_s": 2, "sampled_s": 1, "calls_s": {}}


def words(directory, *more):
    return ["conf=site", f"campaign.dir={directory}", *SMALL, *more]


def test_a_plan_is_near_what_is_used(tmp_path, capsys):
    """The modelled jobs take little longer than their start; a plan before any launch knows the launches."""
    assert main(words(tmp_path / "made", "--quiet")) == 0
    capsys.readouterr()
    assert main(["status", str(tmp_path / "made"), "--json"]) == 0
    used = answer(capsys.readouterr().out)["node_hours"]
    assert main(["plan", *words(tmp_path / "none", "probe.budget_s=0.1")]) == 0
    planned = float(capsys.readouterr().out.partition("together ")[2].split()[0])
    assert used / 1.5 <= planned + 0.005
    assert planned - 0.005 <= used * 1.5


@pytest.fixture
def planned(tmp_path, capsys):
    """The hours planned for jobs of 64 nodes, and all that is printed."""

    def told(*more):
        assert main(["plan", *words(tmp_path, "site.nodes=[64]", "probe.budget_s=0.05", *more)]) == 0
        said = capsys.readouterr().out
        return float(said.partition("together ")[2].split()[0]), said

    return told


@pytest.mark.parametrize(
    ("budget_h", "outcomes"), [(None, ["measured"] * 3), (0.03, ["measured"] * 2 + ["predicted"])]
)
def test_a_plan_says_to_programs_what_it_says_to_people(budget_h, outcomes, tmp_path, capsys):
    asked = words(tmp_path, "site.nodes=[1,2,64]", f"budget.node_hours={budget_h or 'null'}")
    assert main(["plan", *asked]) == 0
    _, *lines = capsys.readouterr().out.splitlines()
    assert main(["plan", *asked, "--json"]) == 0
    told = answer(capsys.readouterr().out)
    (site,) = told["sites"]
    assert site["directory"] == str(tmp_path)
    assert site["budget_node_hours"] == budget_h
    assert [job["outcome"] for job in site["jobs"]] == outcomes
    for job, line in zip(site["jobs"], lines, strict=False):
        nodes, ppn, ranks, hours, *_ = line.split()
        assert (job["nodes"], job["ppn"], job["nodes"] * job["ppn"]) == (int(nodes), int(ppn), int(ranks))
        assert f"{job['node_hours']:.3f}" == hours
    assert told["node_hours"] == [site["node_hours"]] * 2
    assert f"together {site['node_hours']:.3f}" in lines[3]


def test_a_plan_of_two_sites_is_one_document(tmp_path, capsys):
    several = f"campaign.dir={tmp_path / 'a'},{tmp_path / 'b'}"
    assert main(["plan", "-m", *words(tmp_path)[2:], "conf=site", several, "--json"]) == 0
    told = answer(capsys.readouterr().out)
    assert [site["directory"] for site in told["sites"]] == [str(tmp_path / "a"), str(tmp_path / "b")]
    assert told["node_hours"] == [sum(site["node_hours"] for site in told["sites"])] * 2


def timed(folder, call_s, **took_s):
    """Write what measuring finds: a launch and a sweep of each job, and a call of each size."""

    def kind(job, seconds):
        each = dict.fromkeys(("8", "1024", "65536"), call_s.get(job, 1e-9))
        calls_s = dict.fromkeys(("allreduce", "bcast"), each)
        return {"took_s": seconds + 0.3, "sampled_s": 0.3, "calls_s": calls_s}

    starts = {job: {"launch": kind(job, a), "sweep": kind(job, b)} for job, (a, b) in took_s.items()}
    (folder / "start.json").write_text(json.dumps(starts))


def test_a_plan_knows_how_long_starts_take_by_nodes_and_ranks(tmp_path, planned, capsys):
    assert planned()[0] == pytest.approx(64 * 3 * 1.55 / 3600, abs=0.001)
    assert main(["measure", *words(tmp_path, "site.nodes=[1,2,64]", "site.ppn=[2,4]")]) == 0
    assert "2 × 4 ranks: 1.5" in capsys.readouterr().out
    assert json.loads((tmp_path / "start.json").read_text()).keys() == {"1x2", "1x4", "2x4", "64x4"}
    timed(tmp_path, {}, **{"1x4": (2, 2), "2x4": (3, 3)})
    assert planned()[0] == pytest.approx(64 * 3 * (1 + 64) / 3600, abs=0.001)
    timed(tmp_path, {}, **{"1x4": (2, 30), "2x4": (2, 60)})
    # Two of three launches sweep, which takes longer at the least samples too.
    assert planned()[0] == pytest.approx(64 * (2 + 2 * 30 * 64) / 3600, abs=0.001)


def test_a_plan_knows_how_long_calls_take_by_collective_size_and_ranks(tmp_path, planned):
    """Of each launch 1 s is a start, and the rest a call of each size that no time is kept for."""
    timed(tmp_path, {"1x4": 0.01, "2x4": 0.02}, **{"1x4": (1.06, 1.06), "2x4": (1.12, 1.12)})
    hours, said = planned("site.within=false")
    assert hours == pytest.approx(64 * 3 * (1 + 6 * 0.64 + 0.05) / 3600, abs=0.001)
    assert "64 × 4 ranks, one call of each choice: allreduce 1.9 s (8 B: 0.64 s); bcast 1.9 s" in said
    few = planned("site.within=false", "sizes=[8,1k]")[0]
    assert few == pytest.approx(64 * 3 * (1 + 4 * 0.64 + 0.05) / 3600, abs=0.001)
    samples = ("probe.min_samples=6", "probe.max_samples=12", "probe.budget_s=600")
    most = planned("site.within=false", *samples)[0]
    assert most == pytest.approx(64 * 3 * (1 + (6 + 6 * 12) * 0.64) / 3600, abs=0.001)
    assert "not timed: allreduce of 1 of 2 sizes, bcast of 1 of 2 sizes" in planned("sizes=[8,16]")[1]


def test_a_plan_of_long_calls_is_near_what_a_large_job_uses(tmp_path, capsys):
    """Of alltoall on 64 ranks most of a launch is calls; what is timed has 16 at most."""
    long = (
        *("site.collectives=[alltoall]", "sizes=[4M]", "site.memory_gib=64", "probe.budget_s=0.5"),
        *("probe.min_samples=6", "probe.max_samples=6", "machine=ethernet_tcp_32"),
    )
    small, large = (words(tmp_path, *long, f"site.nodes=[{nodes}]") for nodes in ("1,2,4", "16"))
    assert main(["measure", *small]) == 0
    capsys.readouterr()
    assert main(["plan", *large]) == 0
    planned = float(capsys.readouterr().out.partition("together ")[2].split()[0])
    assert main([*large, "--quiet"]) == 0
    used = read_site(tmp_path).node_hours
    assert used > 2 * 16 * 3 * (1.5 + 0.5) / 3600  # twice what starts and the budget take
    assert used / 1.5 <= planned <= used * 1.5


@pytest.mark.parametrize(
    "text",
    [
        "{}x",
        "[2]",
        '{"1x4": null}',
        '{"1x4": [2, 2]}',
        json.dumps({"1x4": {"launch": TIMED}}),
        json.dumps({"1x4": {"launch": TIMED, "sweep": {**TIMED, "took_s": 0}}}),
        *(json.dumps({job: {"launch": TIMED, "sweep": TIMED}}) for job in ("4", "0x4", "1x2x3")),
    ],
)
def test_what_measuring_did_not_write_is_refused(text, tmp_path, capsys):
    (tmp_path / "start.json").write_text(text)
    assert main(["plan", *words(tmp_path)]) == 2
    assert "start.json" in capsys.readouterr().err


def test_communicators_within_a_job_are_planned_as_jobs_of_as_many_ranks():
    """What is timed of 4 and of 8 ranks holds for 8 ranks among 16."""
    starts = {
        (1, ranks): TimedJob(*[TimedLaunch(9.0, 1.0, {"bcast": {"8": call_s}})] * 2)
        for ranks, call_s in ((4, 0.5), (8, 2.0))
    }
    document = {
        "site": {"collectives": ["bcast"], "nodes": [2], "ppn": [8], "within": True},
        "sizes": [8],
        "cluster": {"comm_sizes": []},
        "space": "openmpi_algorithms",
    }
    whole = sweep_s(starts, {**document, "cluster": {"comm_sizes": [16]}}, (2, 8))["bcast", 8]
    parts = sweep_s(starts, {**document, "cluster": {"comm_sizes": [8, 4]}}, (2, 8))["bcast", 8]
    assert parts == pytest.approx(2.5)
    assert sizes_within(document, (2, 8)) == (16, 8, 4, 2)
    assert sweep_s(starts, document, (2, 8))["bcast", 8] > whole + parts


def test_where_files_do_not_tell_communicators_apart_none_within_a_job_is_measured(tmp_path):
    site = {"site": {"nodes": [1], "ppn": [8], "within": True}, "cluster": {"comm_sizes": []}}
    assert sizes_within({**site, "space": "openmpi_algorithms"}, (1, 8)) == (8, 4, 2)
    assert sizes_within({**site, "space": "mpich_local"}, (1, 8)) == (8, 4, 2)
    assert sizes_within({**site, "space": "intelmpi_local"}, (1, 8)) == (8,)


def test_measure_has_a_directory_for_what_looks_at_the_nodes(tmp_path, monkeypatch):
    seen = []

    def measurement(scenario, ranks):
        seen.append(scenario.directory.is_dir())
        return measurement_of(scenario, ranks)

    monkeypatch.setattr("autotune.site.plan.measurement_of", measurement)
    fixed = "fix.component=tuned"  # on one node it has no effect
    assert main(["measure", *words(tmp_path / "site", fixed)]) == 0
    assert seen
    assert all(seen)
