"""The tables of the terminal, as text."""

import io

import pytest
from rich.console import Console

from autotune.history.objectives import Objective, Score
from autotune.history.trial import Rule
from autotune.recommend.front import Candidate
from autotune.recommend.recommendation import Gain, Recommendation
from autotune.screening import ScreeningDesign
from autotune.screening.design import Factor
from autotune.space import Dropped, Point
from autotune.views.console import design_table, effects_tables, front_table, machine_table, size_tables
from tests import example


def text(renderable, width=100):
    console = Console(file=io.StringIO(), width=width)
    console.print(renderable)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_machine():
    dropped = [Dropped("map_by", None, "needs numa:2"), Dropped("UCX_TLS", "self,[rc]", "needs ucx_tl:rc")]
    assert text(machine_table([("Open MPI", "5.0.11 [wheel]"), ("cores", "2")], dropped)) == [
        "Open MPI  5.0.11 [wheel]",
        "cores     2",
        "dropped   map_by: needs numa:2",
        "          UCX_TLS=self,[rc]: needs ucx_tl:rc",
    ]


def test_design():
    factors = (Factor("UCX_TLS", "all", "self,tcp"), Factor("coll_han", "on", "off"))
    design = ScreeningDesign(factors, [[1, -1], [-1, 0]], (1, 0), (0, 0), (0, 0), (False, False))
    assert text(design_table(design)) == [
        "    factor     − low   + high",
        "───────────────────────────────",
        "A   UCX_TLS    all     self,tcp",
        "B   coll_han   on      off",
        "",
        "run   A   B",
        "───────────",
        "  1   +   −",
        "  2   −   0",
    ]


def test_many_factors_each_have_a_letter_of_their_own():
    factors = tuple(Factor(f"f{i}", 0, 1) for i in range(30))
    design = ScreeningDesign(factors, [[1] * 30], (0,), (0,), (0,), (False,))
    letters = [line.split()[0] for line in text(design_table(design))[2:32]]
    assert letters[:9] == list("ABCDEFGHJ")
    assert letters[24:27] == ["Z", "A2", "B2"]
    assert len(set(letters)) == 30


def test_front_marks_the_recommended_point_and_shows_what_is_set():
    objectives = (Objective("latency"), Objective("bandwidth"))
    default = Point.of({"UCX_TLS": "all", "coll_han": "on"})
    fast, wide = default.replace(UCX_TLS="self,sysv"), default.replace(coll_han="off")
    front = [
        Candidate(fast, {}, (Score(1.0, 0.02), Score(8.0, 0.1)), 1),
        Candidate(wide, {}, (Score(1.5, 0.02), Score(12.0, 0.1)), 2),
    ]
    baseline = (Score(2.0, 0.04), Score(6.0, 0.1))
    assert text(front_table(objectives, front, wide, default, baseline)) == [
        "    latency [µs]    gain   bandwidth [GB/s]    gain   what is set",
        "───────────────────────────────────────────────────────────────────────────────────────",
        "     1.00 ± 0.02   2.00×        8.00 ± 0.10   1.33×   UCX_TLS=self,sysv",
        "▶    1.50 ± 0.02   1.33×         12.0 ± 0.1   2.00×   coll_han=off",
        "     2.00 ± 0.04       1        6.00 ± 0.10       1   nothing: the stack's own defaults",
    ]
    assert "×" not in "".join(text(front_table(objectives, front, wide, default, None)))


def test_sizes_show_losing_rows_as_they_are():
    rules = (
        Rule("allreduce", 2, 0, Point.of({"algorithm": "linear"})),
        Rule("allreduce", 2, 65536, Point.of({"algorithm": "segmented_ring", "segsize": 8192})),
    )
    gains = (
        Gain(("allreduce", 2, 8), 1.0e-6, 0.01e-6, 2.0e-6, 0.04e-6),
        Gain(("allreduce", 2, 65536), 12.5e-6, 0.1e-6, 10.0e-6, 0.1e-6),
        Gain(("bcast", 4, 8), 2.0e-6, 0.1e-6, 2.1e-6, 0.1e-6),
    )
    assert text(size_tables(Recommendation(Point(), rules, gains))) == [
        "MPI_Allreduce on 2 ranks",
        "  size   algorithm        segsize    tuned [µs]   default [µs]   speed-up (95 %)",
        "────────────────────────────────────────────────────────────────────────────────────",
        "   8 B   linear           ·         1.00 ± 0.01    2.00 ± 0.04   2.00× (1.91 … 2.09)",
        "64 KiB   segmented_ring   8192       12.5 ± 0.1     10.0 ± 0.1   0.80× (0.78 … 0.82)",
        "",
        "MPI_Bcast on 4 ranks",
        "size   algorithm   segsize    tuned [µs]   default [µs]   speed-up (95 %)",
        "─────────────────────────────────────────────────────────────────────────────",
        " 8 B   ·           ·         2.00 ± 0.10    2.10 ± 0.10   1.05× (0.92 … 1.20)",
    ]


@pytest.fixture(scope="module")
def ran():
    return example.campaign()


def test_effects_have_their_standard_errors_and_consequences(ran):
    lines = text(effects_tables(example.OBJECTIVES, ran.effects, ran.screening))
    titles = [line for line in lines if line.startswith("Main effects")]
    assert titles == [
        "Main effects on latency (less is better)",
        "Main effects on bandwidth (more is better)",
    ]
    tls = [line.split() for line in lines if line.startswith("UCX_TLS")]
    assert [row[1:4] for row in tls[:2]] == [["all", "→", "self,tcp"]] * 2
    assert [row[4][0] for row in tls[:2]] == ["+", "-"]  # tcp is slow, and narrow
    assert [row[-2:] for row in tls[:2]] == [["<0.001", "*"]] * 2
    assert all("±" in row for row in tls[:2])
    assert tls[2][1] == "stays"


def test_effects_without_a_decision(ran):
    lines = text(effects_tables(example.OBJECTIVES, ran.effects))
    assert sum(line.startswith("UCX_TLS") for line in lines) == 2
