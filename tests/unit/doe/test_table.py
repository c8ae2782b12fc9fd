"""Anybody's table becomes effects, or a message that names column and row."""

import csv
import json

import numpy as np
import pytest

from autotune.doe import table as anybody
from autotune.doe.screening_text import screening_document, screening_text
from autotune.doe.table import Table, known_scale, named_responses
from autotune.errors import UserError
from autotune.screening import Factor, plackett_burman
from autotune.text_table import read_rows
from tests.unit.screening.cases import CAST_FATIGUE_CODES, CAST_FATIGUE_FACTORS, CAST_FATIGUE_LIFE


def screened(path, factors, responses, block=None, scale="linear"):
    table = Table(path.name, *read_rows(path, "needed: factors and responses"))
    wanted = named_responses(responses, "--responses")
    return anybody.screen(table, factors, wanted, block, known_scale(scale))


def screen(*words, **options):
    return screening_document(screened(*words, **options))


def _written(path, columns, rows):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([columns, *rows])
    return path


@pytest.fixture
def cast_fatigue(tmp_path):
    rows = [[*map(int, codes), y] for codes, y in zip(CAST_FATIGUE_CODES, CAST_FATIGUE_LIFE, strict=True)]
    return _written(tmp_path / "fatigue.csv", [*CAST_FATIGUE_FACTORS, "life"], rows)


@pytest.fixture
def planted(tmp_path):
    """Two days, words, sizes and numbers as levels, one failed run; tls and han matter for latency."""
    rng = np.random.default_rng(0)
    factors = [
        Factor("tls", "sm", "tcp"),
        Factor("rndv", "64k", "1k", "8k"),
        Factor("han", "on", "off"),
        Factor("zcopy", 4096, 65536, 16384),
        Factor("map", "core", "numa"),
    ]
    design = plackett_burman(factors, rng, blocks=2, min_runs=12, centre_points=2)
    rows = []
    for run, point in enumerate(design.points()):
        code = design.coded[run]
        latency = np.exp(
            2 + 0.3 * code[0] + 0.1 * code[2] + 0.3 * int(design.blocks[run]) + rng.normal(0, 0.02)
        )
        bandwidth = 10 - 2 * code[1] + rng.normal(0, 0.2)
        rows.append([*point.values(), f"day {design.blocks[run]}", "" if run == 4 else latency, bandwidth])
    return _written(tmp_path / "runs.csv", [*design.names, "day", "latency", "bandwidth"], rows)


FACTORS = ["tls", "rndv", "han", "zcopy", "map"]


def test_planted_effects_come_back_with_their_intervals(planted):
    report = screen(planted, FACTORS, ["latency:min", "bandwidth:max"], "day", "log")
    latency, bandwidth = report["responses"]["latency"], report["responses"]["bandwidth"]
    assert (latency["runs"], latency["missing"], bandwidth["missing"]) == (27, 1, 0)
    effects = {effect["factor"]: effect for effect in latency["effects"]}
    assert list(effects) == FACTORS
    # "off" is the low level of han, whichever comes first in the table, and 1k that of rndv.
    assert (effects["han"]["low"], effects["han"]["high"]) == ("off", "on")
    for name, true in (("tls", 0.6), ("rndv", 0), ("han", -0.2), ("zcopy", 0), ("map", 0)):
        low, high = effects[name]["interval"]
        assert low < true < high
        assert effects[name]["ratio"] == pytest.approx(np.exp(effects[name]["effect"]))
    assert [name for name, effect in effects.items() if effect["active"]] == ["tls", "han"]
    blocks = {block["block"]: block["effect"] for block in latency["blocks"]}
    assert blocks["day 1"] - blocks["day 0"] == pytest.approx(0.3, abs=0.05)
    by_name = {effect["factor"]: effect for effect in bandwidth["effects"]}
    assert by_name["rndv"]["active"]
    assert by_name["rndv"]["effect"] > 0
    assert bandwidth["curvature"]["n_high"] == 4
    decisions = {decision["factor"]: decision for decision in report["decisions"]}
    assert {decisions[name]["verdict"] for name in ("tls", "rndv", "han")} == {"active"}
    assert (decisions["tls"]["better"], decisions["rndv"]["better"]) == ("sm", "64k")


def test_effect_is_the_difference_of_means_on_linear_scale(cast_fatigue):
    report = screen(cast_fatigue, list(CAST_FATIGUE_FACTORS), ["life:max"])
    effects = {effect["factor"]: effect for effect in report["responses"]["life"]["effects"]}
    for column, name in enumerate(CAST_FATIGUE_FACTORS):
        high = CAST_FATIGUE_LIFE[CAST_FATIGUE_CODES[:, column] > 0].mean()
        low = CAST_FATIGUE_LIFE[CAST_FATIGUE_CODES[:, column] < 0].mean()
        assert effects[name]["effect"] == pytest.approx(high - low)
    assert report["scale"] == "linear"
    # F and G interact in this famous case; the table cannot say so, but what leaks is listed.
    leak = {"factor": "D", "interaction": ["F", "G"]}
    assert any({key: alias[key] for key in leak} == leak for alias in report["aliases"])


def test_numbers_with_many_levels_are_coded_linearly(tmp_path):
    x = [0, 1, 2, 5, 10, 3, 7, 8]
    path = _written(tmp_path / "t.csv", ["x", "y"], [[value, 4 + 0.5 * value] for value in x])
    (effect,) = screen(path, ["x"], ["y:min"])["responses"]["y"]["effects"]
    assert (effect["low"], effect["high"]) == (0, 10)
    assert effect["effect"] == pytest.approx(5)


def test_json_has_null_where_nothing_can_be_known(tmp_path):
    rows = [["a", 1, "" if i < 4 else i] for i in range(4)] + [["b", i % 2, i] for i in range(4, 10)]
    path = _written(tmp_path / "t.csv", ["lost", "x", "y"], rows)
    report = screen(path, ["lost", "x"], ["y:min"])
    lost = report["responses"]["y"]["effects"][0]
    assert (lost["effect"], lost["p_value"], lost["active"]) == (None, None, False)
    json.dumps(report, allow_nan=False)
    assert "inconclusive" in screening_text(screened(path, ["lost", "x"], ["y:min"]))


def test_text_of_a_report(cast_fatigue):
    lines = screening_text(screened(cast_fatigue, ["F", "D", "A"], ["life:max"])).splitlines()
    assert lines[:6] == [
        "fatigue.csv: 12 rows, linear scale",
        "",
        "life (more is better; 12 runs)",
        "  factor  low → high  effect of high  p        share",
        "  F       -1 → 1      +0.9152 ± 0.29  0.013 *  44.5 %",
        "  D       -1 → 1      -0.5162 ± 0.29  0.113    14.2 %",
    ]
    assert any(line.startswith("    F: ") and "D×A" in line for line in lines)
    assert lines[-3].split()[:2] == ["F", "stays"]


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([], {}, "has no rows"),
        ([[1, "a", 2], [2, "b", 3]], {"factors": ["z"]}, "no column 'z'"),
        ([[1, "a", 2], [2, "b", 3]], {"responses": ["q:min"]}, "no column 'q'"),
        ([[1, "a", 2], [2, "b", 3]], {"factors": ["x", "x"]}, "'x' is named twice"),
        ([[1, "a", 2], [2, "b", 3]], {"block": "x"}, "'x' is named twice"),
        ([[1, "a", 2], [2, "b", 3]], {"responses": ["y"]}, "'y' does not say what is better"),
        ([[1, "a", 2], [2, "b", 3]], {"responses": ["y:min", "y:max"]}, "'y' is named twice"),
        ([[1, "a", 2], [2, "b", 3]], {"responses": []}, "no response"),
        ([[1, "a", 2], [2, "b", 3]], {"factors": []}, "no factor"),
        ([[1, "a", 2], [2, "b", 3]], {"scale": "ln"}, "--scale ln"),
        ([[1, "a", 2], [1, "b", 3]], {}, "column x: all 2 rows have '1'"),
        ([[1, "a", 2], [2, "b", "fast"]], {}, "row 3, column y: 'fast' is not a number"),
        ([[1, "a", 2], [2, "b", "inf"]], {}, "row 3, column y: inf is not finite"),
        ([[1, "a", 2], [2, "b", -1]], {"scale": "log"}, "row 3, column y: -1 is not above 0"),
        ([[1, "a", 2], ["", "b", 3]], {}, "row 3, column x: a level is missing"),
        ([[1, "a", 2], ["inf", "b", 3]], {}, "row 3, column x: inf is not finite"),
        ([[1, "a", 2], [2, "b", 3], ["two", "b", 3]], {}, "row 4, column x: 'two' is not a number"),
        ([[1, "a", 2], [2, "b", 3], [2, "c", 3]], {}, "column c: 3 levels (a, b, c)"),
        ([[1, "a", 2], [2, "b", 3]], {}, "2 of 2 runs"),
        ([[1, "a", 2], [2, "b", ""], [2, "a", ""], [1, "b", ""]], {}, "1 of 4 runs"),
        ([[1, "a", 2], [2, "b"]], {}, "row 3: not as many fields"),
    ],
)
def test_bad_tables_are_named(tmp_path, rows, options, message):
    path = _written(tmp_path / "t.csv", ["x", "c", "y"], rows)
    call = {"factors": ["x", "c"], "responses": ["y:min"], **options}
    with pytest.raises(UserError) as caught:
        screen(path, **call)
    assert message in str(caught.value)
