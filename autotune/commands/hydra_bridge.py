"""The bridge to Hydra: words of the command line → a composed scenario and a connected site → a task.

``hydra.main`` reads ``sys.argv``, prints what goes wrong and exits; ``hydra.compose`` knows neither multiruns
nor options. So the steps of ``hydra.main`` are taken here, with the words that are given, and complaints are
raised. Private to Hydra, which is pinned to 1.3 for their sake: its parser of options, its search path with
that of plugins, its reader of files, and the object that runs, sweeps and shows.
"""

import re
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Never, TypeVar

from hydra import version
from hydra._internal.hydra import Hydra
from hydra._internal.sources_registry import SourcesRegistry
from hydra._internal.utils import create_config_search_path, get_args_parser
from hydra.core.config_search_path import SearchPathQuery
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.plugins import Plugins
from hydra.errors import HydraException, OverrideParseException
from hydra.types import RunMode
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from autotune.campaign.interruption import check, heeded
from autotune.campaign.site import Compose, Site
from autotune.commands.application import of_recording
from autotune.commands.composing import (
    LAUNCHERS,
    CheckedLoader,
    Files,
    check_launcher,
    check_resolvers,
    check_started,
)
from autotune.commands.keys import groups, keys_of, quoted
from autotune.commands.retune import retuned
from autotune.errors import AutotuneError, ExitCode, HandedOver, ScenarioError, allowed
from autotune.exporters import exporter
from autotune.history.folder import FILE
from autotune.resources import folder
from autotune.scenario import CHANGEABLE, Scenario, completed, scenario_of

_DEFAULT_LAUNCHER = f"{LAUNCHERS}.mpirun.MpirunLauncher"
"""For scenarios that name none: Hydra's own default starts nothing that could be tuned."""

_OPEN_SECTIONS = (
    *("fix.", "responses.", "mpi.mca.", "mpi.env.", "proposer.options.", "probe.options."),
    *("simulate.", "replay."),
)

Task = Callable[[Scenario, Site], int]  # What to do with a composed scenario; returns the exit code.
WholeSite = Callable[[Mapping[str, Any], Compose], int]
"""The work of ``conf=site``: takes its configuration, and what makes a job of one; returns the exit code."""
_T = TypeVar("_T")


def run_task(
    task: Task,
    words: Sequence[str],
    launches: bool = False,
    whole: WholeSite | None = None,
    looks: bool = False,
) -> int:
    """Do a task with the scenario that the words compose, or what Hydra's own options among them ask for.

    Args:
        task: What to do.
        words: Those of the command line.
        launches: A batch system may be given the work, and hosts be asked whether they are fit.
        whole: What is done with a whole site.
        looks: The task shows what would be done, so that no program is started that only a file names.

    Returns:
        The exit code, in a multirun, which does the task several times, the worst.

    Raises:
        AutotuneError: with Hydra's complaints translated, and ``Interrupted`` for Ctrl-C, SIGTERM and SIGHUP.
    """
    job = _Job(task, launches, whole, looks)
    with heeded():
        try:
            for each in retuned(words):
                _composed(each, job)
                if job.failure:
                    break
        finally:
            _summarise([d for d in job.directories if (d / FILE).exists()])
        if job.failure:
            raise job.failure
    return max(job.codes, default=ExitCode.WELL)


def _composed(words: Sequence[str], job: "_Job") -> None:
    try:
        _do(words, job)
    except (HydraException, OmegaConfBaseException) as exc:
        raise _translated(exc, words) from exc
    except (OSError, AutotuneError):
        raise
    except Exception as exc:  # Hydra trips over words in as many ways as there are
        if job.called:
            raise
        raise _translated(exc, words) from exc


def answer_of(ask: Callable[[Scenario, Site], _T], words: Sequence[str], launches: bool = False) -> _T:
    """The answer to a question about the scenario that the words compose; raises as ``run_task``."""
    answers: list[_T] = []

    def kept(scenario: Scenario, site: Site) -> int:
        answers.append(ask(scenario, site))
        return ExitCode.WELL

    run_task(kept, words, launches)
    return answers[0]


@dataclass(frozen=True, slots=True)
class Composer:
    """Makes a scenario and its place of a configuration that Hydra has composed."""

    name: str  # Of the scenario.
    launcher: Mapping[str, Any]
    launches: bool = True  # Whether anything may be launched.
    directories: list[Path] = field(default_factory=list)  # Of what was made, added to.

    def __call__(self, document: dict[str, Any], launches: bool = True) -> tuple[Scenario, Site]:
        """Both; ``launches``: whether they are for launches."""
        scenario = scenario_of(of_recording(document) if "calls" in document else document, self.name)
        for wanted in scenario.export:
            exporter(wanted)  # refuses what it does not know, before anything is launched
        if launches:
            self.directories.append(scenario.directory)
        return scenario, connected(self.launcher, scenario, launches and self.launches)

    @property
    def origin(self) -> Mapping[str, Any]:
        """The scenario's name and the launcher, for another process."""
        return {"name": self.name, "launcher": dict(self.launcher)}


@dataclass
class _Job:
    """Callback for each configuration that Hydra has composed."""

    task: Task
    launches: bool
    whole: WholeSite | None = None
    looks: bool = False  # Whether the task only shows what would be done.
    called: bool = False  # Whether there was something to do: what is raised before is Hydra's.
    codes: list[int] = field(default_factory=list)  # Of the tasks that were done.
    directories: list[Path] = field(default_factory=list)  # Of the campaigns.
    failure: AutotuneError | None = None
    """A single run's error, or that a job goes on with a multirun: Hydra would write a line of its own about
    one that passes through it."""

    def __call__(self, config: DictConfig) -> None:
        self.called = True
        check()
        if self.failure:
            return
        try:
            self.codes.append(self._done(config))
        except AutotuneError as error:
            if HydraConfig.get().mode is RunMode.MULTIRUN and not isinstance(error, HandedOver):
                raise
            self.failure = error

    def _done(self, config: DictConfig) -> int:
        chosen = HydraConfig.get()
        name = str(chosen.runtime.choices["conf"])
        if not isinstance(chosen.launcher, DictConfig):
            raise ScenarioError(f"hydra.launcher={chosen.launcher}", "hydra/launcher=NAME chooses one")
        for node, above in ((config, ""), (chosen.launcher, "hydra.launcher")):
            check_resolvers(OmegaConf.to_container(node, resolve=False), above)
        document: dict[str, Any] = OmegaConf.to_container(config, resolve=True)  # type: ignore[assignment] # a mapping
        check_started(document, chosen.overrides.task, self.looks)
        place = document.setdefault("campaign", {})
        if isinstance(place, dict) and place.get("dir") is None:
            words = chosen.overrides.task if chosen.mode is RunMode.MULTIRUN else ()
            place["dir"] = str(campaign_folder(Path("campaigns") / name, words))
        named = str(chosen.runtime.choices["hydra/launcher"])
        launcher = {} if named == "basic" else OmegaConf.to_container(chosen.launcher, resolve=True)

        compose = Composer(name, launcher, self.launches, self.directories)  # type: ignore[arg-type] # a mapping

        if "site" in document:
            if self.whole is None:
                raise ScenarioError(f"conf={name} is of a whole site", "it goes with tune, plan and measure")
            return self.whole(completed(document), compose)
        scenario, site = compose(document)
        return self.task(site.asked(scenario), site)


def _do(words: Sequence[str], job: _Job) -> None:
    version.setbase("1.3")
    parser = get_args_parser()
    parser.error = _refuse  # type: ignore[method-assign] # argparse would print a usage of Hydra's and exit
    asked = parser.parse_intermixed_args([*map(_opened, words)])
    Plugins.instance()  # registers Hydra's own
    readers = SourcesRegistry.instance().types
    before, readers["file"] = readers["file"], Files
    name, overrides = asked.config_name or "config", asked.overrides
    try:
        hydra = Hydra.create_main_hydra2("autotune", places := _search_path(asked))
        hydra.config_loader = CheckedLoader(places)
        if asked.help:
            hydra.app_help(name, parser, asked)
        elif asked.hydra_help:
            hydra.hydra_help(name, parser, asked)
        elif asked.cfg:
            hydra.show_cfg(name, overrides, asked.cfg, asked.package, asked.resolve)
        elif asked.shell_completion:
            try:
                hydra.shell_completion(name, overrides)
            except ValueError as exc:  # no such shell, or not one of install, uninstall and query
                _refuse(str(exc))
        elif asked.info:
            hydra.compose_config(name, overrides, RunMode.RUN)  # complains to us, not to the screen
            hydra.show_info(asked.info, name, overrides)
        elif asked.multirun or hydra.get_mode(name, overrides) is RunMode.MULTIRUN:
            with TemporaryDirectory(prefix="autotune-multirun-") as place:  # for what Hydra writes of it
                kept_there = f"hydra.sweep.dir={quoted(place)}"
                hydra.multirun(name, job, [*overrides, kept_there, "hydra.mode=MULTIRUN"])
        else:
            hydra.run(name, job, [*overrides, "hydra.mode=RUN"])
    finally:
        readers["file"] = before  # others in this process may use Hydra, too
        GlobalHydra.instance().clear()


def _search_path(asked: Namespace) -> Any:
    """Where Hydra looks for configurations: ours, or ``--config-path``, and before it ``--config-dir``."""
    main = str(asked.config_path or folder("conf"))
    path = create_config_search_path(main if "://" in main else str(Path(main).absolute()))
    if asked.config_dir:
        if not Path(asked.config_dir).is_dir():
            raise ScenarioError(f"--config-dir {asked.config_dir}: no such directory")
        own, before = f"file://{Path(asked.config_dir).absolute()}", SearchPathQuery(provider="schema")
        path.prepend("command-line", own, before)
    return path


def _refuse(message: str) -> Never:
    raise ScenarioError(message, "see: autotune --help, and --hydra-help for Hydra's options")


def _summarise(directories: Sequence[Path]) -> None:
    if len(directories) > 1:
        from autotune.commands.compare import compare

        sys.stdout.write("\n")
        compare(directories, as_json=False)


def connected(launcher: Mapping[str, Any], scenario: Scenario, launches: bool = True) -> Site:
    """Where a scenario's launches are made, by the node of ``hydra.launcher``; empty: the default one.

    ``launches``: they really will be, so that the launcher may prepare itself.

    Raises:
        ScenarioError: a launcher that is not one of ours, or keys that it does not have.
        StackError: nothing can be launched there.
    """
    node = dict(launcher) or {"_target_": _DEFAULT_LAUNCHER}
    check_launcher(node)
    try:
        plugin = instantiate(node)
    except HydraException as exc:
        raise ScenarioError(f"hydra.launcher: {' '.join(str(exc).split())}") from exc
    if launches and hasattr(plugin, "prepare"):
        plugin.prepare(scenario)
    site: Site = plugin.connect(scenario)
    return replace(site, launched_by=dict(launcher))


def campaign_folder(parent: Path, words: Iterable[str]) -> Path:
    """Where a campaign lives: in a multirun in a folder of its own, named by what makes it another one.

    Commas would part Open MPI's lists of files, so the name has none; a campaign that once got a name with
    commas is found there. Words are those of the command line, one value each; none outside of a multirun.
    """
    varied = [w for w in words if re.split(r"[.=]", w.lstrip("+~"))[0] not in ("conf", *CHANGEABLE)]
    named = ",".join(varied).replace("/", "_")
    earlier = parent / named
    return earlier if (earlier / FILE).exists() else parent / named.replace(",", "+")


def _opened(word: str) -> str:
    """Sections whose keys are the user's own take new keys without Hydra's ``+``; ``--anyway`` is one."""
    if word == "--anyway":
        return "++anyway=true"
    return f"++{word}" if word.startswith(_OPEN_SECTIONS) and "=" in word else word


def _translated(exc: Exception, words: Sequence[str]) -> AutotuneError:
    """Hydra's complaint as one of ours: what is wrong, and what is allowed in its place."""
    if not isinstance(exc, HydraException | OmegaConfBaseException | ValueError):
        what = f"{type(exc).__name__}: {exc}".rstrip(": ")
        return ScenarioError(f"Hydra cannot read one of {' '.join(words)} ({what})", "expected KEY=VALUE")
    cause: BaseException | None = exc
    full_key = ""
    while cause is not None:
        full_key = str(getattr(cause, "full_key", "") or full_key)
        cause = cause.__cause__
    parent, _, key = full_key.rpartition(".")
    siblings = keys_of(parent) if full_key else []
    if siblings and key not in siblings:
        return ScenarioError(f"unknown key {full_key!r}", allowed(key, siblings))
    text = " ".join(str(exc).split("Set the environment variable")[0].split("See https://")[0].split())
    if several := re.match(r"Ambiguous value for argument '(?:\+\+)?([^=]+)=(.*?)' 1\.", text):
        key, values = several.groups()
        return ScenarioError(
            f"{key}={values}: one value or several?",
            f"""one value: "{key}='{values}'"; a list: "{key}=[{values}]"; a campaign for each: -m""",
        )
    if missing := re.match(
        r"In '.*?': Could not find '(.+?)/(\S+)' Available options in '.*?': (.*?) Config", text
    ):
        group, name, options = missing.groups()
        return ScenarioError(f"{group}={name}: there is none", allowed(name, options.split()))
    if text.startswith("Config group override must be"):
        return ScenarioError(text, f"these take the name of an option: {', '.join(groups())}, hydra/launcher")
    if isinstance(exc, OverrideParseException):
        return ScenarioError(
            f"{str(exc.override).removeprefix('++')!r}: {text}",
            "expected KEY=VALUE; quote what the shell would change",
        )
    return ScenarioError(text)
