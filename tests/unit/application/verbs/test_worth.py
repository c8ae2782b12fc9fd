"""``worth`` on a recorded campaign of 8 ranks on 2 nodes."""

import shutil

import pytest

from autotune.application.verbs.worth import _payback
from autotune.application.worth import Worth
from autotune.cli import main
from tests.golden.test_campaigns import GOLDEN


def test_calls_on_other_communicators_than_were_measured_are_said_to_be(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(GOLDEN / "simulated", "campaign")
    said = {}
    for ranks, code in ((8, 0), (12, 0), (64, 2)):
        (tmp_path / "calls.csv").write_text(
            f"collective,comm_size,message_bytes,count\nallreduce,{ranks},8,1e6\n"
        )
        assert main(["report", "campaign", "--worth", "calls.csv", "--application-s", "100"]) == code
        said[ranks] = "".join(capsys.readouterr())
    assert "NOT THE SAME SIZE: calls on 12 ranks, measured on 8 ranks on 2 node(s)" in said[12]
    assert "calls nothing of what was measured" in said[64]
    assert "a factor of two" in said[64]
    assert "NOT THE SAME" not in said[8]


@pytest.mark.parametrize(
    "ends, said",
    [
        ((2.0, 1.0, 4.0), "paid back after 5 min 0 s (2 min 30 s … 10 min) of application time"),
        ((2.0, -1.0, 4.0), "paid back after 5 min 0 s (2 min 30 s … never) of application time"),
        ((-0.1, -1.0, 4.0), "whether it is paid back is not known, after 2 min 30 s of application time"),
        ((-2.0, -4.0, -1.0), "nothing pays it back"),
    ],
)
def test_what_pays_it_back_is_said_as_far_as_it_is_known(ends, said):
    assert _payback(Worth(1e6, 0.0, *ends, 60.0, 10.0)).startswith(said)
