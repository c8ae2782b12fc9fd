"""Journals and what is kept hold no value of a secret, and what launches again has it all the same."""

from dataclasses import replace

import pytest

from autotune.campaign.withheld import with_secrets, withheld
from autotune.cli import main
from autotune.commands.hydra_bridge import connected
from autotune.errors import ScenarioError
from autotune.history.journal import read_events
from autotune.scenario import defaults, restored, scenario_of
from autotune.structure import plain

VALUE, OTHER = "s3cr3t-of-mine", "another-one"
MEMBERS = [("env", "API_TOKEN", "API_TOKEN"), ("mca", "my_password", "OMPI_MCA_my_password")]


@pytest.fixture(autouse=True)
def own_key(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def scenario(section, name, value):
    document = {**defaults(), "campaign": {"dir": "c", "fresh": False, "notify": []}}
    made = scenario_of(document, "mine")
    return replace(made, mpi=replace(made.mpi, **{section: {name: value, "plain": "seen"}}))


@pytest.mark.parametrize(("section", "name", "variable"), MEMBERS)
def test_a_kept_scenario_lacks_the_value_and_knows_whether_it_changed(section, name, variable):
    asked = scenario(section, name, VALUE)
    kept = withheld(asked)
    assert VALUE not in str(plain(kept))
    assert getattr(kept.mpi, section)["plain"] == "seen"
    assert withheld(kept) == kept == withheld(asked)
    assert withheld(scenario(section, name, OTHER)) != kept
    read = restored(plain(kept))
    assert with_secrets(read, {variable: VALUE}) == (asked, ())
    assert with_secrets(read, {variable: OTHER}) == (
        scenario(section, name, OTHER),
        (f"mpi.{section}.{name}",),
    )
    with pytest.raises(ScenarioError, match=rf"mpi\.{section}\.{name} is a secret") as refused:
        with_secrets(read, {})
    assert f"export {variable}=" in refused.value.hint


def test_values_cannot_be_tried_without_the_key(monkeypatch, tmp_path):
    kept = withheld(scenario("env", "API_TOKEN", VALUE))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "of somebody else"))
    assert withheld(scenario("env", "API_TOKEN", VALUE)) != kept


def test_what_launches_again_is_refused_before_it_launches_without_the_secret(monkeypatch):
    kept, node = withheld(scenario("env", "API_TOKEN", VALUE)), {}
    monkeypatch.delenv("API_TOKEN", raising=False)
    with pytest.raises(ScenarioError, match="API_TOKEN is a secret"):
        connected(node, kept)


@pytest.mark.parametrize(("section", "name", "variable"), MEMBERS)
def test_no_file_of_a_campaign_has_the_value_and_the_same_command_continues(
    section, name, variable, tmp_path, capsys
):
    directory = tmp_path / "mine"
    words = [
        *("conf=allreduce_8node", f"campaign.dir={directory}", "hydra/launcher=simulated", "--quiet"),
        *("budget.launches=6", "verify.enabled=false", "screening.enabled=false", "proposer=grid"),
        *(
            "cluster.nodes=2",
            "cluster.ppn=2",
            "sizes=[8]",
            "objectives=[latency]",
            "space=openmpi_algorithms",
        ),
    ]
    secret = f"mpi.{section}.{name}="
    assert main([*words, f"{secret}{VALUE}"]) == 0
    assert main(["report", str(directory)]) == 0
    texts = {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    assert not [path for path, text in texts.items() if VALUE.encode() in text]
    assert VALUE not in capsys.readouterr().out
    events = len(read_events(directory))
    assert main([*words, f"{secret}{VALUE}"]) == 0
    assert len(read_events(directory)) == events
    assert main([*words, f"{secret}{OTHER}"]) == 2
    said = capsys.readouterr().err
    assert "holds a campaign with other settings" in said
    assert OTHER not in said
