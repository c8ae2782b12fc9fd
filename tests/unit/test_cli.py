"""What a user sees who mistypes: one message with what is allowed, a documented exit code, no traceback."""

import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from autotune.cli import cli, main
from autotune.errors import ExitCode
from autotune.scenario import Scenario
from tests.program import autotune


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["budget.launches=3"], "conf= is not given\n  allowed: allreduce_8node"),
        (["tune"], "conf= is not given\n  allowed: allreduce_8node"),
        (["plan", "conf="], "conf=: there is none\n  allowed: allreduce_8node"),
        (["conf=allreduce_local", "budget="], "budget=: there is none\n  allowed: cluster"),
        (
            ["conf=allreduce_local", "hydra/launcher=sim"],
            "hydra/launcher=sim: there is none\n  allowed: auto, command",
        ),
        (
            ["conf=allreduce_local", "hydra/launcher=slrum"],
            "did you mean 'slurm'? allowed: auto, command, mpirun",
        ),
        (["conf=allreduce_local", "space=discovr"], "did you mean 'discover'"),
        (["export", "nowhere", "--choice", "overal"], "did you mean 'overall'? see: autotune export --help"),
        (
            ["install", "nowhere", "--choice", "harmles"],
            "did you mean 'harmless'? see: autotune install --help",
        ),
        (["guard", "check", "--quik"], "see: autotune guard check --help"),
        (["plan", "conf=allreduce_local", "--bogus"], "see: autotune plan --help"),
        (["measure", "conf=allreduce_local", "--bogus"], "see: autotune measure --help"),
        (["conf=nothing"], "allreduce_local"),
        (["conf=allreduce_local", "budget.lanches=3"], "did you mean 'launches'"),
        (["conf=allreduce_local", "bugdet.launches=3"], "did you mean 'budget'"),
        (["conf=allreduce_local", "budget.launches=many"], "whole number"),
        (["conf=allreduce_local", "collective=allredcue"], "did you mean 'allreduce'"),
        (["conf=allreduce_local", "space=openmpi_ucx_locl"], "did you mean 'openmpi_ucx_local'"),
        (["conf=allreduce_local", "proposer=axe"], "random"),
        (["conf=allreduce_local", "proposer.name=axe"], "random"),
        (["conf=allreduce_local", "mpi.mpirun=/no/such/mpirun"], "/no/such/mpirun"),
        (["conf=allreduce_local", "mpi.from=apt"], "auto, site, wheel"),
        (["conf=allreduce_local", "hydra/launcher=slrum"], "mpirun"),
        (["conf=allreduce_local", "sizes=[a,b]"], "sizes holds 'a'"),
        (["conf=allreduce_local", "fix.UCX_TLS=ib"], "self,posix"),
        (["conf=allreduce_local", "budget.launches=["], "budget.launches=["),
        (["measure", "conf=allreduce_local", "--point", "UCX_TLS=ib"], "self,posix"),
        (["measure", "conf=allreduce_local", "--point", "UCX"], "NAME=VALUE"),
        (["measure", "conf=allreduce_local", "--point", "UCX_TLS=self,posix"], "--point pml=ucx"),
        (["measure", "conf=allreduce_local", "--point"], "'--point' requires an argument"),
        (["status", "nowhere"], "holds no campaign"),
        (
            ["plan", "conf=allreduce_loca"],
            "conf=allreduce_loca: there is none\n  did you mean 'allreduce_local'?",
        ),
        (["statsu", "nowhere"], "statsu"),
        (["history", "nowhere", "--format", "xml"], "csv, parquet"),
        (["export", "nowhere"], "holds no campaign"),
    ],
    ids=" ".join,
)
def test_a_mistake_gets_one_message_and_exit_code_2(words, expected, tmp_path):
    done = autotune(*words, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert expected in done.stderr, done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    assert len(done.stderr.strip().splitlines()) <= 4, done.stderr
    assert not list(tmp_path.iterdir()), "nothing is left behind by a mistake"


@pytest.mark.parametrize("verb", [c.name or c.callback.__name__ for c in cli.registered_commands])
def test_every_verb_says_what_it_takes(verb, capsys):
    assert main([verb, "--help"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("Usage: ")
    assert f" {verb} [OPTIONS]" in shown
    if "conf=NAME" in shown:
        words = {line.split()[0] for line in shown.splitlines() if line.strip()}
        assert {field.name for field in fields(Scenario)} - {"name"} <= words


def test_help_lists_every_verb_and_every_exit_code(capsys):
    assert main(["--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "Run a campaign: autotune conf=" in shown
    assert all(f" {c.name or c.callback.__name__} " in shown for c in cli.registered_commands)
    assert all(f"{code:d} {code.meaning}" in shown for code in ExitCode)


def test_the_version_is_ours(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("autotune ")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--cfg", "job", "conf=allreduce_local"], "total_seconds: 225"),
        (["conf=allreduce_local", "--cfg", "job", "budget=quick"], "launches: 16"),
        (["tune", "conf=allreduce_local", "-c", "job", "-p", "verify"], "max_loss: 0.03"),
        (["plan", "conf=allreduce_local", "--cfg", "job"], "total_seconds: 225"),
        (["-c=hydra", "conf=allreduce_local"], "name: autotune"),
        (["--info", "searchpath", "conf=allreduce_local"], "Config search path"),
        (["--info=defaults", "conf=allreduce_local"], "budget/local"),
        (["conf=allreduce_local", "--help"], "== Configuration groups =="),
        (["--hydra-help"], "--config-dir,-cd"),
        (["--config-dir", "mine", "--cfg", "job", "conf=my_case"], "seed: 4711"),
        (["-cd=mine", "conf=my_case", "-c", "job"], "seed: 4711"),
        (["--shell-completion", "install=bash"], "complete"),
    ],
    ids=" ".join,
)
def test_hydras_own_options_work(words, expected, tmp_path, monkeypatch, capsys):
    (tmp_path / "mine" / "conf").mkdir(parents=True)
    (tmp_path / "mine" / "conf" / "my_case.yaml").write_text("# @package _global_\nseed: 4711\n")
    monkeypatch.chdir(tmp_path)
    before = list(sys.argv), dict(os.environ)
    assert main(words) == 0
    assert expected in capsys.readouterr().out
    assert before == (sys.argv, dict(os.environ))
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["fix.UCX_TLS=self,tcp"], "\"fix.UCX_TLS='self,tcp'\""),
        (["sizes=8,64k"], '"sizes=[8,64k]"'),
        (["seed=1,2"], "a campaign for each: -m"),
        (["seed=1,2", "--cfg", "job"], "a campaign for each: -m"),
        (["conf=allreduce_local,replay"], "a campaign for each: -m"),
        (["--bogus"], "--bogus"),
        (["--cfg", "joob"], "'joob' (choose from"),
        (["--config-dir", "nowhere"], "--config-dir nowhere: no such directory"),
        (["--shell-completion"], "install"),
        (["--info", "defaults", "budget.lanches=3"], "did you mean 'launches'"),
        (["export=[jsn]"], "did you mean 'json'"),
        (["export=jsn"], "did you mean 'json'"),
        (["machine=3"], "take the name of an option: budget"),
        (["conf=null"], "take the name of an option: budget"),
        (["hydra/launcher=-1"], "hydra/launcher"),
        (["hydra.launcher.bogus=1"], "bogus"),
        (["space=${oc.env:NO_SUCH_VARIABLE}"], "NO_SUCH_VARIABLE"),
    ],
    ids=" ".join,
)
def test_an_override_that_cannot_be_meant_is_explained(words, expected, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    named = any(word.startswith("conf=") for word in words)
    assert main([*([] if named else ["conf=allreduce_local"]), *words]) == 2
    err = capsys.readouterr().err
    assert expected in err
    assert len(err.splitlines()) <= 3, err
    assert not list(tmp_path.iterdir())


def test_words_and_options_of_a_multirun_come_in_any_order(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["plan", "conf=allreduce_8node", "hydra/launcher=simulated", "-m", "seed=1,2"]) == 0
    shown = capsys.readouterr().out
    assert all(f"campaign: campaigns/allreduce_8node/seed={seed}" in shown for seed in (1, 2))


def test_the_plan_of_a_multirun_ends_with_the_sum(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def planned(conf):
        words = ["plan", f"conf={conf}", "hydra/launcher=simulated", "sizes=[8]", "budget.node_hours=5"]
        assert main([*words, *(["-m"] if "," in conf else [])]) == 0
        return capsys.readouterr().out

    one, whole = planned("allreduce_8node"), planned("site")
    (row,) = (line.split() for line in one.splitlines() if line.startswith("together"))
    least, most, site = float(row[-3]), float(row[-1]), float(whole.partition("together ")[2].split()[0])
    both = planned("allreduce_8node,site").splitlines()[-1]
    assert both.startswith("2 campaigns together: ")
    words = both.split()
    assert (float(words[3]), float(words[5])) == pytest.approx((least + site, most + site), abs=0.02)
    assert "campaigns together" not in one + whole


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("seed=-1", "seed=-1\n  allowed: 0 or more"),
        ("sizes=inf", "sizes holds inf\n  allowed: whole bytes, with k, M or G"),
        ("sizes=nan", "sizes holds nan\n  allowed: whole bytes, with k, M or G"),
        ("launch.timeout_s=nan", "launch.timeout_s = nan\n  expected a number that is finite"),
        ("budget.seconds=1e400", "budget.seconds = inf\n  expected a number that is finite"),
        ("export=[jsn]", "unknown export format 'jsn'\n  did you mean 'json'? allowed: openmpi_mca,"),
        ("probe.estimator=mode", "probe.estimator=mode\n  allowed: median, mean, minimum"),
        ("confirm.share=1.5", "confirm.share=1.5\n  allowed: 0 … 1"),
        ("launch.queue_timeout_s=-1", "launch.queue_timeout_s=-1.0\n  allowed: 0 or more"),
        ("campaign.dir=" + "x" * 3000, "x…\n  expected a path, each name in it of at most 255 bytes"),
        ("campaign.dir='a\0b'", "expected a path"),
    ],
    ids=lambda text: text[:30].replace("\0", "0"),
)
def test_values_out_of_range_are_refused_before_any_launch(word, expected, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["conf=allreduce_8node", "hydra/launcher=simulated", word]) == 2
    err = capsys.readouterr().err
    assert expected in err
    assert len(err) < 1000
    assert not list(tmp_path.iterdir())


def test_a_full_disk_under_standard_output_is_one_message():
    with Path("/dev/full").open("w") as full:
        words = [sys.executable, "-m", "autotune", "export", "--list"]
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == ExitCode.LOCKED
    assert done.stderr.startswith("autotune: cannot write what this prints: No space left on device\n")
    assert "Traceback" not in done.stderr
