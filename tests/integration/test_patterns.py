"""Patterns on this machine's MPI: whole campaigns to their files, and grids of ranks."""

import csv
import io
import json
import os

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


PLANTED = {
    "eager": ({".openmpi/mca-params.conf": "btl_sm_eager_limit = 96\n"}, "default", "btl_sm_eager_limit"),
    "rendezvous": (
        {
            ".openmpi/mca-params.conf": "pml = ucx\nopal_common_ucx_tls = any\nopal_common_ucx_devices = any",
            "ucx.conf": "UCX_RNDV_THRESH=0\n",
        },
        "ucx",
        "UCX_RNDV_THRESH",
    ),
}
"""A slow setting in a user's own files → these, who moves messages, and what takes it back. With 64 bytes,
less than a header, Open MPI 5.0.11 ends as it starts."""


@pytest.mark.parametrize("seed", range(int(os.environ.get("PLANTED_SEEDS", "1"))))
@pytest.mark.parametrize("kind", PLANTED)
def test_a_slow_setting_in_a_users_own_files_is_found(tmp_path, kind, seed):
    files, pml, parameter = PLANTED[kind]
    for name, text in files.items():
        (tmp_path / "home" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "home" / name).write_text(text)
    words = ("pattern=pingpong", "sizes=[512,2k]", f"fix.pml={pml}", "proposer=random", "objectives=latency")
    limits = ("probe.budget_s=0.1", "launch.patience_s=0", "baseline.launches=2", "budget.launches=6")
    off = ("screening.enabled=false", "verify.enabled=false", "export=[json]", "confirm.share=0")
    home = str(tmp_path / "home")
    done = program.autotune(
        "conf=pingpong_local", *words, *limits, *off, f"seed={seed}", cwd=tmp_path, HOME=home
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (exported,) = (tmp_path / "campaigns/pingpong_local/export").glob("*.json")
    document = json.loads(exported.read_text())
    assert parameter in " ".join(document["provenance"]["env"]), done.stdout
    assert {gain["message_bytes"] for gain in document["gains"] if gain["default_s"] > 1.2 * gain["tuned_s"]}


@pytest.mark.parametrize("timing", ["native", "python"])
def test_halos_of_a_grid_of_four_ranks_are_right(tmp_path, timing):
    names = [name for name in MEASURED if COLLECTIVES[name].pattern is Pattern.NEIGHBOURS]
    options = {"budget_s": 30, "precision": 0.9, "max_samples": 10, "timing": timing}
    result = probe(tmp_path, probe_request(names, (0, 3, 4096), ranks=4, **options), *CROWDED, ranks=4).result
    assert {(cell.collective, cell.status) for cell in result.cells} == {(name, "ok") for name in names}
