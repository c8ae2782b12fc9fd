"""What names say, by hand."""

import numpy as np
import pytest

from autotune.history.objectives import Slot
from autotune.recommend.priors import NAMES, coded, dissimilarity, expected_excess
from autotune.space import Parameter, Point, Space

SMALL: Slot = ("allreduce", 256, 8)
LARGE: Slot = ("allreduce", 256, 64 << 20)


def expected(space: Space, points: list[Point], slots: list[Slot]) -> np.ndarray:
    return coded(space.job, points) @ expected_excess(space.job, slots)


def excess(*values: str | int, collective: str = "allreduce", name: str = "algorithm") -> np.ndarray:
    space = Space("s", (Parameter(name, values, values[0], per_size=True),))
    slots = [(collective, *slot[1:]) for slot in (SMALL, LARGE)]
    return expected(space, [Point.of({name: v}) for v in values], slots)


def test_rings_are_for_large_messages_and_doubling_for_small_ones() -> None:
    _, ring, doubling, rabenseifner = excess("default", "ring", "recursive_doubling", "rabenseifner")
    assert ring[0] > 2 > 0.1 > ring[1]
    assert doubling[0] == 0 < doubling[1]
    assert 0 < rabenseifner[0] < ring[0]
    assert rabenseifner[1] == pytest.approx(0, abs=0.05)


def test_names_of_vendors_and_papers_are_recognised() -> None:
    for name, family in (("ring_ompi", "ring"), ("BINE-B_CONT", "rabenseifner"), ("recdoub_L", "recdoub")):
        rows = excess("default", family, "linear", name)
        assert rows[3] == pytest.approx(rows[1]) or name.startswith("BINE"), name


def test_numbers_of_coll_tuned_stand_for_its_algorithms() -> None:
    by_number = excess(0, 1, 3, 4, name="coll_tuned_allreduce_algorithm")
    by_name = excess("default", "linear", "recursive_doubling", "ring")
    assert by_number == pytest.approx(by_name)


def test_names_that_say_nothing_are_a_little_worse_than_the_best() -> None:
    rows = excess("default", "ring", "recursive_doubling", "frobnicate")
    assert rows[3] == pytest.approx([NAMES.unknown, NAMES.unknown])


def test_other_parameters_cost_a_little_when_changed() -> None:
    space = Space("s", (Parameter("UCX_TLS", ("all", "tcp"), "all"),))
    found = expected(space, [Point.of({"UCX_TLS": v}) for v in ("all", "tcp")], [SMALL, LARGE])
    assert found == pytest.approx(np.array([[0.0, 0.0], [NAMES.departure, NAMES.departure]]))


def test_nothing_is_expected_of_what_only_a_family_has():
    """Neither end of its scale costs: of a factor that does nothing both values would be tried."""
    radix = Parameter("radix", (2, 8, 32), 2, ordered=True, when={"algorithm": ("tree",)})
    space = Space("s", (Parameter("algorithm", ("flat", "tree"), "flat"), radix))
    points = [Point.of({"algorithm": "tree", "radix": r}) for r in (2, 8, 32)]
    assert np.ptp(expected(space, points, [SMALL, LARGE]), axis=0) == pytest.approx(0.0)


def test_operations_without_families_expect_nothing() -> None:
    assert excess("default", "ring", "linear", collective="pingpong") == pytest.approx(0)


def test_values_on_a_scale_differ_by_their_distance() -> None:
    found = dissimilarity(Parameter("rndv", ("auto", "1k", "4k", "16k"), "auto", ordered=True))
    assert found[1, 2] == pytest.approx(0.5)
    assert found[1, 3] == pytest.approx(1.0)
    assert found[0, 1] == found[1, 4] == 1.0  # auto, and "not active"


def test_common_words_make_alike_and_rare_ones_more_so() -> None:
    names = ("ring_over", "ring_ompi", "tree_over", "leaf_over", "mesh_over")
    found = dissimilarity(Parameter("algorithm", names, names[0]))
    assert found[0, 1] < found[0, 2] < 1  # "ring" is rarer than "over"
    assert np.array_equal(found, found.T)
    assert np.all(np.diag(found) == 0)


def test_a_common_family_makes_alike_without_a_common_word() -> None:
    names = ("scatter_allgather", "rabenseifner", "binomial", "chain")
    found = dissimilarity(Parameter("algorithm", names, names[0]), {"bcast"})
    assert found[0, 1] < 0.6
    assert found[0, 2] == 1.0
