"""Checks of what a scenario's files may ask of Hydra: a launcher and a mode, and nothing that acts.

Hydra makes what its own node names (callbacks, sweepers, handlers of logs), and sets variables of this
process, before any task is called. A scenario can be anybody's file, so what its files put into that node is
checked as the configuration is X
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import yaml
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra._internal.utils import create_config_search_path
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.plugins.config_source import ConfigResult
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import GrammarParseError
from omegaconf.grammar.gen.OmegaConfGrammarParser import OmegaConfGrammarParser as Grammar
from omegaconf.grammar_parser import parse

from autotune.errors import ScenarioError, allowed
from autotune.resources import MOST_YAML, folder, user_text
from autotune.resources.secret import is_secret
from autotune.scenario import PATHS
from autotune.space.obeyed import obeyed_by

LAUNCHERS = "hydra_plugins.autotune"
"""Where the modules of our launchers are; those that begin with an underscore are none."""
_OWN = ("launcher", "mode")  # Keys of the node ``hydra`` that a file may set.
_KEPT_BY_HYDRA = (
    *("runtime.choices", "runtime.config_sources", "runtime.cwd", "overrides"),
    *("job.override_dirname", "job.config_name"),
)
"""Keys of the node ``hydra`` into which Hydra itself writes what it composed, and of what."""
_RESOLVERS = ("oc.select", "oc.dict.keys", "oc.dict.values", "now")
"""Resolvers of which nothing is made but parts of the scenario and the time; ``oc.decode`` and ``oc.create``
read text as interpolations again."""
_ACTING = (
    "_target_",
    "_args_",
    "_partial_",
    "_recursive_",
    "_convert_",
)  # Keys at which Hydra makes objects.


class CheckedLoader(ConfigLoaderImpl):
    """Composes configurations of which no file sets what Hydra would act on."""

    def load_configuration(
        self,
        config_name: str | None,
        overrides: list[str],
        run_mode: RunMode,
        from_shell: bool = True,
        validate_sweep_overrides: bool = True,
    ) -> DictConfig:
        """The composed configuration.

        Raises:
            ScenarioError: a file sets more of the node ``hydra`` than a launcher and a mode, or the launcher
                is none of the project's.
        """
        composed = super().load_configuration(
            config_name, overrides, run_mode, from_shell, validate_sweep_overrides
        )
        if config_name is not None:  # else no file of a scenario is read
            self._check(composed, overrides)
        return composed

    def _process_config_searchpath(self, config_name: str | None, parsed_overrides: Any, repo: Any) -> None:
        """Take further places of files from the command line alone: ``pkg://NAME`` imports a package."""
        main = repo.load_config(config_path=config_name) if config_name else None
        if main is not None and OmegaConf.select(main.config, "hydra.searchpath"):
            raise _too_much("hydra.searchpath")
        super()._process_config_searchpath(config_name, parsed_overrides, repo)

    def _check(self, composed: DictConfig, overrides: Sequence[str]) -> None:
        node: dict[str, Any] = OmegaConf.to_container(composed.hydra, resolve=False)  # type: ignore[assignment] # a mapping
        parsed = OverridesParser.create().parse_overrides(overrides=[*overrides])
        typed = tuple(str(o.input_line) for o in parsed if o.is_hydra_override())
        if self._reads_files(typed):
            trusted = _trusted(tuple(word for word in typed if "launcher" not in re.split("[.=]", word)[:2]))
            for key in _differences(node, trusted):
                if key.partition(".")[0] not in _OWN and not key.startswith(_KEPT_BY_HYDRA):
                    raise _too_much(f"hydra.{key}")
            if len(node["overrides"]["task"]) + len(node["overrides"]["hydra"]) != len(overrides):
                raise _too_much("hydra.overrides")
        launcher = node.get("launcher")
        if not isinstance(launcher, dict):
            raise ScenarioError(f"hydra.launcher={launcher}", "hydra/launcher=NAME chooses one")
        check_resolvers(launcher, "hydra.launcher")
        if launcher != _basic():
            check_launcher(launcher)

    def _reads_files(self, typed: Sequence[str]) -> bool:
        """Whether any file but the project's own can be in a configuration."""
        ours = {str(folder("conf")), "hydra.conf", ""}
        places = {element.path.removeprefix("file://") for element in self.config_search_path.get_path()}
        return not places <= ours or any("searchpath" in word for word in typed)


def _too_much(key: str) -> ScenarioError:
    return ScenarioError(
        f"a file of the scenario sets {key}",
        f"the hydra node of a file holds {' and '.join(_OWN)} alone; what else you want of Hydra, type",
    )


@cache
def _trusted(typed: tuple[str, ...]) -> Mapping[str, Any]:
    """The node ``hydra`` as our own files and the user's words compose it."""
    loader = ConfigLoaderImpl(create_config_search_path(str(folder("conf"))))
    words = ["conf=allreduce_local", *typed]
    composed = loader.load_configuration("config", words, RunMode.RUN, validate_sweep_overrides=False)
    node: dict[str, Any] = OmegaConf.to_container(composed.hydra, resolve=False)  # type: ignore[assignment] # a mapping
    return node


def _basic() -> Mapping[str, Any]:
    """Hydra's own launcher, which stands for: none was chosen."""
    return {"_target_": "hydra._internal.core_plugins.basic_launcher.BasicLauncher"}


def _differences(node: object, other: object, above: str = "") -> Iterator[str]:
    """The keys at which two configurations differ, dotted."""
    if isinstance(node, dict) and isinstance(other, dict):
        for key in {**node, **other}:
            where = f"{above}.{key}" if above else str(key)
            if key in node and key in other:
                yield from _differences(node[key], other[key], where)
            else:
                yield where
    elif node != other:
        yield above


def check_launcher(node: Mapping[str, Any]) -> None:
    """Let Hydra make our own launchers and nothing else: a node can come out of anybody's file or journal.

    Raises:
        ScenarioError: it names something else, or something inside of it does.
    """
    names = [m.name for m in iter_modules(import_module(LAUNCHERS).__path__) if not m.name.startswith("_")]
    target = str(node.get("_target_"))
    if target not in {f"{LAUNCHERS}.{name}.{name.title()}Launcher" for name in names}:
        raise ScenarioError(f"hydra.launcher: {target!r} is not a launcher of autotune", allowed("", names))
    inner = json.dumps({key: value for key, value in node.items() if key != "_target_"}, default=str)
    if acted := re.search(r'"_\w+_":|\$\{', inner):
        raise ScenarioError(f"hydra.launcher holds {acted[0]}", "its keys are plain ones with plain values")


def check_resolvers(node: object, above: str = "") -> None:
    """Refuse what would read the environment, but for paths, and what would make objects.

    A value out of the environment can be a secret, which would appear in journal and report. Names are read
    by OmegaConf's own grammar: one that is itself computed could be any.

    Args:
        node: A configuration whose interpolations are not resolved.
        above: The key that it stands under.

    Raises:
        ScenarioError: a resolver that is not allowed there, or a key such as ``_target_``.
    """
    if isinstance(node, dict):
        for key, inner in node.items():
            where = f"{above}.{key}".lstrip(".")
            if key in _ACTING and above != "hydra.launcher":
                raise ScenarioError(
                    f"{where}: a scenario makes no objects", "hydra/launcher=NAME chooses one"
                )
            check_resolvers(inner, where)
    elif isinstance(node, list):
        for number, inner in enumerate(node):
            check_resolvers(inner, f"{above}.{number}".lstrip("."))
    elif isinstance(node, str) and "${" in node:
        _check_text(node, above)


def check_started(document: Mapping[str, Any], typed: Sequence[str], looks: bool) -> None:
    """Refuse what would run a stranger's program before the user has asked for any launch.

    Args:
        document: The composed scenario.
        typed: The user's own words: what they say is the user's wish.
        looks: Whether nothing is asked for but a look at what a scenario would do.

    Raises:
        ScenarioError: a file sets a variable at whose word something is loaded, started or written, or names
            the ``mpirun`` that a mere look would start.
    """
    keys = [re.split("=", word.lstrip("+~"))[0] for word in typed]
    own = [key for key in keys if key != "mpi"]  # which chooses a file
    mpi = document.get("mpi")
    for section in ("env", "mca"):
        named = mpi.get(section) if isinstance(mpi, Mapping) else None
        for name in named if isinstance(named, Mapping) else ():
            key = f"mpi.{section}.{name}"
            if (who := obeyed_by(str(name))) and not any(key == k or key.startswith(f"{k}.") for k in own):
                raise ScenarioError(f"a file of the scenario sets {key}, which is obeyed by {who}", "type it")
    if looks and isinstance(mpi, Mapping) and mpi.get("mpirun") and "mpi.mpirun" not in own:
        raise ScenarioError(
            f"a file of the scenario names mpi.mpirun={mpi['mpirun']}, which would be started",
            "type mpi.mpirun=… as well, to say that it may",
        )


def _check_text(text: str, key: str) -> None:
    try:
        calls = [*_calls(parse(text))]
    except GrammarParseError:  # which OmegaConf names when it resolves the value; it resolves nothing of it
        return
    for call in calls:
        name = call.getChild(1).getText()
        computed = _calls_or_nodes(call.getChild(1))
        argument = call.getChild(3)
        if name == "oc.env" and not computed:
            if key not in PATHS:
                raise ScenarioError(
                    f"{key} comes out of the environment, and would appear in journal and report",
                    "launches inherit the environment; for other values let the shell expand $NAME",
                )
            if not isinstance(argument, Grammar.SequenceContext) or _calls_or_nodes(argument.getChild(0)):
                raise ScenarioError(f"{key}={text}: which variable it reads is computed", "name it")
            if is_secret(variable := argument.getChild(0).getText()):
                raise ScenarioError(f"{key} comes out of {variable}, a secret by its name", "type the path")
        elif computed or name not in _RESOLVERS:
            raise ScenarioError(
                f"{key}={text}: resolver {name}",
                f"{allowed(name, _RESOLVERS)}; oc.env in keys that are paths: {', '.join(PATHS)}",
            )


def _calls(tree: Any) -> Iterator[Any]:
    """The resolvers that a parsed value calls, inner ones too."""
    if isinstance(tree, Grammar.InterpolationResolverContext):
        yield tree
    for child in getattr(tree, "children", None) or ():
        yield from _calls(child)


def _calls_or_nodes(tree: Any) -> bool:
    """Whether a part of a parsed value is computed."""
    inner = getattr(tree, "children", None) or ()
    return isinstance(tree, Grammar.InterpolationContext) or any(map(_calls_or_nodes, inner))


class Files(FileConfigSource):
    """Files of scenarios, which can be anybody's: within the bounds of a search space."""

    def load_config(self, config_path: str) -> ConfigResult:
        """The configuration in a file.

        Raises:
            ScenarioError: it is longer than what is read, its aliases stand for more than a file can hold, or
                an interpolation of it reads what a scenario may not.
        """
        path = Path(self.path) / self._normalize_file_name(config_path)
        if folder("conf") not in path.parents:
            text = user_text(path, raised=ScenarioError, most=MOST_YAML)
            with suppress(yaml.YAMLError):  # which Hydra names
                if _parts(yaml.compose(text, yaml.SafeLoader), {}) > MOST_YAML:
                    raise ScenarioError(f"{path}: its aliases (*) stand for too much", "write it out")
        loaded = super().load_config(config_path)
        if folder("conf") not in path.parents and isinstance(loaded.config, DictConfig):
            named = loaded.config._get_node("defaults")  # Hydra resolves them as it composes
            if named is not None and OmegaConf.is_list(named):
                check_resolvers(OmegaConf.to_container(named, resolve=False), f"{path}: defaults")
        return loaded


def _parts(node: yaml.Node | None, known: dict[int, float]) -> float:
    """Number of the parts of a YAML text with its aliases written out; infinite: one is part of itself."""
    if id(node) not in known:
        known[id(node)] = math.inf
        inner = node.value if isinstance(node, yaml.CollectionNode) else ()
        pairs = (one if isinstance(one, tuple) else (one,) for one in inner)
        known[id(node)] = 1 + sum(_parts(part, known) for pair in pairs for part in pair)
    return known[id(node)]
