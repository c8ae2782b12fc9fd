"""Journals of an earlier version give what they gave then, whatever became of the code that reads them."""

import json
import os
import shutil
import sys
from datetime import datetime
from pathlib import Path

import pytest

from autotune.cli import main
from tests.schemas import answer

GOLDEN = Path(__file__).resolve().parents[1] / "data" / "golden_campaigns"
CAMPAIGNS = ("simulated", "local")


@pytest.fixture(params=CAMPAIGNS)
def campaign(request, tmp_path, monkeypatch):
    """A copy of one campaign in the working directory, as old as it was; and where it is kept."""
    copy = tmp_path / request.param
    copy.mkdir()
    shutil.copy(GOLDEN / request.param / "journal.jsonl", copy)
    written = datetime(2026, 11, 22, 12).timestamp()
    os.utime(copy / "journal.jsonl", (written, written))
    monkeypatch.chdir(tmp_path)
    return request.param, GOLDEN / request.param


def test_the_status_is_the_same(campaign, capsys):
    name, kept = campaign
    assert main(["status", name, "--json"]) == 0
    told = capsys.readouterr().out.replace(sys.executable, "python")
    assert rounded(answer(told)) == rounded(read(kept / "status.json"))


def test_the_history_is_the_same(campaign, capsys):
    name, kept = campaign
    assert main(["history", name]) == 0
    assert capsys.readouterr().out == (kept / "history.csv").read_text()


def test_the_recommendation_and_its_files_are_the_same(campaign):
    name, kept = campaign
    assert main(["export", name, "--format", "json", "--format", "summary", "--out", "files"]) == 0
    made, wanted = (read(folder / "recommendation.json") for folder in (Path("files"), kept))
    assert rounded(made) == rounded(wanted)
    summary = Path("files/summary.md").read_text().replace(sys.executable, "python")
    assert summary == (kept / "summary.md").read_text()


def read(path):
    return json.loads(path.read_text())


def rounded(item):
    """With nine digits: the last ones differ from one processor's logarithm to another's."""
    if isinstance(item, dict):
        return {key: rounded(value) for key, value in item.items()}
    if isinstance(item, list):
        return [rounded(value) for value in item]
    return float(f"{item:.9g}") if isinstance(item, float) else item
