"""A real Open MPI, 4.1 and 5, reads the exported files: rows are reached, transports are used.

An algorithm id that does not exist is refused with MPI_ERR_ARG by the first call that reaches its row: so id
99 shows, size by size, which row a call reaches.
"""

import os
from itertools import chain
from pathlib import Path

import pytest

from autotune.exporters import exporter
from autotune.exporters.launch_line import PROGRAM
from autotune.history.trial import Rule
from autotune.recommend.recommendation import Provenance, Recommendation
from autotune.space import Point
from autotune.stacks import coll_tuned
from tests.integration.mpirun import ROOT, launcher, python_of, untold
from tests.program import ran
from tests.suites import OPENMPI

RANKS = 2
UCX = {
    "OMPI_MCA_pml": "ucx",
    "OMPI_MCA_opal_common_ucx_tls": "any",
    "OMPI_MCA_opal_common_ucx_devices": "any",
}
CALLS = Path(__file__).with_name("calls.py")


@pytest.fixture(scope="session", params=OPENMPI)
def mpirun(request):
    """Interpreter of an environment, the ``mpirun`` that goes with it, and its version."""
    python = python_of(request.param)
    command, version = launcher(python), "4.1" if request.param else "5"
    said = ran([command, "--version"]).stdout
    if f"(Open MPI) {version}." not in said:
        pytest.skip(f"{command} is no Open MPI {version}")
    return python, command, version


def launch(mpirun, calls, env, ranks=RANKS, options=()):
    """Standard output and error of ``calls`` under ``mpirun``, with nothing set but ``env``."""
    python, command, _ = mpirun
    done = ran(
        [command, "--oversubscribe", *options, "-n", str(ranks), python, str(CALLS), *calls],
        env=untold() | ROOT | {"OMPI_MCA_mpi_yield_when_idle": "1"} | env,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def outcome(mpirun, calls, env, ranks=RANKS, options=()):
    """For each call the MPI error class that it ended with."""
    out, _ = launch(mpirun, calls, env, ranks, options)
    # UCX says on the same stream that nothing used UCX_CONFIG_DIR, and obeys it all the same.
    return dict(line.split() for line in out.splitlines() if " UCX  WARN " not in line)


def deployed(tmp_path, rules):
    """The exported files in a directory, and the variables by which they are found."""
    made = Recommendation(Point(), tuple(rules), provenance=Provenance("here", env=tuple(UCX.items())))
    files = exporter("openmpi_mca").export(made, tmp_path)
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    return {
        "OMPI_MCA_mca_base_param_files": str(tmp_path / "openmpi-mca-params.conf"),
        "UCX_CONFIG_DIR": str(tmp_path),
    }


def poison(tmp_path, algorithm):
    """Put id 99 in the place of an algorithm in the rules file."""
    path = tmp_path / "coll_tuned_rules.conf"
    lines = path.read_text().splitlines()
    hit = [i for i, line in enumerate(lines) if line.endswith(f"# {algorithm}") and line.count(" ") > 4]
    assert hit
    for i in hit:
        threshold, _, rest = lines[i].split(" ", 2)
        lines[i] = f"{threshold} 99 {rest}"
    path.write_text("\n".join(lines) + "\n")


def rule(collective, min_bytes, algorithm, comm_size=RANKS):
    return Rule(collective, comm_size, min_bytes, Point.of({"algorithm": algorithm}))


def test_rows_are_reached_from_their_message_sizes_on(mpirun, tmp_path):
    chosen = {c: coll_tuned.algorithms(c)[2] for c in coll_tuned.ALGORITHMS if c not in coll_tuned.ONE_ROW}
    rows = [(rule(c, 0, "default"), rule(c, 1024, algorithm)) for c, algorithm in chosen.items()]
    env = deployed(tmp_path, chain.from_iterable(rows))
    expected = {8: "SUCCESS", 1016: "SUCCESS", 1024: "ERR_ARG", 65536: "ERR_ARG"}
    calls = {f"{c}:{size}": said for c in chosen for size, said in expected.items()}
    assert outcome(mpirun, calls, env) == dict.fromkeys(calls, "SUCCESS")
    for algorithm in set(chosen.values()):
        poison(tmp_path, algorithm)
    assert outcome(mpirun, calls, env) == calls


def test_where_sizes_cannot_be_told_apart_the_one_row_is_reached_by_all(mpirun, tmp_path):
    env = deployed(tmp_path, [rule(c, 0, "linear") for c in coll_tuned.ONE_ROW])
    poison(tmp_path, "linear")
    calls = [f"{c}:{size}" for c in coll_tuned.ONE_ROW for size in (8, 65536)]
    assert outcome(mpirun, calls, env) == dict.fromkeys(calls, "ERR_ARG")


def test_scan_forgets_the_count(mpirun, tmp_path):
    """Why ``scan`` has one row: 64 KiB of doubles are looked up as 8 bytes × 2 ranks."""
    env = deployed(tmp_path, [rule("scan", 0, "linear")])
    rules = tmp_path / "coll_tuned_rules.conf"
    for threshold, expected in ((17, "SUCCESS"), (16, "ERR_ARG")):
        rules.write_text(f"1\n14\n1\n2\n2\n0 0 0 0\n{threshold} 99 0 0\n")
        assert outcome(mpirun, ["scan:65536"], env) == {"scan:65536": expected}


def test_scatter_by_size_would_part_the_ranks(mpirun, tmp_path):
    """Why ``scatter`` has one row: only the root looks up the size, the others look up 0 bytes."""
    env = deployed(tmp_path, [rule("scatter", 0, "linear")])
    (tmp_path / "coll_tuned_rules.conf").write_text("1\n15\n1\n2\n2\n0 99 0 0\n2048 0 0 0\n")
    with pytest.raises(AssertionError, match="rank 1: scatter:1024 ERR_ARG"):
        launch(mpirun, ["--strict", "scatter:1024"], env)


def test_three_ranks_do_not_get_the_algorithm_for_two(mpirun, tmp_path):
    env = deployed(tmp_path, [rule("alltoall", 0, "two_proc")])
    assert outcome(mpirun, ["alltoall:64"], env, ranks=3) == {"alltoall:64": "SUCCESS"}
    rules = tmp_path / "coll_tuned_rules.conf"
    rules.write_text("1\n3\n1\n2\n1\n0 5 0 0\n")
    found = outcome(mpirun, ["alltoall:64"], env, ranks=3)
    assert found == {"alltoall:64": "ERR_UNSUPPORTED_OPERATION"}


@pytest.mark.parametrize(
    "name", ["openmpi_mca", "openmpi_mca_list", "coll_tuned", "tune", "env_sh", "ucx_conf"]
)
def test_the_line_that_a_format_gives_puts_all_of_it_into_force(mpirun, tmp_path, name):
    python, command, _ = mpirun
    rules = [rule("allreduce", 0, "default"), rule("allreduce", 1024, "rabenseifner")]
    rules = [] if name == "ucx_conf" else rules
    env = tuple((UCX | {"UCX_TLS": "self,posix"}).items())
    source = Provenance("here", env=env, placement=(("bind_to", "none"),))
    made = Recommendation(Point(), tuple(rules), provenance=source)
    there = tmp_path / "it is there"
    if name != "tune":  # such a file takes no spaces
        there.mkdir()
    there = there if there.exists() else tmp_path
    for file, text in exporter(name).export(made, there).items():
        (there / file).write_text(text)
    if rules:
        poison(there, "rabenseifner")
    program = f"-n {RANKS} {python} {CALLS} allreduce:1016 allreduce:1024"
    line = exporter(name).use(made, there).replace(PROGRAM, program)
    path = {"PATH": os.pathsep.join([str(Path(command).parent), os.environ["PATH"]])}
    yielding = {"OMPI_MCA_mpi_yield_when_idle": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}
    env = untold() | ROOT | {"UCX_LOG_LEVEL": "info"} | path | yielding
    done = ran(["sh", "-c", line], env=env)
    assert done.returncode == 0, done.stderr
    said = done.stdout + done.stderr
    assert "tag(posix/memory)" in said
    assert "sysv/" not in said
    assert ("unused environment variable" in said) == (name == "ucx_conf")
    assert "allreduce:1016 SUCCESS" in said
    assert f"allreduce:1024 {'ERR_ARG' if rules else 'SUCCESS'}" in said
