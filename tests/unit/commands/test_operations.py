"""``operations`` says which algorithms may be tried: it is kept and exported, and may be said later."""

import json
from dataclasses import replace

import pytest

from autotune.campaign.noise import remarks
from autotune.campaign.spec import campaign_in
from autotune.cli import main
from autotune.history.journal import read_events
from autotune.history.trial import History
from autotune.resources import space_text
from autotune.space.loader import load_space
from autotune.stacks.cleared import cleared


@pytest.fixture
def words(tmp_path):
    return [
        *("conf=allreduce_8node", f"campaign.dir={tmp_path / 'mine'}", "hydra/launcher=simulated", "--quiet"),
        *("budget.launches=6", "verify.enabled=false", "screening.enabled=false", "proposer=grid"),
        *("cluster.nodes=2", "cluster.ppn=2", "sizes=[8]", "objectives=[latency]", "export=[json]"),
        "space=openmpi_algorithms",
    ]


def described(directory):
    return campaign_in(read_events(directory))


def exported(directory):
    return json.loads((directory / "export/recommendation.json").read_text())["provenance"]


def test_it_may_be_said_later_where_it_changes_nothing_that_can_be_tried(words, tmp_path):
    directory = tmp_path / "mine"
    assert main(words) == 0
    assert described(directory).scenario.operations == "any"
    assert "commutative" not in exported(directory)
    for said, value in (("commutative", True), ("any", None)):
        assert main([*words, f"operations={said}"]) == 0
        assert described(directory).scenario.operations == said
        assert exported(directory).get("commutative") is value


def test_what_a_scenario_no_longer_says_is_another_setting(words, capsys):
    """Begun under ``require=reproducible``, it went on without."""
    assert main([*words, "require=reproducible"]) == 0
    assert main(words) == 2
    assert "require: ['reproducible'] → []" in capsys.readouterr().err


def test_the_end_and_the_page_of_a_campaign_say_what_was_left_out(words, tmp_path):
    assert main(words) == 0
    about = described(tmp_path / "mine")
    space = cleared(load_space(space_text("openmpi_algorithms"), "openmpi_algorithms"), "openmpi", "5.0.11")
    bench = replace(about.bench, description="Open MPI 5.0.11, UCX 1.20.1, pml ucx")
    real = replace(about, space=space, bench=bench)
    (remark,) = (one for one in remarks(real, History()) if one.subject == "algorithms")
    assert remark.grave
    assert remark.text.startswith("2 algorithms were left out, wrong for operations that do not commute:")


def test_a_campaign_of_another_name_is_another_one(words, tmp_path, capsys):
    assert main(words) == 0
    assert main(["conf=study_ucx_nodes", *words[1:]]) == 2
    assert "name: " in capsys.readouterr().err
