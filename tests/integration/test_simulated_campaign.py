"""``conf=allreduce_8node`` on a machine without Slurm and hosts: a campaign on the simulated cluster."""

import json
import os

import pytest

from tests.program import autotune, autotune_alone
from tests.schemas import answer

WORDS = (
    *("conf=allreduce_8node", "cluster.nodes=2", "cluster.ppn=4", "sizes=[8,8k,1M]"),
    *("proposer=random", "budget.launches=24"),
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    cwd = tmp_path_factory.mktemp("simulated")
    done = autotune(*WORDS, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return cwd, done.stdout


def test_the_first_line_says_which_launcher_was_taken(finished):
    _, shown = finished
    assert shown.splitlines()[0] == "launcher simulated: neither Slurm nor hosts are here"


def test_everything_is_stamped(finished):
    cwd, shown = finished
    directory = cwd / "campaigns/allreduce_8node"
    assert shown.splitlines()[-1] == "all of this is SIMULATED (uncalibrated): no MPI ran"
    for path in (directory / "export").iterdir():
        assert "SIMULATED (uncalibrated)" in path.read_text(), path
    status = answer(autotune("status", str(directory), "--json", cwd=cwd).stdout)
    assert status["stamp"] == "SIMULATED (uncalibrated)"
    assert status["state"] == "complete"


def test_it_screens_searches_and_beats_the_default(finished):
    cwd, shown = finished
    assert "Main effects on latency" in shown
    assert "Result: speed-up over the baseline" in shown
    status = answer(autotune("status", "campaigns/allreduce_8node", "--json", cwd=cwd).stdout)
    assert status["trials"]["ok"] > 24  # the verification's beside those of the budget
    assert status["speedup"] > 1.0


def test_the_same_seed_gives_the_same_campaign(finished, tmp_path):
    cwd, _ = finished
    done = autotune_alone(*WORDS, cwd=tmp_path)
    assert done.returncode == 0
    one, two = (
        [
            {k: v for k, v in json.loads(line).items() if k in ("point", "estimates", "event", "phase")}
            for line in (folder / "campaigns/allreduce_8node/journal.jsonl").read_text().splitlines()
            if '"event":"trial"' in line or '"event":"observation"' in line
        ]
        for folder in (cwd, tmp_path)
    )
    assert one == two


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["hydra/launcher=slurm"], "Slurm"),
        (["hydra/launcher=simulated", "~machine"], "bm_optimized3_36"),
        (["machine=cray"], "bm_optimized3_36"),
        (["simulate.noise.within=much"], "simulate.noise.within = 'much'"),
        (["simulate.fautls.hang=0.1"], "did you mean 'faults'"),
    ],
    ids=" ".join,
)
def test_what_cannot_be_simulated_is_said(words, expected, tmp_path):
    # For a configuration that is missing Slurm's commands wait a minute each, for an empty one they do not.
    slurm = {"SLURM_CONF": os.devnull} if "hydra/launcher=slurm" in words else {}
    done = autotune("conf=allreduce_8node", *words, cwd=tmp_path, **slurm)
    assert done.returncode == 2, done.stdout
    assert expected in done.stderr, done.stderr
    assert "Traceback" not in done.stderr


def test_faults_are_data(tmp_path):
    faults = ("simulate.faults.crash=0.2", "simulate.faults.hang=0.1", "simulate.faults.wrong_result=0.1")
    words = ("proposer=random", "budget.launches=30", "verify.enabled=false", *faults)
    done = autotune("conf=allreduce_8node", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    status = answer(autotune("status", "campaigns/allreduce_8node", "--json", cwd=tmp_path).stdout)
    assert status["trials"]["crashed"] > 0
    assert sum(status["trials"].values()) == status["launches"] > 30  # the default is beside each setting


def test_a_profile_weighs_the_sizes(tmp_path):
    (tmp_path / "calls.csv").write_text("message_bytes,count\n8,1000\n2097152,0\n")
    words = ("proposer=random", "budget.launches=6", "verify.enabled=false", "objective.weights=calls.csv")
    done = autotune("conf=allreduce_8node", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    journal = (tmp_path / "campaigns/allreduce_8node/journal.jsonl").read_text().splitlines()
    [about] = [json.loads(line) for line in journal if '"event":"campaign"' in line]
    [latency] = about["objectives"]
    assert {size: weight for _, _, size, weight in latency["weights"] if weight} == {8: 1.0}


def test_a_profile_that_cannot_be_used_is_said(tmp_path):
    (tmp_path / "calls.csv").write_text("message_bytes,count\n8,many\n")
    done = autotune("conf=allreduce_8node", "objective.weights=calls.csv", cwd=tmp_path)
    assert done.returncode == 2
    assert "calls.csv" in done.stderr


def test_a_multirun_is_a_campaign_for_each_combination_and_ends_in_a_summary(tmp_path):
    words = ("-m", "conf=allreduce_8node", "cluster.nodes=1,2", "collective=allreduce,bcast")
    small = ("proposer=random", "budget.launches=3", "verify.enabled=false")
    done = autotune(*words, *small, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    folders = sorted(p.name for p in (tmp_path / "campaigns/allreduce_8node").iterdir())
    assert folders == [f"cluster.nodes={n}+collective={c}" for n in (1, 2) for c in ("allreduce", "bcast")]
    summary = done.stdout.splitlines()[-12:]
    assert sum("complete" in line for line in summary) == 4
    again = autotune(*words, *small, cwd=tmp_path)
    assert again.stdout.count("is complete") == 4


def test_compare_lays_campaigns_beside_each_other(finished):
    cwd, _ = finished
    done = autotune("compare", "campaigns/allreduce_8node", "campaigns/allreduce_8node", "--json", cwd=cwd)
    rows = answer(done.stdout)["campaigns"]
    assert [row["ranks"] for row in rows] == [8, 8]
    assert rows[0]["stamp"] == "SIMULATED (uncalibrated)"
    assert rows[0]["speedup"] > 1


def test_a_discovery_is_in_the_status_on_the_page_and_a_file_for_the_next_campaign(tmp_path):
    knobs = "{helps:{a:0.7,b:1.0},slows:{a:3.0},fatal:{a:fatal},idle:{a:1.0}}"
    words = ("sizes=[8,65536]", "cluster.nodes=2", "cluster.ppn=4", "proposer=random", "campaign.dir=c")
    budget = ("discover.launches=60", "budget.launches=4", "verify.enabled=false")
    done = autotune(
        "conf=allreduce_8node", "space=discover", f"simulate.knobs={knobs}", *words, *budget, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    headline = "1 of 14 knobs helps at some size"  # four planted, ten of the space that goes with it
    assert headline in done.stdout
    found = answer(autotune("status", "c", "--json", cwd=tmp_path).stdout)["discovery"]
    assert [(e["knob"], e["level"]) for e in found["active"]] == [("helps", "a")]
    assert ("slows", "a") in [(e["knob"], e["level"]) for e in found["harmful"]]
    assert ["fatal", "a"] in found["set_aside"]
    page = autotune("report", "c", cwd=tmp_path)
    assert page.returncode == 0, page.stderr
    assert f"Discovery: {headline}" in (tmp_path / "c/report.html").read_text()
    mine = autotune("export", "c", "--space", cwd=tmp_path).stdout
    assert "helps:" in mine
    (tmp_path / "mine.yaml").write_text(mine)
    again = autotune("plan", "conf=allreduce_8node", "space=mine.yaml", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
