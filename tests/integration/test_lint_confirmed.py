"""A real Open MPI does with the planted traps what ``lint`` says it does."""

import sys
from pathlib import Path

import pytest

from autotune.commands import lint as verb
from autotune.exporters import exporter
from autotune.lint import lint
from tests.golden.test_exports import OPENMPI
from tests.integration.test_exported_files import UCX, launch, mpirun, outcome  # noqa: F401 - a fixture

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
    assert len(lint({conf: conf.read_text()})) == 1


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
    assert verb.lint((*dict.fromkeys(paths), more), "openmpi5") == 1
    out = capsys.readouterr().out
    assert "did you mean btl_tcp_if_include?" in out
    assert "1 finding in" in out
