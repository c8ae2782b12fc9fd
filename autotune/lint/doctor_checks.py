"""Check, for ``doctor``, properties of a machine that make MPI fail or slow.

The unit test of each check cites a public report of the problem. Nothing is launched: the checks read files
of the kernel, and the resource limits and environment of this process.
"""

import ctypes
import os
import resource
import shlex
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath

from autotune.lint.files import lint
from autotune.resources import user_text
from autotune.stacks.installation import Installation
from autotune.stacks.knobs import Knob

Row = tuple[str, str]  # A row of the table that ``doctor`` prints: label and finding.

_SEGMENT = 16 << 20  # Shared memory per rank in bytes: ``btl_sm_segment_size`` of Open MPI 5.0.11.
_REMOTE = frozenset(
    ("nfs", "nfs4", "lustre", "gpfs", "beegfs", "cifs", "smb3", "ceph", "fuse.ceph", "afs", "fuse.sshfs")
)
"""Names of network file systems, on which MPI's session directory and shared memory are slow."""
_WANTED = frozenset(("rc_verbs", "ud_verbs", "rc_mlx5", "dc_mlx5", "cuda_ipc", "rocm_ipc"))
"""Default of ``opal_common_ucx_tls``: the component ``pml ucx`` disables itself unless UCX has one of these
transports (tried on 5.0.11)."""


def of_the_machine(root: Path = Path("/"), cores: int = 1) -> Iterator[Row]:
    """Yield findings about limits of the kernel and the container.

    Args:
        root: The folder that contains ``dev``, ``proc`` and ``sys``.
        cores: Number of ranks that may share the memory of the node.
    """
    try:
        shm = os.statvfs(root / "dev/shm")
        if (free := shm.f_bavail * shm.f_frsize) < cores * _SEGMENT:
            need = cores * _SEGMENT >> 20
            effect = f"{free >> 20} MiB left, {cores} ranks take up to {need}: a bus error ends MPI"
            yield "shared memory", f"{effect} when it is full; containers: --shm-size"
    except OSError:
        yield "shared memory", "there is no /dev/shm: ranks of a node cannot share memory"
    locked, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if locked != resource.RLIM_INFINITY and _entries(root / "sys/class/infiniband"):
        effect = f"{locked >> 10} KiB at most: RDMA ends with 'Cannot allocate memory', or is left out"
        yield "locked memory", f"{effect}; ulimit -l unlimited"
    scope = _content(root / "proc/sys/kernel/yama/ptrace_scope")
    if scope in ("2", "3") or not _reads_memory():
        effect = "processes may not read each other's memory: CMA fails (smsc = ^cma, UCX_TLS = ^cma)"
        yield "single copies", f"{effect}; containers: --cap-add=SYS_PTRACE"
    if (kind := _file_system(root / "proc/self/mountinfo", tempfile.gettempdir())) in _REMOTE:
        effect = f"{tempfile.gettempdir()} is on {kind}: MPI's session and shared memory are files there"
        yield "TMPDIR", f"{effect}, and starts take long; export TMPDIR=/tmp"
    if bridges := [
        device.name for device in _entries(root / "sys/class/net") if (device / "bridge").is_dir()
    ]:
        names = ",".join(bridges)
        effect = f"{names} lead to no other node, and Open MPI's TCP takes them for a network: it hangs"
        yield "bridges", f"{effect}; on several nodes btl_tcp_if_exclude = lo,{names}"
    if _content(root / "sys/devices/system/cpu/smt/active") == "1":
        effect = "cores have several: mpirun counts cores, and says that there are not enough slots"
        yield "hardware threads", f"{effect} for more ranks; --map-by :HWTCPUS"


def of_the_search_path(installation: Installation, folders: Sequence[str]) -> Iterator[Row]:
    """Yield a finding if the search path contains launchers of another MPI than ``installation``.

    A program that was built with one MPI and is started by the launcher of another one runs as many separate
    jobs of one rank.
    """
    own_folder = installation.mpirun.resolve().parent
    other_launchers = {
        path.resolve(): path
        for folder in folders
        for path in (Path(folder, "mpirun"), Path(folder, "mpiexec"))
        if path.is_file() and path.parent.resolve() != own_folder and path.resolve().parent != own_folder
    }
    if other_launchers:
        names = ", ".join(map(str, other_launchers.values()))
        effect = f"{names}: programs of another MPI than their launcher's say 'rank 0 of 1'"
        yield "other launchers", f"{effect}; start each by its own"


def of_ucx(facts: Collection[str], env: Mapping[str, str]) -> Iterator[Row]:
    """Yield a finding if ``pml = ucx`` would fail because UCX has none of the transports that it requires.

    Args:
        facts: Facts of the MPI, with ``ucx_tl:NAME`` for each transport of UCX.
        env: The environment variables.
    """
    transports = {fact.removeprefix("ucx_tl:") for fact in facts if fact.startswith("ucx_tl:")}
    set_by_user = any(f"OMPI_MCA_{name}_tls" in env for name in ("opal_common_ucx", "pml_ucx", "osc_ucx"))
    if "pml_built:ucx" in facts and transports and not transports & _WANTED and not set_by_user:
        effect = "alone 'no components were able to be opened': UCX has no device here that it wants"
        yield "pml = ucx", f"{effect}; opal_common_ucx_tls = any"


def of_settings(
    mpi: str,
    env: Mapping[str, str],
    names: Collection[str] | None,
    knobs: Mapping[str, Knob],
    settings: Iterable[Path] = (),
) -> Iterator[Row]:
    """Yield the findings of ``lint`` in the exported variables and in the parameter files in effect.

    Args:
        mpi: Name of the MPI for ``lint``; empty for an MPI that ``lint`` does not know.
        env: The environment variables.
        names: Names of the parameters that the installed libraries declare; None if they are unknown.
        knobs: The declared parameters by name.
        settings: The parameter files.
    """
    # Each variable is on one line, so that the line of a finding identifies the variable.
    exported = [name for name in sorted(env) if "\n" not in env[name]]
    text = "".join(f"export {name}={shlex.quote(env[name])}\n" for name in exported)
    environment_file = PurePath("environment.sh")
    files = {environment_file: text} | {PurePath(path): user_text(path, lenient=True) for path in settings}
    for finding in lint(files, mpi, names, lambda name: Path(name).exists(), None, knobs):
        source = (
            exported[finding.line - 1]
            if finding.file == environment_file
            else f"{finding.file}:{finding.line}"
        )
        yield source, f"{finding.code} {finding.effect}; {finding.remedy}"


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _content(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return ""


def _file_system(mounts: Path, folder: str) -> str:
    lines = [line.split() for line in _content(mounts).splitlines()]
    kinds = {words[4]: words[words.index("-") + 1] for words in lines if "-" in words[:-1]}
    resolved = Path(folder).resolve()
    return next((kinds[str(path)] for path in (resolved, *resolved.parents) if str(path) in kinds), "")


class _Piece(ctypes.Structure):
    """C's ``struct iovec``."""

    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def _reads_memory() -> bool:
    """Return whether ``process_vm_readv`` works on this process itself; containers may forbid it."""
    read = getattr(ctypes.CDLL(None, use_errno=True), "process_vm_readv", None)
    if read is None:
        return False
    target, source = (ctypes.create_string_buffer(text, 1) for text in (b"a", b"b"))
    ends = [_Piece(ctypes.addressof(buffer), 1) for buffer in (target, source)]
    copied: int = read(os.getpid(), ctypes.byref(ends[0]), 1, ctypes.byref(ends[1]), 1, 0)
    return copied == 1 and target.raw == b"b"
