"""Campaigns joined into one file."""

from dataclasses import replace
from pathlib import Path

import pytest

from autotune.errors import UserError
from autotune.exporters import exporter
from autotune.exporters.document import recommendation_of
from autotune.exporters.merging import merged
from autotune.history.trial import Rule
from autotune.recommend.recommendation import Provenance, Recommendation
from autotune.space import Point

LINEAR = Point.of({"algorithm": "linear"})


def one(campaign, *tables, nodes=1, **source):
    rules = tuple(Rule(collective, comm_size, 0, LINEAR) for collective, comm_size in tables)
    source = {"family": "openmpi", "stack": "Open MPI 5.0.11", "env": (("UCX_TLS", "rc"),), **source}
    return Recommendation(Point(), rules, provenance=Provenance(campaign, nodes=nodes, **source))


def test_collectives_and_communicator_sizes_of_several_campaigns_share_a_file():
    whole = merged([one("a", ("allreduce", 8)), one("b", ("allreduce", 64), ("bcast", 64), nodes=8)])
    assert [(r.collective, r.comm_size) for r in whole.rules] == [
        ("allreduce", 8),
        ("allreduce", 64),
        ("bcast", 64),
    ]
    assert whole.provenance.campaign == "a + b"
    assert whole.provenance.nodes == 8
    text = exporter("coll_tuned").export(whole, Path("/site"))["coll_tuned_rules.conf"]
    assert "2  # collectives" in text


def test_each_source_says_whether_it_was_verified():
    whole = merged([one("a", ("allreduce", 8), verified="verified: 1.2×"), one("b", ("bcast", 8))])
    assert whole.provenance.verified == "a: verified: 1.2×; b: UNVERIFIED"
    same = merged([one("a", ("allreduce", 8)), one("b", ("bcast", 8))])
    assert same.provenance.verified == "UNVERIFIED"


def test_one_alone_stays_as_it_is():
    only = one("a", ("allreduce", 8))
    assert merged([only]) is only


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (one("b", ("bcast", 8), env=(("UCX_TLS", "tcp"),)), "UCX_TLS: rc and tcp"),
        (one("b", ("bcast", 8), placement=(("map_by", "core"),)), r"map_by: \(unset\) and core"),
        (one("b", ("bcast", 8), stack="Open MPI 4.1.8"), "4.1.8"),
        (one("b", ("bcast", 8), boot=(("NPS", "2"),)), r"different firmware \(NPS: \(unset\) and 2\)"),
        (one("b", ("bcast", 8), both_sides=(("OMPI_MCA_btl", "^ofi"),)), "under different variables"),
        (one("b", ("allreduce", 8)), "allreduce on 8 ranks"),
    ],
)
def test_what_does_not_go_together_is_refused(other, words):
    with pytest.raises(UserError, match=words):
        merged([one("a", ("allreduce", 8)), other])


def test_the_advice_is_a_command_line_that_fixes_the_other_s_values():
    first = replace(one("a", ("allreduce", 8)), point=Point.of({"UCX_TLS": "self,rc", "pml": "ucx"}))
    other = one("b", ("bcast", 8), env=(("UCX_TLS", "tcp"),))
    with pytest.raises(UserError, match="repeat one campaign") as caught:
        merged([first, replace(other, point=Point.of({"UCX_TLS": "tcp"}))])
    assert """: "fix.UCX_TLS='self,rc'" fix.pml=ucx for b, or fix.UCX_TLS=tcp for a""" in caught.value.hint


def test_every_file_says_which_rules_came_from_where():
    whole = merged(
        [one("a", ("allreduce", 8), date="2026-11-20"), one("b", ("bcast", 64), nodes=8, date="2026-11-22")]
    )
    for name in ("openmpi_mca", "env_sh", "coll_tuned_json", "summary", "tune"):
        for text in exporter(name).export(whole, Path("/site")).values():
            assert "allreduce on 8 ranks: from a, 1 node, last launch 2026-11-20" in text
            assert "bcast on 64 ranks: from b, 8 nodes, last launch 2026-11-22" in text
    (document,) = exporter("json").export(whole, Path("/site")).values()
    assert recommendation_of(document).provenance.parts == whole.provenance.parts


def test_nothing_is_refused():
    with pytest.raises(UserError, match="nothing to merge"):
        merged([])


def test_a_foreign_stack_is_refused_by_formats_of_another():
    made = one("a", ("allreduce", 8))
    with pytest.raises(UserError, match="measured on Open MPI"):
        exporter("intel").export(made, Path("/site"))


def test_refusals_name_directories_where_campaigns_have_one_name():
    twice = [one("a", ("allreduce", 8)), one("a", ("allreduce", 8))]
    with pytest.raises(UserError, match="first/a and other/a both have rules"):
        merged(twice, ["first/a", "other/a"])
