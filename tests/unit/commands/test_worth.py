"""``worth`` on a recorded campaign of 8 ranks on 2 nodes."""

import shutil

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
        assert main(["worth", "campaign", "--calls", "calls.csv", "--application-s", "100"]) == code
        said[ranks] = "".join(capsys.readouterr())
    assert "NOT THE SAME SIZE: calls on 12 ranks, measured on 8 ranks on 2 node(s)" in said[12]
    assert "calls nothing of what was measured" in said[64]
    assert "a factor of two" in said[64]
    assert "NOT THE SAME" not in said[8]
