"""Guidelines on the real stack: an algorithm that is forced and bad shows against others that do the same."""

import pytest

from tests.program import autotune
from tests.schemas import answer

pytestmark = [pytest.mark.mpi, pytest.mark.timeout(300)]

FORCED = {
    "coll_tuned_use_dynamic_rules": "true",
    "coll_tuned_bcast_algorithm": "3",  # pipeline: a chain of ranks, segment by segment
    "coll_tuned_bcast_algorithm_segmentsize": "32",
}


def test_a_linear_chain_in_tiny_segments_is_flagged_where_it_is_forced(tmp_path):
    """64 KiB in 2048 messages take many times as long as scatter and allgather."""
    words = [
        "conf=allreduce_local",
        "collective=[bcast,scatter,allgather]",
        "sizes=[32k,64k]",
        "probe.budget_s=4",
    ]
    words += [f"mpi.mca.{name}={value}" for name, value in FORCED.items()]
    for k in range(3):
        done = autotune("measure", *words, "--out", f"{k}.csv", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    done = autotune("compare", "--guidelines", "0.csv", "1.csv", "2.csv", "--json", cwd=tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    flagged = [v for v in answer(done.stdout)["violations"] if v["slower"][0] == "bcast"]
    assert ["bcast", 2, 2**16] in [v["slower"] for v in flagged if v["kind"] == "composition"]
    parts = [[part["slot"][0] for part in v["faster"]] for v in flagged if v["kind"] == "composition"]
    assert parts.count(["scatter", "allgather"]) == len(parts)
