"""The text that goes to Slurm: the whole script as sbatch receives it, and command lines."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from autotune.errors import ScenarioError, StackError
from hydra_plugins.autotune._slurm_batch import BatchSettings, Order, submit
from hydra_plugins.autotune._slurm_jobs import Slurm
from tests.program import ran

HOSTILE = ["a b", "it's", 'say "hi"', "$(touch pwned)", "`touch pwned`", "; touch pwned", "\\", "a#b", "%j"]

CAMPAIGN = """\
#!/bin/bash

# Parameters
#SBATCH --account=proj42
#SBATCH --constraint='ib&gpu'
#SBATCH --dependency=afterany:41
#SBATCH --exclusive
#SBATCH --job-name=autotune-x
#SBATCH --mem=0
#SBATCH --no-kill
#SBATCH --no-requeue
#SBATCH --nodelist=cn0,cn1
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --open-mode=append
#SBATCH --output={folder}/%j_0_log.out
#SBATCH --partition=short,long
#SBATCH --qos=night
#SBATCH --signal=B:USR1@90
#SBATCH --time=2:00:00

# setup
trap '' USR1
module load openmpi
source /opt/site/env.sh

# command
export SUBMITIT_EXECUTOR=slurm
exec {python} -P -u -m submitit.core._submit {folder}
"""


@pytest.fixture
def sbatch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in front of PATH whose sbatch keeps the script and whose scancel does nothing."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, text in {
        "sbatch": f'cp "$1" {tools}/script; echo Submitted batch job 42',
        "srun": "true",
        "scancel": f'echo "$@" >> {tools}/cancelled',
    }.items():
        (tools / name).write_text(f"#!/bin/sh\n{text}\n")
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    return tools


def test_the_script_of_a_campaign(sbatch, tmp_path):
    settings = BatchSettings(
        partition="short,long",
        account="proj42",
        qos="night",
        constraint="ib&gpu",
        sbatch=("--mem=0",),
        prelude=("module load openmpi", "source /opt/site/env.sh"),
    )
    order = Order("autotune-x", 2, 4, "2:00:00", ("cn0", "cn1"), predecessor="41", requeue=True, warn_s=90)
    assert submit(tmp_path / "slurm", settings, order, ["python", "-m", "autotune"], Slurm()) == "42"
    expected = CAMPAIGN.format(folder=tmp_path / "slurm", python=sys.executable)
    assert (sbatch / "script").read_text() == expected


@pytest.mark.parametrize("hosts", [(), ("cn0", "cn1")], ids=["any nodes", "its own nodes"])
def test_no_job_that_slurm_starts_again_is_held_to_its_nodes(sbatch, tmp_path, hosts):
    order = Order("autotune-x", 2, 4, "2:00:00", hosts, requeue=True)
    submit(tmp_path / "slurm", BatchSettings(), order, ["true"], Slurm())
    lines = (sbatch / "script").read_text().splitlines()
    assert ("#SBATCH --requeue" in lines) == (not hosts)
    assert any(line.startswith("#SBATCH --nodelist") for line in lines) == bool(hosts)


def test_a_warning_that_comes_before_the_program_does_not_end_the_job(sbatch, tmp_path):
    """It comes in the site's own lines, and again while the program has no handler of its own yet."""
    raised = "import os, signal; os.kill(os.getpid(), signal.SIGUSR1); print('goes on')"
    order, settings = Order("n", 1, 1, "2", warn_s=90), BatchSettings(prelude=("kill -USR1 $$",))
    submit(tmp_path / "slurm", settings, order, [sys.executable, "-c", raised], Slurm())
    inside = {"SLURM_JOB_ID": "42", "SLURM_JOB_NUM_NODES": "1", "SLURM_NTASKS": "1", "SLURM_PROCID": "0",
              "SLURM_LOCALID": "0", "SLURM_NODEID": "0"}  # fmt: skip
    done = ran(["bash", str(sbatch / "script")], env=os.environ | inside)
    assert done.stdout.endswith("goes on\n"), done.stderr


def test_the_script_of_a_trial_with_nothing_but_defaults(sbatch, tmp_path):
    submit(tmp_path, BatchSettings(exclusive=False), Order("t", 8, 1, "3"), ["true"], Slurm())
    lines = (sbatch / "script").read_text().splitlines()
    assert [line for line in lines if line.startswith("#SBATCH") and "output" not in line] == [
        "#SBATCH --job-name=t",
        "#SBATCH --no-requeue",
        "#SBATCH --nodes=8",
        "#SBATCH --ntasks-per-node=1",
        "#SBATCH --open-mode=append",
        "#SBATCH --signal=CONT@1",
        "#SBATCH --time=3",
    ]


def test_without_a_time_the_limit_is_the_sites(sbatch, tmp_path):
    submit(tmp_path, BatchSettings(), Order("t", 8, 1, ""), ["true"], Slurm())
    assert "--time" not in (sbatch / "script").read_text()


@pytest.mark.parametrize(("hosts", "refused"), [((), True), (("cn3",), False)])
def test_a_job_that_can_never_start_is_refused_but_for_nodes_that_may_come_back(
    sbatch, tmp_path, hosts, refused
):
    """As Slurm 22.05 says it, which queues such a job for ever."""
    (sbatch / "sbatch").write_text(
        "#!/bin/sh\n[ $1 = --test-only ] || { echo Submitted batch job 42; exit; }\n"
        "echo 'allocation failure: Requested node configuration is not available' >&2; exit 1\n"
    )
    order = Order("t", 16, 1, "", hosts)
    if refused:
        with pytest.raises(StackError, match="never start the job: Requested node configuration"):
            submit(tmp_path, BatchSettings(), order, ["true"], Slurm())
    else:
        assert submit(tmp_path, BatchSettings(), order, ["true"], Slurm()) == "42"


@pytest.mark.parametrize("value", HOSTILE)
def test_hostile_values_stay_words(sbatch, tmp_path, value):
    """Bash reads the script and starts one program: nothing else happens, and the command is not in it."""
    folder = tmp_path / f"campaign {value}".replace("/", "")
    settings = BatchSettings(
        partition=value, account=value, qos=value, constraint=value, sbatch=(f"--comment={value}",)
    )
    submit(folder, settings, Order(value, 1, 1, "1", (value,)), [value, "secret word"], Slurm())
    script = (sbatch / "script").read_text()
    assert "secret word" not in script
    commands = [line for line in script.splitlines() if line and not line.startswith("#")]
    assert len(commands) == 2
    stub = commands[1].replace(f"exec {sys.executable}", "printf '%s\\n'")
    seen = ran(["bash", "-c", stub], cwd=tmp_path, check=True)
    assert seen.stdout.splitlines() == ["-P", "-u", "-m", "submitit.core._submit", str(folder)]
    assert not list(tmp_path.rglob("pwned"))


@pytest.mark.parametrize("key", ["partition", "account", "qos", "constraint", "time"])
@pytest.mark.parametrize("value", ["a\nb", "a\rtouch x", "a\x00b", "\x1b[0m", "x\u2028y"])
def test_a_line_break_is_refused_by_name(key, value):
    with pytest.raises(ScenarioError, match=key):
        BatchSettings(**{key: value})


@pytest.mark.parametrize("line", ["--mem=0\nrm", "mem=0", "-N4", "#SBATCH --mem=0", "--Mem"])
def test_an_extra_option_must_be_a_long_one_on_one_line(line):
    with pytest.raises(ScenarioError, match="sbatch"):
        BatchSettings(sbatch=(line,))


def test_a_folder_with_a_line_break_is_refused(sbatch, tmp_path):
    with pytest.raises(ScenarioError, match="control character"):
        submit(tmp_path / "a\nb", BatchSettings(), Order("n", 1, 1, "1"), ["true"], Slurm())


@pytest.mark.parametrize("time", ["soon", "1h", "1:2:3:4", "-5"])
def test_a_time_that_slurm_cannot_read_is_refused(time):
    with pytest.raises(ScenarioError, match="D-H:MM:SS"):
        BatchSettings(time=time)


def test_an_unknown_way_lists_the_ways():
    with pytest.raises(ScenarioError, match="trial"):
        BatchSettings(allocation="trail")


def test_a_refused_job_says_what_slurm_said(sbatch, tmp_path):
    (sbatch / "sbatch").write_text("#!/bin/sh\necho 'sbatch: error: invalid account' >&2; exit 1\n")
    with pytest.raises(StackError, match="invalid account"):
        submit(tmp_path, BatchSettings(), Order("n", 1, 1, "1"), ["true"], Slurm())


def test_a_full_queue_is_waited_for_and_nothing_is_submitted_twice(sbatch, tmp_path):
    (sbatch / "sbatch").write_text(
        "#!/bin/sh\n[ $1 != --test-only ] || exit 0\n"
        f"if [ -e {sbatch}/again ]; then echo Submitted batch job 7; exit; fi\n"
        f"touch {sbatch}/again\n"
        "echo 'sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying' >&2; exit 1\n"
    )
    slept: list[float] = []
    slurm = Slurm(sleep=slept.append)
    assert submit(tmp_path, BatchSettings(), Order("name-7", 1, 1, "1"), ["true"], slurm) == "7"
    assert slept == [0.5]
    assert "--name=name-7" in (sbatch / "cancelled").read_text()


def test_a_queue_that_stays_full_ends_after_our_patience(sbatch, tmp_path):
    (sbatch / "sbatch").write_text("#!/bin/sh\necho 'sbatch: error: Socket timed out' >&2; exit 1\n")
    now = [0.0]
    slurm = Slurm(patience_s=100, clock=lambda: now[0], sleep=lambda s: now.__setitem__(0, now[0] + s))
    with pytest.raises(StackError, match=r"takes no job.*Socket timed out"):
        submit(tmp_path, BatchSettings(), Order("n", 1, 1, "1"), ["true"], slurm)
    assert 50 < now[0] <= 100
