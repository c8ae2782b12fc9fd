"""Variables of Intel MPI: what its grammar can say is said, the rest is refused."""

from pathlib import Path

import pytest

from autotune.errors import UserError
from autotune.exporters import exporter
from autotune.recommend.recommendation import Provenance, Recommendation
from autotune.space import Point
from tests.golden.test_exports import rule


def export(*rules):
    made = Recommendation(Point(), rules, provenance=Provenance(stack="Intel MPI 2021.18"))
    return exporter("intel").export(made, Path("/site"))


def test_a_file_is_for_one_communicator_size_and_says_so():
    files = export(
        rule("allreduce", 4, 0, algorithm="ring"),
        rule("allreduce", 16, 0, algorithm="knomial"),
        rule("bcast", 16, 0, algorithm="binomial"),
    )
    assert list(files) == ["intel-mpi-env-4.sh", "intel-mpi-env-16.sh"]
    assert "for communicators of 16 ranks" in files["intel-mpi-env-16.sh"]
    assert "I_MPI_ADJUST_BCAST=1:0-2147483647\n" in files["intel-mpi-env-16.sh"]
    assert not any("@" in text for text in files.values())


def test_sizes_that_are_left_to_the_library_are_refused():
    with pytest.raises(UserError, match="allreduce on 4 ranks is left to Intel MPI from 0 bytes on"):
        export(rule("allreduce", 4, 0), rule("allreduce", 4, 1024, algorithm="ring"))


def test_a_collective_that_is_left_to_the_library_altogether_is_left_out():
    (text,) = export(rule("allreduce", 4, 0), rule("bcast", 4, 0, algorithm="ring")).values()
    assert "ALLREDUCE" not in text
    assert "I_MPI_ADJUST_BCAST=3:0-" in text
