"""Every view works on every journal: figures that no measurement gives are believed nowhere."""

import contextlib
import io
import json
import math
import random

import pytest

from autotune.cli import main
from autotune.history.trial import Cell, Estimate, Observation, Phase, Status, Trial
from autotune.recommend.recommendation import Gain
from autotune.space import Point
from tests.golden.test_campaigns import CAMPAIGNS, GOLDEN

WILD = (
    *(0, 0.0, -1e-6, 5e-324, 1e-300, 1e-12, 1e12, 1e300, -1, 2**62, 10**30),
    *(math.nan, math.inf, -math.inf, None),
)
FIGURES = ("median_s", "sem_s", "low_s", "high_s", "n", "outliers")
VIEWS = (
    ["status", "DIR"],
    ["status", "DIR", "--json"],
    ["history", "DIR"],
    ["export", "DIR", "--out", "DIR/files"],
    ["compare", "DIR", "DIR"],
    ["report", "DIR", "--out", "DIR/page.html"],
)


def made_wild(event, rng):
    """The observation with wild figures in some places; whole numbers stay whole, as far as they can."""
    for estimate in event["estimates"]:
        if rng.random() < 0.3:
            name = rng.choice(FIGURES)
            estimate[name] = rng.choice(WILD)
            if name in ("n", "outliers"):
                estimate[name] = rng.choice([-1, 0, 1, 2**62])
            elif name == "sem_s" and rng.random() < 0.5:
                estimate[name] = 2500 * (estimate["median_s"] or 1.0)
    event["duration_s"], event["queue_s"] = rng.choice(WILD), rng.choice(WILD)
    event["extra"] = {name: rng.choice(WILD) for name in ("memory_bytes", "overhead_s")}


@pytest.mark.parametrize("seed", [0, 1, 3, 5])
@pytest.mark.parametrize("name", CAMPAIGNS)
def test_every_view_works_on_a_journal_with_wild_figures(name, seed, tmp_path):
    rng = random.Random(seed)
    events = [json.loads(line) for line in (GOLDEN / name / "journal.jsonl").read_text().splitlines()]
    observed = [event for event in events if event["event"] == "observation"]
    for event in rng.sample(observed, len(observed) if seed == 5 else seed + 1):
        made_wild(event, rng)
    (tmp_path / "journal.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    for words in VIEWS:
        complaints = io.StringIO()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(complaints):
            code = main([word.replace("DIR", str(tmp_path)) for word in words])
        assert code == 0 or "recommends nothing" in complaints.getvalue(), complaints.getvalue()


@pytest.mark.parametrize(
    ("field", "value"),
    [("name", -1), ("apply", 5), ("values", [["a"]]), ("values", "ab"), ("per_size", "no"), ("when", 5)],
)
def test_a_space_of_other_types_is_a_damaged_description(field, value, tmp_path, capsys):
    events = [json.loads(line) for line in (GOLDEN / "local" / "journal.jsonl").read_text().splitlines()]
    for event in events:
        if event["event"] == "campaign":
            event["space"]["parameters"][0][field] = value
    (tmp_path / "journal.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    for words in (*VIEWS, ["compare", "--guidelines", "DIR"]):
        assert main([word.replace("DIR", str(tmp_path)) for word in words]) in (2, 3)
        assert capsys.readouterr().err.startswith("autotune: ")


@pytest.mark.parametrize("times", [0, 2500, 1e30, math.inf, math.nan])
def test_the_interval_of_a_gain_is_a_number_whatever_the_error(times):
    low, high = Gain(("allreduce", 2, 8), 1e-6, times * 1e-6, 2e-6, 1e-8).interval
    assert not low > 2.0
    assert not high < 2.0


@pytest.mark.parametrize("sem_s", [2500 * 1e-6, math.nan, -1.0])
def test_a_wild_cell_is_not_usable_and_says_so(sem_s):
    estimate = Estimate(Cell("allreduce", 2, 8), 1e-6, sem_s, 20)
    seen = Observation(Trial(1, Phase.SEARCH, Point()), Status.OK, (estimate,)).believed()
    assert seen.status is Status.INVALID
    assert "standard error" in seen.reason
