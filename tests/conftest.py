"""What all tests share: a clean environment, and no silent skipping in CI."""

import os
import re
import signal
import time
from functools import cache
from itertools import product
from pathlib import Path

import pytest
from _pytest.mark.expression import Expression
from hypothesis import HealthCheck, settings

from hydra_plugins.autotune._guard import sweep

MUST_RUN_IN_CI = {"mpi", "mpi41", "mpich", "intel", "upgrade", "cluster", "simgrid", "apps", "debian"}
MARKERS = MUST_RUN_IN_CI | {"slow"}
HERE = {"mpi", "mpi41", "mpich", "intel", "upgrade"}
"""Of them those whose ranks run on this machine."""
BEGUN_S = time.time()
ROOT = Path(__file__).parents[1]
IMPORTS = r"(?m)^from (tests\.[\w.]+) import"


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


@cache
def named(path):
    """The markers that a file's tests can have: it names them, or a module of tests that it imports from."""
    text = path.read_text()
    others = [ROOT.joinpath(*name.split(".")).with_suffix(".py") for name in re.findall(IMPORTS, text)]
    its = MARKERS & {*re.findall(r"\bmark\.(\w+)", text)}
    return its.union(*(named(other) for other in others if other.is_file()))


def pytest_ignore_collect(collection_path, config):
    """Import no file of which no test can be selected: that takes longer than some selections run."""
    if not (asked := config.option.markexpr) or collection_path.suffix != ".py":
        return None
    wanted, names = Expression.compile(asked), named(collection_path)
    drawn = (dict(zip(names, values, strict=True)) for values in product([False, True], repeat=len(names)))
    return not any(wanted.evaluate(lambda name, its=its: its.get(name, False)) for its in drawn) or None


def pytest_collection_modifyitems(items):
    """A marker from elsewhere would be a test that no target runs."""
    for item in items:
        hidden = MARKERS & {mark.name for mark in item.iter_markers()} - named(item.path)
        assert not hidden, f"{item.nodeid}: its file names no mark.{' nor mark.'.join(hidden)}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """In CI a skipped test that needs real MPI, Slurm or SimGrid is a failed one."""
    report = yield
    needs = MUST_RUN_IN_CI & {mark.name for mark in item.iter_markers()}
    if os.environ.get("CI") == "true" and report.skipped and needs and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped in CI, where {', '.join(sorted(needs))} must run: {report.longrepr}"
    return report
