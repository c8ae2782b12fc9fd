"""Patterns on this machine's MPI: whole campaigns to their files, and grids of ranks."""

import csv
import io

import pytest

from autotune.collectives import COLLECTIVES, MEASURED, Pattern
from tests import program
from tests.asking import probe_request
from tests.integration.mpirun import CROWDED, probe

pytestmark = [pytest.mark.mpi, pytest.mark.timeout(300)]

SHORT = ("sizes=[8,64k]", "probe.budget_s=0.3", "budget.launches=2", "baseline.launches=1")


@pytest.mark.parametrize(
    ("name", "its"),
    [
        ("pingpong_local", "bidirectional"),
        ("halo_local", "halo_neighbor"),
        ("rma_local", "put_fence"),
        ("overlap_local", "halo_overlap"),
    ],
)
def test_the_shipped_scenarios_come_to_their_files(tmp_path, name, its):
    done = program.autotune(f"conf={name}", *SHORT, "verify.enabled=false", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    directory = tmp_path / "campaigns" / name
    assert (directory / "export/openmpi-mca-params.conf").exists()
    assert not list(directory.glob("export/*rules*"))  # nothing could follow them
    told = program.autotune("history", str(directory), "--format", "csv", cwd=tmp_path).stdout
    rows = [row for row in csv.DictReader(io.StringIO(told)) if row["collective"] == its]
    assert {row["message_bytes"] for row in rows if row["status"] == "ok"} == {"8", "65536"}
    assert not [row for row in rows if row["status"] == "wrong_result"]
    assert program.autotune("report", str(directory), cwd=tmp_path).returncode == 0


@pytest.mark.parametrize("timing", ["native", "python"])
def test_halos_of_a_grid_of_four_ranks_are_right(tmp_path, timing):
    names = [name for name in MEASURED if COLLECTIVES[name].pattern is Pattern.NEIGHBOURS]
    options = {"budget_s": 30, "precision": 0.9, "max_samples": 10, "timing": timing}
    result = probe(tmp_path, probe_request(names, (0, 3, 4096), ranks=4, **options), *CROWDED, ranks=4).result
    assert {(cell.collective, cell.status) for cell in result.cells} == {(name, "ok") for name in names}
