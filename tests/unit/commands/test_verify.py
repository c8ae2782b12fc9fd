"""``verify`` starts what a journal says: by our own launchers alone, named first, and nothing of others."""

import json
import shutil

import pytest

from autotune.cli import main
from autotune.commands.hydra_bridge import connected
from autotune.errors import ScenarioError
from autotune.history.journal import FILE
from tests.campaigns import scenario
from tests.golden.test_campaigns import GOLDEN

OURS = "hydra_plugins.autotune.mpirun.MpirunLauncher"


@pytest.mark.parametrize(
    "node",
    [
        {"_target_": "os.system", "command": "touch owned"},
        {"_target_": "hydra_plugins.autotune._processes.run", "argv": ["touch", "owned"]},
        {"_target_": "hydra_plugins.autotune.mpirun.MpirunConf"},
        {"_target_": OURS, "extra": {"_target_": "subprocess.getoutput", "cmd": "touch owned"}},
        {"_target_": OURS, "agent": [{"_target_": "subprocess.getoutput", "cmd": "touch owned"}]},
        {"_target_": OURS, "_partial_": True},
        {"_target_": OURS, "_args_": [["touch", "owned"]]},
        {"_target_": OURS, "extra": ["${oc.env:HOME}"]},
        {"_target_": OURS, "nobody_knows": 1},
        {"_target_": ["os.system"]},
        {"extra": []},
    ],
    ids=str,
)
def test_only_our_own_launchers_are_made(node, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ScenarioError, match=r"hydra\.launcher"):
        connected(node, scenario())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("against", [False, True])
def test_a_job_of_a_site_is_verified_on_the_nodes_that_are_there(against, tmp_path, monkeypatch):
    """It was made beside others, from the third node on; so was what it is compared with."""
    places = []

    def placed(launcher, asked):
        places.append(asked.launch.first_node)
        return connected(launcher, asked)

    monkeypatch.setattr("autotune.commands.hydra_bridge.connected", placed)
    directories = [tmp_path / name for name in ("one", "other")[: 1 + against]]
    for directory in directories:
        shutil.copytree(GOLDEN / "simulated", directory)
        events = [json.loads(line) for line in (directory / FILE).read_text().splitlines()]
        for event in events:
            if event["event"] == "campaign":
                event["scenario"]["launch"]["first_node"] = 3
        (directory / FILE).write_text("".join(json.dumps(event) + "\n" for event in events))
    words = ["verify", str(directories[0]), "--launches", "8", "--yes"]
    main([*words, *(["--against", str(directories[1])] if against else [])])
    assert places == [None] * len(directories)
