import numpy as np
import pytest

from autotune.errors import UserError
from autotune.screening import Factor, as_run, factors_of, foldover, plackett_burman, points_of, two_levels
from autotune.space import Level, Parameter, Space
from tests.unit.screening.cases import n_reboots


def _factors(n, n_whole=0, centre=None):
    return [Factor(f"f{i}", "lo", "hi", centre, whole_plot=i < n_whole) for i in range(n)]


def _aliasing(coded):
    """Largest |alias coefficient| between a main effect and an interaction of two other factors."""
    n, k = coded.shape
    j3 = np.abs(np.einsum("ni,nj,nk->ijk", coded, coded, coded)) / n
    return max((j3[i, j, m] for i in range(k) for j in range(i) for m in range(j)), default=0.0)


@pytest.mark.parametrize("n_factors", [1, 2, 3, 4, 7, 8, 11, 12, 19, 23, 24, 26, 27, 31, 36, 50])
def test_columns_are_balanced_and_orthogonal_for_any_number_of_factors(n_factors):
    design = plackett_burman(_factors(n_factors), np.random.default_rng(0), min_runs=4)
    information = design.coded.T @ design.coded
    assert np.array_equal(information, design.n_runs * np.eye(n_factors))
    assert np.all(design.coded.sum(axis=0) == 0)
    assert design.n_runs % 4 == 0
    assert design.n_runs > n_factors


@pytest.mark.parametrize(
    ("n_factors", "n_runs"), [(3, 4), (4, 8), (7, 8), (8, 12), (11, 12), (12, 16), (20, 24)]
)
def test_run_size_is_the_smallest(n_factors, n_runs):
    assert plackett_burman(_factors(n_factors), np.random.default_rng(0), min_runs=4).n_runs == n_runs


@pytest.mark.parametrize(("n_factors", "min_runs"), [(4, 8), (8, 16), (16, 32)])
def test_columns_are_chosen_for_resolution_four_where_there_is_room(n_factors, min_runs):
    design = plackett_burman(_factors(n_factors), np.random.default_rng(0), min_runs=min_runs)
    assert _aliasing(design.coded) == 0


@pytest.mark.parametrize(("n_factors", "n_runs"), [(2, 4), (3, 8), (4, 16)])
def test_where_there_is_room_all_combinations_are_run(n_factors, n_runs):
    design = plackett_burman(_factors(n_factors), np.random.default_rng(0), min_runs=n_runs)
    assert len({tuple(row) for row in design.coded}) == 2**n_factors


def test_twelve_runs_alias_partially():
    design = plackett_burman(_factors(11), np.random.default_rng(0))
    assert _aliasing(design.coded) == pytest.approx(1 / 3)


def test_order_is_a_function_of_the_seed():
    one, same, other = (
        plackett_burman(_factors(7), np.random.default_rng(seed), blocks=2) for seed in (5, 5, 6)
    )
    assert one.order == same.order
    assert one.order != other.order
    assert sorted(one.order[:8]) == list(range(8)) == sorted(one.order[8:])
    assert one.order[:8] != one.order[8:]
    assert one.blocks == (0,) * 8 + (1,) * 8


@pytest.mark.parametrize(("n_factors", "n_whole", "blocks"), [(5, 1, 1), (5, 1, 3), (6, 2, 2), (7, 3, 1)])
def test_reboots_are_as_few_as_complete_blocks_allow(n_factors, n_whole, blocks):
    design = plackett_burman(_factors(n_factors, n_whole), np.random.default_rng(3), blocks=blocks)
    combinations = {tuple(row) for row in design.coded[:, :n_whole]}
    switches = sum(
        not np.array_equal(a, b)
        for a, b in zip(design.coded[:-1, :n_whole], design.coded[1:, :n_whole], strict=True)
    )
    assert switches == n_reboots(design) == blocks * (len(combinations) - 1)
    assert len(combinations) == min(2**n_whole, 4)


def test_centre_points_are_marked_and_keep_whole_plots_whole():
    factors = [
        Factor("boot", 1, 4, whole_plot=True),
        Factor("size", 1024, 65536, 8192),
        Factor("kind", "a", "b"),
    ]
    design = plackett_burman(factors, np.random.default_rng(0), centre_points=4, blocks=2)
    assert design.n_runs == 2 * (8 + 4)
    assert n_reboots(design) == 2
    centre = [point for point, is_centre in zip(design.points(), design.centre, strict=True) if is_centre]
    assert {point["size"] for point in centre} == {8192}
    for name, low, high in (("boot", 1, 4), ("kind", "a", "b")):
        values = [point[name] for point in centre]
        assert values.count(low) == values.count(high) == 4
    assert all(p["size"] != 8192 for p, c in zip(design.points(), design.centre, strict=True) if not c)


def test_foldover_frees_main_effects_from_all_interactions():
    rng = np.random.default_rng(0)
    design = plackett_burman(_factors(11), rng)
    added = foldover(design, rng)
    whole = design.followed_by(added)
    assert _aliasing(design.coded) > 0.3
    assert _aliasing(whole.coded) == 0
    assert sorted(map(tuple, added.coded)) == sorted(map(tuple, -design.coded))
    assert whole.blocks == (0,) * 12 + (1,) * 12


def test_foldover_goes_on_without_a_reboot():
    rng = np.random.default_rng(0)
    design = plackett_burman(_factors(5, 1), rng, centre_points=0)
    whole = design.followed_by(foldover(design, rng))
    assert n_reboots(whole) == 2
    assert whole.whole_plots[8] == design.whole_plots[-1]


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda rng: plackett_burman([], rng), "at least one"),
        (lambda rng: plackett_burman(_factors(3), rng, blocks=0), "0 blocks"),
        (lambda rng: plackett_burman(_factors(3), rng, centre_points=1), "centre"),
        (lambda rng: plackett_burman(_factors(2) + _factors(1), rng), "f0"),
        (lambda _: Factor("x", 1, 1), "same value"),
    ],
)
def test_impossible_designs_are_refused(call, word):
    with pytest.raises(UserError, match=word):
        call(np.random.default_rng(0))


@pytest.mark.parametrize(
    ("parameter", "low", "high", "centre"),
    [
        (Parameter("t", ("1k", "8k", "64k"), "8k", ordered=True), "1k", "64k", "8k"),
        (Parameter("t", ("auto", "1k", "2k", "1m"), "auto", ordered=True), "1k", "1m", None),
        (Parameter("t", (8, 1, 64), 64, ordered=True), 1, 64, 8),
        (Parameter("tls", ("sm,self", "all", "tcp,self"), "sm,self"), "sm,self", "all", None),
        (Parameter("tls", ("self,sm", "tcp", "tcp,sm"), "tcp"), "tcp", "self,sm", None),
        (Parameter("on", (True, False), False), False, True, None),
    ],
)
def test_levels_are_the_ends_of_a_scale_or_the_most_different_category(parameter, low, high, centre):
    factor = two_levels(parameter)
    assert (factor.low, factor.high, factor.centre) == (low, high, centre)


def test_a_boot_parameter_is_a_whole_plot_factor():
    assert two_levels(Parameter("nps", (1, 2, 4), 1, level=Level.BOOT, ordered=True)).whole_plot


def test_a_space_becomes_points_and_inactive_parameters_are_coded_zero():
    space = Space(
        "s",
        (
            Parameter("han", ("off", "on"), "off"),
            Parameter("han_depth", (1, 2), 1, when={"han": ("on",)}),
            Parameter("c", ("x", "y"), "x"),
            Parameter("algorithm", (0, 1), 0, level=Level.CALL),
            Parameter("alone", (1,), 1),
        ),
    )
    factors = factors_of(space)
    assert [factor.name for factor in factors] == ["han", "han_depth", "c"]
    design = plackett_burman(factors, np.random.default_rng(0))
    points = points_of(space, design)
    assert all(point in space for point in points)
    recoded = as_run(design, points).coded
    off = np.array([point["han"] == "off" for point in points])
    assert np.all(recoded[off, 1] == 0)
    assert np.all(recoded[~off, 1] == design.coded[~off, 1])
    information = recoded.T @ recoded
    assert np.array_equal(information, np.diag(np.diag(information)))


def test_what_shuts_several_others_off_is_held_open_and_left_to_the_search():
    space = Space(
        "s",
        (
            Parameter("pml", ("default", "ucx", "ofi"), "default"),
            Parameter("tls", ("a", "b"), "a", when={"pml": ("ucx",)}),
            Parameter("threshold", (1, 2), 1, when={"pml": ("ucx",)}),
            Parameter("rails", (1, 2), 1, when={"pml": ("ofi", "ucx")}),
            Parameter("only_ofi", (1, 2), 1, when={"pml": ("ofi",)}),
        ),
    )
    factors = factors_of(space)
    assert [factor.name for factor in factors] == ["tls", "threshold", "rails"]
    design = plackett_burman(factors, np.random.default_rng(0))
    points = points_of(space, design)
    assert {point["pml"] for point in points} == {"ucx"}
    assert np.array_equal(as_run(design, points).coded, design.coded)


def test_a_parameter_that_no_level_of_its_parent_activates_is_left_out():
    space = Space(
        "s",
        (
            Parameter("tls", ("a", "b", "c"), "a"),
            Parameter("child", (1, 2), 1, when={"tls": ("b",)}),
            Parameter("grandchild", (1, 2), 1, when={"child": (2,)}),
        ),
    )
    assert [factor.name for factor in factors_of(space)] == ["tls"]
