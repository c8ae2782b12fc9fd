"""Scenarios: types, ranges, sizes, and messages that name the key."""

from dataclasses import MISSING, fields, is_dataclass
from typing import get_type_hints

import pytest

from autotune.errors import ScenarioError
from autotune.history.objectives import Winner, score
from autotune.probe.protocol import ProbeRequest
from autotune.scenario import Scenario, defaults, scenario_of, sizes_of
from autotune.space import Point

MINIMAL = {**defaults(), "sizes": "8..64k", "space": "any", "campaign": {"dir": "here"}}


def test_every_key_has_its_default_in_the_shipped_configuration_alone():
    def check(kind, document):
        keys = {one.metadata.get("key", one.name): one for one in fields(kind)}
        assert set(keys) == set(document)
        for key, one in keys.items():
            assert (one.default, one.default_factory) == (MISSING, MISSING), one
            if is_dataclass(hint := get_type_hints(kind)[one.name]):
                check(hint, document[key])

    joined = ("hydra", "pattern")  # patterns are measured as collectives are
    check(Scenario, {"name": "", **{key: value for key, value in defaults().items() if key not in joined}})
    asked = {one.name: one for one in fields(ProbeRequest) if one.name in defaults()["probe"]}
    assert len(asked) == 7
    assert {one.default for one in asked.values()} == {MISSING}


def test_a_minimal_scenario_has_defaults():
    scenario = scenario_of(MINIMAL, "mine")
    assert scenario.name == "mine"
    assert scenario.collective == ("allreduce",)
    assert scenario.sizes == tuple(2**k for k in range(3, 17))
    assert [o.name for o in scenario.judged()] == ["latency", "bandwidth"]
    assert scenario.ranks is None


def test_the_mpi_probe_has_one_option():
    assert scenario_of(MINIMAL, "x").loop == "interleaved"
    assert scenario_of({**MINIMAL, "probe": {"options": {"loop": "tight"}}}, "x").loop == "tight"
    with pytest.raises(ScenarioError, match=r"probe\.options=lop"):
        scenario_of({**MINIMAL, "probe": {"options": {"lop": "tight"}}}, "x")


def test_ranks_follow_from_nodes_and_ppn():
    assert scenario_of({**MINIMAL, "cluster": {"nodes": 8, "ppn": 36}}, "x").ranks == 288
    assert scenario_of({**MINIMAL, "cluster": {"nodes": 8, "ppn": 36, "ranks": 4}}, "x").ranks == 4


def test_lists_by_comma_and_keys_that_are_python_words():
    words = {"collective": "bcast, reduce", "mpi": {"from": "wheel"}, "launch": {"with": "srun"}}
    scenario = scenario_of({**MINIMAL, **words}, "x")
    assert scenario.collective == ("bcast", "reduce")
    assert (scenario.mpi.origin, scenario.launch.tool) == ("wheel", "srun")


def test_an_objective_that_no_size_counts_for_is_left_out():
    assert [o.name for o in scenario_of({**MINIMAL, "sizes": [8, 64]}, "x").judged()] == ["latency"]
    with pytest.raises(ScenarioError, match="no size"):
        scenario_of({**MINIMAL, "sizes": [8], "objectives": ["bandwidth"]}, "x").judged()


def test_message_rate_and_overlap_are_judged_on_their_patterns():
    asked = {**MINIMAL, "objectives": ["latency", "message_rate", "overlap"]}
    assert [o.name for o in scenario_of(asked, "x").judged()] == ["latency"]
    rate, hidden = scenario_of({**asked, "pattern": "multipair,halo_overlap"}, "x").judged()[1:]
    slots = [(name, 2, size) for name in ("allreduce", "multipair", "halo_overlap") for size in (8, 65536)]
    assert [slot for slot in slots if rate.covers(slot)] == [("multipair", 2, 8)]
    assert [slot for slot in slots if hidden.covers(slot)] == slots[4:]
    curve = {slot: Winner(2e-6, 2e-8, Point()) for slot in slots}
    assert score(rate, curve).value == pytest.approx(0.5)  # million messages a second
    assert score(hidden, curve).value == pytest.approx(2.0)
    with pytest.raises(ScenarioError, match="wants a pattern of pairs"):
        scenario_of({**MINIMAL, "objectives": "message_rate"}, "x").judged()


@pytest.mark.parametrize(
    ("declared", "sizes"),
    [
        ([8, "1k", "1M"], [8, 1024, 2**20]),
        ("8..64", [8, 16, 32, 64]),
        ("8..4k*8", [8, 64, 512, 4096]),
        ([64, 8, 64], [8, 64]),
        (0, [0]),
    ],
)
def test_sizes_as_list_or_range(declared, sizes):
    assert sizes_of(declared) == sizes


@pytest.mark.parametrize("declared", ["8..", "64..8", "x", [-1], [1.5], [], "8..64*1", "0..8"])
def test_sizes_that_are_none(declared):
    with pytest.raises(ScenarioError, match="sizes"):
        sizes_of(declared)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"colective": "bcast"}, "unknown key 'colective'.*did you mean 'collective'"),
        ({"budget": {"lanches": 3}}, "unknown key 'budget.lanches'.*did you mean 'launches'"),
        ({"budget": {"launches": 0}}, "budget.launches=0"),
        ({"budget": {"launches": "many"}}, "budget.launches = 'many'.*whole number"),
        ({"budget": {"launches": 2.5}}, "whole number"),
        ({"budget": {"launches": True}}, "whole number"),
        ({"budget": 3}, "budget = 3.*mapping"),
        ({"collective": "allredcue"}, "did you mean 'allreduce'"),
        ({"objectives": ["speed"]}, "latency, bandwidth, memory"),
        ({"objectives": []}, "at least one"),
        ({"cluster": {"ranks": -2}}, "cluster.ranks=-2"),
        ({"mpi": {"from": "apt"}}, "auto, site, wheel"),
        ({"verify": {"enabled": "maybe"}}, "true or false"),
        ({"mpi": {"mca": 3}}, "mpi.mca = 3"),
        ({"verify": {"other_loop": "both"}}, "verify.other_loop.*ignored, shown, counts"),
        ({"verify": {"other_loop": "counts"}, "probe": {"sync": "window"}}, "needs probe.sync=barrier"),
        ({"seed": None}, "seed = None"),
    ],
)
def test_a_mistake_names_the_key_and_what_is_allowed(changes, words):
    with pytest.raises(ScenarioError, match=f"(?s){words}"):
        scenario_of({**MINIMAL, **changes}, "x").judged()


def test_a_missing_key_is_named():
    with pytest.raises(ScenarioError, match="lacks 'space'"):
        scenario_of({k: v for k, v in MINIMAL.items() if k != "space"}, "x")
