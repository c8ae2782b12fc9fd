"""A scenario is anybody's file: composing it starts nothing, writes nothing and reads no secret."""

import os
from pathlib import Path

import pytest

from autotune.cli import main
from autotune.commands.hydra_bridge import campaign_folder
from autotune.errors import ExitCode

GLOBAL = (
    "# @package _global_\ndefaults:\n  - override /budget: local\n  - override /hydra/launcher: simulated\n"
)
MAKER = "{_target_: pathlib.Path.touch, self: {_target_: pathlib.Path, _args_: [owned]}}"
"""A node of which Hydra would make a file."""


@pytest.fixture
def plan(tmp_path, monkeypatch, capsys):
    """Plan with a scenario ``theirs`` among files, each a path and its text; exit code and stderr."""
    monkeypatch.chdir(tmp_path)

    def planned(files, *words, verb="plan"):
        for name, text in files.items():
            (path := tmp_path / "theirs" / name).parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        before = dict(os.environ)
        code = main([verb, "--config-dir", "theirs", "conf=theirs", *words])
        assert dict(os.environ) == before
        assert {path.name for path in tmp_path.iterdir()} <= {"theirs", "here", "multirun.yaml"}
        assert not (tmp_path / "multirun.yaml").is_file()
        return code, capsys.readouterr().err

    return planned


def naming(default):
    """The head with one more of its defaults, which come before those that are overridden."""
    return GLOBAL.replace("defaults:\n", f"defaults:\n  - {default}\n")


def scenario(text, head=GLOBAL):
    return {"conf/theirs.yaml": head + text}


@pytest.mark.parametrize(
    ("files", "key"),
    [
        (scenario(f"hydra: {{callbacks: {{x: {MAKER}}}}}"), "hydra.callbacks.x"),
        (scenario("hydra: {job: {env_set: {LD_PRELOAD: /x.so}}}"), "hydra.job.env_set.LD_PRELOAD"),
        (scenario("hydra: {job: {name: '${oc.env:HOME}'}}"), "hydra.job.name"),
        (scenario("hydra: {job_logging: {root: {handlers: [f]}}}"), "hydra.job_logging"),
        (scenario("hydra: {output_subdir: owned}"), "hydra.output_subdir"),
        (scenario("hydra: {sweeper: {_target_: pathlib.Path}}"), "hydra.sweeper"),
        (scenario("hydra: {mode: MULTIRUN, sweeper: {params: {seed: '1,2'}}}"), "hydra.sweeper.params"),
        (scenario("hydra: {overrides: {hydra: [hydra.output_subdir=owned]}}"), "hydra.overrides"),
        (scenario("hydra: {overrides: {task: ['mpi.env.A=1']}}"), "hydra.overrides"),
        (scenario("hydra: {runtime: {output_dir: owned}}"), "hydra.runtime.output_dir"),
        (
            {
                "hydra/sweeper/x.yaml": "# @package hydra.sweeper\n_target_: pathlib.Path\n",
                **scenario("", GLOBAL + "  - override /hydra/sweeper: x\n"),
            },
            "hydra.sweeper",
        ),
        (
            {"cb/x.yaml": f"x: {MAKER}\n", **scenario("", naming("/cb@hydra.callbacks: x"))},
            "hydra.callbacks.x",
        ),
        (
            {"mine/x.yaml": f"# @package hydra.callbacks.x\n{MAKER}\n", **scenario("", naming("/mine: x"))},
            "hydra.callbacks.x",
        ),
    ],
)
def test_a_file_sets_no_more_of_hydra_than_launcher_and_mode(plan, files, key):
    code, said = plan(files)
    assert code == ExitCode.MISTAKE
    assert f"a file of the scenario sets {key}" in said
    assert "launcher and mode alone" in said


@pytest.mark.parametrize("key", ["callbacks: {x: {_target_: os.getcwd}}", "sweeper: {_target_: os.getcwd}"])
@pytest.mark.parametrize("verb", ["plan", "tune"])
def test_nor_does_it_in_a_multirun(plan, verb, key):
    code, said = plan(scenario(f"hydra: {{{key}}}"), "-m", verb=verb)
    assert code == ExitCode.MISTAKE
    assert f"a file of the scenario sets hydra.{key.partition(':')[0]}" in said


@pytest.mark.parametrize(
    "files",
    [
        scenario(f"hydra: {{launcher: {MAKER}}}"),
        scenario("hydra: {launcher: {_target_: os.system, command: touch owned}}", "# @package _global_\n"),
        {"hydra/launcher/simulated.yaml": MAKER, **scenario("")},
        {"hydra/launcher/x.yaml": MAKER, **scenario("", GLOBAL.replace("simulated", "x"))},
        scenario(f"hydra: {{launcher: {{extra: [{MAKER}]}}}}", GLOBAL.replace("simulated", "mpirun")),
        scenario("hydra: {launcher: {extra: '${fix}'}}", GLOBAL.replace("simulated", "mpirun")),
    ],
    ids=["other keys", "none chosen", "shadowed", "of theirs", "inside", "by reference"],
)
@pytest.mark.parametrize("mode", [(), ("-m",)], ids=["once", "multirun"])
def test_the_launcher_of_a_file_is_one_of_the_project_s(plan, files, mode):
    code, said = plan(files, *mode)
    assert code == ExitCode.MISTAKE
    assert "hydra.launcher" in said or "hydra/launcher" in said


@pytest.mark.parametrize(
    "section", ["mpi: {env: {A: %s}}", "fix: {A: %s}", "simulate: {A: [%s]}", "machine: %s"]
)
def test_nothing_is_made_of_a_node_of_a_scenario(plan, section):
    code, said = plan(scenario(section % MAKER))
    assert code == ExitCode.MISTAKE
    assert "_target_: a scenario makes no objects" in said


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("mpi: {env: {A: '${${mpi.env.B}.${mpi.env.C}:TOKEN}', B: oc, C: env}}", "mpi.env.A"),
        ("mpi: {env: {A: '${oc.decode:${mpi.env.B}}', B: '\\${oc.env:TOKEN}'}}", "mpi.env.A"),
        ("mpi: {env: {A: '${oc.create:${mpi.env.B}}', B: '\\${oc.env:TOKEN}'}}", "mpi.env.A"),
        ("mpi: {env: {A: '${oc.select:x,${oc.env:TOKEN}}'}}", "mpi.env.A"),
        ("mpi: {env: {A: '${hydra:job.name}'}}", "mpi.env.A"),
        ("mpi: {env: {A: '${ oc.env : TOKEN }'}}", "mpi.env.A"),
        ("mpi: {env: {A: '${env:TOKEN}'}}", "mpi.env.A"),
        ("warm_start: '${oc.env:${mpi.env.B}}'\nmpi: {env: {B: TOKEN}}", "warm_start"),
        ("warm_start: '${oc.env:TOKEN}'\nmpi: {env: {A: '${warm_start}'}}", "warm_start"),
        ("", "defaults"),
    ],
)
def test_a_secret_of_the_environment_gets_nowhere(plan, monkeypatch, tmp_path, text, key):
    monkeypatch.setenv("TOKEN", "hunter2")
    files = scenario(text) if text else scenario("", GLOBAL + "  - /budget@x: ${oc.env:TOKEN}\n")
    code, said = plan(files, "campaign.dir=here")
    assert code == ExitCode.MISTAKE
    assert key in said
    assert "hunter2" not in said


def test_further_places_of_files_are_typed(plan):
    """Each of them is imported, as Hydra looks whether it is there."""
    main_file = {"main.yaml": "defaults: [config, _self_]\nhydra: {searchpath: ['pkg://antigravity']}\n"}
    code, said = plan({**scenario(""), **main_file}, "--config-name", "main")
    assert code == ExitCode.MISTAKE
    assert "a file of the scenario sets hydra.searchpath" in said


def test_a_multirun_writes_nothing_where_it_is_started(plan, tmp_path):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "multirun.yaml").symlink_to("theirs/profile")
    assert plan(scenario("machine: {}"), "-m", "seed=1,2", "--anyway")[0]
    assert not (tmp_path / "theirs/profile").exists()


def test_launcher_and_mode_may_stand_in_a_file_and_the_user_types_the_rest(plan):
    head = GLOBAL.replace("simulated", "mpirun")
    keys = "hydra: {mode: RUN, launcher: {extra: [--bind-to, core]}}\ncluster: {ranks: 1}\n"
    assert plan(scenario(keys, head), "--cfg", "hydra", "hydra.verbose=true", verb="tune")[0] == 0
    assert plan(scenario("warm_start: '${now:%Y}/${collective}'\n"), "--cfg", "job", verb="tune")[0] == 0


def test_a_folder_is_named_by_what_makes_another_campaign_without_commas():
    words = ("conf=allreduce_8node", "cluster.nodes=4", "budget.launches=5", "fix.UCX_TLS='self,tcp'")
    assert campaign_folder(Path("c"), words) == Path("c/cluster.nodes=4+fix.UCX_TLS='self+tcp'")
    assert campaign_folder(Path("c"), ()) == Path("c")
    assert campaign_folder(Path("c"), ["space=mine/space.yaml"]) == Path("c/space=mine_space.yaml")


@pytest.mark.parametrize(
    "key",
    ["mpi.env.LD_PRELOAD", "mpi.env.ld_audit", "mpi.env.UCX_MEMTRACK_DEST", "mpi.env.HYDRA_LAUNCHER",
     "mpi.env.TMP", "mpi.env.OMPI_MCA_mca_component_path", "mpi.env.I_MPI_TUNING_BIN_DUMP",
     "mpi.mca.plm_rsh_agent", "mpi.mca.mca_base_component_path"],
)  # fmt: skip
@pytest.mark.parametrize("verb", ["plan", "tune"])
def test_a_file_names_nothing_that_is_loaded_started_or_written(plan, verb, key):
    """``LD_PRELOAD`` in the environment of ``plan``'s look at the MPI ran a library of theirs."""
    section, name = key.split(".")[1:]
    code, said = plan(scenario(f"mpi: {{{section}: {{{name}: theirs/x.so}}}}"), verb=verb)
    assert code == ExitCode.MISTAKE
    assert f"a file of the scenario sets {key}, which is obeyed by" in said
    typed = f"{key}=theirs/x.so"  # is the user's own wish
    assert "a file of the scenario" not in plan(scenario(f"mpi: {{{section}: {{{name}: x}}}}"), typed)[1]


def test_a_look_starts_no_mpirun_that_only_a_file_names(plan, tmp_path):
    (tmp_path / "theirs").mkdir()
    (program := tmp_path / "theirs/mpirun").write_text(
        "#!/bin/sh\ntouch owned\necho mpirun (Open MPI) 5.0.3\n"
    )
    program.chmod(0o755)
    files = scenario(
        "mpi: {mpirun: theirs/mpirun}\ncluster: {ranks: 1}", GLOBAL.replace("simulated", "mpirun")
    )
    code, said = plan(files)
    assert code == ExitCode.MISTAKE
    assert "names mpi.mpirun=theirs/mpirun, which would be started" in said
