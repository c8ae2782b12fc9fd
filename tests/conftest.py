"""What all tests share: a clean environment, and no silent skipping in CI."""

import os
import signal
import time

import pytest
from hypothesis import HealthCheck, settings

from hydra_plugins.autotune._guard import sweep

MUST_RUN_IN_CI = {"mpi", "mpi41", "mpich", "intel", "cluster", "simgrid", "apps", "debian"}
HERE = {"mpi", "mpi41", "mpich", "intel"}
"""Of them those whose ranks run on this machine."""
BEGUN_S = time.time()


# The same examples each time, however late they come: a run fails for what was changed, not for its luck.
PATIENT = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("steady", derandomize=True, **PATIENT)
settings.register_profile("searching", **PATIENT)
settings.load_profile("steady")

# As on a terminal, however the tests were started: background jobs of a shell ignore Ctrl-C, nohup SIGHUP.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch):
    """Tuning variables and the terminal of the developer's shell must not reach the tests."""
    monkeypatch.setenv("TERM", "xterm")
    for name in list(os.environ):
        if name.startswith(("UCX_", "OMPI_MCA_", "SLURM_")):
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def _no_shared_memory_left(request):
    """Ranks that a test kills itself, without the launchers, leave theirs; after 128 Open MPI takes none."""
    yield
    if any(mark.name in HERE for mark in request.node.iter_markers()):
        sweep(BEGUN_S)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """In CI a skipped test that needs real MPI, Slurm or SimGrid is a failed one."""
    report = yield
    needs = MUST_RUN_IN_CI & {mark.name for mark in item.iter_markers()}
    if os.environ.get("CI") == "true" and report.skipped and needs and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped in CI, where {', '.join(sorted(needs))} must run: {report.longrepr}"
    return report
