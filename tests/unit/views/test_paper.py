"""Figures as files: what the page draws, drawn once more."""

import json
import xml.etree.ElementTree as ElementTree

import pytest

from autotune.views.report import ReportInput, drawings, figures
from autotune.views.report.paper import _file_name
from tests import example


@pytest.fixture(scope="module")
def drawn():
    ran = example.campaign()
    made = figures(
        ReportInput(
            "x", ran.space, example.OBJECTIVES, ran.history, ran.recommendation, ran.baseline, ran.effects
        )
    )
    wanted = ("curves", "winners", "settings-latency", "effects-latency", "progress")
    few = [f for f in made if any(f'"name":"{name}' in f for name in wanted)]
    assert len(few) == len(wanted)
    return few, drawings(few)


def test_each_figure_is_a_png_and_an_svg(drawn):
    made, files = drawn
    names = [json.loads(figure)["layout"]["meta"]["name"] for figure in made]
    assert set(files) == {f"{name}.{ending}" for name in names for ending in ("png", "svg")}
    for name, content in files.items():
        if name.endswith(".png"):
            assert content.startswith(b"\x89PNG\r\n\x1a\n")
            width = int.from_bytes(content[16:20])
            assert 600 < width < 3000
        else:
            assert ElementTree.fromstring(content).tag.endswith("svg")  # noqa: S314 - our own


def test_every_point_is_drawn(drawn):
    made, files = drawn
    progress = next(f for f in made if '"name":"progress"' in f)
    searched = next(t for t in json.loads(progress)["data"] if t["name"] == "search")
    root = ElementTree.fromstring(files["progress.svg"])  # noqa: S314 - our own
    marks = [use for use in root.iter("{http://www.w3.org/2000/svg}use") if "4a8fe0" in use.get("style", "")]
    assert len(marks) >= 2 * len(searched["x"]) > 0  # in both objectives, and in the legend


def test_the_same_figure_is_the_same_file(drawn):
    made, files = drawn
    again = drawings(made[:1])
    assert again.items() <= files.items()


def test_names_of_files_are_harmless(drawn):
    assert _file_name("../../etc/<x> $HOME") == "etc_x_HOME"
    assert _file_name("…") == "figure"
    made, _ = drawn
    one = json.loads(made[0])
    one["layout"]["meta"]["name"] = "../a b"
    twice = drawings([json.dumps(one)] * 2)
    assert set(twice) == {"a_b.png", "a_b.svg", "a_b-2.png", "a_b-2.svg"}
