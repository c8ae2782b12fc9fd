"""Documents for programs are JSON as its standard has it, whatever became of a verification."""

import json
import re
import shutil
from dataclasses import replace

import pytest

from autotune.cli import main
from autotune.recommend.recommendation import Checked, Recommendation
from autotune.verification.rounds import Verifier
from tests.golden.test_campaigns import GOLDEN

CHANGED = {
    Checked.NOT: lambda verdict, defaults: None,
    Checked.UNFINISHED: lambda verdict, defaults: replace(verdict, complete=False),
    Checked.REFUSED: lambda verdict, defaults: replace(verdict, recommendation=defaults, complete=True),
    Checked.UNUSABLE: lambda verdict, defaults: replace(
        verdict, recommendation=defaults, rounds=(), complete=True
    ),
}
"""How a verification can end without a verified setting → what becomes of an unfinished verdict."""

WORDS = (
    "status simulated",
    "compare simulated local",
    "compare --winners simulated local",
    "compare --guidelines simulated",
    "report simulated --worth calls.csv --application-s 100",
    "plan conf=allreduce_8node hydra/launcher=simulated sizes=[8] campaign.dir=simulated",
)
"""Verbs that tell something of a campaign without launching anything."""

NO_NUMBER = re.compile(r"\b(nan|inf)\b|e[+-]?[23]\d\d\b", re.IGNORECASE)


def strictly(text):
    def refused(constant):
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(text, parse_constant=refused)


@pytest.fixture(params=CHANGED, ids=str)
def checked(request, tmp_path, monkeypatch):
    """A working directory with two campaigns, of which no setting is verified."""
    unchanged = Verifier.verdict

    def verdict(self, history):
        found = unchanged(self, history)
        return found and CHANGED[request.param](found, Recommendation(self.space.untouched, ()))

    monkeypatch.setattr(Verifier, "verdict", verdict)
    for name in ("simulated", "local"):
        (tmp_path / name).mkdir(mode=0o700)
        shutil.copy(GOLDEN / name / "journal.jsonl", tmp_path / name)
    (tmp_path / "calls.csv").write_text("collective,comm_size,message_bytes,count\nallreduce,8,8,1e6\n")
    monkeypatch.chdir(tmp_path)
    return request.param


def test_of_a_campaign_without_a_verified_setting_every_document_is_json(checked, tmp_path, capsys):
    for words in WORDS:
        default_alone = "--worth" in words and checked in (Checked.REFUSED, Checked.UNUSABLE)
        assert (main([*words.split(), "--json"]) == 2) is default_alone, words  # which gains nothing
        told = capsys.readouterr()
        assert default_alone or strictly(told.out), words
        assert (main(words.split()) == 2) is default_alone, words
        for text in (told.out, capsys.readouterr().out):
            assert not NO_NUMBER.search(text), words
    assert main(["status", "simulated", "--json"]) == 0
    told = strictly(capsys.readouterr().out)["verdict"]
    assert (told["checked"], told["max_slowdown"]) == (str(checked), None)
    for format_name in ("json", "summary"):
        assert main(["export", "simulated", "--format", format_name, "--out", "files"]) in (0, 1)
    strictly((tmp_path / "files" / "recommendation.json").read_text())
    assert not NO_NUMBER.search((tmp_path / "files" / "summary.md").read_text())
