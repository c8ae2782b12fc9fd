"""Logs and tables as they stand in public material, each kind as small as it can be."""

from pathlib import Path

import pytest

from autotune.cli import main
from autotune.errors import TableError
from autotune.importers import read

FIELD = Path(__file__).parents[2] / "data/field"


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        (
            "b1_jsrun.log",
            [("allreduce", 8, 4, 10.05), ("allreduce", 8, 8, 10.84), ("allreduce", 8, 16, 11.19)],
        ),
        ("c1_two_tables.log", [("allreduce", 4, 4, 12.45), ("allreduce", 4, 8, 12.41)]),
        ("d1_ibarrier.log", [("ibarrier", 4, 0, 2505.98), ("ibarrier_overlap", 4, 0, 1294.91)]),
        ("d2_indented.log", [("alltoall", 8, 1, 12.46), ("alltoall", 8, 2, 12.05)]),
    ],
)
def test_a_log_of_the_field_is_read(name, rows):
    found = read((FIELD / name).read_text(), name)
    assert [(m.collective, m.comm_size, m.message_bytes, round(m.latency_us, 2)) for m in found] == rows


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("a1_pbs_walltime.log", ":8: the run failed: =>> PBS: job killed: walltime"),
        ("a2_mpirun_rsh.log", "terminated with signal 7"),
    ],
)
def test_a_run_of_the_field_that_failed_is_refused(name, said):
    with pytest.raises(TableError) as refused:
        read((FIELD / name).read_text(), name)
    assert said in refused.value.message


def test_a_table_that_import_wrote_is_judged_as_the_log_was(capsys):
    assert main(["guidelines", str(FIELD / "e1_own_table.csv")]) == 1
    assert "2 of 3 guidelines violated" in capsys.readouterr().out
