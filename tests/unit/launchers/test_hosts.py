"""Hostfiles, and asking hosts whether they are fit."""

import sys
from dataclasses import replace

import pytest

from autotune.commands.hydra_bridge import answer_of
from autotune.errors import ScenarioError, StackError
from hydra_plugins.autotune._hosts import HostAnswer, ask_argv, check, complaints_about, read_hostfile
from hydra_plugins.autotune._mpirun import on_hosts

SAME = {"Python": "3.11.7", "MPI": "mpirun (Open MPI) 5.0.11", "autotune": "0.1.0 (abc)"}


@pytest.fixture
def agent(tmp_path):
    """An agent like ssh: it hands the words, joined, to a shell; here every host is this machine."""
    script = tmp_path / "agent"
    away = '[ "$host" = away ] && { echo "no route" >&2; exit 255; }'
    script.write_text(f'#!/bin/sh\nhost=$1; shift\n{away}\nsh -c "$*"\n')
    script.chmod(0o755)
    return [str(script)]


@pytest.fixture
def mpirun(tmp_path):
    path = tmp_path / "my mpirun"
    path.write_text('#!/bin/sh\necho "mpirun (Open MPI) 5.0.11 and more"\n')
    path.chmod(0o755)
    return str(path)


def test_a_hostfile_of_any_launcher():
    text = "# the cluster\ncn0 slots=2 max_slots=2\ncn1:4\n\ncn2  # spare\ncn0\n"
    assert read_hostfile(text) == ("cn0", "cn1", "cn2")


def test_a_hostfile_without_hosts():
    with pytest.raises(ScenarioError, match="names no host"):
        read_hostfile("# nobody\n")


def test_hosts_that_are_fit(agent, mpirun, monkeypatch):
    env = {"PYTHONPATH": ":".join(filter(None, sys.path))}
    answers = check(["a", "b"], agent, sys.executable, mpirun, env)
    assert [one.host for one in answers] == ["a", "b"]
    assert answers[0].has == answers[1].has
    assert answers[0].has["MPI"] == "mpirun (Open MPI) 5.0.11"


def test_a_host_that_does_not_answer_is_named(agent, mpirun):
    env = {"PYTHONPATH": ":".join(filter(None, sys.path))}
    with pytest.raises(StackError, match="away: no route") as caught:
        check(["a", "away"], agent, sys.executable, mpirun, env)
    assert "  a:" not in str(caught.value)


def test_hosts_that_differ_from_most_are_named():
    odd = {**SAME, "Python": "3.12.1", "autotune": "0.0.9 (def)"}
    answers = [HostAnswer("a", "a", SAME), HostAnswer("b", "b", odd), HostAnswer("c", "c", SAME)]
    assert complaints_about(answers) == [
        "b: Python 3.12.1, elsewhere 3.11.7",
        "b: autotune 0.0.9 (def), elsewhere 0.1.0 (abc)",
    ]


@pytest.mark.parametrize("value", ["a b", "$(touch pwned)", "it's", "x\ny", "; touch pwned"])
def test_hostile_words_reach_the_host_whole(agent, tmp_path, value, monkeypatch):
    import subprocess

    monkeypatch.chdir(tmp_path)
    words = ask_argv(agent, "a", "/bin/echo", value, {"HOSTILE": value})
    seen = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert seen.endswith(f"{value}\n")
    assert not (tmp_path / "pwned").exists()


def job(hosts, first):
    words = ["conf=allreduce_8node", "hydra/launcher=simulated", "cluster.nodes=1"]
    scenario = answer_of(lambda scenario, _: scenario, words)
    cluster, launch = replace(scenario.cluster, hosts=hosts), replace(scenario.launch, first_node=first)
    return replace(scenario, cluster=cluster, launch=launch)


@pytest.mark.parametrize(
    ("hosts", "first", "own"),
    [((), None, ()), (("a", "b", "c"), None, ("a", "b", "c")), (("a", "b", "c"), 2, ("b",))],
)
def test_a_job_beside_others_has_hosts_of_its_own(hosts, first, own):
    assert on_hosts(job(hosts, first)).cluster.hosts == own


@pytest.mark.parametrize(("hosts", "said"), [((), "no host is named"), (("a",), "0 host")])
def test_a_job_beside_others_without_a_host_is_refused_and_not_run_here(hosts, said):
    with pytest.raises(ScenarioError, match=said):
        on_hosts(job(hosts, 2))


@pytest.mark.parametrize("host", ["-oProxyCommand=touch owned", "-o", "a,b", "a b", ""])
def test_a_host_that_would_be_taken_for_something_else_is_none(host):
    with pytest.raises(ScenarioError, match="is no host"):
        on_hosts(job((host, "cn1"), None))


@pytest.mark.parametrize("hosts", [("a",), ("a", "b", "c")])
def test_a_job_that_was_made_beside_others_is_launched_again_on_the_first_hosts(hosts):
    """In another allocation there may be no second host."""
    assert on_hosts(job(hosts, 2).alone).cluster.hosts == hosts
