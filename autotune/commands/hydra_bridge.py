"""The composition root: a scenario's adapters are chosen and connected here, and nowhere else.

Hydra composes the scenario; its launcher plugin connects the site; what is left is handed to the campaign.
"""

import contextlib
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Never

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException, OverrideParseException
from hydra.types import RunMode
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from autotune.errors import AutotuneError, Interrupted, ScenarioError, allowed
from autotune.history.journal import FILE
from autotune.resources import folder
from autotune.scenario import CHANGEABLE, Scenario, scenario_of

if TYPE_CHECKING:
    from autotune.site import Site

_DEFAULT_LAUNCHER = "hydra_plugins.autotune.mpirun.MpirunLauncher"
"""For scenarios that name none: Hydra's own default starts nothing that could be tuned."""

_OPEN_SECTIONS = (
    "fix.",
    "responses.",
    "mpi.mca.",
    "mpi.env.",
    "proposer.options.",
    "probe.options.",
    "simulate.",
    "replay.",
)

Task = Callable[[Scenario, "Site"], int]
"""What to do with a composed scenario; returns the exit code."""


def run(words: Sequence[str]) -> int:
    """Run what the command line asks for: a campaign, or a verb that takes a scenario.

    Returns:
        The exit code: 0 well, 2 a mistake in the input, 3 a campaign that cannot go on, 4 locked,
        130 interrupted.
    """
    verb = words[0] if words and words[0] in _TASKS else ""

    def work() -> int:
        task, rest = _TASKS[verb](list(words[1:] if verb else words))
        return _composed(task, rest, launches=verb != "plan")

    return _guarded(work)


def run_task(task: Task, words: Sequence[str]) -> int:
    """Do one task with the scenario that the words compose, without handing a campaign to a batch system."""
    return _guarded(lambda: _composed(task, words, launches=False))


def _guarded(work: Callable[[], int]) -> int:
    """The exit code of some work; a user's mistake or Ctrl-C is reported, not raised."""
    with _signals():
        try:
            return work()
        except AutotuneError as error:
            return report_error(error)
        except KeyboardInterrupt:
            return report_error(Interrupted("interrupted"))


def report_error(error: AutotuneError) -> int:
    """Print an error for the user and return its exit code."""
    sys.stderr.write(f"autotune: {error}\n")
    return error.exit_code


def _composed(task: Task, words: Sequence[str], launches: bool) -> int:
    """Let Hydra compose the scenario from the words and do the task with it, which makes launches or not.

    Raises:
        AutotuneError: with Hydra's complaints translated.
    """
    codes: list[int] = []
    directories: list[Path] = []
    failures: list[AutotuneError] = []

    @hydra.main(version_base="1.3", config_path=str(folder("conf")), config_name="config")
    def job(config: DictConfig) -> int:
        try:
            codes.append(_task_of(config, task, launches, directories))
        except AutotuneError as error:  # Hydra writes a line of its own about what passes through it
            if HydraConfig.get().mode is RunMode.MULTIRUN:
                raise
            failures.append(error)
            return error.exit_code
        return codes[-1]

    before = sys.argv, os.environ.get("HYDRA_FULL_ERROR")
    sys.argv = [sys.argv[0], *map(_opened, words)]
    os.environ["HYDRA_FULL_ERROR"] = "1"  # exceptions come to us instead of being printed and lost
    try:
        job()
    except (HydraException, OmegaConfBaseException) as exc:
        raise _translated(exc) from exc
    finally:
        _summarise([d for d in directories if (d / FILE).exists()])
        sys.argv = before[0]
        if before[1] is None:
            del os.environ["HYDRA_FULL_ERROR"]
        else:
            os.environ["HYDRA_FULL_ERROR"] = before[1]
    if failures:
        raise failures[0]
    return max(codes, default=0)


def _summarise(directories: Sequence[Path]) -> None:
    """At the end of a multirun: its campaigns beside each other."""
    if len(directories) > 1:
        from autotune.commands.compare import compare

        sys.stdout.write("\n")
        compare(directories, as_json=False)


def _task_of(config: DictConfig, task: Task, launches: bool, directories: list[Path]) -> int:
    """Do the task with a composed scenario, noting the campaign's directory."""
    chosen = HydraConfig.get()
    name = str(chosen.runtime.choices["conf"])
    document: dict[str, Any] = OmegaConf.to_container(config, resolve=True)  # type: ignore[assignment] # a mapping
    place = document.setdefault("campaign", {})
    if isinstance(place, dict) and place.get("dir") is None:
        place["dir"] = str(Path("campaigns") / name / _variant(chosen))
    scenario = scenario_of(document, name)
    directories.append(scenario.directory)
    named = str(chosen.runtime.choices["hydra/launcher"])
    launcher = {} if named == "basic" else OmegaConf.to_container(chosen.launcher, resolve=True)
    site = connected(launcher, scenario, launches)  # type: ignore[arg-type] # a launcher's node is a mapping
    return task(site.asked(scenario), site)


def connected(launcher: Mapping[str, Any], scenario: Scenario, launches: bool = True) -> "Site":
    """Where a scenario's launches are made.

    Args:
        launcher: The node of ``hydra.launcher``; empty: the default one.
        scenario: What is to be launched.
        launches: Whether it really will be, so that the launcher may prepare itself.

    Raises:
        StackError: nothing can be launched there.
    """
    plugin = instantiate(dict(launcher) or {"_target_": _DEFAULT_LAUNCHER})
    if launches and hasattr(plugin, "prepare"):
        plugin.prepare(scenario)
    site: Site = plugin.connect(scenario)
    return replace(site, launched_by=dict(launcher))


def _variant(chosen: Any) -> str:
    """In a multirun a folder for each combination, named by what makes it another campaign; else nothing."""
    if chosen.mode is not RunMode.MULTIRUN:
        return ""
    varied = [
        word
        for word in chosen.overrides.task
        if re.split(r"[.=]", word.lstrip("+~"))[0] not in ("conf", *CHANGEABLE)
    ]
    return ",".join(varied).replace("/", "_")


def _opened(word: str) -> str:
    """Sections whose keys are the user's own take new keys without Hydra's ``+``."""
    return f"++{word}" if word.startswith(_OPEN_SECTIONS) and "=" in word else word


def _translated(exc: Exception) -> AutotuneError:
    """Hydra's complaint as one of ours: what is wrong, and what is allowed in its place."""
    cause: BaseException | None = exc
    full_key = ""
    while cause is not None:
        full_key = str(getattr(cause, "full_key", "") or full_key)
        cause = cause.__cause__
    parent, _, key = full_key.rpartition(".")
    siblings = _keys_beside(parent) if full_key else []
    if siblings and key not in siblings:
        return ScenarioError(f"unknown key {full_key!r}", allowed(key, siblings))
    text = " ".join(str(exc).split("Set the environment variable")[0].split("See https://")[0].split())
    if isinstance(exc, OverrideParseException):
        return ScenarioError(
            f"{exc.override!r}: {text}", "expected KEY=VALUE; quote what the shell would change"
        )
    return ScenarioError(text)


def _keys_beside(parent: str) -> list[str]:
    """The keys that a section of the configuration has."""
    conf = folder("conf")
    node: Any = OmegaConf.load(conf / "config.yaml")
    groups = [path.name for path in conf.iterdir() if path.is_dir() and path.name not in ("conf", "hydra")]
    for part in filter(None, parent.split(".")):
        node = node.get(part) if isinstance(node, DictConfig) else None
        if node is None:
            options = sorted((conf / parent.replace(".", "/")).glob("*.yaml"))
            node, groups = (OmegaConf.load(options[-1]) if options else OmegaConf.create()), []
            break
        groups = []
    keys = {str(key) for key in node} if isinstance(node, DictConfig) else set()
    return sorted((keys | set(groups)) - {"defaults", "hydra"})


@contextlib.contextmanager
def _signals() -> Iterator[None]:
    """SIGTERM ends the work like Ctrl-C does: the running launch is put away, nothing is lost."""

    def interrupt(number: int, frame: FrameType | None) -> Never:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _campaign(words: list[str]) -> tuple[Task, list[str]]:
    from autotune.commands.tune import tune

    return tune, words


def _measure(words: list[str]) -> tuple[Task, list[str]]:
    from autotune.commands import measure

    return measure.task(words)


def _plan(words: list[str]) -> tuple[Task, list[str]]:
    from autotune.commands.plan import plan

    return plan, words


_TASKS: Mapping[str, Callable[[list[str]], tuple[Task, list[str]]]] = {
    "": _campaign,
    "measure": _measure,
    "plan": _plan,
}
