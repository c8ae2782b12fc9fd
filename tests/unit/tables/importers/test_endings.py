"""A run that ended early is refused, whoever says so; what only sounds like it is left alone."""

import re
from pathlib import Path

import pytest

from autotune.errors import TableError
from autotune.tables.importers import read
from autotune.tables.importers.endings import ENDINGS, ended_early, reporter

RECORDED = [
    tuple(line.split("| ", 1))
    for line in (Path(__file__).parents[3] / "data/endings.txt").read_text().splitlines()
    if not line.startswith("#")
]
OSU = """$ mpiexec -n 64 ./osu_allreduce
# OSU MPI Allreduce Latency Test v7.4
# Size       Avg Latency(us)
4                      10.05
8                      10.84
"""


@pytest.mark.parametrize(("who", "line"), RECORDED)
def test_half_a_table_is_refused_with_the_line_that_says_so(who, line):
    with pytest.raises(TableError, match=r"job\.out:6: the run failed") as caught:
        read(OSU + line + "\n", "job.out")
    assert who in ENDINGS
    assert f"{reporter(line)} says so" in caught.value.hint


def test_every_pattern_was_printed_by_somebody():
    for who, patterns in ENDINGS.items():
        for pattern in patterns:
            lines = [line for speaker, line in RECORDED if speaker == who]
            assert any(re.search(pattern, line, re.IGNORECASE) for line in lines), (who, pattern)


def test_who_says_it_is_named():
    wrong = [(who, reporter(line)) for who, line in RECORDED if reporter(line) != who]
    # A line may be of several: the kernel's words in Slurm's message.
    assert len(wrong) <= len(RECORDED) // 10, wrong


@pytest.mark.parametrize(
    "line",
    [
        "srun: warning: can't run 1 processes on 2 nodes, setting nnodes to 1",
        "srun: job 4711 queued and waiting for resources",
        "Successfully completed.",
        "Resource usage summary:",
        "Application 4711 resources: utime ~3s, stime ~1s, Rss ~6996, inblocks ~10, outblocks ~20",
        "Application 4711 exit codes: 0",
        "[mpiexec@n1] Launch arguments: /opt/mpi/bin/hydra_bstrap_proxy --upstream-host n1",
        "[proxy:0:0@n1] got pmi command (from 4): get_maxes",
        "[n1:mpi_rank_0] warning: using the default of eager messages",
        "flux-job: task(s) exited with exit code 0",
        "1.2s: job.exception type=note severity=5 this is a note",
        "PSIlogger: Child with rank 3 exited with status 0.",
        "# killed jobs are run again",
        "the timer Terminated normally after 3 rounds",
        "mpirun: Forwarding signal 18 to job",
        "walltime: 3600 limit 7200",
        "time limit: 01:00:00, job is running",
        "exit code: 0",
        "Job 4711 terminated normally",
        "exit status 1 of 12 checks",
        "the signal 9 GHz receiver is on",
        "received 128 messages",
        "Exited with exit code 0.",
        "12.45   3.98",
        'Script done on 2026-11-28 10:58:24+00:00 [COMMAND_EXIT_CODE="0"]',
        "Script started on 2026-11-28 10:58:24+00:00",
        "Beendet",
        "Terminado",
        "Complété",
        "make: [Makefile:3: run] Error 1 (ignored)",
        "make[1]: Entering directory '/src'",
        "State: COMPLETED (exit code 0)",
        "JobState=RUNNING Reason=None",
        "Exit_status=0",
        "[1]+  Done                    mpirun -n 4 ./osu_allreduce",
        "\tExit status: 0",
        "input.txt: line 3: 12 rows read",
        "# Latenz in µs",
        "Connection to login1 closed.",
        "srun: interrupt (one more within 1 sec to abort)",
        "",
    ],
)
def test_what_only_sounds_like_it_is_left_alone(line):
    assert not ended_early(line)
    assert not reporter(line)


@pytest.mark.parametrize(
    "line",
    [
        # comments of benchmarks
        "# is expected to be exceeded. Time limit is defined by variable ",
        "# the benchmark was killed by signal 9 in earlier versions",
        "#SBATCH --comment='job killed by the time limit'",
        # banners and messages of the day, of schedulers and log-in nodes
        "* Jobs that exceed their memory limit will be killed.",
        "*  Processes exceeding the memory limit of 4 GB are terminated. *",
        "NOTE: if your job is killed, ask for more memory",
        "Your job will be cancelled when the time limit is reached",
        "A job which exceeds its walltime gets killed by the scheduler",
        "If a node died, its jobs are requeued.",
        "| All jobs will be CANCELLED AT 18:00 due to maintenance |",
        "Maintenance on Friday: running jobs are cancelled due to node failure tests",
        "The time limit of this queue must not be exceeded",
        "the time limit was not exceeded",
        "Users whose quota is used up: Disk quota exceeded errors are explained in our FAQ",
        "Whenever you see 'No space left on device', empty your scratch folder",
        "You have exceeded soft limit of 40 GB on /home",
        "Segmentation faults are often cured by ulimit -s unlimited",
        "Out of memory errors are the commonest cause",
        "Why was my job killed? See https://docs.example.org",
        # help texts and documentation
        "  --timeout N   job killed after N seconds",
        "-t, --time  maximum; job aborted when the time limit is exceeded",
        "exit code 137 means that the kernel ended it",
        # what a shell echoes of a script
        "+ trap 'echo job killed by the time limit' USR1",
        "$ grep -c 'Segmentation fault' *.log",
    ],
)
def test_a_sentence_that_mentions_limits_or_kills_is_no_ending(line):
    assert not ended_early(line)
    assert not reporter(line)
    assert len(read(line + "\n" + OSU, "job.out")) == 2
