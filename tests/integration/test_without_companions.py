"""The program without companions: their folders and their rows of the table are removed, and nothing else."""

import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.program import ran
from tests.schemas import answer

ROOT = Path(__file__).resolve().parents[2]
VERBS = {
    "application": {"record", "run", "diagnose"},
    "doe": {"screen", "model"},
    "guard": {"guard"},
    "lint": {"lint", "doctor"},
    "site": set(),
}
"""Companion → its verbs. A campaign without an MPI needs ``simulate``, which reads logs by ``tables``."""
CAMPAIGN = (
    *("conf=allreduce_8node", "hydra/launcher=simulated", "cluster.nodes=2", "cluster.ppn=2"),
    *("sizes=[8,64k,1M]", "proposer=random", "budget.launches=6", "verify.enabled=false"),
)
IMPORT_ALL = """
import pkgutil, sys
from importlib import import_module
import autotune
for module in pkgutil.walk_packages(autotune.__path__, "autotune."):
    if not module.name.endswith("__main__"):
        import_module(module.name)
assert autotune.__file__.startswith(sys.argv[1]), autotune.__file__
assert not {"torch", "ax"} & set(sys.modules)
"""


def without(folder: Path, companions: list[str]) -> Path:
    """Copy the program into a folder, and remove companions from the copy."""
    for name in ("autotune", "launchers", "conf", "search_spaces"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    table = folder / "autotune" / "commands" / "companions.py"
    text = table.read_text(encoding="utf-8")
    for companion in companions:
        shutil.rmtree(folder / "autotune" / companion)
        text, rows = re.subn(rf'^    "{companion}": .*\n', "", text, flags=re.MULTILINE)
        assert rows == 1
    table.write_text(text, encoding="utf-8")
    return folder


def python(source: Path, *words: str, code: int = 0) -> str:
    """Run Python with the copy of the program, and return its output."""
    path = os.pathsep.join([str(source), str(source / "launchers")])
    done = ran([sys.executable, *words], cwd=source, env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def listed(shown: str) -> list[str]:
    """Return the verbs that ``--help`` lists."""
    return re.findall(r"^  (\w+)  +\w", shown.partition("\nTune:\n")[2], re.MULTILINE)


@pytest.mark.parametrize("companion", ["doe", "guard"])
def test_one_companion_is_removed_and_everything_else_works(companion, tmp_path):
    source = without(tmp_path, [companion])
    everything = listed(python(ROOT, "-m", "autotune", "--help"))
    assert set.union(*VERBS.values()) < set(everything)
    shown = listed(python(source, "-m", "autotune", "--help"))
    assert shown == [verb for verb in everything if verb not in VERBS[companion]]
    python(source, "-c", IMPORT_ALL, str(source))


def test_a_campaign_runs_to_its_exports_without_any_companion_but_the_simulated_cluster(tmp_path):
    source = without(tmp_path, [*VERBS])
    shown = listed(python(source, "-m", "autotune", "--help"))
    assert not set.union(*VERBS.values()) & set(shown)
    python(source, "-c", IMPORT_ALL, str(source))
    assert "to try it" in python(source, "-m", "autotune", *CAMPAIGN)
    directory = "campaigns/allreduce_8node"
    assert list((source / directory / "export").iterdir())
    status = answer(python(source, "-m", "autotune", "status", directory, "--json"))
    assert status["state"] == "complete"
    python(source, "-m", "autotune", "report", directory)
    assert (source / directory / "report.html").is_file()
    said = python(source, "-m", "autotune", "report", directory, "--worth", "calls.json", code=2)
    assert "recordings of applications are not part of this installation" in said
