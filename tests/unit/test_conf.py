"""The shipped configuration offers what the code has."""

import yaml

from autotune.proposers import PROPOSERS
from autotune.resources import folder


def test_every_proposer_is_an_option():
    options = {
        path.stem: yaml.safe_load(path.read_text()) for path in (folder("conf") / "proposer").glob("*")
    }
    assert set(options) == set(PROPOSERS)
    assert all(document["name"] == name for name, document in options.items())


def test_every_scenario_is_of_the_whole_configuration():
    for path in (folder("conf") / "conf").glob("*.yaml"):
        assert path.read_text().startswith("# @package _global_\n"), path


def test_every_key_of_a_group_can_be_set_whichever_option_a_scenario_takes():
    for group, base in {"budget": "standard", "probe": "standard", "mpi": "any"}.items():
        for path in (folder("conf") / group).glob("*.yaml"):
            taken = yaml.safe_load(path.read_text()).get("defaults", ())
            assert (base in taken) == (path.stem != base), path
