"""What the light installation is enough for, and what it says of the rest: no extra's library is here."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from autotune.errors import BROUGHT, ExitCode
from tests.program import ran
from tests.unit.test_dependencies import DECLARED, IMPORTED, OWNERS, needed

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT / "tests" / "data"
CAMPAIGNS = DATA / "golden_campaigns"
RULES = str(DATA / "field" / "f1_dynamic_rules.txt")
LOGS = [str(DATA / "field" / f"p3_osu{version}.log") for version in ("59", "74")]
RECORDING = str(DATA / "recordings" / "calls.json")
SIMULATED = ("conf=allreduce_8node", "hydra/launcher=simulated")
PROGRAM = """
import sys
for name in sys.argv[1].split(","):
    sys.modules[name] = None
from autotune.cli import main
sys.exit(main(sys.argv[2:]))
"""
ADDED = needed(IMPORTED) - needed(DECLARED["dependencies"])
GONE = {*BROUGHT} | {
    top for top, names in OWNERS.items() if {n.lower().replace("_", "-") for n in names} <= ADDED
}


def environment(home):
    path = f"{ROOT}:{ROOT / 'launchers'}:{ROOT / 'plugins'}"
    return os.environ | {"PYTHONPATH": path, "SLURM_CONF": "/no/such/slurm.conf", "HOME": str(home)}


def program(*words, cwd, gone=GONE):
    """Run the program where these libraries cannot be imported."""
    command = [sys.executable, "-c", PROGRAM, ",".join(sorted(gone)), *words]
    return ran(command, cwd=cwd, env=environment(cwd))


@pytest.fixture
def here(tmp_path):
    """A folder with two campaigns, a table and a recording."""
    for name, campaign in (("done", "simulated"), ("real", "local")):
        (tmp_path / name).mkdir(mode=0o700)
        shutil.copy(CAMPAIGNS / campaign / "journal.jsonl", tmp_path / name)
    shutil.copy(RECORDING, tmp_path / "calls.json")
    (tmp_path / "rows.csv").write_text("x,y\n1,2\n2,3\n3,5\n4,4\n")
    return tmp_path


ENOUGH = {
    "help": ("--help",),
    "lint": ("lint", RULES),
    "explain": ("lint", RULES, "--explain", "--ranks", "64", "--bytes", "4k"),
    "doctor": ("doctor",),
    "import": ("import", *LOGS, "--comm-size", "8", "--out", "out.csv"),
    "compare": ("compare", *LOGS, "--comm-size", "8"),
    "plan --list": ("plan", "--list"),
    "history": ("history", "done", "--out", "history.csv"),
    "repair": ("status", "done", "--repair"),
    "export --list": ("export", "--list"),
    "diagnose": ("diagnose", "calls.json", "--seconds", "0"),
}


@pytest.mark.parametrize("words", ENOUGH.values(), ids=ENOUGH)
def test_it_is_enough_for_a_verb(words, here):
    done = program(*words, cwd=here)
    # ``lint`` ends with 1 where it finds something, ``doctor`` with 2 where there is no MPI.
    codes = {"lint": (0, 1), "doctor": (0, 1, 2)}.get(words[0], (0,))
    assert done.returncode in codes, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert "mpi-autotune[tune" not in done.stderr


LACKING = {
    "tune": ("tune", *SIMULATED),
    "tune at random": ("tune", *SIMULATED, "proposer=random"),
    "measure": ("measure", *SIMULATED),
    "plan": ("plan", *SIMULATED),
    "site": ("tune", "conf=site", "hydra/launcher=simulated"),
    "calibrate": ("calibrate", *SIMULATED),
    "status": ("status", "done"),
    "report": ("report", "done"),
    "report CALLS": ("report", "calls.json"),
    "export": ("export", "done"),
    "install": ("install", "done", "--yes"),
    "verify": ("verify", "done", "--yes"),
    "verify --app": ("verify", "done", "--app", "--", "true"),
    "worth": ("report", "done", "--worth", "calls.json"),
    "compare": ("compare", "done"),
    "guard": ("guard", "keep", "real", "--yes"),
    "diagnose": ("diagnose", "--", "touch", "begun"),
    "screen": ("screen", "rows.csv", "--factors", "x", "--responses", "y:min"),
}


@pytest.mark.parametrize("words", LACKING.values(), ids=LACKING)
def test_another_verb_is_one_message_with_the_extra_and_begins_nothing(words, here):
    before = sorted(here.rglob("*"))
    done = program(*words, cwd=here)
    assert done.returncode == ExitCode.MISTAKE, done.stdout + done.stderr
    said, command = done.stderr.splitlines()[-2:]  # ``guard`` says first what it may start
    assert said.startswith("autotune: ")
    assert "needs a library that is not here: " in said
    assert command == "  pip install 'mpi-autotune[tune]'"
    assert done.stdout == ""
    assert sorted(here.rglob("*")) == before


PYTHON = """
import sys
for name in sys.argv[1].split(","):
    sys.modules[name] = None
from autotune import Campaign, explain, lint_files
from autotune.errors import UserError
assert lint_files(sys.argv[2]).findings
assert explain(sys.argv[2], 64, "4k")
for name in ("history", "gains", "recommendation", "verdict"):
    try:
        getattr(Campaign.open("done"), name)
    except UserError as error:
        assert "mpi-autotune[tune]" in error.hint, error
    else:
        raise AssertionError(name)
"""


def test_in_python_too(here):
    done = ran([sys.executable, "-c", PYTHON, ",".join(sorted(GONE)), RULES], cwd=here, env=environment(here))
    assert done.returncode == 0, done.stderr


def test_the_status_of_a_complete_campaign_is_read_as_it_was_kept(tmp_path):
    words = (*SIMULATED, "proposer=random", "budget.launches=6", "sizes=[8,4k]", "verify.enabled=false")
    done = program(*words, "campaign.dir=c", cwd=tmp_path, gone={"otf2"})
    assert done.returncode == 0, done.stderr
    for options in ((), ("--json",)):
        theirs, ours = (program("status", "c", *options, cwd=tmp_path, gone=g) for g in ({"otf2"}, GONE))
        assert (ours.returncode, ours.stdout) == (0, theirs.stdout), ours.stderr
        (kept := tmp_path / "c" / ".status.json").rename(aside := tmp_path / "kept")
        computed = program("status", "c", *options, cwd=tmp_path, gone={"otf2"})
        aside.rename(kept)
        assert computed.stdout == ours.stdout
