"""Patterns on this machine's MPI: whole campaigns to their files, and grids of ranks."""

import csv
import io
import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

import autotune
from autotune.collectives import COLLECTIVES, MEASURED, Pattern
from tests import program
from tests.asking import FEW_CALLS, probe_request
from tests.integration.mpirun import CROWDED, ROOT, probe

pytestmark = [pytest.mark.mpi, pytest.mark.timeout(300)]

SHORT = ("sizes=[8,64k]", "probe.budget_s=1", "budget.launches=2", "baseline.launches=1")


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
    judged = "objectives=[latency,bandwidth,memory]"
    done = program.autotune(f"conf={name}", *SHORT, judged, "verify.enabled=false", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\d MiB", done.stdout)  # peak memory of a rank
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
    limits = ("probe.budget_s=0.1", "baseline.launches=2", "budget.launches=12")
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
    options = {**FEW_CALLS, "max_samples": 10, "timing": timing}
    result = probe(tmp_path, probe_request(names, (0, 3, 4096), ranks=4, **options), *CROWDED, ranks=4).result
    assert {(cell.collective, cell.status) for cell in result.cells} == {(name, "ok") for name in names}


def test_ranks_and_threads_share_the_cores(tmp_path):
    words = ("conf=hybrid", "budget.launches=8", "verify.enabled=false", "screening.enabled=false")
    short = ("probe.budget_s=0.1", "probe.min_samples=1", "proposer=random")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = program.autotune(*words, *short, cwd=tmp_path, **ROOT, PATH=path)
    assert done.returncode == 0, done.stdout + done.stderr
    told = program.autotune("history", "campaigns/hybrid", "--format", "csv", cwd=tmp_path).stdout
    assert {"1", "2"} <= {row["threads"] for row in csv.DictReader(io.StringIO(told))}


NEW = {
    "collectives.toml": ("[multipair]", '[swap]\nsize = "message"\npattern = "pairs"\n\n'),
    "probe/kernel.c": (
        "    case OP_BIDIRECTIONAL:",
        "    case OP_SWAP:\n"
        "        TIMED(MPI_Sendrecv(send, n, type, x->peers[0], 0, recv, n, type, x->peers[0], 0, comm,\n"
        "                           MPI_STATUS_IGNORE));\n",
    ),
    "probe/messages.py": (
        '    Operation(\n        "multipair",',
        "    Operation('swap', one_block, lambda r, p: [(_pair(r, p), 0)], lambda x: partial(\n"
        "        x.comm.Sendrecv, x.send, *(_pair(x.comm.rank, x.comm.size) or [0]), 0, x.recv),\n"
        "        peers=_pair),\n",
    ),
    "simulate/messages.py": ('    "bidirectional":', '    "swap": _pingpong,\n'),
}
"""Files that a new pattern touches, what it stands before, and itself."""


@pytest.mark.parametrize("timing", ["native", "python"])
def test_a_new_pattern_is_an_entry_in_each_of_four_files(tmp_path, timing):
    package = tmp_path / "new/autotune"
    shutil.copytree(Path(autotune.__file__).parent, package)
    for name, (place, its) in NEW.items():
        text = (package / name).read_text()
        assert text.count(place) == 1, name
        (package / name).write_text(text.replace(place, its + place))
    options = {**FEW_CALLS, "max_samples": 10, "timing": timing, "check": True}
    asked = probe_request(("pingpong",), (8, 4096), ranks=2, **options).to_json().replace("pingpong", "swap")
    found = probe(tmp_path, asked, env={"PYTHONPATH": str(package.parent), "PYTHONSAFEPATH": "1"})
    assert found.result is not None, found.stderr
    assert [(c.collective, c.message_bytes, c.status) for c in found.result.cells] == [
        ("swap", 8, "ok"),
        ("swap", 4096, "ok"),
    ], found.stderr
