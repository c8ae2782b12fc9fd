"""The model beside SimGrid's SMPI: replay collectives on an idealised cluster and tabulate what they take.

    python -m benchmarks.simgrid_golden > tests/golden/simgrid_smpi.csv

Needs ``smpirun`` (Debian: ``libsimgrid-dev``, 3.32 here); each replay is a process of its own. Both sides
know the same idealised machine, without reduction costs, copies, overheads or protocols: compared is the
structure of the algorithms and how messages share links. The table holds SMPI's times alone; `predicted` is
the model's word on a row.

The machine: 8 nodes, one full-duplex port of 11.5 GB/s and 0.65 us each to an ideal switch, messages inside a
node at 8 GB/s after 0.3 us without sharing.
"""

import csv
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from math import inf
from pathlib import Path

from autotune.simulate.fabric import Fabric, NodeLayout
from autotune.simulate.machine import Machine, machine_from
from autotune.simulate.model import predict
from autotune.simulate.settings import JobSettings

NODES = 8
PPNS = (1, 8, 36)
SIZES = (2304, 9216, 36864, 147456, 589824, 2359296)
"""Divisible by 8, 64 and 288 times 8 bytes, so that no block of a ring differs from the others."""

BYTES_PER_S, LATENCY_S = 11.5e9, 0.65e-6
INSIDE_BYTES_PER_S, INSIDE_LATENCY_S = 8.0e9, 0.3e-6

REPLAYS = {
    ("allreduce", "recursive_doubling"): "rdb",
    ("allreduce", "ring"): "lr",
    ("allreduce", "rabenseifner"): "rab_rdb",
    ("allgather", "ring"): "NTSLR",
    ("allgather", "bruck"): "bruck",
    ("alltoall", "pairwise"): "ring",
    ("reduce", "binomial"): "binomial",
}
"""(collective, algorithm as the model names it) → the name that SMPI has for it."""

PLATFORM = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <cluster id="cluster" prefix="node" suffix="" radical="0-{last}" speed="1Gf" core="{ppn}"
           bw="{bandwidth}Bps" lat="{latency}s" sharing_policy="SPLITDUPLEX"
           loopback_bw="{inside_bandwidth}Bps" loopback_lat="{inside_latency}s"/>
</platform>
"""

IDEAL = (
    "smpi/simulate-computation:no",
    "smpi/display-timing:yes",
    "smpi/bw-factor:0:1",
    "smpi/lat-factor:0:1",
    "smpi/os:0:0:0",
    "smpi/or:0:0:0",
    "smpi/ois:0:0:0",
    "smpi/send-is-detached-thresh:1000000000",
    "smpi/async-small-thresh:1000000000",
    "network/TCP-gamma:0",
    "network/crosstraffic:no",
)
"""SMPI without its corrections: bare latencies and bandwidths, every send buffered."""


def replay(collective: str, name: str, ppn: int, size: int) -> float:
    """What one call takes on NODES × ppn ranks according to SMPI, seconds.

    Args:
        collective: MPI's name without the prefix, lower case.
        name: The algorithm, as SMPI names it.
        ppn: Ranks per node.
        size: Bytes, counted as the model does.

    Raises:
        RuntimeError: If the replay fails.
    """
    ranks = NODES * ppn
    call = {"allgather": f"allgather {size} {size}", "alltoall": f"alltoall {size} {size}"}.get(collective)
    call = call or f"{collective} {size} 0"
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        platform = PLATFORM.format(
            last=NODES - 1,
            ppn=ppn,
            bandwidth=BYTES_PER_S,
            latency=LATENCY_S,
            inside_bandwidth=INSIDE_BYTES_PER_S,
            inside_latency=INSIDE_LATENCY_S,
        )
        (directory / "platform.xml").write_text(platform)
        (directory / "hosts").write_text("".join(f"node{i}:{ppn}\n" for i in range(NODES)))
        (directory / "trace").write_text(
            "".join(f"{r} init\n{r} {call}\n{r} finalize\n" for r in range(ranks))
        )
        (directory / "traces").write_text("trace\n")
        program = next(Path("/usr/lib").glob("**/simgrid/smpireplaymain"))
        command = ["smpirun", "-np", str(ranks), "-platform", "platform.xml", "-hostfile", "hosts"]
        command += [
            "-replay",
            "traces",
            str(program),
            "--log=root.thres:warning",
            "--log=smpi_utils.thres:info",
        ]
        command += [f"--cfg={option}" for option in (*IDEAL, f"smpi/{collective}:{name}")]
        done = subprocess.run(
            command, cwd=directory, capture_output=True, text=True, check=False, timeout=120
        )
    found = re.search(r"Simulated time: (\S+) seconds", done.stdout + done.stderr)
    if not found:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return float(found[1])


def ideal_machine() -> Machine:
    """The machine that SMPI is given, for the model: nothing but latencies and bandwidths."""
    at_once = ("copy_bytes_per_s", "cache_copy_bytes_per_s", "socket_bytes_per_s", "cross_socket_bytes_per_s")
    no_time = ("domain_latency_s", "socket_latency_s", "overhead_s", "single_copy_setup_s", "rendezvous_s")
    memory = {
        "cores": max(PPNS),
        "sockets": 1,
        "reduce_bytes_per_s": inf,
        "cache_bytes": inf,
        "socket_cache_bytes": inf,
        "fragment_bytes": inf,
        "latency_s": INSIDE_LATENCY_S,
        "single_copy_bytes_per_s": INSIDE_BYTES_PER_S,
        **dict.fromkeys(at_once, inf),
        **dict.fromkeys(no_time, 0.0),
    }
    network = {
        "latency_s": 2 * LATENCY_S,
        "bytes_per_s": BYTES_PER_S,
        "flow_bytes_per_s": BYTES_PER_S,
        **dict.fromkeys(("overhead_s", "gap_s", "rendezvous_s", "registration_s"), 0.0),
    }
    described = {
        "name": "ideal",
        "description": "as SMPI sees it",
        "memory": memory,
        "transports": {"rc": network},
    }
    return machine_from(described)


def predicted(collective: str, algorithm: str, ppn: int, size: int) -> float:
    """What the model says of one row of the table, seconds."""
    # Buffered sends between nodes; inside them one copy at the speed of the loopback.
    settings = JobSettings(tls="self,sm,rc", rndv_intra_bytes=0, rndv_inter_bytes=inf, zcopy_bytes=inf)
    return float(
        predict(Fabric(ideal_machine(), NodeLayout(NODES, ppn), settings), collective, algorithm, 0, [size])[
            0
        ]
    )


def table() -> Iterator[tuple[str, str, int, int, int, float]]:
    """Collective, algorithm, nodes, ranks per node, bytes and seconds of every replay."""
    for (collective, algorithm), name in REPLAYS.items():
        for ppn in PPNS:
            for size in SIZES:
                block = size // (NODES * ppn) if collective in ("allgather", "alltoall") else size
                yield collective, algorithm, NODES, ppn, block, replay(collective, name, ppn, block)


if __name__ == "__main__":
    if not shutil.which("smpirun"):
        sys.exit("smpirun is needed; Debian has it in libsimgrid-dev")
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(("collective", "algorithm", "nodes", "ppn", "message_bytes", "smpi_s"))
    for row in table():
        writer.writerow((*row[:-1], f"{row[-1]:.6g}"))
        sys.stdout.flush()
