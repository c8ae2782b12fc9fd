"""What stands at the head of our files is read back by the module that wrote it."""

import pytest

from autotune.exporters.origin import commented, is_ours, nodes_of, other_version, remarks
from autotune.recommend.recommendation import Provenance, Recommendation
from autotune.space import Point
from tests.golden.test_exports import OURS, SUBJECTS, exported


@pytest.mark.parametrize("nodes", [1, 8])
@pytest.mark.parametrize("stack", ["Open MPI 5.0.11, UCX 1.20.1", ""])
def test_the_nodes_of_a_campaign_are_read_back(nodes, stack):
    source = Provenance("mine", "2026-01-31", stack, nodes, 36 * nodes, stamp="SIMULATED (3 nodes)")
    head = remarks(Recommendation(Point(), (), provenance=source))
    for sign in ("#", "--", "//"):
        assert nodes_of("\n".join(commented(head, sign))) == nodes
    assert nodes_of("\r\n".join(commented(head))) == nodes
    assert is_ours("\n".join(commented(head)))


def test_somebody_elses_file_says_nothing():
    assert nodes_of("pml = ucx\n# 8 nodes, 64 ranks\n") is None
    assert not is_ours("# written by hand\npml = ucx\n")


@pytest.mark.parametrize("name", OURS)
def test_every_commented_file_says_its_nodes(name):
    for file, text in exported(name).items():
        if not file.endswith(".json"):
            assert nodes_of(text) == SUBJECTS[name].provenance.nodes, file


def test_another_version_than_the_one_here_is_named():
    head = "\n".join(
        commented(
            remarks(Recommendation(Point(), (), provenance=Provenance(stack="Open MPI 5.0.10, UCX 1.20.1")))
        )
    )
    assert other_version(head, "5.0.10") == ""
    assert "measured on Open MPI 5.0.10, and 5.0.11 is here" in other_version(head, "5.0.11")
    assert other_version("pml = ucx\n", "5.0.11") == ""
