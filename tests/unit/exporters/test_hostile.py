"""Nothing in a space, a journal or a document is executed by what is exported: canaries in every place."""

import contextlib
import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from autotune.errors import AutotuneError, SpaceError, UserError
from autotune.exporters import exporter
from autotune.exporters.document import recommendation_of
from autotune.recommend.recommendation import Provenance, Recommendation
from autotune.space import Parameter, Point, Space
from autotune.space.loader import load_space
from autotune.stacks.words import targets
from tests.golden.test_exports import OURS
from tests.unit.commands.test_terminal import HOSTILE, obeyed

CANARIES = (
    *("$(touch owned)", "`touch owned`", "; touch owned #", "'; touch owned; '", '"; touch owned; "'),
    *("[exec touch owned]", "x) os.execute('touch owned') --", "!touch", "x\ntouch owned\n"),
)
EACH = pytest.mark.parametrize("canary", CANARIES)
TEXT = """
stack: openmpi
parameters:
  knob: {{values: [a, b], default: a, apply: {apply}}}
"""


@EACH
@pytest.mark.parametrize("kind", ["env", "mca", "cvar"])
def test_a_hostile_name_of_a_variable_is_refused_when_the_space_is_read(canary, kind):
    with pytest.raises(SpaceError, match="is no name for"):
        load_space(TEXT.format(apply=json.dumps({kind: {canary: "{value}"}})), "hostile")


@EACH
def test_a_hostile_placement_or_name_of_a_parameter_is_refused_when_the_space_is_read(canary):
    for kind in ("map_by", "bind_to"):
        with pytest.raises(SpaceError, match="a placement has"):
            load_space(TEXT.format(apply=json.dumps({kind: canary})), "hostile")
    with pytest.raises(SpaceError, match="is no name for"):
        load_space(json.dumps({"parameters": {canary: {"values": ["a", "b"]}}}), "hostile")


@EACH
@pytest.mark.parametrize("apply", [{"env": {"{value}": "1"}}, {"map_by": "{value}"}], ids=["env", "map_by"])
def test_a_template_is_checked_as_it_is_filled(canary, apply):
    parameter = Parameter("knob", ("a", canary), "a", apply=apply)
    with pytest.raises(SpaceError):
        targets(Space("hostile", (parameter,)), parameter, {"knob": canary})


@EACH
@pytest.mark.parametrize(
    "source", [{"env": (("{}", "1"),)}, {"both_sides": (("{}", "1"),)}, {"placement": (("map_by", "{}"),)}]
)
def test_no_recommendation_can_hold_one(canary, source):
    filled = {key: tuple((n.replace("{}", canary), v.replace("{}", canary)) for n, v in pairs)
              for key, pairs in source.items()}  # fmt: skip
    with pytest.raises(SpaceError):
        Provenance("c", **filled)
    document = json.loads(
        next(iter(exporter("json").export(Recommendation(Point(), ()), Path("/site")).values()))
    )
    document["provenance"] |= {key: dict(pairs) for key, pairs in filled.items()}
    with pytest.raises(UserError):
        recommendation_of(json.dumps(document))


SHELLS = {"env_sh": ("sh", "."), "env_csh": ("csh", "source"), "slurm": ("sh", "."), "intel": ("sh", "."),
          "mvapich2": ("sh", "."), "mvapich3": ("sh", "."), "mpich_cvars": ("sh", ".")}  # fmt: skip


@EACH
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.debian if s == "csh" else ()) for n, (s, _) in SHELLS.items()]
)
def test_scripts_run_and_the_canary_lives(canary, name, tmp_path):
    shell, read = SHELLS[name]
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    value = canary.replace("\n", " ").strip()
    source = Provenance(
        campaign=canary, date=canary, stack=canary, stamp=canary, verified=canary, choices=(canary,),
        env=(("UCX_A", value), ("OTHER", value)), placement=(("map_by", "ppr:2:node"), ("bind_to", "core")),
        both_sides=(("UCX_B", value),), boot=((canary, canary),),
    )  # fmt: skip
    files = exporter(name).export(Recommendation(Point(), (), provenance=source), tmp_path)
    for file, text in files.items():
        (tmp_path / file).write_text(text)
    srun = tmp_path / "bin/srun"
    srun.parent.mkdir()
    srun.write_text("#!/bin/sh\n")
    srun.chmod(0o700)
    for file in files:
        subprocess.run(
            [shell, "-c", f"{read} ./{file}"],
            cwd=tmp_path,
            env={"PATH": f"{srun.parent}:/bin:/usr/bin"},
            capture_output=True,
            check=False,
            timeout=200,
        )
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize("name", sorted({*OURS} - {"summary"}))
def test_nothing_that_a_terminal_obeys_is_in_a_file(name):
    source = Provenance(campaign=HOSTILE, stack=HOSTILE, verified=HOSTILE, boot=((HOSTILE, HOSTILE),))
    with contextlib.suppress(AutotuneError):
        files = exporter(name).export(Recommendation(Point(), (), provenance=source), Path("/site"))
        assert not obeyed("".join(files.values()))


def test_the_summary_is_no_page_of_somebody_s():
    source = Provenance(campaign=f"{HOSTILE}<img src=x>", stack="<script>")
    text = exporter("summary").export(Recommendation(Point(), (), provenance=source), Path())["summary.md"]
    assert not obeyed(text)
    assert text.count("<") == text.count(r"\<")


def test_a_value_that_a_terminal_obeys_is_refused():
    with pytest.raises(SpaceError, match="control characters"):
        Provenance("c", env=(("UCX_TLS", "self\u202e"),))


@EACH
def test_a_canary_in_a_comment_stays_one(canary):
    source = Provenance(campaign=canary, stack=canary, verified=canary, boot=((canary, canary),))
    for name in {*OURS} - {"summary"}:  # which nobody executes
        with contextlib.suppress(AutotuneError):
            files = exporter(name).export(Recommendation(Point(), (), provenance=source), Path("/site"))
            lines = "\n".join(files.values()).splitlines()
            assert not [line for line in lines if line.startswith("touch owned")], name


OBEYED = (
    "LD_PRELOAD", "LD_AUDIT", "GLIBC_TUNABLES", "GCONV_PATH", "BASH_ENV", "ENV", "PROMPT_COMMAND", "PATH",
    "PYTHONPATH", "PYTHONSTARTUP", "IFS", "PS1", "PS4", "SHELLOPTS", "BASHOPTS", "BASH_FUNC_ls",
    "NODE_OPTIONS", "PERL5OPT", "RUBYOPT", "ZDOTDIR", "MALLOC_TRACE", "EDITOR", "GIT_SSH_COMMAND",
    "MODULEPATH", "TMPDIR", "OMPI_MCA_mca_base_component_path", "OMPI_MCA_plm_rsh_agent",
    "PRTE_MCA_plm_ssh_agent", "UCX_MODULE_DIR", "OMPI_MCA_mca_base_env_list", "FI_PROVIDER_PATH",
    "NCCL_NET_PLUGIN", "HYDRA_LAUNCHER_EXEC", "OPAL_PREFIX", "I_MPI_PMI_LIBRARY", "UCX_LOG_FILE", "OMPI_CC",
    "JAVA_TOOL_OPTIONS", "LUA_INIT", "LESSOPEN", "TERMINFO", "SLURM_TASK_PROLOG", "SRUN_EXPORT_ENV",
    "OMPI_MCA_plm_rsh_args", "PRTE_MCA_plm_slurm_args", "RSYNC_RSH", "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS",
    "HWLOC_PLUGINS_PATH", "OPENSSL_CONF", "CUDA_INJECTION64_PATH", "_ModuleTable001_",
    "SINGULARITYENV_LD_PRELOAD", "APPTAINER_BINDPATH", "I_MPI_GTOOL", "CONFIG_SITE", "INTEL_LIBITTNOTIFY64",
    "SUDO_EDITOR", "SVN_SSH", "READNULLCMD", "LTDL_LIBRARY_PATH", "CONDA_EXE", "OMPI_MCA_plm_alps_args",
    "OMPI_MCA_filem_rsh_rcp", "OMPI_MCA_orte_base_user_debugger", "CALI_CONFIG",
    "PRTE_MCA_prte_default_hostfile", "OMPI_MCA_orte_tmpdir_base", "SCANCEL_USER", "MPIEXEC_PREFIX_DEFAULT",
    "MLX5_DEBUG_FILE", "PSM3_DEBUG_FILENAME", "SHARP_COLL_LOG_FILE", "PIP_CONFIG_FILE", "RUSTC_WRAPPER",
    "ASAN_OPTIONS", "CPUPROFILE", "OMPI_MCA_opal_stacktrace_output", "https_proxy",
)  # fmt: skip


@pytest.mark.parametrize("name", OBEYED)
def test_a_name_that_a_shell_or_a_loader_obeys_is_no_variable_of_a_space(name):
    kind, plain = ("mca", name.removeprefix("OMPI_MCA_")) if "OMPI_MCA_" in name else ("env", name)
    with pytest.raises(SpaceError, match="it is obeyed by"):
        load_space(TEXT.format(apply=json.dumps({kind: {plain: "{value}"}})), "hostile")
    parameter = Parameter("knob", ("a", name[1:]), "a", apply={"env": {f"{name[0]}{{value}}": "x"}})
    with pytest.raises(SpaceError, match="it is obeyed by"):
        targets(Space("hostile", (parameter,)), parameter, {"knob": name[1:]})
    with pytest.raises(SpaceError, match="it is obeyed by"):
        Provenance("c", env=((name, "x"),))
    assert Provenance("c", both_sides=((name, "x"),))  # the user's own mpi.env, in a comment


def test_names_that_are_in_use_are_names():
    load_space(TEXT.format(apply='{"env": {"UCX_{value}_X": "{value}"}, "map_by": "ppr:2:node"}'), "well")
    assert replace(Provenance(), env=(("OMPI_MCA_coll", "^ucc"),)).env
