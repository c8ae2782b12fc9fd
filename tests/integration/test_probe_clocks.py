"""Start windows between ranks whose clocks differ: the second rank lives in a time namespace of its own."""

import shutil
import subprocess
import sys

import pytest

from autotune.probe.protocol import REQUEST, ProbeResult
from tests.asking import FEW_CALLS, probe_request
from tests.integration.mpirun import run

AHEAD_S = 100


def test_ranks_start_together_although_their_clocks_differ(tmp_path):
    unshare = shutil.which("unshare")
    elsewhen = [str(unshare), "--time", "--monotonic", str(AHEAD_S)]
    if unshare is None or subprocess.run([*elsewhen, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no time namespaces here (they need root and Linux 5.6)")
    request = probe_request(("allreduce",), (262144,), ranks=2, **FEW_CALLS, sync="window")
    (tmp_path / REQUEST).write_text(request.to_json())
    program = f"{sys.executable} -m autotune.probe {tmp_path}"
    script = f'[ "$OMPI_COMM_WORLD_RANK" = 1 ] && exec {" ".join(elsewhen)} {program}; exec {program}'
    done = run(["sh", "-c", script])
    assert done.returncode == 0, done.stderr
    result = ProbeResult.read(tmp_path)
    assert result is not None
    (cell,) = result.cells
    assert cell.status == "ok", cell.reason
    assert cell.validity is not None
    # On one time axis the ranks are milliseconds apart, however late a busy machine lets them start.
    assert len(cell.samples_s)
    assert (cell.samples_s < AHEAD_S / 2).all()
