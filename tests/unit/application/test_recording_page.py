"""The page of a recording."""

import json
import re
import shutil
from pathlib import Path

from autotune.application.documents import keep_floor
from autotune.application.floor import Floor
from autotune.cli import main
from autotune.errors import ExitCode
from autotune.recommend.recommendation import Gain

RECORDED = Path(__file__).parents[2] / "data" / "recordings" / "calls.json"
FLOOR = Floor(
    (Gain(("allreduce", 4, 8), 40e-6, 2e-6, 200e-6, 3e-6),), ("coll_han=off",), ("coll_han=off",), 9, 60.0
)


def test_one_page_says_what_a_run_loses_and_to_whom(tmp_path, capsys):
    calls = tmp_path / "calls.json"
    shutil.copy(RECORDED, calls)
    keep_floor(FLOOR, calls)
    assert main(["report", str(calls)]) == ExitCode.WELL
    html = (tmp_path / "calls.html").read_text()
    figures = re.findall(r'<script type="application/json">(.*?)</script>', html, re.DOTALL)
    names = [json.loads(figure)["layout"]["meta"]["name"] for figure in figures]
    assert names[0] == "timeline"
    assert sum(name.startswith("durations-") for name in names) == 6
    assert "because rank 3 is late (imbalance, not MPI)" in html
    assert "coll_han=off" in html
    assert "6.2 times what this machine does at its best" in html


def test_a_recording_has_no_figures_of_a_campaign(tmp_path, capsys):
    assert main(["report", str(RECORDED), "--follow", "--out", str(tmp_path / "x.html")]) == ExitCode.MISTAKE
    assert "is a recording" in capsys.readouterr().err
