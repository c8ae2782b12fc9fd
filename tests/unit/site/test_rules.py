"""Memory of a call, rules of predicted jobs, and what jobs with as many ranks agree on."""

import pytest

from autotune.history.lookup import choice_at
from autotune.history.trial import Rule
from autotune.recommend.recommendation import Gain, Provenance, Recommendation
from autotune.scenario.whole_site import node_bytes
from autotune.site.abstention import Decision, loss_removed
from autotune.site.rules import by_rules, exact, handing_over, merged_rules, predicted_rules, sets_han_aside
from autotune.site.transfer import DEFAULT, Shape, fitted
from autotune.space import Point
from tests.unit.site.test_transfer import site

RING, TREE = Point.of({"algorithm": "ring"}), Point.of({"algorithm": "tree"})
CHOICES = {"ring": RING, "tree": TREE}


def test_memory_of_an_all_to_all_grows_with_the_ranks():
    assert node_bytes("alltoall", 1000, 36, 1 << 21) == 36 * 2 * (1 << 21) * 36_000
    assert node_bytes("allreduce", 1000, 36, 1 << 21) == 36 * 2 * (1 << 21)
    assert node_bytes("allgather", 2, 4, 1024) == 4 * 1024 * 9
    assert node_bytes("gather", 2, 4, 1024) == 4 * 1024 + 8 * 1024


def test_rules_of_a_predicted_job_end_where_nothing_is_known():
    said = {8: DEFAULT, 64: "ring", 512: "ring", 4096: DEFAULT, 32768: "tree"}
    decided = [Decision(Shape("bcast", 8, 4, size), choice) for size, choice in said.items()]
    assert predicted_rules(decided, CHOICES, ()) == {
        Shape("bcast", 8, 4, 0): (
            Rule("bcast", 32, 64, RING),
            Rule("bcast", 32, 4096, Point()),
            Rule("bcast", 32, 32768, TREE),
            Rule("bcast", 32, 65537, Point()),
        )
    }


def test_a_table_that_cannot_tell_sizes_apart_has_a_row_where_all_agree():
    for last, rules in (("ring", (Rule("gather", 4, 0, RING),)), (DEFAULT, ())):
        decided = [Decision(Shape("gather", 1, 4, 8), "ring"), Decision(Shape("gather", 1, 4, 64), last)]
        assert predicted_rules(decided, CHOICES, ("gather",)) == {Shape("gather", 1, 4, 0): rules}


def test_where_jobs_of_as_many_ranks_differ_the_library_decides():
    one = [Rule("bcast", 32, 8, RING), Rule("bcast", 32, 512, TREE)]
    other = [Rule("bcast", 32, 8, RING), Rule("bcast", 32, 4096, TREE)]
    assert merged_rules([one, one]) == tuple(one)
    assert merged_rules([one, other]) == (
        Rule("bcast", 32, 8, RING),
        Rule("bcast", 32, 512, Point()),
        Rule("bcast", 32, 4096, TREE),
    )
    assert merged_rules([one, []]) == ()
    assert merged_rules([]) == ()


def test_a_table_that_holds_as_a_whole_is_left_to_the_library_where_jobs_differ_at_one_size():
    """Intel MPI has no id for its own choice: its exporter refuses what is left to it by size."""
    one, other = ([Rule("bcast", 32, 0, RING), Rule("bcast", 32, size, TREE)] for size in (512, 4096))
    assert merged_rules([one, one], ("bcast",)) == tuple(one)
    assert merged_rules([one, other], ("bcast",)) == ()
    assert merged_rules([one[1:]], ("bcast",)) == ()
    assert len(merged_rules([one, other], ("alltoall",))) == 3


def test_a_job_further_out_is_worth_more():
    model = fitted(site(0, (2, 4, 8), 1.5))
    near, far = ([Decision(Shape("bcast", n, 1, 64), DEFAULT)] for n in (8, 64))
    assert 0 < loss_removed(model, near) < loss_removed(model, far)
    known = [Decision(Shape("bcast", 64, 1, 64), "better", 0.4, 0.1)]
    assert loss_removed(model, known) < loss_removed(model, far)


ASIDE = ("OMPI_MCA_coll_han_priority", "0")
TUNED, TUNED_RING = Point.of({"component": "tuned"}), Point.of({"algorithm": "ring", "component": "tuned"})


def recommended(rules, slots, *env, **source):
    gains = tuple(Gain(slot, 1.0, 0.1, 2.0, 0.1) for slot in slots)
    return Recommendation(Point(), tuple(rules), gains, Provenance(env=env, **source))


def test_what_sets_han_aside_becomes_rules_for_what_was_measured():
    slots = [
        ("allreduce", 8, 8),
        ("allreduce", 8, 1024),
        ("bcast", 8, 8),
        ("alltoall", 8, 8),
        ("barrier", 8, 0),
    ]
    own = [Rule("allreduce", 8, 512, RING), Rule("allreduce", 8, 2049, Point()), Rule("alltoall", 8, 4, RING)]
    other = ("UCX_TLS", "tcp")
    one = recommended(own, slots, ASIDE, other)
    assert sets_han_aside(one)
    found = handing_over(one, ("barrier",))
    assert found.provenance.env == (other,)
    assert found.rules == (
        Rule("allreduce", 8, 4, TUNED),  # from half of the smallest size
        Rule("allreduce", 8, 512, TUNED_RING),
        Rule("allreduce", 8, 2049, Point()),  # to twice the largest
        Rule("alltoall", 8, 4, RING),  # which han does not serve
        Rule("alltoall", 8, 17, Point()),
        Rule("barrier", 8, 0, TUNED),
        Rule("bcast", 8, 4, TUNED),
        Rule("bcast", 8, 17, Point()),
    )


def test_a_rule_from_zero_bytes_on_begins_where_something_was_measured():
    found = handing_over(recommended([Rule("bcast", 4, 0, RING)], [("bcast", 4, 64)], ASIDE), ())
    assert found.rules == (Rule("bcast", 4, 32, TUNED_RING), Rule("bcast", 4, 129, Point()))


@pytest.mark.parametrize(
    ("env", "source", "said"),
    [
        ((), {}, True),
        ((ASIDE,), {}, True),
        ((ASIDE, ("UCX_TLS", "tcp")), {}, False),
        ((ASIDE, ("OMPI_MCA_pml", "ucx")), {"both_sides": (("OMPI_MCA_pml", "ucx"),)}, True),
        ((ASIDE,), {"placement": (("map_by", "core"),)}, False),
        ((ASIDE,), {"boot": (("thp", "always"),)}, False),
    ],
)
def test_what_is_job_wide_beside_han_no_rule_can_say(env, source, said):
    assert by_rules(recommended([], [], *env, **source)) == said


@pytest.mark.parametrize(
    ("ranks", "choice"), [(2, None), (3, None), (4, RING), (5, None), (7, None), (8, TREE), (9, None)]
)
def test_tables_of_a_site_hold_for_their_own_ranks_alone(ranks, choice):
    rules = exact([Rule("bcast", 4, 0, RING), Rule("bcast", 8, 0, TREE), Rule("reduce", 2, 0, RING)])
    assert choice_at(rules, ("bcast", ranks, 64)) == (choice or Point())
    assert choice_at(rules, ("reduce", ranks, 64)) == (RING if ranks == 2 else Point())
