"""What a campaign hands over is what it found; what was fixed or set for both sides only where it must be."""

from dataclasses import replace
from pathlib import Path

import pytest

from autotune.campaign.conclusion import conclude
from autotune.campaign.loop import CampaignLoop
from autotune.campaign.spec import BenchFacts
from autotune.exporters import exporter
from autotune.exporters.files import how_to_use
from autotune.space import Level
from tests.campaigns import SPACE, Memory, Silent, World, strategy

FIXED = {"OMPI_MCA_btl": "^ofi", "OMPI_MCA_pml": "ucx"}


def space_of(level=Level.LAUNCH):
    """The pretend space, with what a transport sets."""
    tls = replace(SPACE["tls"], apply={"env": {"UCX_TLS": "{value}"}}, level=level)
    return replace(SPACE, parameters=(tls, *SPACE.parameters[1:]), stack="openmpi")


def concluded(space, launches=8, fixed=FIXED):
    """What a campaign in this space concludes."""
    planned = strategy(launches, space=space, bench=BenchFacts(fixed=fixed, ranks=2))
    store = Memory()
    history = CampaignLoop(planned, World().observe, store, Silent(), lambda: 0.0).run()
    return conclude(planned.campaign, history, "2026-11-22").recommendation


def test_a_fixed_setting_that_is_worse_is_not_handed_over(tmp_path):
    found = concluded(space_of().fix({"tls": "tcp"}))
    assert found.rules == ()
    assert found.point["tls"] == "all"
    assert found.provenance.env == found.provenance.placement == ()
    for text in exporter("openmpi_mca").export(found, tmp_path).values():
        assert [line for line in text.splitlines() if line and not line.startswith("#")] == []
    assert how_to_use(found, ("openmpi_mca",), tmp_path) == ""


def test_a_fixed_setting_that_is_better_is_handed_over():
    found = concluded(space_of().fix({"tls": "posix"}))
    assert found.point["tls"] == "posix"
    assert dict(found.provenance.env)["UCX_TLS"] == "posix"


def test_where_nothing_is_swept_a_fixed_setting_is_not_what_the_baseline_measured():
    without = replace(SPACE, parameters=SPACE.parameters[:3])
    wanted = strategy(4, space=without)
    launches = CampaignLoop(wanted, World().observe, Memory(), Silent(), lambda: 0.0).run()
    assert len(launches.of_points(without)) == len(launches)
    assert len(launches.of_points(without.fix({"tls": "tcp"}))) == len(launches.sweeps)


def test_what_both_sides_had_is_handed_over_only_where_it_is_needed():
    found = concluded(space_of())
    assert dict(found.provenance.env) == {"UCX_TLS": "posix", "OMPI_MCA_pml": "ucx"}
    assert dict(found.provenance.both_sides) == {"OMPI_MCA_btl": "^ofi"}
    text = exporter("env_sh").export(replace(found, rules=()), Path("/site"))["autotune-env.sh"]
    assert "# measured with OMPI_MCA_btl=^ofi on both sides" in text
    assert "OMPI_MCA_btl=" not in text.replace("# measured with OMPI_MCA_btl=", "")


def test_firmware_stands_in_every_file_of_what_was_measured_with_it(tmp_path):
    found = concluded(space_of(Level.BOOT))
    assert found.provenance.boot == (("tls", "posix"),)
    found = replace(found, rules=())  # one is for an algorithm that only the pretend world has
    for name in ("openmpi_mca", "coll_tuned", "tune", "env_sh", "lmod", "coll_tuned_json", "summary"):
        for text in exporter(name).export(found, tmp_path).values():
            assert "measured with tls=posix, a precondition: firmware" in text


@pytest.mark.parametrize(
    ("name", "collectives", "title"),
    [
        ("allreduce_local", "allreduce", "allreduce_local"),
        ("allreduce_local", "bcast", "allreduce_local with collective=bcast"),
        ("allreduce_local", "allreduce,bcast", "allreduce_local with collective=allreduce,bcast"),
        ("reduce_scatter_8node", "reduce_scatter", "reduce_scatter_8node"),
        ("my_case", "bcast", "my_case"),
    ],
)
def test_a_campaign_of_other_collectives_than_its_scenario_names_says_so(name, collectives, title):
    planned = strategy(4, collective=collectives.split(","))
    assert replace(planned.campaign.scenario, name=name).title == title
