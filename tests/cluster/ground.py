"""The handle on the proving ground from outside its namespaces: up, run, break things, down."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from .configuration import LOGIN, STATE, Shape

ROOT = Path(__file__).resolve().parents[2]
"""The checkout, which every node sees at the same path."""

_TOOLS = ("slurmctld", "slurmd", "srun", "munged", "ip", "tc", "unshare", "nsenter", "setpriv")
_NAMESPACES = (
    *("unshare", "--net", "--mount", "--uts", "--ipc", "--pid"),
    *("--fork", "--mount-proc", "--kill-child"),
)


@functools.cache
def missing() -> str:
    """Why there can be no proving ground on this machine; empty when there can."""
    if os.geteuid() != 0:
        return "the namespace cluster needs root"
    if lacking := [tool for tool in _TOOLS if shutil.which(tool, path=search_path()) is None]:
        return f"not installed: {', '.join(lacking)} (Debian: slurmctld slurmd slurm-client munge iproute2)"
    if subprocess.run([*_NAMESPACES, "true"], capture_output=True, timeout=30, check=False).returncode:
        return "this machine refuses new namespaces (a container without CAP_SYS_ADMIN?)"
    return ""


def search_path() -> str:
    """A ``PATH`` on which this interpreter's ``mpirun`` comes first and the daemons are found."""
    own = str(Path(sys.executable).parent)
    return os.pathsep.join([own, os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])


def environment() -> dict[str, str]:
    """The environment of everything that runs on the cluster, as a site's module files would make it.

    UCX is told to use TCP between nodes: it is the only transport there. The session directories of PRRTE are
    named by process id, which repeats from one PID namespace to the next, so they go to the node's own
    ``/var/tmp``.
    """
    ours = (str(ROOT), str(ROOT / "launchers"), str(ROOT / "plugins"))
    here = os.pathsep.join([*ours, os.environ.get("PYTHONPATH", "")])
    kept = {
        k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "OMPI_", "PMIX_", "PRTE_", "UCX_"))
    }
    return kept | {
        "PATH": search_path(),
        "PYTHONPATH": here.rstrip(os.pathsep),
        "SLURM_CONF": f"{STATE}/slurm.conf",
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_ALLOW_RUN_AS_ROOT": "1",
        "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_MCA_prte_tmpdir_base": "/var/tmp",
        "OMPI_MCA_opal_common_ucx_tls": "any",
        "OMPI_MCA_opal_common_ucx_devices": "any",
        "OMPI_MCA_mpi_yield_when_idle": "1",  # more ranks than cores: spinning costs whole scheduler quanta
        "UCX_TLS": "self,sm,tcp",
        "UCX_NET_DEVICES": "eth0",
        "OMP_NUM_THREADS": "1",
    }


def command_line(shape: Shape, command: Sequence[str] = ()) -> list[str]:
    """The argv that *is* a cluster: it comes up, runs the command (or idles) and ends with its process."""
    values = json.dumps(dataclasses.asdict(shape))
    return [*_NAMESPACES, sys.executable, "-m", "tests.cluster.inside", values, *command]


@dataclasses.dataclass(frozen=True, slots=True)
class Cluster:
    """A running cluster."""

    outer_pid: int
    """The process whose end is the cluster's end."""
    init_pid: int
    """The cluster's PID 1, in the machine's numbering."""
    shape: Shape
    """What was asked for."""
    owner: subprocess.Popen[bytes] | None = None
    """The outer process as this one's child, if it is."""

    @classmethod
    def up(cls, shape: Shape | None = None, *, outlive_caller: bool = False) -> Cluster:
        """A cluster with all its nodes idle.

        Args:
            shape: its size and network; eight nodes of two CPUs by default.
            outlive_caller: keep it when this process ends; otherwise the kernel takes it down even after a
                SIGKILL.

        Raises:
            RuntimeError: if it does not come up; the message has the end of every daemon's log.
        """
        shape = shape or Shape()
        tether = [] if outlive_caller else ["setpriv", "--pdeathsig", "KILL"]
        with tempfile.TemporaryFile() as words:
            outer = subprocess.Popen(
                [*tether, *command_line(shape)],
                stdin=subprocess.DEVNULL,
                stdout=words,
                stderr=words,
                env=environment(),
                cwd=ROOT,
                start_new_session=True,
            )
            while outer.poll() is None:
                children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()
                if children and Path(f"/proc/{children[0]}/root{STATE}/ready").exists():
                    return cls(outer.pid, int(children[0]), shape, outer)
                time.sleep(0.05)
            words.seek(0)
            raise RuntimeError(words.read().decode(errors="replace"))

    def down(self) -> None:
        """End the cluster and wait until the kernel has dropped the last process in it."""
        if not self.is_up:
            return
        os.kill(self.outer_pid, signal.SIGKILL)
        if self.owner is not None:
            self.owner.wait()
        while self.is_up:
            time.sleep(0.02)

    @property
    def is_up(self) -> bool:
        """Whether its PID 1 is alive; the kernel lets that one go last."""
        try:
            return Path(f"/proc/{self.init_pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except (FileNotFoundError, ProcessLookupError):
            return False

    def enter(self, argv: Sequence[str], node: str = LOGIN, cwd: Path = ROOT) -> list[str]:
        """The argv that runs ``argv`` on a node, from outside."""
        into = ["nsenter", f"--target={self.init_pid}", "--net", "--mount", "--uts", "--ipc", "--pid"]
        if node != LOGIN:
            pid = self.read(f"{node}.pid")
            into += ["nsenter", f"--target={pid}", "--net", "--mount", "--uts", "--ipc", "--pid"]
        return [*into, "env", f"--chdir={cwd}", *argv]

    def run(
        self,
        *argv: str,
        node: str = LOGIN,
        timeout_s: float = 60.0,
        cwd: Path = ROOT,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on a node to its end; 124 or 137 is its status when it ran past ``timeout_s``."""
        bounded = ["timeout", "--kill-after=5", f"{timeout_s:g}", *argv]
        return subprocess.run(
            self.enter(bounded, node, cwd),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s + 30,
            env=environment() | dict(env or {}),
            check=False,
        )

    def start(
        self,
        *argv: str,
        node: str = LOGIN,
        cwd: Path = ROOT,
        env: Mapping[str, str] | None = None,
        out: IO[bytes] | int = subprocess.DEVNULL,
    ) -> subprocess.Popen[bytes]:
        """Start a command on a node and leave it running."""
        return subprocess.Popen(
            self.enter(argv, node, cwd),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=environment() | dict(env or {}),
        )

    def read(self, name: str) -> str:
        """A file of the cluster's state folder: a log, a PID."""
        return Path(f"/proc/{self.init_pid}/root{STATE}", name).read_text(errors="replace")

    def processes(self, pattern: str = "") -> list[tuple[int, str]]:
        """PID (the machine's) and command line of what runs inside with ``pattern`` in its command line."""
        own = Path(f"/proc/{self.init_pid}/ns/net").stat().st_ino
        inside = {own} | {_inode(f"/proc/{self.init_pid}/root/run/netns/{node}") for node in self.shape.nodes}
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                words = (
                    (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                )
                if words and pattern in words and (folder / "ns/net").stat().st_ino in inside:
                    found.append((int(folder.name), words))
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
        return found

    def freeze(self, pid: int) -> None:
        """Stop a process, which then neither works nor ends."""
        os.kill(pid, signal.SIGSTOP)

    def kill_slurmd(self, node: str) -> None:
        """``kill -9`` of the node's slurmd; what it started goes on."""
        pids = [pid for pid, words in self.processes(f"slurmd -D -N {node}") if words.startswith("slurmd")]
        for pid in pids or [int(self.read(f"slurmd-{node}.pid"))]:
            os.kill(pid, signal.SIGKILL)

    def start_slurmd(self, node: str) -> None:
        """Start the node's slurmd again."""
        self.run("slurmd", "-N", node, node=node).check_returncode()

    def power_off(self, node: str) -> None:
        """Take the node away with everything that runs on it, as a power failure does, and wait for that."""
        pid = self.read(f"{node}.pid")
        self.run("kill", "-KILL", pid).check_returncode()
        for _ in range(100):  # on a busy machine it takes some time until the last of its processes has ended
            if self.run("readlink", f"/proc/{pid}/ns/net").returncode:
                return
            time.sleep(0.1)

    def stop_slurmctld(self) -> None:
        """Stop the controller: every Slurm command hangs or fails until it is started again.

        It saves its state, as one that a service manager stops. One that is killed forgets the jobs of its
        last five seconds; when it gives one's number to another, Slurm drains the node ("Duplicate jobid").
        """
        for pid, words in self.processes("slurmctld"):
            if words.split()[0].endswith("slurmctld"):
                os.kill(pid, signal.SIGTERM)
        for _ in range(600):
            if not any(words.split()[0].endswith("slurmctld") for _, words in self.processes("slurmctld")):
                return
            time.sleep(0.1)

    def start_slurmctld(self) -> None:
        """Start the controller from its saved state, as a service manager does."""
        self.run("slurmctld").check_returncode()


def _inode(path: str) -> int:
    try:
        return Path(path).stat().st_ino
    except FileNotFoundError:
        return 0
