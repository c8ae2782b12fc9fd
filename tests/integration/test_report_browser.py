"""The page in a browser: every figure drawn, no complaint, nothing fetched, hostile names harmless."""

import json
import re
from dataclasses import replace

import pytest

from autotune.history.objectives import Objective
from autotune.history.trial import Observation, Phase, Status, Trial
from autotune.space import Parameter, Point, Space
from autotune.views.report import ReportInput, page
from tests import example
from tests.browser import Browser, needs_browser

HOSTILE = '<img src=x onerror="window.hacked=1"></script><script>window.hacked=1</script>'
NAME = "a<script>window.hacked=1</script>"
DRAWN = """
document.readyState === "complete"
  && [...document.querySelectorAll(".plot")].every((plot) => plot.querySelector(".main-svg"))
"""


def hostile_campaign():
    """All sections of a page, with markup wherever a user, a program or a host names things."""
    scale = ("1k", "4k", "16k", "64k")
    names = (NAME, "seg", "<b>bold</b>")
    space = Space("x", (*(Parameter(n, scale, scale[0], ordered=True) for n in names), example.SPACE.call[0]))

    def time_s(point, cell):
        first, second, _ = (scale.index(str(point.get(name, scale[0]))) for name in names)
        share = 0.5 if cell.choice.get("algorithm") == "ring" and cell.message_bytes > 4096 else 1.0
        return 1e-6 * share * (5 + (first - 1.4) ** 2 + 2 * second) * (1 + cell.message_bytes / 1e5)

    ran = example.campaign(space=space, time_s=time_s, n_search=14)
    failed = Trial(99, Phase.SEARCH, Point.of(dict.fromkeys(names, HOSTILE)))
    history = ran.history.plus([Observation(failed, Status.CRASHED, reason=HOSTILE, hosts=(HOSTILE,))])
    return ReportInput(
        HOSTILE, space, example.OBJECTIVES, history, ran.recommendation, ran.baseline, ran.effects,
        ran.screening, findings=[(HOSTILE, HOSTILE)], exports=[HOSTILE], use=HOSTILE, stamp=HOSTILE,
    )  # fmt: skip


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@needs_browser
@pytest.mark.parametrize(
    ("width", "dark"),
    [(1200, False), pytest.param(390, True, marks=pytest.mark.slow)],
    ids=["wide and light", "narrow and dark"],
)
def test_the_page_draws_every_figure_and_runs_nothing_of_anybodys(browser, tmp_path, width, dark):
    path = tmp_path / "page.html"
    path.write_text(page(hostile_campaign()))
    browser.complaints.clear()
    browser.requests.clear()
    browser.window(width, 900, dark)
    browser.open(path)
    browser.wait(DRAWN)
    assert browser.evaluate("window.hacked === undefined")
    assert browser.complaints == []
    assert [url for url in browser.requests if not url.startswith(("data:", "blob:"))] == [path.as_uri()]
    figures = len(re.findall(r'<script type="application/json">', path.read_text()))
    assert browser.evaluate("document.querySelectorAll('.plot').length") == figures > 15
    sizes = browser.evaluate(
        "[...document.querySelectorAll('.plot')].filter(p => !p.closest('details')).map(p => {"
        "const box = p.querySelector('.main-svg').getBoundingClientRect(); return [box.width, box.height]})"
    )
    assert all(wide > 100 and high > 100 for wide, high in sizes)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    shown = browser.evaluate("document.body.innerText")
    assert HOSTILE in shown
    background = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", background))) < 3 * 128) == dark


@needs_browser
def test_a_figure_that_cannot_be_drawn_is_complained_of(browser, tmp_path):
    """So that the test above can fail."""
    path = tmp_path / "page.html"
    young = replace(hostile_campaign(), objectives=(Objective("latency"),), effects=(), screening=None)
    broken = json.dumps({"data": [{"type": "no such thing", "x": None}], "layout": 7})
    path.write_text(
        re.sub(
            r'(<script type="application/json">).*?(</script>)', rf"\1{broken[:-2]}\2", page(young), count=1
        )
    )
    browser.complaints.clear()
    browser.open(path)
    browser.wait("document.body?.classList.contains('bare')")
    assert browser.complaints
