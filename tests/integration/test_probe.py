"""The probe under a real Open MPI 5: what it measures, checks and refuses."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from autotune.collectives import MEASURED
from autotune.probe.protocol import REQUEST, Expectation, Heat, ProbeResult, SweptChoice
from autotune.probe.ucx import last_errors
from autotune.stacks.installation import find
from tests.asking import FEW_CALLS, probe_request
from tests.integration.mpirun import CROWDED, UCX, launcher, probe

pytestmark = pytest.mark.mpi

DYNAMIC = ("--mca", "coll_tuned_use_dynamic_rules", "1", "--mca", "coll_han_priority", "0")


def algorithms(collective, *numbers):
    name = f"coll_tuned_{collective}_algorithm"
    return {collective: tuple(SweptChoice({"algorithm": n}, {name: n}) for n in numbers)}


def test_sizes_and_algorithms_are_swept_in_one_launch(tmp_path):
    request = probe_request(
        ("allreduce",), (8, 65536), algorithms("allreduce", 3, 4, "rabenseifner"), ranks=2, **FEW_CALLS
    )
    launched = probe(tmp_path, request, *DYNAMIC)
    assert launched.code == 0, launched.stderr
    result = launched.result
    assert result.status == "ok"
    assert result.library.startswith("Open MPI v5")
    assert len(result.hosts) == 2
    assert result.machine["machine_cores"] >= 1
    assert 0 <= result.machine["other_load_cores"] <= result.machine["machine_cores"] + 1
    assert [(c.message_bytes, c.values["algorithm"]) for c in result.cells] == [
        (size, algorithm) for size in (8, 65536) for algorithm in (3, 4, "rabenseifner")
    ]
    for cell in result.cells:
        assert cell.status == "ok"
        assert len(cell.samples_s) >= request.min_samples
        assert (cell.samples_s > 0).all()
    read_back = result.applied["coll_tuned_allreduce_algorithm"].split(", ")
    assert read_back[:3] == ["3 recursive_doubling", "4 ring", "6 rabenseifner"]


def test_a_cell_that_was_never_timed_cannot_be_used(tmp_path):
    sizes = tuple(2**20 + 64 * k for k in range(60))
    result = probe(tmp_path, probe_request(("alltoall",), sizes, ranks=2, budget_s=1e-3)).result
    assert len(result.cells) == len(sizes)
    for cell in result.cells:
        assert (cell.status == "ok") == (len(cell.samples_s) > 0), cell.reason
    assert any("before its first timed call" in cell.reason for cell in result.cells)


@pytest.mark.parametrize("timing", ["native", "python"])
def test_a_tight_loop_tells_the_slowest_the_average_and_the_fastest_rank(tmp_path, timing):
    names = ("allreduce", "bcast", "pingpong")
    request = probe_request(
        names, (8, 4096), ranks=2, **FEW_CALLS, min_samples=12, loop="tight", timing=timing
    )
    result = probe(tmp_path, request).result
    assert (result.status, result.timing) == ("ok", timing)
    for cell in result.cells:
        assert cell.status == "ok", cell.reason
        fastest, average = cell.extra["ranks_min_s"], cell.extra["ranks_avg_s"]
        assert 0 < fastest <= average
        if cell.collective == "pingpong":  # only the first rank's time counts
            assert fastest == average == np.median(cell.samples_s)
        assert len(cell.samples_s) >= 12


@pytest.mark.parametrize("loop", ["interleaved", "tight"])
def test_both_loops_are_measured_in_one_launch(tmp_path, loop):
    other = {"interleaved": "tight", "tight": "interleaved"}[loop]
    options = {"ranks": 2, **FEW_CALLS, "loop": loop, "other_loop": other}
    result = probe(tmp_path, probe_request(("allreduce", "barrier"), (8, 4096), **options)).result
    assert len(result.cells) == 3
    for cell in result.cells:
        assert cell.status == "ok", cell.reason
        assert 0 < cell.extra["other_loop_s"] < 1
        assert ("ranks_avg_s" in cell.extra) == (loop == "tight")


def test_a_tight_loop_leaves_out_what_it_has_no_time_for(tmp_path):
    sizes = tuple(2**20 + 64 * k for k in range(60))
    result = probe(tmp_path, probe_request(("alltoall",), sizes, ranks=2, budget_s=1e-3, loop="tight")).result
    assert any("before its first timed call" in cell.reason for cell in result.cells)
    assert any(cell.status == "ok" for cell in result.cells)


@pytest.mark.parametrize(
    ("options", "timing"), [((), "python"), (UCX, "native")], ids=["default-python", "ucx-native"]
)
def test_every_collective_gives_right_results_on_every_communicator_size(tmp_path, options, timing):
    request = probe_request(
        MEASURED,
        (0, 3, 8, 4096),
        comm_sizes=(2, 3),
        ranks=3,
        **FEW_CALLS,
        max_samples=10,
        timing=timing,
    )
    launched = probe(tmp_path, request, *options, *CROWDED, ranks=3)
    assert launched.code == 0, launched.stderr
    assert {(c.collective, c.comm_size) for c in launched.result.cells} == {
        (name, size) for name in MEASURED for size in (2, 3)
    }
    for cell in launched.result.cells:
        assert cell.status == "ok", cell
        assert np.isfinite(cell.samples_s).all()


def test_a_choice_that_the_library_refuses_is_no_observation(tmp_path):
    request = probe_request(("allreduce",), (8,), algorithms("allreduce", 3, 7), ranks=2, **FEW_CALLS)
    launched = probe(tmp_path, request, *DYNAMIC)
    right, refused = launched.result.cells
    assert right.status == "ok"
    assert refused.status == "not_applied"
    assert "coll_tuned_allreduce_algorithm=7" in refused.reason
    assert not refused.samples_s.size


@pytest.mark.parametrize("ranks", [2, 3])
def test_calls_that_reach_a_row_are_told_apart_though_the_probe_itself_would_be_refused(tmp_path, ranks):
    """Every small message of what the probe and the library use themselves is refused under these rules."""
    rules = tmp_path / "rules.conf"
    rows = "2\n0 99 0 0\n4096 0 0 0\n"
    tables = "".join(f"{number}\n1\n2\n{rows}" for number in (0, 2, 7))  # allgather, allreduce, bcast
    rules.write_text(f"3\n{tables}")
    names = ("allreduce", "bcast", "allgather", "reduce")
    request = probe_request(names, (8, 65536), comm_sizes=(2, ranks), ranks=ranks, reach=True)
    options = ("--mca", "coll_tuned_dynamic_rules_filename", str(rules), *CROWDED)
    launched = probe(tmp_path, request, *DYNAMIC, *options, ranks=ranks)
    assert launched.code == 0, launched.stderr
    refused = {(c.collective, c.message_bytes) for c in launched.result.cells if c.status == "invalid"}
    assert refused == {("allreduce", 8), ("bcast", 8), ("allgather", 8)}
    assert {c.comm_size for c in launched.result.cells} == {2, ranks}
    assert all(len(c.samples_s) == (c.status == "ok") for c in launched.result.cells)


def test_an_algorithm_that_mpirun_did_not_take_is_found_out(tmp_path):
    """Open MPI warns, runs its default and exits 0."""
    expect = Expectation(cvars={"coll_tuned_allreduce_algorithm": "7"})
    request = probe_request(("allreduce",), (8,), ranks=2, **FEW_CALLS, expect=expect)
    launched = probe(tmp_path, request, *DYNAMIC, "--mca", "coll_tuned_allreduce_algorithm", "7")
    assert launched.result.status == "not_applied"
    assert "coll_tuned_allreduce_algorithm is '0', asked for '7'" in launched.result.reason
    assert "6 rabenseifner" in launched.result.reason
    assert not launched.result.cells


def test_an_environment_variable_that_ranks_do_not_see_is_found_out(tmp_path):
    request = probe_request(("allreduce",), (8,), ranks=2, expect=Expectation(env={"UCX_TLS": "self,posix"}))
    launched = probe(tmp_path, request)
    assert launched.result.status == "not_applied"
    assert "UCX_TLS is not set" in launched.result.reason


def test_another_library_than_the_launchers_is_refused(tmp_path):
    request = probe_request(("allreduce",), (8,), expect=Expectation(library="/opt/site/lib/libmpi.so.40"))
    launched = probe(tmp_path, request)
    assert launched.result.status == "invalid"
    assert "/opt/site/lib/libmpi.so.40" in launched.result.reason


GOOD = json.loads(probe_request(("allreduce",), (8,)).to_json())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (json.dumps({**GOOD, "collectives": ["allredcue"]}), "did you mean 'allreduce'?"),
        (json.dumps({**GOOD, "sizes_bytes": [8, -8]}), "negative message size -8"),
        (json.dumps({**GOOD, "ranks": 64}), "for 64 ranks, the launch has 2"),
        (json.dumps({**GOOD, "comm_sizes": [64]}), "communicator size 64"),
        ('{"version": 1, "coll', "unreadable request"),
        (json.dumps({**GOOD, "sizes": [8]}), "unreadable request"),
    ],
    ids=["collective", "size", "ranks", "comm_size", "json", "key"],
)
def test_a_bad_request_ends_all_ranks_with_one_line(tmp_path, text, words):
    launched = probe(tmp_path, text)
    lines = [line for line in launched.stderr.splitlines() if line.startswith("autotune.probe:")]
    assert len(lines) == 1
    assert words in lines[0]
    assert "Traceback" not in launched.stderr
    assert launched.result.status == "invalid"
    assert words in launched.result.reason
    assert launched.code == 2


def test_an_unreadable_request_ends_all_ranks_with_one_line(tmp_path):
    from tests.integration.mpirun import run

    done = run([sys.executable, "-m", "autotune.probe", str(tmp_path / "nowhere")])
    assert done.returncode == 2
    assert done.stderr.count("cannot read") == 1
    assert "Traceback" not in done.stderr


def test_a_rank_that_crashes_leaves_no_core_dump(tmp_path):
    from tests.integration.mpirun import run

    code = (
        "import sys; from resource import RLIMIT_CORE, getrlimit, setrlimit; "
        "setrlimit(RLIMIT_CORE, getrlimit(RLIMIT_CORE)[1:] * 2); sys.argv = ['probe', sys.argv[1]]; "
        "from autotune.probe.__main__ import main; main(); print('limit', *getrlimit(RLIMIT_CORE))"
    )
    done = run([sys.executable, "-c", code, str(tmp_path / "nowhere")], ranks=1)
    assert "limit 0 " in done.stdout, done.stderr


def ucx_request(**env):
    return probe_request(
        ("allreduce",), (8, 65536), ranks=2, **FEW_CALLS, expect=Expectation(ucx=True, env=env)
    )


def exported(env):
    return [word for name, value in env.items() for word in ("-x", f"{name}={value}")]


@pytest.mark.parametrize(
    "env",
    [
        {},
        {"UCX_TLS": "self,posix", "UCX_RNDV_THRESH": "16k"},
        {"UCX_TLS": "self,tcp", "UCX_RNDV_THRESH": "inf", "UCX_ZCOPY_THRESH": "4kb"},
        {"UCX_TLS": "sm,self", "UCX_RNDV_THRESH": "intra:64k,inter:256k"},
    ],
)
def test_ucx_settings_that_are_in_force_are_proven(tmp_path, env):
    launched = probe(tmp_path, ucx_request(**env), *UCX, *exported(env))
    assert launched.result.status == "ok", launched.result.reason
    lanes = launched.result.applied["ucx intra-node"]
    if "UCX_TLS" in env:
        assert {"self,posix": "posix", "self,tcp": "tcp", "sm,self": "/memory"}[env["UCX_TLS"]] in lanes


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({"UCX_RDNV_THRESH": "16k"}, "unused environment variable: UCX_RDNV_THRESH"),
        ({"UCX_TLS": "self,posix,warp"}, "transport 'warp' is not available"),
        ({"UCX_NET_DEVICES": "mlx5_9:1", "UCX_TLS": "self,posix"}, "mlx5_9:1"),
    ],
    ids=["misspelt", "transport", "device"],
)
def test_what_ucx_only_warns_of_is_found_out(tmp_path, env, words):
    launched = probe(tmp_path, ucx_request(**env), *UCX, *exported(env))
    assert launched.result.status == "not_applied"
    assert words in launched.result.reason
    assert not launched.result.cells


def test_ucx_variables_without_ucx_are_found_out(tmp_path):
    env = {"UCX_TLS": "self,posix"}
    launched = probe(tmp_path, ucx_request(**env), "--mca", "pml", "ob1", *exported(env))
    assert launched.result.status == "not_applied"
    assert "UCX is not in use" in launched.result.reason


def test_start_windows_give_a_validity_code_with_each_sample(tmp_path):
    # Few windows are met on a busy machine; on a quiet one some tens of samples end it long before.
    names, sizes = ("allreduce", "pingpong"), (8, 4096)
    request = probe_request(names, sizes, ranks=2, **FEW_CALLS, sync="window")
    launched = probe(tmp_path, request)
    assert launched.result.status == "ok", launched.result.reason
    for cell in launched.result.cells:
        assert cell.status == "ok"
        assert cell.validity.shape == cell.samples_s.shape
        assert (cell.samples_s[cell.validity == 0] > 0).all()
    assert any((cell.validity == 0).any() for cell in launched.result.cells)


@pytest.mark.parametrize("timing", ["native", "python"])
def test_calls_are_timed_as_asked(tmp_path, timing):
    launched = probe(tmp_path, probe_request(("bcast",), (8,), ranks=2, **FEW_CALLS, timing=timing))
    assert launched.result.status == "ok", launched.result.reason
    assert launched.result.timing == timing
    assert 0 < launched.result.overhead_s < launched.result.cells[0].samples_s.max()


def broken_compiler(tmp_path):
    """An environment in which no compiler works and nothing is cached."""
    directory = tmp_path / "bin"
    directory.mkdir()
    for name in ("cc", "gcc"):
        (directory / name).write_text("#!/bin/sh\necho no licence >&2\nexit 1\n")
        (directory / name).chmod(0o755)
    return {
        "OMPI_CC": str(directory / "cc"),
        "MPICH_CC": str(directory / "cc"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }


def test_without_a_compiler_calls_are_timed_through_mpi4py_and_that_is_said(tmp_path):
    request = probe_request(("bcast",), (8,), ranks=2, **FEW_CALLS)
    launched = probe(tmp_path / "launch", request, env=broken_compiler(tmp_path))
    assert launched.result.timing == "python"
    assert any("no licence" in note for note in launched.result.notes)
    assert launched.result.overhead_s > 0


def test_without_a_compiler_native_timing_is_refused(tmp_path):
    request = probe_request(("bcast",), (8,), ranks=2, **FEW_CALLS, timing="native")
    launched = probe(tmp_path / "launch", request, env=broken_compiler(tmp_path))
    assert launched.result.status == "invalid"
    assert "timing=native" in launched.result.reason
    assert "no licence" in launched.result.reason


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_without_a_cache_the_kernel_lies_in_the_directory_of_the_launch(tmp_path):
    (tmp_path / "cache").write_text("a file, so that nothing can be made below")
    request = probe_request(("bcast",), (8,), ranks=2, **FEW_CALLS, timing="native")
    launched = probe(tmp_path / "launch", request, env={"XDG_CACHE_HOME": str(tmp_path / "cache")})
    assert launched.result.status == "ok", launched.result.reason
    assert len(list((tmp_path / "launch").glob("kernel/kernel-*.so"))) == 1


def test_memory_is_reported_when_asked_for(tmp_path):
    launched = probe(tmp_path, probe_request(("bcast",), (8,), ranks=2, **FEW_CALLS, memory=True))
    assert launched.result.memory_bytes > 10e6


@pytest.fixture(scope="module")
def faults(tmp_path_factory):
    """A library that breaks collectives of 4096 bytes when preloaded."""
    library = tmp_path_factory.mktemp("fault") / "fault.so"
    mpicc = shutil.which("mpicc", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if mpicc is None or shutil.which("cc") is None:
        pytest.skip("no compiler here")
    source = Path(__file__).with_name("fault.c")
    subprocess.run([mpicc, "-shared", "-fPIC", source, "-o", library], check=True)
    return str(library)


@pytest.mark.parametrize("timing", ["native", "python"])
def test_wrong_results_and_failing_calls_are_no_observations(tmp_path, faults, timing):
    request = probe_request(
        ("allreduce", "alltoall", "bcast"), (8, 4096), ranks=2, **FEW_CALLS, timing=timing
    )
    launched = probe(tmp_path, request, "-x", f"LD_PRELOAD={faults}")
    assert launched.result.timing == timing
    found = {(c.collective, c.message_bytes): (c.status, len(c.samples_s) > 0) for c in launched.result.cells}
    assert found == {
        ("allreduce", 8): ("ok", True),
        ("allreduce", 4096): ("wrong_result", False),
        ("alltoall", 8): ("ok", True),
        ("alltoall", 4096): ("wrong_result", False),
        ("bcast", 8): ("ok", True),
        ("bcast", 4096): ("invalid", False),
    }


def test_a_rule_with_an_algorithm_that_does_not_exist_marks_the_sizes_that_reach_it(tmp_path):
    rules = tmp_path / "rules"
    rules.write_text("1\n2\n1\n2\n2\n0 3 0 0\n1024 99 0 0\n")
    request = probe_request(("allreduce",), (8, 4096), ranks=2, **FEW_CALLS)
    file = ("--mca", "coll_tuned_dynamic_rules_filename", str(rules))
    small, large = probe(tmp_path, request, *DYNAMIC, *file).result.cells
    assert small.status == "ok"
    assert large.status == "invalid"
    assert "MPI_ERR_ARG" in large.reason


def test_the_launchers_own_library_is_accepted(tmp_path):
    library = str(find(launcher()).library)
    request = probe_request(("bcast",), (8,), **FEW_CALLS, expect=Expectation(library=library))
    launched = probe(tmp_path, request)
    assert launched.result.status == "ok", launched.result.reason


def test_an_error_of_ucx_that_ends_the_launch_is_found_in_its_log(tmp_path):
    launched = probe(tmp_path, ucx_request(UCX_RNDV_THRESH="many"), *UCX, "-x", "UCX_RNDV_THRESH=many")
    assert launched.code != 0
    assert launched.result is None
    assert any("Invalid value for RNDV_THRESH: 'many'" in line for line in last_errors(tmp_path))


def test_what_does_not_fit_into_memory_is_no_crash(tmp_path):
    launched = probe(tmp_path, probe_request(("alltoall", "bcast"), (1 << 40,), ranks=2, **FEW_CALLS))
    assert launched.result.status == "ok", launched.stderr
    assert {cell.status for cell in launched.result.cells} == {"invalid"}
    assert "more than MPI counts" in launched.result.cells[0].reason


@pytest.mark.parametrize("kind", ["interleaved", "tight", "window", "heat"])
def test_ranks_import_mpi4py_and_the_standard_library_alone(tmp_path, kind):
    """numpy takes a third of a start, and on many nodes each import is a storm of file calls."""
    from tests.integration.mpirun import run

    how = {
        "interleaved": {"other_loop": "tight"},
        "tight": {"loop": "tight"},
        "window": {"sync": "window"},
        "heat": {"heat": Heat(str(tmp_path), "alone", 0, 1, 0.2), "other_loop": "tight"},
    }
    request = probe_request(
        ("allreduce",), (8, 8192), ranks=2, **FEW_CALLS, memory=True, beside=("halo",), **how[kind]
    )
    (tmp_path / REQUEST).write_text(request.to_json())
    code = (
        "import sys; started = set(sys.modules); sys.argv = ['probe', sys.argv[1]]; "
        "from autotune.probe.__main__ import main; status = main(); "
        "new = (name for name in set(sys.modules) - started if getattr(sys.modules[name], '__spec__', 0)); "
        "print(*sorted({name.partition('.')[0] for name in new})); sys.exit(status)"
    )
    done = run([sys.executable, "-P", "-c", code, str(tmp_path)])
    assert done.returncode == 0, done.stderr
    assert ProbeResult.read(tmp_path).status == "ok"
    for line in done.stdout.splitlines():
        assert set(line.split()) - sys.stdlib_module_names == {"autotune", "mpi4py"}
    assert done.stdout.count("autotune") == 2
