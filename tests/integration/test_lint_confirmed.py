"""A real Open MPI does with the planted traps what ``lint`` says it does."""

import os
import sys
from pathlib import Path, PurePath

import pytest

from autotune.exporters import exporter
from autotune.lint.files import lint
from autotune.lint.verbs import lint as verb
from tests.golden.test_exports import OPENMPI
from tests.integration.mpirun import ROOT, untold
from tests.integration.test_exported_files import CALLS as CALLS_FILE
from tests.integration.test_exported_files import UCX, launch, mpirun, outcome  # noqa: F401 - a fixture
from tests.program import ran

ENV = {"OMPI_MCA_coll_tuned_use_dynamic_rules": "1"}
CALLS = ["allreduce:8", "allreduce:4096"]

NOWHERE = {"allreduce:8": "SUCCESS", "allreduce:4096": "SUCCESS"}
LARGE = {"allreduce:8": "SUCCESS", "allreduce:4096": "ERR_ARG"}


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("1\n2\n1\n2\n2\n0 0 0 0\n1024 99 0 0\n", LARGE),  # the sound one, for comparison
        ("1\n2\n1\n2\n2\n8 99 0 0\n1024 99 0 0\n", NOWHERE),  # the first row is not for 0 bytes
        ("1\n2\n1\n2\n3\n0 99 0 0\n", NOWHERE),  # truncated
        ("1\n2\n1\n2\n2\n0 0 0 0\n4k 99 0 0\n", {"allreduce:8": "ERR_ARG", "allreduce:4096": "ERR_ARG"}),
        ("1\n2\n1\n2\n2\n0 0 0 0\n010000 99 0 0\n", LARGE),  # octal: 4096
        ("1\n2\n1\n2\n3\n0 0 0 0\n8192 0 0 0\n1024 99 0 0\n", NOWHERE),  # unsorted
        ("# mine\nrule-file-version-2\n1\n2\n1\n2\n1\n0 99 0 0 0\n", NOWHERE),
        ('{"collectives": {"allreduce": []}}\n', NOWHERE),
    ],
    ids=["sound", "first", "truncated", "unit", "octal", "unsorted", "header", "json"],
)
def test_rules_are_misread_as_said(mpirun, tmp_path, rules, expected, request):  # noqa: F811 - the fixture
    path = tmp_path / "rules"
    path.write_text(rules)
    env = ENV | {"OMPI_MCA_coll_tuned_dynamic_rules_filename": str(path)}
    assert outcome(mpirun, CALLS, env) == expected
    effects = [f.effect for f in lint({path: rules}) if "MPI_ERR_ARG" not in f.effect]
    assert bool(effects) == ("sound" not in request.node.callspec.id)


@pytest.mark.parametrize("line", ["UCX_TLS = self,posix", "mca_base_env_list = 'UCX_TLS=self,posix'"])
def test_parameters_are_misread_as_said(mpirun, tmp_path, line):  # noqa: F811 - the fixture
    conf = tmp_path / "mca.conf"
    conf.write_text("".join(f"{k.removeprefix('OMPI_MCA_')} = {v}\n" for k, v in UCX.items()) + line + "\n")
    env = {"OMPI_MCA_mca_base_param_files": str(conf), "UCX_LOG_LEVEL": "info"}
    out, err = launch(mpirun, ["allreduce:8"], env)
    assert " UCX_TLS=self,posix " not in out + err
    assert any("ignored" in e or "quotes" in e for e in effects(mpirun, conf.read_text(), "mca.conf"))


def test_an_indented_line_of_a_file_for_tune_is_dropped(mpirun, tmp_path):  # noqa: F811 - the fixture
    rules = tmp_path / "rules"
    rules.write_text("1\n2\n1\n2\n1\n0 99 0 0\n")
    name = "coll_tuned_dynamic_rules_filename"
    tune = tmp_path / "t.tune"
    dropped = f"--mca coll_tuned_use_dynamic_rules 1\n --mca {name} {rules}\n"
    tune.write_text(dropped)
    version = "openmpi5" if "5" in mpirun[2] else "openmpi4"
    found = outcome(mpirun, ["allreduce:8"], {}, options=["--tune", str(tune)])
    if version == "openmpi5":
        assert found == {"allreduce:8": "SUCCESS"}
        assert any("dropped" in f.effect for f in lint({tune: dropped}, version))
    tune.write_text(dropped.replace("\n -", "\n-"))
    assert outcome(mpirun, ["allreduce:8"], {}, options=["--tune", str(tune)]) == {"allreduce:8": "ERR_ARG"}


@pytest.mark.mpi
def test_what_is_exported_has_no_findings_by_the_stack_s_own_list_of_names(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
    paths = []
    for name in ("openmpi_mca", "tune", "env_sh"):
        for file, text in exporter(name).export(OPENMPI, tmp_path).items():
            (tmp_path / file).write_text(text)
            paths.append(tmp_path / file)
    more = tmp_path / "more.conf"
    more.write_text("opal_common_ucx_tls = any\nbtl_tcp_if_inlcude = eth0\n")
    assert verb.lint((*dict.fromkeys(paths), more), verb.Asked("openmpi5")) == 1
    out = capsys.readouterr().out
    assert "did you mean btl_tcp_if_include?" in out
    assert "1 finding in" in out


def run(mpi, command, env=None):
    """A command line with this ``mpirun`` as ``mpirun``, in a shell."""
    path = {"PATH": os.pathsep.join([str(Path(mpi[1]).parent), os.environ["PATH"]])}
    return ran(["sh", "-c", command], env=untold() | ROOT | path | (env or {}), errors="replace")


def stack(mpi):
    return "openmpi5" if mpi[2].startswith("5") else "openmpi4"


def effects(mpi, text, name="job.sh"):
    return [f.effect for f in lint({PurePath(name): text}, stack(mpi))]


def test_the_list_of_variables_overrides_the_user_s_own(mpirun, tmp_path):  # noqa: F811 - the fixture
    conf, tune = tmp_path / "mca.conf", tmp_path / "t.tune"
    conf.write_text("mca_base_env_list = UCX_TLS=self,sm\n")
    tune.write_text("--mca mca_base_env_list UCX_TLS=self,sm\n")
    with_file = {"OMPI_MCA_mca_base_param_files": str(conf), "UCX_TLS": "mine"}
    show = "mpirun {} -n 1 sh -c 'echo $UCX_TLS'"
    assert run(mpirun, show.format(""), with_file).stdout == "self,sm\n"
    assert any("overrides" in e for e in effects(mpirun, conf.read_text(), "mca.conf"))
    four = stack(mpirun) == "openmpi4"
    for options, env in (("-x PATH", with_file), (f"--tune {tune} -x PATH", {})):
        done = run(mpirun, show.format(options), env)
        assert (done.returncode != 0) == four, done.stderr
    for file in (conf, tune):
        assert any("-x aborts" in e for e in effects(mpirun, file.read_text(), file.name)) == four


def test_x_lines_in_a_file_for_tune_leave_x_to_the_user(mpirun, tmp_path):  # noqa: F811 - the fixture
    tune = tmp_path / "t.tune"
    tune.write_text("-x UCX_TLS=self,sm\n")
    done = run(mpirun, f"mpirun --tune {tune} -x UCX_TLS=mine -x PATH -n 1 sh -c 'echo $UCX_TLS'")
    assert done.stdout == "mine\n", done.stderr
    assert effects(mpirun, tune.read_text(), "t.tune") == []


ONE_A_NODE = "ppr:1:node"
"""Two ranks do not fit: a launcher that has read it refuses."""


@pytest.mark.parametrize(
    "script",
    [
        "export OMPI_MCA_rmaps_base_mapping_policy=ppr:1:node\nmpirun -n 2 true\n",
        "export OMPI_MCA_rmaps_default_mapping_policy=ppr:1:node\nmpirun -n 2 true\n",
        "mpirun --mca rmaps_base_mapping_policy ppr:1:node -n 2 true\n",
        "mpirun --mca rmaps_default_mapping_policy ppr:1:node -n 2 true\n",
        "export OMPI_MCA_oob_tcp_if_include=nosuch0\nmpirun -n 1 true\n",
        "mpirun --mca oob_tcp_if_include nosuch0 -n 1 true\n",
        "export OMPI_MCA_plm_rsh_agent=false\nmpirun -H localhost,nosuch.invalid -n 2 true\n",
        "mpirun --mca plm_rsh_agent /no/such -H localhost,nosuch.invalid -n 2 true\n",
    ],
)
def test_the_launcher_reads_its_parameters_where_lint_says(mpirun, tmp_path, script):  # noqa: F811 - the fixture
    ssh = tmp_path / "ssh"
    ssh.write_text("#!/bin/sh\necho no such node >&2\nexit 255\n")
    ssh.chmod(0o755)
    done = run(mpirun, f"export PATH={tmp_path}:$PATH\n{script}")
    gone_on = "no such node" in done.stderr if "plm_rsh_agent" in script else done.returncode == 0
    assert gone_on == any("silently ignore" in e for e in effects(mpirun, script)), done.stderr


def test_the_launcher_reads_files_only_on_4_1(mpirun, tmp_path):  # noqa: F811 - the fixture
    conf, tune = tmp_path / "mca.conf", tmp_path / "t.tune"
    conf.write_text(f"rmaps_base_mapping_policy = {ONE_A_NODE}\n")
    tune.write_text(f"--mca rmaps_base_mapping_policy {ONE_A_NODE}\n")
    four = stack(mpirun) == "openmpi4"
    done = run(mpirun, "mpirun -n 2 true", {"OMPI_MCA_mca_base_param_files": str(conf)})
    assert (done.returncode != 0) == four, done.stderr
    assert (run(mpirun, f"mpirun --tune {tune} -n 2 true").returncode != 0) == four
    for file in (conf, tune):
        assert bool(effects(mpirun, file.read_text(), file.name)) != four


def test_only_5_0_has_prrte_and_the_names_that_are_said(mpirun):  # noqa: F811 - the fixture
    five = stack(mpirun) == "openmpi5"
    for name in ("rmaps_default_mapping_policy", "oob_tcp_if_include"):
        value = ONE_A_NODE if "rmaps" in name else "nosuch0"
        done = run(mpirun, "mpirun -n 2 true", {f"PRTE_MCA_{name}": value})
        assert (done.returncode != 0) == five
    agent = "mpirun -H localhost,nosuch.invalid -n 2 true"
    done = run(mpirun, agent, {"PRTE_MCA_plm_ssh_agent": "false"})
    assert ("ssh: Could not resolve" not in done.stderr) == five


@pytest.mark.parametrize(
    "options",
    [
        *("--map-by package", "--map-by socket", "--map-by chips", "--map-by ppr:1:package"),
        *(
            "--map-by board",
            "--bind-to package",
            "--bind-to socket",
            "--bind-to board",
            "--bind-to l3cache",
            "--bind-to node",
        ),
        *("--rank-by socket", "--rank-by fill", "--rank-by slot", "--map-by l2cache", "--map-by numa"),
        *("--mca pml ob1 --mca pml ucx", "--mca pml ob1 --mca pml ob1"),
    ],
)
def test_mpirun_refuses_what_lint_says(mpirun, options):  # noqa: F811 - the fixture
    script = f"mpirun {options} -n 1 true\n"
    done = run(mpirun, script)
    assert (done.returncode != 0) == any("mpirun aborts" in e for e in effects(mpirun, script)), done.stderr


@pytest.mark.parametrize("kind", ["conf", "tune"])
def test_a_carriage_return_ends_the_job(mpirun, tmp_path, kind):  # noqa: F811 - the fixture
    file = tmp_path / f"x.{kind}"
    file.write_bytes(b"pml = ob1\r\n" if kind == "conf" else b"--mca pml ob1\r\n")
    options = f"--tune {file}" if kind == "tune" else ""
    env = {"OMPI_MCA_mca_base_param_files": str(file)} if kind == "conf" else {}
    done = run(mpirun, f"mpirun {options} -n 1 {mpirun[0]} {CALLS_FILE} allreduce:8", env)
    assert done.returncode != 0
    assert any("carriage return" in e for e in effects(mpirun, file.read_bytes().decode(), file.name))


@pytest.mark.parametrize(
    ("variable", "aborts"),
    [
        ("UCX_ZCOPY_THRESH=intra:64k,inter:64k", True),
        ("UCX_RNDV_THRESH=intra:64k,inter:64k", False),
        ("UCX_RNDV_THRESH=64k,inter:64k", False),
        ("UCX_RNDV_THRESH=inter:64k", True),
    ],
)
def test_ucx_refuses_what_lint_says(mpirun, variable, aborts):  # noqa: F811 - the fixture
    name, value = variable.split("=")
    done = run(mpirun, f"mpirun -n 1 {mpirun[0]} {CALLS_FILE} allreduce:8", UCX | {name: value})
    assert (done.returncode != 0) == aborts, done.stderr
    assert any("aborts" in e for e in effects(mpirun, f"export {variable}\n")) == aborts


def test_a_comment_becomes_part_of_a_value_in_ucx_conf(mpirun, tmp_path):  # noqa: F811 - the fixture
    file = tmp_path / "ucx.conf"
    file.write_text("UCX_ZCOPY_THRESH=64k # fast\n")
    env = UCX | {"UCX_CONFIG_DIR": str(tmp_path)}
    done = run(mpirun, f"mpirun -n 1 {mpirun[0]} {CALLS_FILE} allreduce:8", env)
    assert "64k # fast" in done.stdout + done.stderr
    assert any("becomes part" in e for e in effects(mpirun, file.read_text(), "ucx.conf"))


def test_the_shell_ends_an_unquoted_list(mpirun):  # noqa: F811 - the fixture
    script = "export OMPI_MCA_mca_base_env_list=AUTOTUNE_A=1;AUTOTUNE_B=2\n"
    done = run(mpirun, script + "mpirun -n 1 sh -c 'echo $AUTOTUNE_A,$AUTOTUNE_B'")
    assert done.stdout == "1,\n", done.stderr
    assert any("ends the list" in e for e in effects(mpirun, script))


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_wrong_count_hides_what_comes_after(mpirun, tmp_path, count):  # noqa: F811 - the fixture
    rules = f"2\n2\n1\n2\n{count}\n0 0 0 0\n1024 0 0 0\n7\n1\n2\n1\n0 99 0 0\n"
    path = tmp_path / "rules"
    path.write_text(rules)
    env = ENV | {"OMPI_MCA_coll_tuned_dynamic_rules_filename": str(path)}
    right = count == 2
    assert outcome(mpirun, ["bcast:8"], env) == {"bcast:8": "ERR_ARG" if right else "SUCCESS"}
    said = effects(mpirun, rules, "rules")
    assert (len(said) == 1 and "MPI_ERR_ARG" in said[0]) if right else ("wrong count" in said[0])
