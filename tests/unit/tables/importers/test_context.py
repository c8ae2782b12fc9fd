"""Tables that a log tells apart are no repeats of one another; a run's number, date or host tells nothing."""

from pathlib import Path

import pytest

from autotune.cli import main
from autotune.tables.importers import read, told_apart

FIELD = Path(__file__).parents[3] / "data/field"
TABLE = """# OSU MPI Allreduce Latency Test v7.4
# Datatype: MPI_CHAR.
# Size       Avg Latency(us)
4                      {0}.00
8                      {0}.10
"""
LAUNCH = "+ mpirun -np 8 ./osu_allreduce\n"


def tables(*before, launch=""):
    """A log with a table behind each of these texts."""
    return "".join(f"{text}\n{launch}{TABLE.format(i + 5)}" for i, text in enumerate(before))


def labels(log, *others):
    """The labels of the first row of each table, without the data type; and the words."""
    rows, words = told_apart([row for text in (log, *others) for row in read(text, "job.log")])
    firsts = (dict(row.labels) for row in rows if row.message_bytes == 4)
    return [{name: value for name, value in row.items() if name != "datatype"} for row in firsts], words


@pytest.mark.parametrize(
    ("before", "column", "values"),
    [
        ([f"+ mpirun -np 8 --mca coll_tuned_allreduce_algorithm {i} ./a" for i in (1, 3)],
            "coll_tuned_allreduce_algorithm", ["1", "3"]),
        (["$ mpirun -np 8 -x UCX_TLS=rc ./a", "$ mpirun -np 8 ./a"], "UCX_TLS", ["rc", None]),
        (["mpiexec -genv I_MPI_FABRICS shm -n 8 ./a", "mpiexec -n 8 ./a"], "I_MPI_FABRICS", ["shm", None]),
        (["srun -n 8 --export=ALL,A_B=1 ./a", "srun -n 8 --export=ALL,A_B=2 ./a"], "A_B", ["1", "2"]),
        (["MY_VAR=x mpirun -np 8 ./a", "MY_VAR=y mpirun -np 8 ./a"], "MY_VAR", ["x", "y"]),
        (["mpirun -np 8 --bind-to core ./a", "mpirun -np 8 --bind-to none ./a"], "bind-to", ["core", "none"]),
        (["srun -N 2 -n 8 ./a", "srun -N 4 -n 8 ./a"], "N", ["2", "4"]),
        (["/a/mpirun -np 8 ./a", "/b/mpirun -np 8 ./a"], "launcher", ["/a/mpirun", "/b/mpirun"]),
        (["mpirun -np 8 ./a -d cuda", "mpirun -np 8 ./a"], "command", ["./a -d cuda", "./a"]),
        ([f"mpirun -np 8 \\\n  --mca pml {pml} \\\n  ./a" for pml in ("ucx", "ob1")], "pml", ["ucx", "ob1"]),
        (["export OMPI_MCA_pml=ucx", "export OMPI_MCA_pml=ob1"], "pml", ["ucx", "ob1"]),
        (["export UCX_TLS=rc", "unset UCX_TLS"], "UCX_TLS", ["rc", None]),
        (["setenv UCX_TLS rc", "setenv UCX_TLS ud"], "UCX_TLS", ["rc", "ud"]),
        (["ALGO=ring", "ALGO=tree"], "ALGO", ["ring", "tree"]),
        (["module load ompi/4.1", "module swap ompi/4.1 ompi/5.0"], "modules", ["ompi/4.1", "ompi/5.0"]),
        (["ml impi/2019", "ml purge; ml impi/2021"], "modules", ["impi/2019", "impi/2021"]),
        (["source /a/vars.sh", ". /b/vars.sh"], "modules", ["/a/vars.sh", "/a/vars.sh /b/vars.sh"]),
        (["### ring", "### tree"], "heading", ["ring", "tree"]),
        (["**Algorithm 0**", "**Algorithm 1**"], "heading", ["Algorithm 0", "Algorithm 1"]),
        (["==== hcoll ====", "==== tuned ===="], "heading", ["hcoll", "tuned"]),
        (["=====\nMPI A 4.1\n=====", "=====\nMPI B 5.0\n====="], "heading", ["MPI A 4.1", "MPI B 5.0"]),
        (["########\n# ring\n########", "########\n# tree\n########"], "heading", ["ring", "tree"]),
        (["-----\nring\n-----", "-----\ntree\n-----"], "heading", ["ring", "tree"]),
        (["== MPI A 4.1", "== MPI B 5.0"], "heading", ["MPI A 4.1", "MPI B 5.0"]),
        (["Try algorithm 1", "Try algorithm 2"], "heading", ["Try algorithm 1", "Try algorithm 2"]),
        (['sh -c "mpirun -n 8 -x A_B=1 ./a"', 'sh -c "mpirun -n 8 -x A_B=2 ./a"'], "A_B", ["1", "2"]),
        (["Algorithm 0", "Algorithm 1"], "heading", ["Algorithm 0", "Algorithm 1"]),
        (["With hcoll", "Without hcoll"], "heading", ["With hcoll", "Without hcoll"]),
        (["Algorithm: ring", "Algorithm: tree"], "algorithm", ["ring", "tree"]),
    ],
)  # fmt: skip
def test_what_stands_between_tables_is_a_column(before, column, values):
    launch = "" if any("./a" in text for text in before) else LAUNCH
    found, words = labels(tables(*before, launch=launch))
    assert [row.get(column) for row in found] == values
    assert not words


@pytest.mark.parametrize(
    "before",
    [
        ["", "", ""],
        ["=== run 1 ===", "=== run 2 ==="],
        ["## Repetition 1 of 3", "## Repetition 2 of 3"],
        ["Sat Nov 28 21:55:17 UTC 2026", "Sat Nov 28 22:01:09 UTC 2026"],
        ["2026-11-28T21:55:17+00:00", "2026-11-29T01:00:00+00:00"],
        ["Job 4711", "Job 4712"],
        ["SLURM_JOB_ID=4711", "SLURM_JOB_ID=4712"],
        ["export RUN=1", "export RUN=2"],
        ["Hostname: n1", "Hostname: n7"],
        ["node012", "node013"],
        ["==> run1.log <==", "==> run2.log <=="],
        ["=== 1 ===", "=== 2 ==="],
        ["real\t0m1.234s", "real\t0m2.345s"],
        ["Elapsed: 12 s", "Elapsed: 13 s"],
        ["Total time 12", "Total time 13"],
        ["job.out: TACC:  Starting up job 4711", "job.out: TACC:  Starting up job 4712"],
        ["mpirun -np 8 -H n1,n2 ./a > out_1.log", "mpirun -np 8 -H n3,n4 ./a > out_2.log"],
        ["mpirun -np 8 --output-filename a.1 ./a", "mpirun -np 8 --output-filename a.2 ./a"],
        ["srun -J first -w n1 -n 8 ./a", "srun -J second -w n2 -n 8 ./a"],
        ["export OMPI_MCA_pml=ucx\nmpirun -np 8 ./a", "mpirun -np 8 ./a"],
    ],
)
def test_repeats_stay_repeats(before):
    launch = "" if any("./a" in text for text in before) else LAUNCH
    found, words = labels(tables(*before, launch=launch))
    assert found == [{}] * len(before)
    assert not words


@pytest.mark.parametrize(
    "before",
    [
        ["first try", "eager forced"],
        ["alpha", "beta"],
        ["x", "set 4096", "set 8192"],
        ["# MPI A", "# MPI B"],
        ["| ring |", "| tree |"],
        ["==> ring.log <==", "==> tree.log <=="],
    ],
)
def test_text_that_nobody_reads_is_named(before):
    found, words = labels(tables(*before, launch=LAUNCH))
    assert found == [{}] * len(before)
    (text,) = words
    assert f"job.log: {len(before)} tables of allreduce on 8 ranks differ in nothing that is read" in text
    assert before[-1] in text


def test_repeats_of_several_settings_are_repeats_of_each():
    before = [f"=== run {run}, {what} ===" for what in ("ring", "tree") for run in (1, 2)]
    found, words = labels(tables(*before, launch=LAUNCH))
    assert found == [{"heading": "ring"}] * 2 + [{"heading": "tree"}] * 2
    assert not words


def test_chatter_inside_of_a_table_does_not_cut_it():
    log = tables(*["mpirun -np 8 ./a"] * 2)
    log = log.replace("8                      6.10", "WARNING: x\nexport A_B=1\n8    6.10")
    found, words = told_apart(read(log, "job.log"))
    assert {row.labels for row in found} == {(("datatype", "MPI_CHAR"),)}
    assert not words


def test_launches_of_several_files_are_told_apart():
    first, second = (tables(f"mpirun -np 8 --mca pml {pml} ./a") for pml in ("ucx", "ob1"))
    assert labels(first, second)[0] == [{"pml": "ucx"}, {"pml": "ob1"}]
    assert labels(first, first)[0] == [{}, {}]


def test_tables_that_differ_anyway_have_no_further_columns():
    other = TABLE.replace("Allreduce", "Broadcast").format(7)
    log = tables("mpirun -np 8 --mca pml ucx ./a") + "mpirun -np 8 ./b\n" + other
    rows, _ = told_apart(read(log, "job.log"))
    assert {row.labels for row in rows} == {(("datatype", "MPI_CHAR"),)}


def test_intels_benchmarks_are_told_apart_as_well():
    run = (FIELD / "o1_imb41.log").read_text()
    rows, _ = told_apart(read("export UCX_TLS=rc\n" + run + "export UCX_TLS=ud\n" + run, "imb.log"))
    assert [dict(row.labels) for row in rows] == [{"UCX_TLS": "rc"}] * 3 + [{"UCX_TLS": "ud"}] * 3


def test_guidelines_judge_each_setting_by_itself(capsys):
    assert main(["compare", "--guidelines", str(FIELD / "p1_sweep.log")]) == 0
    assert "none of 12 guidelines violated" in capsys.readouterr().out  # four for each algorithm


def test_headings_of_a_page_become_a_column(capsys):
    assert main(["import", str(FIELD / "p2_headings.md")]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.endswith(",heading")
    found = [row.rpartition(",")[2] for row in rows]
    assert found == ["Algorithm 0: ignore"] * 2 + ["Algorithm 1: linear"] * 2
