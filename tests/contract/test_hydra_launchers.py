"""Hydra's own suite for launchers, run on ours, and that Hydra finds them all."""

from pathlib import Path

import pytest
from hydra import version
from hydra.core.plugins import Plugins
from hydra.plugins.launcher import Launcher
from hydra.test_utils.launcher_common_tests import LauncherTestSuite

import hydra_plugins.autotune

FOLDER = Path(hydra_plugins.autotune.__file__).parent
NAMES = {path.stem for path in FOLDER.glob("[a-z]*.py")}


def ours():
    return [cls for cls in Plugins.instance().discover(Launcher) if "autotune" in cls.__module__]


def test_hydra_finds_every_launcher():
    assert {cls.__name__ for cls in ours()} == {f"{name.capitalize()}Launcher" for name in NAMES}


def test_all_run_a_multirun_by_the_same_code():
    """So that Hydra's suite is run on two of them: one without keys of its own, and one with some."""
    for cls in ours():
        assert cls.__base__.__name__ == "BasicLauncher"  # Hydra loads it anew
        assert not {"setup", "launch"} & vars(cls).keys()


@pytest.fixture(autouse=True)
def _defaults_of_hydras_suite(monkeypatch):
    """Written for the defaults of Hydra 1.1; our command line, where it ran before, has set those of 1.3."""
    monkeypatch.setattr(version.VersionBase.instance(), "version_base", version.__compat_version__)


@pytest.mark.filterwarnings("ignore")  # Hydra's suite uses forms that Hydra itself warns about
@pytest.mark.parametrize("launcher_name, overrides", [("auto", []), ("slurm", [])])
class TestLaunchers(LauncherTestSuite):
    """A multirun through a plugin behaves as one through Hydra's own launcher."""
