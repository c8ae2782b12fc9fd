"""No value of any key gives a traceback: it is taken, or refused before anything is launched."""

import contextlib
import io

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from autotune.cli import main
from autotune.commands.hydra_bridge import connected
from autotune.commands.plan import plan
from autotune.errors import AutotuneError
from autotune.scenario import completed, scenario_of
from autotune.site.plan import plan_site

VALUES = (
    *("-1", "0", "0.5", "nan", "inf", "-inf", "1e400", "''"),
    *("null", "true", "[]", "[-1]", "{}", "x" * 5000, "'\x00'"),
)
SIMULATED = ("conf=allreduce_8node", "hydra/launcher=simulated", "campaign.dir=here")
TAKEN = {"seed": 1, "sizes": 1, "verify.launches": 1, "campaign.dir": 8}
"""How many of the values some keys take, so that this test cannot pass by refusing everything."""


def shown(*words):
    """What the program prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(list(words)) == 0
    return out.getvalue()


def leaves(node, above=""):
    for key, value in node.items():
        yield above + key
        if isinstance(value, dict):
            yield from leaves(value, f"{above}{key}.")


@pytest.fixture(scope="module")
def composed():
    return OmegaConf.create(shown("--cfg", "job", *SIMULATED))


KEYS = tuple(
    leaves(
        OmegaConf.to_container(OmegaConf.create(shown("--cfg", "job", *SIMULATED, "machine=ethernet_tcp_32")))
    )
)


@pytest.mark.parametrize("key", KEYS)
def test_every_value_of_a_key_is_taken_or_refused(key, composed, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    taken, config = 0, composed.copy()
    for override in OverridesParser.create().parse_overrides([f"{key}={value}" for value in VALUES]):
        OmegaConf.update(config, key, override.value(), merge=False)
        try:
            scenario = scenario_of(OmegaConf.to_container(config), "allreduce_8node")
            bench = connected({"_target_": "hydra_plugins.autotune.simulated.SimulatedLauncher"}, scenario)
            taken += plan(scenario, bench) == 0
        except AutotuneError as error:
            assert error.exit_code == 2, override.input_line
    assert taken == TAKEN.get(key, taken)
    assert not list(tmp_path.iterdir())


SITE = ("conf=site", "hydra/launcher=simulated", "campaign.dir=here")


@pytest.fixture(scope="module")
def bench():
    return OmegaConf.create(shown("--cfg", "job", *SITE))


@pytest.mark.slow
@pytest.mark.parametrize(
    "key", [key for key in leaves(OmegaConf.to_container(OmegaConf.create(shown("--cfg", "job", *SITE))))
            if not key.startswith("machine.")]
)  # fmt: skip
def test_every_value_of_a_key_of_a_site_is_taken_or_refused(key, bench, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    config = bench.copy()
    for override in OverridesParser.create().parse_overrides([f"{key}={value}" for value in VALUES]):
        OmegaConf.update(config, key, override.value(), merge=False)
        try:
            assert plan_site(completed(OmegaConf.to_container(config)), None) == 0, override.input_line
        except AutotuneError as error:
            assert error.exit_code == 2, override.input_line
    assert not list(tmp_path.iterdir())
