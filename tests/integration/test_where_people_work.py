"""``lint`` before a commit and in a pull request: the hook for pre-commit, and the action for GitHub.

Tests that install the project into an environment of its own are slow; what they run is also tested with the
program of this environment.
"""

import json
import os
import re
import sys
from pathlib import Path, PurePath

import pytest
import yaml

from autotune.lint.files import kind_of
from autotune.lint.kinds import UNREAD
from tests.program import ran

ROOT = Path(__file__).resolve().parents[2]
HOOKS = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
ACTION = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
BAD = "OMPI_MCA_pml = ucx\n"
"""A parameter file with the finding MPI203, whatever is installed."""


def environment(**added):
    ours = {
        k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV", "GIT_", "GITHUB_"))
    }
    path = f"{Path(sys.executable).parent}{os.pathsep}{ours['PATH']}"
    names = {
        f"GIT_{who}_{what}": "a@b.example" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    return ours | {"PATH": path} | names | {name: str(value) for name, value in added.items()}


def git(*words, cwd):
    done = ran(["git", *words], cwd=cwd, env=environment())
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_hook_is_one_that_pre_commit_takes():
    done = ran([sys.executable, "-m", "pre_commit", "validate-manifest", ".pre-commit-hooks.yaml"], cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [hook["id"] for hook in HOOKS] == ["autotune-lint"]


TAKEN = {
    "openmpi-mca-params.conf": "pml = ucx\n",
    "etc/mca-params.conf": "pml = ucx\n",
    "mca-params-site.conf": "pml = ucx\n",
    "ucx.conf": "UCX_TLS=rc\n",
    "a/ucc.conf": "UCC_TL_UCP_TUNE=allreduce:@0\n",
    "coll_tuned_rules.conf": "1\n7\n1\n0\n1\n0 6 0 0\n",
    "site_rules.conf": "1\n7\n1\n0\n1\n0 6 0 0\n",
    "coll_tuned_site.json": '{"collectives": {}}\n',
    "job.slurm": "mpirun -n 2 ./a\n",
    "run.sh": "mpirun -n 2 ./a\n",
    "a.b/run.pbs": "mpirun -n 2 ./a\n",
}
LEFT = (
    "run.csh",
    "rules.md",
    "nginx.conf",
    "rules.json",
    "ucx.conf.md",
    "run.sh.py",
    "Makefile",
    "xucx.conf",
)


def test_the_hook_takes_files_that_lint_judges():
    files = re.compile(HOOKS[0]["files"])
    assert [name for name in TAKEN if not files.search(name)] == []
    assert [name for name, text in TAKEN.items() if kind_of(PurePath(name), text) in UNREAD] == []
    assert [name for name in LEFT if files.search(name)] == []


@pytest.mark.slow
@pytest.mark.timeout(1800)  # the first commit installs the project, with all that it needs
def test_the_hook_runs_from_a_clone_in_an_environment_of_its_own(tmp_path):
    site, clone = tmp_path / "site", tmp_path / "autotune"
    git("clone", "--quiet", str(ROOT), str(clone), cwd=tmp_path)
    (site / "etc").mkdir(parents=True)
    git("init", "--quiet", cwd=site)
    (conf := site / "etc" / "mca-params.conf").write_text(BAD)
    (site / "notes.md").write_text(BAD)
    hooks = {
        "repo": str(clone),
        "rev": git("rev-parse", "HEAD", cwd=clone),
        "hooks": [{"id": "autotune-lint"}],
    }
    (site / ".pre-commit-config.yaml").write_text(yaml.safe_dump({"repos": [hooks]}))
    git("add", ".", cwd=site)
    command = [sys.executable, "-m", "pre_commit", "run", "--color=never", "--verbose"]
    env = environment(PRE_COMMIT_HOME=tmp_path / "home", PIP_CONSTRAINT=clone / "constraints.txt")
    done = ran(command, cwd=site, env=env)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "autotune lint" in done.stdout and "- exit code: 1" in done.stdout
    assert "etc/mca-params.conf:1: MPI203 OMPI_MCA_pml" in done.stdout and "notes.md" not in done.stdout
    assert [*(tmp_path / "home").glob("*/py_env*/lib/python3*/site-packages/tree_sitter")]
    assert not [*(tmp_path / "home").glob("*/py_env*/lib/python3*/site-packages/torch")]
    conf.write_text("pml = ucx\n")
    git("add", ".", cwd=site)
    done = ran(command, cwd=site, env=env)
    assert done.returncode == 0, done.stdout + done.stderr


STEPS = ACTION["runs"]["steps"]


def test_the_action_takes_words_of_others_through_the_environment_alone():
    assert ACTION["runs"]["using"] == "composite"
    assert all(step["shell"] == "bash" and "${{" not in step["run"] for step in STEPS)
    said = {value for step in STEPS for value in step["env"].values()}
    named = {re.fullmatch(r"\$\{\{ ([\w.]+) \}\}", value)[1] for value in said}
    contexts = {"github.action_repository", "github.action_ref"}
    assert named - contexts == {f"inputs.{name}" for name in ACTION["inputs"]}
    assert contexts <= named
    for name, its in ACTION["inputs"].items():
        assert its["description"] and its.get("required", False) == ("default" not in its), name


class Runner:
    """Runs the steps of the action as GitHub does, for one job in a folder."""

    def __init__(self, folder, **more):
        self.folder, self.temp, self.more = folder / "work", folder / "temp", more
        self.folder.mkdir()
        self.temp.mkdir()

    def step(self, number, repository="", **inputs):
        known = {f"inputs.{n}": str(its.get("default", "")) for n, its in ACTION["inputs"].items()}
        known |= {f"inputs.{name}": value for name, value in inputs.items()}
        known |= {"github.action_repository": repository, "github.action_ref": "v1"}
        step = STEPS[number]
        values = {
            n: re.sub(r"\$\{\{ ([\w.]+) \}\}", lambda m: known[m[1]], v) for n, v in step["env"].items()
        }
        (script := self.temp / "step.sh").write_text(step["run"])
        github = {
            "RUNNER_TEMP": self.temp,
            "GITHUB_ACTION_PATH": ROOT,
            "GITHUB_SERVER_URL": "https://hub.example",
        }
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)]
        return ran(command, cwd=self.folder, env=environment(**github, **values, **self.more))

    def write(self, name, text):
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(text)


@pytest.fixture
def runner(tmp_path):
    """One whose first step has installed the program of this environment."""
    sources = os.pathsep.join(map(str, (ROOT, ROOT / "launchers", ROOT / "plugins")))
    its = Runner(tmp_path, PYTHONPATH=sources)
    program = its.temp / "autotune-lint" / "bin" / "autotune"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m autotune "$@"\n')
    program.chmod(0o755)
    its.write("etc/a b/mca-params.conf", BAD)
    its.write("etc/mca-params.conf", "pml = ucx\n")
    return its


def test_the_action_annotates_files_of_a_pattern(runner):
    done = runner.step(1, files="etc/**/*.conf none/*.conf")
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("::error file=etc/a b/mca-params.conf,line=1,title=MPI203%3A ")
    assert "1 finding in 2 file(s)" in done.stdout
    assert runner.step(1, files="etc/*.conf").returncode == 0
    assert runner.step(1, files="etc/**/*.conf", args="--ignore MPI203 --mpi openmpi5").returncode == 0


def test_the_action_writes_sarif_with_links_into_its_repository(runner):
    done = runner.step(1, files="etc/**/*.conf", sarif="out file.sarif", repository="o/r")
    assert (done.returncode, done.stdout) == (1, "")
    text = (runner.folder / "out file.sarif").read_text("utf-8")
    assert json.loads(text)["runs"][0]["results"][0]["ruleId"] == "MPI203"
    assert '"https://hub.example/o/r/blob/v1/docs/lint.md#mpi203"' in text


def test_the_action_keeps_the_exit_code_of_what_is_not_judged(runner):
    runner.write("a.csh", "#!/bin/csh\nsetenv A 1\n")
    done = runner.step(1, files="a.csh")
    assert done.returncode == 5
    assert "::warning file=a.csh,title=not judged::is a script for csh" in done.stdout


@pytest.mark.parametrize("files", ["", "none/*.conf"])
def test_the_action_says_that_nothing_matches(runner, files):
    done = runner.step(1, files=files)
    assert done.returncode == 2
    assert done.stdout == "::error title=autotune lint::no file is named, or matches\n"


def test_the_action_runs_no_words_of_others(runner):
    done = runner.step(1, files="etc/*.conf; touch taken $(touch taken)", args="; touch taken")
    assert done.returncode == 2
    assert not (runner.folder / "taken").exists()


@pytest.mark.slow
@pytest.mark.timeout(1800)  # it installs the project, with all that it needs
def test_the_action_installs_the_project_into_an_environment_of_its_own(tmp_path):
    runner = Runner(tmp_path)
    runner.write("mca-params.conf", BAD)
    installed = runner.step(0, python=sys.executable)
    assert installed.returncode == 0, installed.stdout + installed.stderr
    done = runner.step(1, files="mca-params.conf")
    assert done.returncode == 1, done.stderr
    assert "title=MPI203%3A" in done.stdout
    assert not [*tmp_path.rglob("site-packages/torch")]
