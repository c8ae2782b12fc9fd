"""Memory of a call, rules of predicted jobs, and what jobs with as many ranks agree on."""

from autotune.commands.site_rules import agreed, predicted_rules
from autotune.history.trial import Rule
from autotune.scenario.whole_site import node_bytes
from autotune.site import DEFAULT, Decision, Shape, fitted, loss_removed
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
    assert agreed([one, one]) == tuple(one)
    assert agreed([one, other]) == (
        Rule("bcast", 32, 8, RING),
        Rule("bcast", 32, 512, Point()),
        Rule("bcast", 32, 4096, TREE),
    )
    assert agreed([one, []]) == ()
    assert agreed([]) == ()


def test_a_table_that_holds_as_a_whole_is_left_to_the_library_where_jobs_differ_at_one_size():
    """Intel MPI has no id for its own choice: its exporter refuses what is left to it by size."""
    one, other = ([Rule("bcast", 32, 0, RING), Rule("bcast", 32, size, TREE)] for size in (512, 4096))
    assert agreed([one, one], ("bcast",)) == tuple(one)
    assert agreed([one, other], ("bcast",)) == ()
    assert agreed([one[1:]], ("bcast",)) == ()
    assert len(agreed([one, other], ("alltoall",))) == 3


def test_a_job_further_out_is_worth_more():
    model = fitted(site(0, (2, 4, 8), 1.5))
    near, far = ([Decision(Shape("bcast", n, 1, 64), DEFAULT)] for n in (8, 64))
    assert 0 < loss_removed(model, near) < loss_removed(model, far)
    known = [Decision(Shape("bcast", 64, 1, 64), "better", 0.4, 0.1)]
    assert loss_removed(model, known) < loss_removed(model, far)
