"""A campaign that an earlier version began is continued by this one as that version would have."""

import json

import pytest

from tests.golden.test_campaigns import GOLDEN, rounded
from tests.program import autotune

WORDS = (
    *("conf=allreduce_8node", "campaign.dir=simulated", "cluster.nodes=2", "cluster.ppn=4"),
    *("sizes=[8,8k,1M]", "budget.launches=20"),
)
LINES = (GOLDEN / "simulated" / "journal.jsonl").read_bytes().splitlines(keepends=True)


def events(lines):
    """Trials and observations: neither depends on when and where they were made."""
    found = [json.loads(line) for line in lines]
    return [rounded(e) for e in found if e["event"] in ("trial", "observation")]


@pytest.mark.parametrize(
    ("whole", "torn"),
    [(9, 0), (24, 40), (36, 0), (46, 200)],
    ids=["in the screening", "a search trial torn", "factors being freed", "in the verification"],
)
def test_it_goes_on_with_the_same_trials_and_sees_the_same(tmp_path, whole, torn):
    directory = tmp_path / "simulated"
    directory.mkdir()
    (directory / "journal.jsonl").write_bytes(b"".join(LINES[:whole]) + LINES[whole][:torn])
    done = autotune(*WORDS, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    continued = (directory / "journal.jsonl").read_bytes().splitlines(keepends=True)
    assert continued[:whole] == LINES[:whole]
    assert events(continued) == events(LINES)
    assert json.loads(continued[-1])["state"] == "complete"
