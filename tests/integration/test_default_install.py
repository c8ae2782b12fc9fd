"""The extra ``tune`` is enough for a campaign with the default proposer, its files and its page."""

import json
import os
import sys

from tests.program import ran
from tests.unit.test_dependencies import IMPORTED, OWNERS, ROOT, TUNING, needed

PROGRAM = """
import json, sys
from importlib.machinery import PathFinder

gone = set(json.loads(sys.argv[1]))

class Rest(PathFinder):
    \"\"\"Does not find what only extras bring.\"\"\"
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in gone else super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Rest
from autotune.cli import main
for words in json.loads(sys.argv[2]):
    code = main(words)
    assert code == 0, (words, code)
"""
HERE = "campaigns/allreduce_8node"
SIMULATED = ("conf=allreduce_8node", "hydra/launcher=simulated", "sizes=[8,4k,1M]")
VERBS = (
    (*SIMULATED, "budget.launches=16"),
    ("status", HERE),
    ("report", HERE),
    ("export", HERE),
    ("history", HERE, "--out", "history.csv"),
    ("plan", *SIMULATED),
    ("compare", HERE),
)


def test_a_campaign_its_files_and_its_page_need_no_other_extra(tmp_path):
    default = needed(TUNING)
    brought = needed(IMPORTED) - default
    gone = sorted(
        top for top, owners in OWNERS.items() if {its.lower().replace("_", "-") for its in owners} <= brought
    )
    assert {"optuna", "smac", "ConfigSpace", "pyarrow", "statsmodels", "dask", "sqlalchemy"} <= set(gone)
    done = ran(
        [sys.executable, "-c", PROGRAM, json.dumps(gone), json.dumps(VERBS)],
        cwd=tmp_path,
        env=os.environ
        | {
            "PYTHONPATH": f"{ROOT}:{ROOT / 'launchers'}:{ROOT / 'plugins'}",
            "SLURM_CONF": "/no/such/slurm.conf",
            "OMP_NUM_THREADS": "1",
        },
        timeout=250,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    assert (tmp_path / HERE / "report.html").stat().st_size > 1e6
    assert "search" in (tmp_path / "history.csv").read_text()
