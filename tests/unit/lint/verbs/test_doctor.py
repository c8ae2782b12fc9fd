"""Public reports that ``doctor`` answers; the machines are made of the kernel's files that it reads."""

import os
import resource
import tempfile
from pathlib import Path

import pytest

from autotune.lint import doctor_checks
from autotune.stacks.installation import Installation


@pytest.fixture
def sound(tmp_path, monkeypatch):
    """A machine on which nothing is wrong."""
    for name in ("dev/shm", "sys/class/infiniband/mlx5_0", "sys/class/net/eth0", "proc/self"):
        (tmp_path / name).mkdir(parents=True)
    for name, text in {
        "proc/sys/kernel/yama/ptrace_scope": "1\n",
        "proc/self/mountinfo": "21 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n",
        "sys/devices/system/cpu/smt/active": "0\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(resource, "getrlimit", lambda which: (resource.RLIM_INFINITY,) * 2)
    monkeypatch.setattr(doctor_checks, "_reads_memory", lambda: True)
    monkeypatch.setattr(os, "statvfs", lambda path: os.statvfs_result((4096, 4096, *(1 << 20,) * 6, 0, 255)))
    return tmp_path


def rows(root, cores=4):
    return dict(doctor_checks.of_the_machine(root, cores))


def test_a_sound_machine_has_no_findings(sound):
    assert rows(sound) == {}


def small(root, patch):
    patch.setattr(os, "statvfs", lambda path: os.statvfs_result((4096, 4096, *(1 << 13,) * 6, 0, 255)))


def locked(root, patch):
    patch.setattr(resource, "getrlimit", lambda which: (65536, 65536))


def scope(root, patch):
    (root / "proc/sys/kernel/yama/ptrace_scope").write_text("2\n")


def seccomp(root, patch):
    patch.setattr(doctor_checks, "_reads_memory", lambda: False)


def shared(root, patch):
    mounted = f"30 21 0:9 / {Path(tempfile.gettempdir()).resolve()} rw shared:2 - nfs4 server:/home rw\n"
    (root / "proc/self/mountinfo").write_text("21 1 8:1 / / rw - ext4 /dev/sda1 rw\n" + mounted)


def bridge(root, patch):
    for name in ("docker0", "virbr0"):
        (root / f"sys/class/net/{name}/bridge").mkdir(parents=True)


def threads(root, patch):
    (root / "sys/devices/system/cpu/smt/active").write_text("1\n")


@pytest.mark.parametrize(
    ("report", "ill", "what", "remedy"),
    [
        (
            "GlobalArrays/ga#254, NVIDIA/nccl-tests#143: SIGBUS in a container",
            small,
            "shared memory",
            "--shm-size",
        ),
        ("openucx/ucx#8229: ibv_create_cq: Cannot allocate memory", locked, "locked memory", "ulimit -l"),
        ("openucx/ucx#3046: CMA and ptrace_scope", scope, "single copies", "UCX_TLS = ^cma"),
        ("open-mpi/ompi#4948: Read -1, expected N, errno = 1", seccomp, "single copies", "SYS_PTRACE"),
        ("openpmix/prrte#1866, open-mpi/ompi#13294: starts take a minute", shared, "TMPDIR", "TMPDIR=/tmp"),
        ("open-mpi/ompi#6377, #10041: TCP and docker0, virbr0", bridge, "bridges", "lo,docker0,virbr0"),
        ("open-mpi/ompi#6020: not enough slots, 48 processors", threads, "hardware threads", ":HWTCPUS"),
    ],
)
def test_a_report_is_answered_by_what_the_machine_is(sound, monkeypatch, report, ill, what, remedy):
    ill(sound, monkeypatch)
    found = rows(sound)
    assert list(found) == [what] and remedy in found[what], report


def test_this_process_reads_its_own_memory_or_is_refused():
    assert doctor_checks._reads_memory() in (True, False)


def test_pml_ucx_without_a_device():
    """open-mpi/ompi#9838, openucx/ucx#5284: no components were able to be opened in the pml framework."""
    here = ("pml_built:ucx", "ucx_tl:tcp", "ucx_tl:posix")
    assert "opal_common_ucx_tls = any" in dict(doctor_checks.of_ucx(here, {}))["pml = ucx"]
    assert not dict(doctor_checks.of_ucx((*here, "ucx_tl:rc_mlx5"), {}))
    assert not dict(doctor_checks.of_ucx(here, {"OMPI_MCA_pml_ucx_tls": "any"}))


def test_launchers_of_two_mpis(tmp_path):
    """open-mpi/ompi#10799, jtriley/StarCluster#533: each of the processes says that it is rank 0 of 1."""
    for folder in ("mine", "other"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mpirun").touch()
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    here = Installation("openmpi", "5.0.11", tmp_path / "mine/mpirun", tmp_path / "libmpi.so", "site")
    path = [str(tmp_path / name) for name in ("mine", "link", "other", "none")]
    found = dict(doctor_checks.of_the_search_path(here, path))["other launchers"]
    assert str(tmp_path / "other/mpirun") in found and "link" not in found
    assert not dict(doctor_checks.of_the_search_path(here, path[:2]))


def test_what_is_exported_here_is_judged(tmp_path, monkeypatch):
    """open-mpi/ompi#11458, rapidsai/ucx-py#417: variables of wrong names, and those of another's module."""
    monkeypatch.setenv("HOME", str(tmp_path))
    env = {"A": "1\n2", "OMPI_MCA_BTL": "self", "PATH": "/bin", "UCX_RNDV_THRESHOLD": "8192"}
    found = dict(doctor_checks.of_settings("openmpi5", env, None, {}))
    assert found.keys() == {"OMPI_MCA_BTL", "UCX_RNDV_THRESHOLD"}
    assert "UCX_RNDV_THRESH?" in found["UCX_RNDV_THRESHOLD"]
