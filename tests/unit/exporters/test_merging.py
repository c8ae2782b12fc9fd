"""Campaigns joined into one file."""

from pathlib import Path

import pytest

from autotune.errors import UserError
from autotune.exporters import exporter
from autotune.exporters.merging import merged
from autotune.history.trial import Rule
from autotune.recommend.front import Provenance, Recommendation
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
        (one("b", ("allreduce", 8)), "allreduce on 8 ranks"),
    ],
)
def test_what_does_not_go_together_is_refused(other, words):
    with pytest.raises(UserError, match=words):
        merged([one("a", ("allreduce", 8)), other])


def test_nothing_is_refused():
    with pytest.raises(UserError, match="nothing to merge"):
        merged([])


def test_a_foreign_stack_is_refused_by_formats_of_another():
    made = one("a", ("allreduce", 8))
    with pytest.raises(UserError, match="measured on Open MPI"):
        exporter("intel").export(made, Path("/site"))
