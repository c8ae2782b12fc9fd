"""Make a scenario and its bench from words of the command line, with Hydra, and call a task with the two.

A bench is the place where a scenario is launched; a task is a function that does the work of a verb.
``hydra.main`` reads ``sys.argv``, prints errors and exits; ``hydra.compose`` supports neither multiruns nor
options. This module therefore performs the steps of ``hydra.main`` itself, with the words that its caller
gives, and raises errors as exceptions. For these steps it uses private parts of Hydra: the parser of options,
the search path, to which plugins add, the reader of files, and the object that runs jobs and multiruns and
shows configurations. Hydra is therefore pinned to version 1.3.
"""

import os
import re
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
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

from autotune.campaign.bench import Bench, Compose
from autotune.campaign.interruption import check, heeded
from autotune.campaign.withheld import with_secrets
from autotune.commands.companions import command_lines, filled
from autotune.commands.composing import (
    CheckedLoader,
    Files,
    check_launcher,
    check_resolvers,
    check_started,
)
from autotune.commands.keys import LAUNCHERS, groups, keys_of, launchers, quoted
from autotune.errors import (
    AutotuneError,
    ExitCode,
    HandedOver,
    ScenarioError,
    allowed,
    check_installed,
    naming_extras,
)
from autotune.exporters import exporter
from autotune.history.folder import FILE
from autotune.resources import folder
from autotune.scenario import CHANGEABLE, Scenario, completed, scenario_of

_DEFAULT_LAUNCHER = f"{LAUNCHERS}.mpirun.MpirunLauncher"
"""The launcher if a scenario names none. Hydra's own default launcher would start no MPI to tune."""

_OPEN_SECTIONS = (
    *("fix.", "responses.", "mpi.mca.", "mpi.env.", "proposer.options.", "probe.options."),
    *("simulate.", "replay."),
)
"""Sections of a scenario in which users invent the keys. Hydra requires a ``+`` before a new key; in these
sections the user need not write it."""

Task = Callable[[Scenario, Bench], int]
"""A function that does the work with a composed scenario at its bench, and returns the exit code."""
SiteTask = Callable[[Mapping[str, Any], Compose], int]
"""A function that does the work of ``conf=site`` (a whole site) and returns the exit code. Its arguments are
the site's configuration, and a function that turns the configuration of one job into a scenario and its
bench."""
_T = TypeVar("_T")


def run_task(
    task: Task,
    words: Sequence[str],
    launches: bool = False,
    site_task: SiteTask | None = None,
    dry_run: bool = False,
    verb: str = "tune",
) -> int:
    """Call a task with the scenario that the words compose, or do what an option of Hydra's asks for.

    A multirun calls the task once for each combination of values, and returns the largest exit code.
    ``launches`` says that the task launches something: then a batch system may do the work, and hosts are
    checked. ``site_task`` is called in place of the task for a scenario of a whole site; if it is None, such
    a scenario is an error. In a ``dry_run`` a program that only a scenario file names, and not the user's
    words, is not started. ``verb`` is named in messages.

    Raises:
        AutotuneError: the task failed, or Hydra refused the words (Hydra's exception is translated).
            ``Interrupted`` is raised for Ctrl-C, SIGTERM and SIGHUP.
    """
    job = _Job(task, launches, site_task, dry_run, verb)
    with heeded():
        try:
            for job_words in command_lines(words):
                _run_words(job_words, job)
                if job.failure:
                    break
        finally:
            _summarise([directory for directory in job.directories if (directory / FILE).exists()])
        if job.failure:
            raise job.failure
    return max(job.codes, default=ExitCode.WELL)


def _run_words(words: Sequence[str], job: "_Job") -> None:
    try:
        _run_hydra(words, job)
    except (HydraException, OmegaConfBaseException) as exc:
        raise _translated(exc, words) from exc
    except (OSError, AutotuneError):
        raise
    except Exception as exc:  # Hydra raises exceptions of any type for words that it cannot read
        if job.called:
            raise
        raise _translated(exc, words) from exc


def answer_of(ask: Callable[[Scenario, Bench], _T], words: Sequence[str], launches: bool = False) -> _T:
    """Return what ``ask`` returns for the scenario that the words compose, and for the scenario's bench.

    Raises:
        AutotuneError: for the same reasons as in ``run_task``.
    """
    answers: list[_T] = []

    def record_answer(scenario: Scenario, bench: Bench) -> int:
        answers.append(ask(scenario, bench))
        return ExitCode.WELL

    run_task(record_answer, words, launches)
    return answers[0]


@dataclass(frozen=True, slots=True)
class Composer:
    """Turns a configuration that Hydra has composed into a scenario and the bench where it is launched."""

    name: str  # Name of the scenario.
    launcher: Mapping[str, Any]
    """Node ``hydra.launcher`` of the configuration; if it is empty, the default launcher is used."""
    launches: bool = True  # Whether anything may be launched.
    directories: list[Path] = field(default_factory=list)
    """Directories of the campaigns composed so far; each call with ``launches=True`` adds one."""

    def __call__(self, document: dict[str, Any], launches: bool = True) -> tuple[Scenario, Bench]:
        """Return the scenario and the bench of a configuration whose interpolations are already resolved.

        If ``launches`` is false, nothing is prepared for a launch.

        Raises:
            ScenarioError: a key or a value is not allowed, or ``export`` names an unknown format.
            StackError: the bench has no MPI that can be launched.
        """
        scenario = scenario_of(filled(document), self.name)
        for format_name in scenario.export:
            exporter(format_name)  # an unknown format is refused before anything is launched
        if launches:
            self.directories.append(scenario.directory)
        return scenario, connected(self.launcher, scenario, launches and self.launches)

    @property
    def origin(self) -> Mapping[str, Any]:
        """Return the scenario's name and launcher, from which another process creates the same composer."""
        return {"name": self.name, "launcher": dict(self.launcher)}


@dataclass
class _Job:
    """Is called by Hydra with each composed configuration, and calls the task with the scenario and bench."""

    task: Task
    launches: bool
    site_task: SiteTask | None = None
    dry_run: bool = False  # Whether the task only shows what would be done.
    verb: str = "tune"  # Name of the verb that does the task.
    called: bool = False
    """Whether Hydra has called this object; exceptions before that come from Hydra, not from the task."""
    codes: list[int] = field(default_factory=list)  # Exit codes of the tasks that were done.
    directories: list[Path] = field(default_factory=list)  # Directories of the campaigns.
    failure: AutotuneError | None = None
    """The error of a single run, or the notice that a batch job continues a multirun. This exception is
    stored here and raised later, because Hydra prints a line of its own for an exception that passes through
    Hydra."""

    def __call__(self, config: DictConfig) -> None:
        self.called = True
        check()
        if self.failure:
            return
        try:
            with naming_extras():
                self.codes.append(self._run_config(config))
        except AutotuneError as error:
            if HydraConfig.get().mode is RunMode.MULTIRUN and not isinstance(error, HandedOver):
                raise
            self.failure = error

    def _run_config(self, config: DictConfig) -> int:
        hydra_config = HydraConfig.get()
        name = str(hydra_config.runtime.choices["conf"])
        if not isinstance(hydra_config.launcher, DictConfig):
            raise ScenarioError(f"hydra.launcher={hydra_config.launcher}", "hydra/launcher=NAME chooses one")
        for node, section in ((config, ""), (hydra_config.launcher, "hydra.launcher")):
            check_resolvers(OmegaConf.to_container(node, resolve=False), section)
        document: dict[str, Any] = OmegaConf.to_container(config, resolve=True)  # type: ignore[assignment] # a mapping
        check_started(document, hydra_config.overrides.task, self.dry_run)
        place = document.setdefault("campaign", {})
        if isinstance(place, dict) and place.get("dir") is None:
            words = hydra_config.overrides.task if hydra_config.mode is RunMode.MULTIRUN else ()
            place["dir"] = str(campaign_folder(Path("campaigns") / name, words))
        launcher_name = str(hydra_config.runtime.choices["hydra/launcher"])
        launcher = (
            {} if launcher_name == "basic" else OmegaConf.to_container(hydra_config.launcher, resolve=True)
        )

        compose = Composer(name, launcher, self.launches, self.directories)  # type: ignore[arg-type] # a mapping

        if "site" in document:
            if self.site_task is None:
                raise ScenarioError(f"conf={name} is of a whole site", "it goes with tune, plan and measure")
            if self.launches:
                _check_launchable()
            return self.site_task(completed(document), compose)
        scenario, bench = compose(document)
        return self.task(bench.asked(scenario), bench)


def _run_hydra(words: Sequence[str], job: _Job) -> None:
    """Do what ``hydra.main`` does: compose and run the job, or do what an option of Hydra's asks for."""
    version.setbase("1.3")
    parser = get_args_parser()
    parser.error = partial(_refuse, job.verb)  # type: ignore[method-assign] # argparse would exit
    options = parser.parse_intermixed_args([*map(_as_override, words)])
    Plugins.instance()  # this registers Hydra's own plugins
    readers = SourcesRegistry.instance().types
    former_reader, readers["file"] = readers["file"], Files
    name, overrides = options.config_name or "config", options.overrides
    try:
        hydra = Hydra.create_main_hydra2("autotune", search_path := _search_path(options))
        hydra.config_loader = CheckedLoader(search_path)
        if options.help:
            hydra.app_help(name, parser, options)
        elif options.hydra_help:
            hydra.hydra_help(name, parser, options)
        elif options.cfg:
            hydra.show_cfg(name, overrides, options.cfg, options.package, options.resolve)
        elif options.shell_completion:
            try:
                hydra.shell_completion(name, overrides)
            except ValueError as exc:  # an unknown shell, or an action other than install, uninstall, query
                _refuse(job.verb, str(exc))
        elif options.info:
            hydra.compose_config(name, overrides, RunMode.RUN)  # show_info would print an error, not raise it
            hydra.show_info(options.info, name, overrides)
        elif options.multirun or hydra.get_mode(name, overrides) is RunMode.MULTIRUN:
            with TemporaryDirectory(prefix="autotune-multirun-") as folder_name:  # for Hydra's own files
                sweep_dir = f"hydra.sweep.dir={quoted(folder_name)}"
                hydra.multirun(name, job, [*overrides, sweep_dir, "hydra.mode=MULTIRUN"])
        else:
            hydra.run(name, job, [*overrides, "hydra.mode=RUN"])
    finally:
        readers["file"] = former_reader  # other code in this process may use Hydra too
        GlobalHydra.instance().clear()


def _search_path(options: Namespace) -> Any:
    """Return where Hydra finds configurations: in ``--config-path`` or ``conf/``, and in ``--config-dir``."""
    main = str(options.config_path or folder("conf"))
    path = create_config_search_path(main if "://" in main else str(Path(main).absolute()))
    if options.config_dir:
        if not Path(options.config_dir).is_dir():
            raise ScenarioError(f"--config-dir {options.config_dir}: no such directory")
        entry, anchor = f"file://{Path(options.config_dir).absolute()}", SearchPathQuery(provider="schema")
        path.prepend("command-line", entry, anchor)
    return path


def _refuse(verb: str, message: str) -> Never:
    raise ScenarioError(message, f"see: autotune {verb} --help, and --hydra-help for Hydra's options")


def _summarise(directories: Sequence[Path]) -> None:
    if len(directories) > 1:
        from autotune.commands.compare import compare

        sys.stdout.write("\n")
        compare(directories, as_json=False)


def connected(launcher: Mapping[str, Any], scenario: Scenario, launches: bool = True) -> Bench:
    """Return the bench where a scenario is launched.

    ``launcher`` is the node ``hydra.launcher`` of the configuration; if it is empty, the default launcher is
    used. If anything will be launched, the launcher's ``prepare`` is called first, after a check of the
    libraries that the results of launches need.

    Raises:
        ScenarioError: the launcher is not part of this project, or a key of the node is unknown to it; or the
            scenario was stored without a secret value, and the environment does not contain this value.
        StackError: the bench has no MPI that can be launched.
        UserError: what the evaluation of launches needs is not installed.
    """
    if launches:
        _check_launchable()
    node = dict(launcher) or {"_target_": _DEFAULT_LAUNCHER}
    check_launcher(node)
    scenario, changed = with_secrets(scenario, os.environ)
    for name in changed:
        sys.stderr.write(f"{name} is not what it was when it was kept, or somebody else kept it\n")
    try:
        plugin = instantiate(node)
    except HydraException as exc:
        raise ScenarioError(f"hydra.launcher: {' '.join(str(exc).split())}") from exc
    if launches and hasattr(plugin, "prepare"):
        plugin.prepare(scenario)
    bench: Bench = plugin.connect(scenario)
    return replace(bench, launched_by=dict(launcher))


def _check_launchable() -> None:
    """Check that the results of launches can be evaluated.

    Raises:
        UserError: a library that this needs is not installed.
    """
    check_installed("the evaluation of launches", "scipy")


def campaign_folder(parent: Path, words: Iterable[str]) -> Path:
    """Return the directory of a campaign; in a multirun its name consists of the words that vary.

    The name contains no commas, because Open MPI separates files by commas in its lists.
    """
    varied = [word for word in words if re.split(r"[.=]", word.lstrip("+~"))[0] not in ("conf", *CHANGEABLE)]
    return parent / "+".join(varied).replace("/", "_").replace(",", "+")


def _as_override(word: str) -> str:
    """Return a word in Hydra's form: ``++KEY=VALUE`` in open sections, ``++anyway=true`` for ``--anyway``."""
    if word == "--anyway":
        return "++anyway=true"
    return f"++{word}" if word.startswith(_OPEN_SECTIONS) and "=" in word else word


def _translated(exc: Exception, words: Sequence[str]) -> AutotuneError:
    if not isinstance(exc, HydraException | OmegaConfBaseException | ValueError):
        complaint = f"{type(exc).__name__}: {exc}".rstrip(": ")
        return ScenarioError(
            f"Hydra cannot read one of {' '.join(words)} ({complaint})", "expected KEY=VALUE"
        )
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
        r"(?:In '.*?': )?Could not find '(.*?)' Available options in '(.*?)': (.*?)(?: Config|$)", text
    ):
        path, group, options = missing.groups()
        name = path.removeprefix(f"{group}/")
        # Hydra has launchers of its own, which start no MPI.
        names = launchers() if group == "hydra/launcher" else options.split()
        return ScenarioError(f"{group}={name}: there is none", allowed(name, names))
    if (unnamed := re.match(r"(?:In '.*?': )?You must specify '(\S+?)'", text)) and unnamed[1] in groups():
        return ScenarioError(f"{unnamed[1]}= is not given", allowed("", groups()[unnamed[1]]))
    if text.startswith("Config group override must be"):
        return ScenarioError(text, f"these take the name of an option: {', '.join(groups())}, hydra/launcher")
    if isinstance(exc, OverrideParseException):
        return ScenarioError(
            f"{str(exc.override).removeprefix('++')!r}: {text}",
            "expected KEY=VALUE; quote what the shell would change",
        )
    return ScenarioError(text)
