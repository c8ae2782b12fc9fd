"""The tables of the terminal, as text."""

import io
import math
from dataclasses import replace

import pytest
from rich.console import Console

from autotune.history.objectives import Objective, Score
from autotune.history.trial import Rule
from autotune.recommend.front import Candidate
from autotune.recommend.recommendation import Gain, Recommendation
from autotune.screening import ScreeningDesign
from autotune.screening.design import Factor
from autotune.space import Dropped, Point
from autotune.views.tables import design_table, effects_tables, machine_table, result_table, size_tables
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


def test_the_result_has_the_recommended_setting_the_defaults_and_the_others():
    objectives = (Objective("latency"), Objective("bandwidth"))
    default = Point.of({"UCX_TLS": "all", "coll_han": "on"})
    fast = Candidate(default.replace(UCX_TLS="self,sysv"), {}, (Score(1.0, 0.02), Score(5.0, 0.1)), 1)
    wide = default.replace(coll_han="off"), (Score(1.5, 0.02), Score(12.0, 0.1))
    baseline = (Score(2.0, 0.04), Score(6.0, 0.1))

    def shown(chosen, baseline):
        return text(
            result_table(objectives, [fast], chosen, default, baseline, lambda one: "not verified"), 80
        )

    assert shown(("coll_han=off", wide[1]), baseline) == [
        "    setting                    latency   bandwidth",
        "──────────────────────────────────────────────────",
        "▶   coll_han=off                 1.33×       2.00×",
        "    recommended",
        "    the stack's own defaults   2.00 µs   6.00 GB/s",
        "    UCX_TLS=self,sysv            2.00×       0.83×",
        "    not chosen: not verified",
    ]
    assert shown(("", baseline), baseline)[2:4] == [
        "▶   the stack's own defaults   2.00 µs   6.00 GB/s",
        "    recommended",
    ]
    assert "×" not in "".join(shown(("coll_han=off", None), None))


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


def test_sizes_without_an_interval_say_why():
    bounded = Gain(("allreduce", 2, 8), 1e-6, 1e-8, 2e-6, 4e-8, None, (2.0, 1.9, 2.1))
    few = replace(bounded, compared=(2.0, 0.0, math.inf))
    said = "Sizes without an interval have too few launches for one."
    assert said in text(size_tables(Recommendation(Point(), (), (bounded, few))))
    assert said not in text(size_tables(Recommendation(Point(), (), (bounded,))))


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
    undecided = text(effects_tables(example.OBJECTIVES, ran.effects))
    assert sum(line.startswith("UCX_TLS") for line in undecided) == 2
