"""PID 1 of the proving ground: builds the nodes, starts the daemons, runs one command, reaps.

Started by :mod:`tests.cluster.ground` as the first process of fresh namespaces. When it ends, the kernel
kills all that lives in them, so there is nothing to take down here.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from .configuration import LOGIN, STATE, Shape, hosts_file, side_files, slurm_conf

UP_TIMEOUT_S = 60.0

_daemons: list[subprocess.Popen[bytes]] = []
"""What must still run when the cluster is up."""


class BringUpError(Exception):
    """The cluster did not come up."""


def main(argv: list[str]) -> int:
    """Bring the cluster up, then run ``argv[1:]``, or idle when there is none.

    Args:
        argv: the cluster's shape as JSON, then the command.

    Returns:
        The command's exit status, or 90 when the cluster did not come up.
    """
    values = json.loads(argv[0])
    shape = Shape(**{**values, "slurm_lines": tuple(values["slurm_lines"])})
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        _bring_up(shape)
    except BringUpError as error:
        print(f"cluster: {error}", file=sys.stderr)
        return 90
    command = argv[1:]
    # The object is kept: when it is dropped, it reaps a child that has already ended, unseen.
    child = subprocess.Popen(command) if command else None
    Path(STATE, "ready").touch()
    return _reap_until(child.pid if child else None)


def _reap_until(pid: int | None) -> int:
    """Do what a PID 1 does, until the command ends (or, without one, until a signal comes)."""
    while True:
        try:
            ended, status = os.wait()
        except ChildProcessError:
            signal.pause()
            continue
        if ended == pid:
            return os.waitstatus_to_exitcode(status) % 256


def _bring_up(shape: Shape) -> None:
    _mount("/run", "/dev/shm", "/var/tmp")
    state = Path(STATE)
    for folder in ("netns", "cluster/log", "cluster/state", *(f"cluster/spool/{n}" for n in shape.nodes)):
        Path("/run", folder).mkdir(parents=True, exist_ok=True)
    Path(state, "slurm.conf").write_text(slurm_conf(shape))
    Path(state, "hosts").write_text(hosts_file(shape))
    for name, text in side_files().items():
        Path(state, name).write_text(text)
    socket.sethostname(LOGIN)
    _call("mount", "--bind", f"{state}/hosts", "/etc/hosts")
    _network(shape)
    key = Path(state, "munge.key")
    key.write_bytes(secrets.token_bytes(1024))
    key.chmod(0o400)
    _daemon(
        *("munged", "--foreground", "--force", f"--socket={state}/munge.sock", f"--key-file={key}"),
        *(
            f"--pid-file={state}/munged.pid",
            f"--seed-file={state}/munge.seed",
            f"--log-file={state}/log/munged.log",
        ),
    )
    _wait_for("munged", lambda: Path(state, "munge.sock").exists())
    _daemon("slurmctld", "-D", "-c")
    for node in shape.nodes:
        _start_node(node)
    _wait_for(f"{shape.n_nodes} idle nodes", lambda: _n_idle() == shape.n_nodes)


def _mount(*folders: str) -> None:
    """Give the login node a file system of its own on each folder."""
    for folder in folders:
        _call("mount", "-t", "tmpfs", "-o", "mode=1777" if folder != "/run" else "mode=755", "tmpfs", folder)


def _network(shape: Shape) -> None:
    batch = ["link set lo up", "link add br0 type bridge", f"addr add {shape.address(LOGIN)}/24 dev br0"]
    batch += ["link set br0 up"]
    for node in shape.nodes:
        batch += [f"netns add {node}", f"link add {node} type veth peer name eth0 netns {node}"]
        batch += [f"link set {node} master br0 up"]
    _call("ip", "-batch", "-", text="\n".join(batch))
    for node in shape.nodes:
        own = ["link set lo up", f"addr add {shape.address(node)}/24 dev eth0", "link set eth0 up"]
        _call("ip", "-n", node, "-batch", "-", text="\n".join(own))
        if shape.rate:
            bucket = ("tbf", "rate", shape.rate, "burst", "32kb", "latency", "50ms")
            _call("tc", "-n", node, "qdisc", "add", "dev", "eth0", "root", *bucket)


def _start_node(node: str) -> None:
    """Start a node; its PID 1 is a shell that reaps and outlives slurmd, as a node outlives its daemons."""
    script = (
        f"set -e; hostname {node}; mount -t tmpfs tmpfs /dev/shm\n"
        "mount -t tmpfs -o mode=1777 tmpfs /var/tmp; set +e\n"
        f"slurmd -D -N {node} &\n"
        "while :; do wait; sleep 1; done"
    )
    namespaces = ("unshare", "--uts", "--ipc", "--pid", "--fork", "--mount-proc", "--kill-child")
    outer = _daemon("ip", "netns", "exec", node, *namespaces, "sh", "-c", script, log=node)
    children = Path(f"/proc/{outer}/task/{outer}/children")
    _wait_for(node, lambda: bool(children.read_text().split()))
    Path(STATE, f"{node}.pid").write_text(children.read_text().split()[0])


def _daemon(*argv: str, log: str = "") -> int:
    """Start a daemon in a session of its own; its output goes to a log."""
    with Path(STATE, "log", f"{log or argv[0]}.out").open("wb") as out:
        daemon = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
    _daemons.append(daemon)
    return daemon.pid


def _n_idle() -> int:
    reply = subprocess.run(
        ["sinfo", "-h", "-t", "idle", "-o", "%D"], capture_output=True, text=True, timeout=20, check=False
    )
    return sum(int(count) for count in reply.stdout.split() if count.isdigit())


def _wait_for(what: str, is_there: Callable[[], bool]) -> None:
    deadline = time.monotonic() + UP_TIMEOUT_S
    while not is_there():
        if time.monotonic() > deadline:
            raise BringUpError(f"{what} not there after {UP_TIMEOUT_S:.0f} s\n{_last_words()}")
        if ended := [daemon.args for daemon in _daemons if daemon.poll() is not None]:
            raise BringUpError(f"ended at once: {ended}\n{_last_words()}")
        time.sleep(0.05)


def _last_words() -> str:
    """The end of every log, for a cluster that does not come up."""
    logs = sorted(Path(STATE, "log").iterdir())
    return "\n".join(f"--- {log.name}\n{log.read_text(errors='replace')[-1500:]}" for log in logs)


def _call(*argv: str, text: str | None = None) -> None:
    reply = subprocess.run(argv, input=text, capture_output=True, text=True, timeout=30, check=False)
    if reply.returncode:
        raise BringUpError(f"{' '.join(argv)}: {reply.stderr.strip()}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
