"""The report: every number in words, figures that plotly accepts, nothing fetched from elsewhere."""

import base64
import gzip
import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from plotly.offline import get_plotlyjs

from autotune.history.objectives import Objective
from autotune.history.trial import History, Observation, Phase, Rule, Status, Subject, Trial
from autotune.recommend.other_calls import OtherCall, OtherDecision
from autotune.recommend.recommendation import Checked, Gain, Provenance, Recommendation
from autotune.space import Dropped, Parameter, Point, Space
from autotune.verification.blocks import Block
from autotune.verification.comparison import compare
from autotune.verification.one_round import VerificationRound
from autotune.verification.sequential import SequentialDesign
from autotune.views.report import ReportInput, page
from autotune.views.report.page import _meaning
from autotune.views.report.plots import curves
from autotune.views.rivals import OTHERS
from autotune.views.text import duration_text
from tests import example


class Document(HTMLParser):
    """The text of a page by element, its scripts, and whatever would be fetched."""

    VOID = ("meta", "br", "link", "img", "input", "hr")

    def __init__(self, html):
        super().__init__()
        self.open, self.texts, self.scripts, self.fetched, self.rows = [], [], [], [], []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.fetched += [
            v
            for k, v in attributes.items()
            if k in ("src", "href", "data", "action") and not v.startswith("#")
        ]
        if tag not in self.VOID:
            self.open.append((tag, attributes))
        if tag == "tr":
            self.rows.append([])

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag, f"</{tag}> closes something else"

    def handle_data(self, data):
        tag, attributes = self.open[-1] if self.open else ("", {})
        if tag == "script":
            self.scripts.append((attributes.get("type", ""), attributes.get("id", ""), data))
        elif tag != "style" and data.strip():
            self.texts.append(" ".join(data.split()))
            if self.rows and any(name == "tr" for name, _ in self.open):
                self.rows[-1].append(" ".join(data.split()))

    @property
    def figures(self):
        return [json.loads(text) for kind, _, text in self.scripts if kind == "application/json"]


@pytest.fixture(scope="module")
def ran():
    return example.campaign()


@pytest.fixture(scope="module")
def inputs(ran):
    return ReportInput(
        title="example",
        space=ran.space,
        objectives=example.OBJECTIVES,
        history=ran.history,
        recommendation=ran.recommendation,
        baseline=ran.baseline,
        effects=ran.effects,
        screening=ran.screening,
        findings=[("UCX", "1.20.1: self, sysv, tcp")],
        exports=["export/openmpi-mca-params.conf"],
        use="mpirun --mca pml ucx ./your_program",
    )


@pytest.fixture(scope="module")
def document(inputs):
    return Document(page(inputs))


def test_nothing_is_fetched_and_every_element_is_closed(document):
    assert document.fetched == []
    assert document.open == []
    css = re.findall(r"<style>(.*?)</style>", page(ReportInput("x", example.SPACE, (), History())), re.S)[0]
    assert "url(" not in css
    assert "@import" not in css


def test_plotly_is_packed_once_and_whole(document):
    packed = [text for kind, name, text in document.scripts if name == "plotly"]
    assert len(packed) == 1
    assert gzip.decompress(base64.b64decode(packed[0])).decode() == get_plotlyjs()
    assert len(packed[0]) < 2_500_000


def test_figures_hold_the_data(document, ran):
    names = [[trace.get("name") for trace in figure["data"]] for figure in document.figures]
    assert names[0] == ["default", "tuned", "speed-up", "95 % interval"]
    assert ["tried", "Pareto front", "recommended", "default"] in names
    curve = document.figures[0]["data"][1]
    assert curve["x"] == ["8 B", "512 B", "4 KiB", "64 KiB", "1 MiB"]
    assert curve["y"] == pytest.approx([gain.tuned_s * 1e6 for gain in ran.recommendation.gains])
    assert curve["error_y"]["array"] == pytest.approx(
        [1.96 * gain.tuned_sem_s * 1e6 for gain in ran.recommendation.gains]
    )
    progress = named(document, "progress")
    failed = next(trace for trace in progress["data"] if trace["name"] == "failed")
    assert failed["x"] == [13, 15]


def named(document, name):
    """The figure that would be written into files of this name."""
    return next(figure for figure in document.figures if figure["layout"]["meta"]["name"] == name)


def test_every_figure_has_a_name_of_its_own(document):
    names = [figure["layout"]["meta"]["name"] for figure in document.figures]
    assert len(set(names)) == len(names) > 15


def test_the_map_of_winners_has_a_place_for_each_size(document, ran):
    figure = named(document, "winners-allreduce")
    drawn = {trace["name"]: trace for trace in figure["data"]}
    assert set(drawn) <= {"default", "ring", "rabenseifner"}
    assert sorted(x for trace in drawn.values() for x in trace["x"]) == [0, 1, 2, 3, 4]
    assert figure["layout"]["xaxis"]["ticktext"] == ["8 B", "512 B", "4 KiB", "64 KiB", "1 MiB"]
    assert 4 in drawn["ring"]["x"]  # the best for large messages in the formula
    shapes = [shape for trace in drawn.values() for shape in trace["marker"]["pattern"]["shape"]]
    assert set(shapes) <= {"", "/"}


def test_settings_have_a_line_each_and_failures_their_cause(document, ran):
    figure = named(document, "settings-latency")
    lines = {trace["name"]: trace for trace in figure["data"] if trace.get("name")}
    tried = sum(trace["x"].count(None) for name, trace in lines.items() if name != "failed")
    assert tried == 12
    assert lines["failed"]["x"].count(None) == 2
    assert any("trial 13 crashed: signal 6 on rank 1" in text for text in lines["failed"]["text"])
    rows = len(figure["data"][-1]["text"])
    assert lines["failed"]["x"].index(None) == rows == 5  # four parameters and the score
    piece = named(document, "slice-latency-UCX_TLS")
    assert [trace["name"] for trace in piece["data"]] == ["tried", "failed", "best"]
    assert len(piece["data"][0]["x"]) == 12
    assert "● is the stack" in " ".join(document.texts)


def test_drift_is_that_of_the_untouched_stack(document, ran):
    figure = named(document, "timeline")
    default = figure["data"][0]
    assert default["name"] == "default, latency"
    assert len(default["x"]) == len(ran.history.untouched) == 2
    launches = next(trace for trace in figure["data"] if trace["name"] == "launch")
    assert len(launches["x"]) == len(ran.history)
    assert not next(trace for trace in figure["data"] if trace["name"] == "waiting").get("x")


def test_a_page_of_a_running_campaign_loads_itself_again(inputs):
    refresh = '<meta http-equiv="refresh" content="30">'
    assert refresh in page(replace(inputs, running=True))
    assert refresh not in page(inputs)


def test_speed_ups_are_a_ribbon_that_an_outlier_does_not_squeeze():
    ratios = (1.1, 1.2, 50.0, 1.15, 0.9)
    gains = [Gain(("bcast", 2, 8**i), 1e-6, 1e-8, r * 1e-6, r * 1e-8) for i, r in enumerate(ratios, start=1)]
    bounds = {gain.slot: 0.94 for gain in gains[:4]} | {gains[0].slot: 1.05}
    drawn = json.loads(curves(gains, bounds))
    traces = {trace["name"]: trace for trace in drawn["data"]}
    low, high = (10**end if drawn["layout"]["yaxis2"].get("type") == "log" else end
                 for end in drawn["layout"]["yaxis2"]["range"])  # fmt: skip
    assert low < 0.9 and high < 5
    speed_ups = traces["speed-up"]
    assert speed_ups["y"][2] < high and speed_ups["marker"]["symbol"][2] == "diamond-open"
    assert traces["outliers"]["text"] == ["", "", "50×", "", ""]
    assert speed_ups["text"][2].startswith("50×")
    ribbon = traces["95 % interval"]
    assert ribbon["y"][0] == pytest.approx(gains[0].interval[1], rel=1e-4)
    assert ribbon["y"][-1] == pytest.approx(gains[0].interval[0], rel=1e-4)
    assert speed_ups["error_y"]["array"][0] == pytest.approx(gains[0].interval[1] - 1.1, rel=1e-4)
    assert ribbon["x"] == [*speed_ups["x"], *speed_ups["x"][::-1]]
    excluded = traces["loss excluded"]["y"]
    assert excluded[:4] == [1.0, 0.94, 0.94, 0.94]  # nothing above 1 is a loss
    assert set(excluded[4:]) == {excluded[4]} and excluded[4] < 0.9  # of the last size no loss is excluded
    assert "loss excluded" not in curves(gains)


def test_effects_are_ratios_with_their_intervals(document, ran):
    figure = next(
        f
        for f in document.figures
        if f["layout"]["xaxis"].get("title", {}).get("text", "").startswith("latency at")
    )
    trace = figure["data"][0]
    assert trace["y"][-1] == "UCX_TLS"  # the largest on top
    effect = ran.effects[0]["UCX_TLS"]
    low, high = effect.interval()
    assert trace["x"][-1] == pytest.approx(2.718281828459045**effect.effect)
    assert trace["x"][-1] + trace["error_x"]["array"][-1] == pytest.approx(2.718281828459045**high)
    assert trace["x"][-1] - trace["error_x"]["arrayminus"][-1] == pytest.approx(2.718281828459045**low)


def test_all_sections_have_their_numbers_in_words(document):
    text = " ".join(document.texts)
    for wanted in (
        "speed-up over 5 sizes, geometric mean",
        "in the search, not verified",
        "5 of 5",
        "2 failed, 2 min 18 s in launches",
        "Not verified: the leading setting was picked from 12",
        "What you gain: default against tuned",
        "MPI_Allreduce on 2 ranks",
        "Pareto front",
        "What matters",
        "How the campaign went",
        "needs ucx_tl:xpmem",
        "mpirun --mca pml ucx",
        "Open MPI 5.0.11, UCX 1.20.1",
        "1.20.1: self, sysv, tcp",
        "node1",
    ):
        assert wanted in text
    cells = [row for row in document.rows if row and row[0] == "64 KiB"]
    assert cells == [["64 KiB", "rabenseifner", "1.52× (1.45 … 1.60)", "5.56 ± 0.11", "8.48 ± 0.12"]]
    assert ["13", "crashed", "signal 6 on rank 1", "UCX_TLS=self,tcp, coll_han=off"] in document.rows
    assert ["map_by", "all", "needs numa:2"] in document.rows
    assert ["UCX_RNDV_THRESH", "4k", "auto"] in [row[:3] for row in document.rows]


def test_the_best_settings_by_size_say_why_they_are_not_chosen(inputs, document):
    map_ = document.rows[next(i for i, row in enumerate(document.rows) if row[:1] == ["what is set"]) :]
    assert map_[0][1:] == ["8 B", "512 B", "4 KiB", "64 KiB", "1 MiB"]
    rows = map_[1 : 2 + OTHERS]
    assert rows[0][:2] == ["UCX_RNDV_THRESH=4k, UCX_TLS=self,sysv", "leading, not verified"]
    assert all(row[1].startswith("not chosen: ") and len(row) == 7 for row in rows[1:])
    assert any(row[1].endswith("worse overall") for row in rows[1:])
    assert any(cell == "~" for row in rows for cell in row) and rows[0][2] == "1.44×"
    rival = next(o.trial.point for o in inputs.history.sweeps if o.ok)
    refused = VerificationRound(replace(inputs.recommendation, point=rival), complete=True)
    beaten = Document(page(replace(inputs, rounds=(refused,)))).rows
    assert [f"not chosen: {refused.against}"] in [row[1:2] for row in beaten]
    assert 'id="why"' not in page(replace(inputs, baseline={}))


def test_a_size_where_nothing_differs_has_no_ratio(inputs):
    same = Gain(("allreduce", 2, 8), 1e-6, 1e-8, 1.01e-6, 1e-8)
    alike = replace(inputs, recommendation=replace(inputs.recommendation, rules=(), gains=(same,)))
    assert ["8 B", "~ (0.98 … 1.04)", "1.00 ± 0.01", "1.01 ± 0.01"] in Document(page(alike)).rows


def test_node_hours_and_when_they_are_paid_back_stand_in_the_tiles(inputs):
    spent_s = sum(o.duration_s for o in inputs.history)
    texts = Document(page(replace(inputs, nodes=4))).texts
    at = texts.index("node-hours of launches")
    assert texts[at + 1 : at + 3] == [f"{spent_s * 4 / 3600:.3g}", "paid back by a verified setting only"]
    holds = replace(inputs.recommendation.provenance, checked=Checked.HOLDS)
    twice = replace(inputs.recommendation, provenance=holds, average=(2.0, 1.5, 4.0))
    text = " ".join(Document(page(replace(inputs, recommendation=twice))).texts)
    ends = [duration_text(spent_s * share) for share in (2, 4 / 3, 3)]
    assert "paid back after {} ({} … {}) in these calls by default".format(*ends) in text
    even = replace(twice, average=(1.1, 0.9, 1.3))
    assert "… never) in these calls" in page(replace(inputs, recommendation=even))


def test_losing_sizes_are_shown_as_they_are(inputs):
    gains = (
        Gain(("allreduce", 2, 8), 1e-6, 1e-8, 2e-6, 1e-8),
        Gain(("allreduce", 2, 64), 1e-6, 1e-8, 0.5e-6, 1e-8),
    )
    rules = (Rule("allreduce", 2, 0, Point()),)
    losing = Document(
        page(replace(inputs, recommendation=Recommendation(inputs.recommendation.point, rules, gains)))
    )
    assert "0 no clear difference, 1 slower" in losing.texts
    assert ["64 B", "0.50× (0.48 … 0.52)", "1.00 ± 0.01", "0.500 ± 0.010"] in losing.rows
    assert (
        losing.figures[0]["data"][2]["marker"]["color"][1]
        != losing.figures[0]["data"][2]["marker"]["color"][0]
    )


def test_a_simulated_or_unfinished_campaign_says_so(inputs):
    texts = Document(page(replace(inputs, stamp="SIMULATED (uncalibrated)", state="interrupted"))).texts
    assert "SIMULATED (uncalibrated)" in texts
    assert "This campaign is interrupted: figures may still change" in texts


def test_text_from_outside_stays_text(inputs):
    hostile = '</script><script>alert("x")</script><img src=http://example.org/x>'
    trial = Trial(99, Phase.SEARCH, example.SPACE.default)
    history = inputs.history.plus([Observation(trial, Status.CRASHED, reason=hostile, hosts=(hostile,))])
    space = replace(inputs.space, dropped=(Dropped(hostile, None, hostile),))
    document = Document(
        page(replace(inputs, title=hostile, history=history, space=space, use=hostile, exports=[hostile]))
    )
    assert document.fetched == []
    assert not any("alert" in text for kind, name, text in document.scripts if kind == "" and not name)
    assert sum(hostile in text for text in document.texts) >= 5
    assert any(
        hostile in json.dumps(figure, ensure_ascii=False).replace('\\"', '"') for figure in document.figures
    )


@pytest.mark.parametrize("n", [0, 1, 2, 4, 13])
def test_a_page_can_be_made_at_any_time_of_a_campaign(ran, n):
    history = History(ran.history.observations[:n])
    document = Document(page(ReportInput("young", ran.space, example.OBJECTIVES, history, state="running")))
    assert document.open == []
    assert "young" in document.texts
    assert str(n) in document.texts


@pytest.mark.slow
def test_a_page_of_two_thousand_launches_is_below_three_mebibytes():
    space = Space("many", tuple(Parameter(f"p{i}", (1, 2, 3, 4), 1, ordered=True) for i in range(9)))
    many = example.campaign(space=space, n_search=2000, time_s=lambda point, cell: 1e-6 * point.get("p0", 1))
    made = page(
        ReportInput(
            "many", space, example.OBJECTIVES, many.history, many.recommendation, many.baseline, many.effects
        )
    )
    assert len(made.encode()) < 3 * 2**20
    assert "worst are not drawn" in made


def test_one_objective_has_no_plane_to_draw(inputs):
    one = replace(
        inputs, objectives=(Objective("latency", max_bytes=8192),), effects=inputs.effects[:1], screening=None
    )
    document = Document(page(one))
    assert "Best setting" in document.texts
    assert "Pareto front" not in document.texts


def test_the_verification_shows_promise_and_fresh_launches_side_by_side(inputs):
    slots = [gain.slot for gain in inputs.recommendation.gains]
    tuned = (True, False, False, True, False, True, True, False)
    faster = {slot: math.log(1.2) for slot in slots[1:]} | {slots[0]: math.log(0.9)}
    logs = tuple(
        tuple((slot, 1e-3 * k - side * gain) for slot, gain in faster.items()) for k, side in enumerate(tuned)
    )
    blocks = (Block(tuned, logs),) * 3
    judged = compare(blocks, SequentialDesign())
    launches = inputs.history.observations[:4]
    earlier = VerificationRound(inputs.recommendation, launches, complete=True)
    last = VerificationRound(inputs.recommendation, launches, blocks, comparisons=judged, complete=True)
    measured = replace(inputs.recommendation, average=(1.1, 1.0, 1.2))
    document = Document(page(replace(inputs, rounds=(earlier, last), recommendation=measured)))
    row = next(r for r in document.rows if r[0] == "8 B" and len(r) == 5 and r[3] == "12")
    assert row[1].startswith("1.44×")
    assert row[2].startswith("0.90× (")
    assert row[4] == "slower"
    assert "fresh launches, this size by itself" in document.texts  # the other table's are drawn to the mean
    n_rules = sum(bool(rule.choice) for rule in inputs.recommendation.rules)
    assert [text for text in document.texts if text.startswith("Round ")] == [
        f"Round {n}: UCX_RNDV_THRESH=4k, UCX_TLS=self,sysv, {n_rules} rules" for n in (2, 1)
    ]
    names = [[trace.get("name") for trace in figure["data"]] for figure in document.figures]
    drawn = document.figures[names.index(["one launch", "in the search", "fresh launches"])]
    assert len(drawn["data"][0]["x"]) == 12 * len(slots)
    assert drawn["data"][2]["y"][0] == pytest.approx(0.9, rel=1e-3)
    assert any(text.endswith("on 4 fresh launches, not verified") for text in document.texts)


def test_a_verification_that_found_nothing_is_said_plainly(inputs):
    stay = Provenance(
        verified="verified: nothing was better than the stack's own defaults on 8 fresh launches",
        checked=Checked.REFUSED,
    )
    nothing = Recommendation(inputs.space.default, (), provenance=stay)
    text = " ".join(Document(page(replace(inputs, recommendation=nothing, idle=True))).texts)
    assert "Leave the stack's own defaults as they are." in text
    assert "latency, the stack's own" in text
    assert "latency in the search" not in text
    assert f"This was {stay.verified}." in text
    assert "Default against tuned" not in text


def test_what_is_not_verified_is_only_offered_for_trying(inputs):
    lines = (
        ("Use now", "the stack's own defaults", ""),
        ("Promising", "UCX_TLS=self,sysv: 1.08× (1.02 … 1.15) on 12 fresh launches", ""),
        ("Go on with", "about 8 minutes more:", "python3 -m autotune c"),
    )
    html = page(replace(inputs, ending=lines, use="mpirun x", use_notes=["a note"]))
    do, trying = html.index('id="do"'), html.index('id="try"')
    told = html[do:trying]
    places = [told.index(f"<dt>{label}</dt>") for label, *_ in lines]
    assert places == sorted(places)
    assert '<pre id="go-on">python3 -m autotune c</pre>' in told
    assert "mpirun x" not in told and "Change " not in told
    assert '<pre id="use">mpirun x</pre>' in html[trying:] and "a note" in html[trying:]
    assert 'class="gain faster"' not in html
    assert "autotune install" not in html


def test_the_page_answers_what_a_reader_asks_in_that_order(inputs):
    html = page(inputs)
    asked = ("do", "gain", "set", "covered", "upgrade", "front", "screening", "course", "every", "machine")
    where = [html.index(f' id="{name}"') for name in asked]
    assert where == sorted(where)
    assert [name for name in asked if f'<a href="#{name}">' not in html] == []
    assert html.index("<main>") < where[0]
    assert html.index("</main>") > where[-1]


def test_every_table_has_a_caption_and_scrolls_in_a_named_region(inputs):
    html = page(inputs)
    assert html.count("<table") == html.count("<caption>") == html.count('role="region" tabindex="0"') > 8
    assert html.count('class="plot" role="img" aria-label="') == html.count('class="plot"')


def test_all_launches_are_in_a_table_that_sorts(document, inputs):
    made = [row for row in document.rows if row[1:2] and row[1] in ("baseline", "screening", "search")]
    assert [row[0] for row in made] == [str(o.trial.number) for o in inputs.history]
    assert [made[12][i] for i in (0, 3, 4)] == ["13", "crashed", "UCX_TLS=self,tcp, coll_han=off"]
    assert page(inputs).count('aria-sort="none"') == 6


def test_launches_of_a_discovery_are_named_by_what_they_changed(inputs):
    """A discovery's launches set knobs that the searched space does not have."""
    knob = Parameter("UCX_FLOWS", ("auto", "8"), "auto")
    whole = replace(inputs.space, parameters=(*inputs.space.parameters, knob))
    first = next(o for o in inputs.history if o.trial.subject is Subject.SWEEP)
    trial = replace(first.trial, point=Point.of({**whole.unset, "UCX_FLOWS": "8"}), phase=Phase.DISCOVERY)
    history = History(tuple(replace(o, trial=trial) if o is first else o for o in inputs.history))
    rows = Document(page(replace(inputs, whole=whole, history=history))).rows
    assert next(row for row in rows if row[1:2] == ["discovery"])[-1] == "UCX_FLOWS=8"


@pytest.mark.parametrize(
    ("values", "description", "unit"),
    [
        (("auto", "4k", "64k"), "message size from which rendezvous is used", "bytes"),
        ((1024, 2048), "largest message without a handshake, in bytes", "bytes"),
        (("auto", "rkey_ptr"), "scheme for messages of so many bytes", ""),
        ((1, 8), "rails that share a message size", ""),
    ],
)
def test_a_unit_is_read_and_not_guessed(values, description, unit):
    parameter = Parameter(
        "x", values, values[0], ordered=not isinstance(values[0], str), description=description
    )
    assert _meaning(parameter) == (unit, description)


def test_other_calls_have_their_own_table_with_price_and_decision(inputs):
    slow = OtherCall("pingpong", 8192, 1e-6, 1.7e-6, 0.6, 0.57, 0.63, 0.02, 0.58, OtherDecision.SLOWER)
    even = OtherCall("barrier", 0, 2e-6, 2e-6, 1, 0.9, 1.1, 0.03, 0.95, OtherDecision.NOT_SLOWER, tight=True)
    source = Provenance(checked=Checked.HOLDS, verified="verified: x")
    holds = replace(inputs.recommendation, provenance=source)
    asked = replace(inputs, exports=["c/export/ucx.conf"], use="mpirun …", recommendation=holds)
    document = Document(page(replace(asked, recommendation=replace(holds, others=(even, slow)))))
    assert ["pingpong", "8 KiB", "1.00", "1.70", "0.60× (0.57 … 0.63)", "slower"] in document.rows
    assert ["barrier, tight", "—", "2.00", "2.00", "1.00× (0.90 … 1.10)", "not slower"] in document.rows
    text = " ".join(document.texts)
    assert "For programs that mostly call allreduce: it makes other calls slower, 0.60×" in text
    assert "-m autotune install c --choice recommended" in text
    other = replace(asked, recommendation=replace(holds, others=(slow,)), harmless="best of all")
    beside = " ".join(Document(page(other)).texts)
    assert "For everybody's jobs this command installs the best of all:" in beside
    assert "--choice" not in beside
    without = " ".join(Document(page(asked)).texts)
    assert "What else it changes" not in without
    assert "This command installs the files below for you" in without
