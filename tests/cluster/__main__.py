"""``python -m tests.cluster``: the proving ground by hand.

up      bring a cluster up and leave it running
status  what Slurm says about nodes and jobs
exec    run a command on a node (``login``, ``cn0`` … ``cn7``)
down    take it down
run     a cluster around one command: it ends with the command, or with this process
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NoReturn

from .configuration import LOGIN, Shape
from .ground import Cluster, command_line, environment, missing

RECORD = Path(tempfile.gettempdir(), f"autotune-cluster-{os.getuid()}.json")
"""Says which process is the cluster that ``up`` left; ``down`` removes it."""


def main() -> int:
    """Do what the command line says; the exit status is the command's own."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.cluster",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    up = verbs.add_parser("up", help="bring a cluster up and leave it running")
    run = verbs.add_parser("run", help="a cluster around one command")
    for verb in (up, run):
        verb.add_argument("--nodes", type=int, default=8, help="compute nodes (8)")
        verb.add_argument("--cpus", type=int, default=2, help="CPUs of each node as Slurm sees them (2)")
        verb.add_argument("--rate", default="", help="rate of each node's link, such as 200mbit")
        verb.add_argument("--devices", type=int, default=0, help="devices of each node, as --gres=card")
        verb.add_argument(
            "--slurm", action="append", default=[], metavar="LINE", help="a line for slurm.conf"
        )
    verbs.add_parser("down", help="take it down")
    verbs.add_parser("status", help="nodes and jobs")
    execute = verbs.add_parser("exec", help="run a command on a node")
    execute.add_argument("node", help="login, cn0, cn1 …")
    for verb in (run, execute):
        verb.add_argument("command", nargs=argparse.REMAINDER, help="the command and its arguments")
    args = parser.parse_args()
    if reason := missing():
        print(f"cluster: {reason}", file=sys.stderr)
        return 2
    if args.verb in ("up", "run"):
        shape = Shape(args.nodes, args.cpus, args.rate, tuple(args.slurm), args.devices)
        if args.verb == "up":
            return _up(shape)
        # This very process becomes the one whose end is the cluster's end.
        return _become(command_line(shape, _words(args.command)))
    if (cluster := _recorded()) is None:
        print("cluster: none is up (python -m tests.cluster up)", file=sys.stderr)
        return 0 if args.verb == "down" else 1
    if args.verb == "down":
        cluster.down()
        RECORD.unlink()
        return 0
    if args.verb == "status":
        return subprocess.call(cluster.enter(["sh", "-c", "sinfo -N -l; squeue"]), env=environment())
    return _become(cluster.enter(_words(args.command), args.node, Path.cwd()))


def _words(command: list[str]) -> list[str]:
    command = command[1:] if command[:1] == ["--"] else command
    return command or [os.environ.get("SHELL", "sh")]


def _become(argv: list[str]) -> NoReturn:
    os.execvpe(argv[0], argv, environment())


def _up(shape: Shape) -> int:
    if (old := _recorded()) is not None:
        print(f"cluster: already up (process {old.outer_pid})", file=sys.stderr)
        return 1
    began = time.monotonic()
    try:
        cluster = Cluster.up(shape, outlive_caller=True)
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 90
    RECORD.write_text(json.dumps({"pids": [cluster.outer_pid, cluster.init_pid], "nodes": shape.n_nodes}))
    print(f"{shape.n_nodes} nodes idle after {time.monotonic() - began:.1f} s; commands start on {LOGIN!r}")
    return 0


def _recorded() -> Cluster | None:
    """The cluster that an earlier ``up`` left, if it still lives."""
    try:
        values = json.loads(RECORD.read_text())
    except FileNotFoundError:
        return None
    cluster = Cluster(*values["pids"], Shape(n_nodes=values["nodes"]))
    try:
        children = Path(f"/proc/{cluster.outer_pid}/task/{cluster.outer_pid}/children").read_text().split()
    except FileNotFoundError:
        children = []
    if str(cluster.init_pid) in children:
        return cluster
    RECORD.unlink()  # it died without `down`; the kernel has cleaned up all the rest
    return None


if __name__ == "__main__":
    sys.exit(main())
