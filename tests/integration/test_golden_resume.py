"""A campaign that an earlier version began is continued as that version would have, but for what is searched.

What stands in its journal stays; design and baseline are made as planned. What is searched and verified
from there on follows the rules of this version, which searches and verifies otherwise.
"""

import json

import pytest

from autotune.history.journal import opened
from tests.golden.test_campaigns import GOLDEN, rounded
from tests.program import autotune

WORDS = (
    *("conf=allreduce_8node", "campaign.dir=simulated", "cluster.nodes=2", "cluster.ppn=4"),
    *("sizes=[8,8k,1M]", "budget.launches=20"),
)
LINES = (GOLDEN / "simulated" / "journal.jsonl").read_bytes().splitlines(keepends=True)


def planned(lines):
    """Trials and observations that no search chose: neither depends on when and where they were made."""
    events = [opened(line.rstrip(b"\n")).event for line in lines]
    found = [e for e in events if e["event"] in ("trial", "observation")]
    fresh = {e["number"] for e in found if e.get("phase") in ("search", "verify", "starts")}
    ours = {"timeout_s"}  # of a single trial, which that version had none of
    kept = ({k: v for k, v in e.items() if k not in ours} for e in found)
    return [rounded(e) for e in kept if e.get("number", e.get("trial")) not in fresh]


@pytest.mark.parametrize(
    ("whole", "torn"),
    [(9, 0), (36, 0), (46, 200)],
    ids=["in the screening", "factors being freed", "a trial of the verification torn"],
)
def test_it_goes_on_with_the_same_trials_and_sees_the_same(tmp_path, whole, torn):
    directory = tmp_path / "simulated"
    directory.mkdir()
    (directory / "journal.jsonl").write_bytes(b"".join(LINES[:whole]) + LINES[whole][:torn])
    done = autotune(*WORDS, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    continued = (directory / "journal.jsonl").read_bytes().splitlines(keepends=True)
    assert continued[:whole] == LINES[:whole]
    assert planned(continued) == planned(LINES)
    assert json.loads(continued[-1])["state"] == "complete"
