"""Check scenario files; among Hydra's own settings, a file may set only the launcher and the mode.

Hydra's own settings are in the node ``hydra`` of a configuration. Before Hydra calls any task, it creates the
objects that this node names (callbacks, sweepers, log handlers), and sets environment variables of this
process. Anybody may have written a scenario file, so this module checks the values that files put into the
node while Hydra composes the configuration.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
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

from autotune.commands.keys import LAUNCHERS, launchers
from autotune.errors import ScenarioError, allowed
from autotune.resources import MOST_YAML, folder, user_text
from autotune.resources.secret import is_secret
from autotune.scenario import PATHS
from autotune.space.obeyed import obeyed_by

_OWN = ("launcher", "mode")  # Keys of the node ``hydra`` that a file may set.
_KEPT_BY_HYDRA = (
    *("runtime.choices", "runtime.config_sources", "runtime.cwd", "overrides"),
    *("job.override_dirname", "job.config_name"),
)
"""Keys of the node ``hydra`` in which Hydra itself lists the composed parts and the files they come from."""
_RESOLVERS = ("oc.select", "oc.dict.keys", "oc.dict.values", "now")
"""OmegaConf resolvers (functions in interpolations) that a scenario may use, because they yield only parts of
the scenario, or the time. ``oc.decode`` and ``oc.create`` are not allowed, because they also resolve
interpolations that are inside their argument's value."""
_ACTING = ("_target_", "_args_", "_partial_", "_recursive_", "_convert_")
"""Keys that make Hydra create an object."""
_BASIC = {"_target_": "hydra._internal.core_plugins.basic_launcher.BasicLauncher"}
"""The node ``hydra.launcher`` if no launcher was chosen: it names Hydra's own launcher."""


class CheckedLoader(ConfigLoaderImpl):
    """Composes configurations like Hydra, but refuses a file that sets keys on which Hydra acts."""

    def load_configuration(
        self,
        config_name: str | None,
        overrides: list[str],
        run_mode: RunMode,
        from_shell: bool = True,
        validate_sweep_overrides: bool = True,
    ) -> DictConfig:
        """Return the composed configuration.

        Raises:
            ScenarioError: a file sets keys of the node ``hydra`` other than launcher and mode, or the
                launcher is not part of this project.
        """
        composed = super().load_configuration(
            config_name, overrides, run_mode, from_shell, validate_sweep_overrides
        )
        if config_name is not None:  # without a name no scenario file is read
            self._check(composed, overrides)
        return composed

    def _process_config_searchpath(self, config_name: str | None, parsed_overrides: Any, repo: Any) -> None:
        """Refuse ``hydra.searchpath`` in a file: an entry ``pkg://NAME`` would import a package.

        On the command line the key is allowed.
        """
        main = repo.load_config(config_path=config_name) if config_name else None
        if main is not None and OmegaConf.select(main.config, "hydra.searchpath"):
            raise _refusal("hydra.searchpath")
        super()._process_config_searchpath(config_name, parsed_overrides, repo)

    def _check(self, composed: DictConfig, overrides: Sequence[str]) -> None:
        node: dict[str, Any] = OmegaConf.to_container(composed.hydra, resolve=False)  # type: ignore[assignment] # a mapping
        parsed = OverridesParser.create().parse_overrides(overrides=[*overrides])
        typed = tuple(str(o.input_line) for o in parsed if o.is_hydra_override())
        if self._reads_files(typed):
            trusted = _trusted(tuple(word for word in typed if "launcher" not in re.split("[.=]", word)[:2]))
            for key in _differences(node, trusted):
                if key.partition(".")[0] not in _OWN and not key.startswith(_KEPT_BY_HYDRA):
                    raise _refusal(f"hydra.{key}")
            if len(node["overrides"]["task"]) + len(node["overrides"]["hydra"]) != len(overrides):
                raise _refusal("hydra.overrides")
        launcher = node.get("launcher")
        if not isinstance(launcher, dict):
            raise ScenarioError(f"hydra.launcher={launcher}", "hydra/launcher=NAME chooses one")
        check_resolvers(launcher, "hydra.launcher")
        if launcher != _BASIC:
            check_launcher(launcher)

    def _reads_files(self, typed: Sequence[str]) -> bool:
        """Return whether a configuration may be composed from files other than this project's own."""
        own_places = {str(folder("conf")), "hydra.conf", ""}
        places = {element.path.removeprefix("file://") for element in self.config_search_path.get_path()}
        return not places <= own_places or any("searchpath" in word for word in typed)


def _refusal(key: str) -> ScenarioError:
    return ScenarioError(
        f"a file of the scenario sets {key}",
        f"the hydra node of a file holds {' and '.join(_OWN)} alone; what else you want of Hydra, type",
    )


@cache
def _trusted(typed: tuple[str, ...]) -> Mapping[str, Any]:
    """Return the node ``hydra`` as composed from this project's files and the words that the user typed."""
    loader = ConfigLoaderImpl(create_config_search_path(str(folder("conf"))))
    words = ["conf=allreduce_local", *typed]
    composed = loader.load_configuration("config", words, RunMode.RUN, validate_sweep_overrides=False)
    node: dict[str, Any] = OmegaConf.to_container(composed.hydra, resolve=False)  # type: ignore[assignment] # a mapping
    return node


def _differences(node: object, reference: object, prefix: str = "") -> Iterator[str]:
    if isinstance(node, dict) and isinstance(reference, dict):
        for key in {**node, **reference}:
            key_path = f"{prefix}.{key}" if prefix else str(key)
            if key in node and key in reference:
                yield from _differences(node[key], reference[key], key_path)
            else:
                yield key_path
    elif node != reference:
        yield prefix


def check_launcher(node: Mapping[str, Any]) -> None:
    """Check that a launcher's node makes Hydra create one of this project's launchers and nothing else.

    Raises:
        ScenarioError: the node names another class, or contains an interpolation or a key such as
            ``_target_``.
    """
    names = launchers()
    target = str(node.get("_target_"))
    if target not in {f"{LAUNCHERS}.{name}.{name.title()}Launcher" for name in names}:
        raise ScenarioError(f"hydra.launcher: {target!r} is not a launcher of autotune", allowed("", names))
    inner = json.dumps({key: value for key, value in node.items() if key != "_target_"}, default=str)
    if forbidden := re.search(r'"_\w+_":|\$\{', inner):
        raise ScenarioError(
            f"hydra.launcher holds {forbidden[0]}", "its keys are plain ones with plain values"
        )


def check_resolvers(node: object, key_path: str = "") -> None:
    """Check that a configuration creates no objects, and reads environment variables only for paths.

    A value from the environment can be a secret, which would appear in the journal. Names of resolvers and
    variables are parsed with OmegaConf's grammar; a name that is itself an interpolation is refused.

    Raises:
        ScenarioError: the configuration contains a resolver that is not allowed at its key, or a key such as
            ``_target_``.
    """
    if isinstance(node, dict):
        for key, inner in node.items():
            path = f"{key_path}.{key}".lstrip(".")
            if key in _ACTING and key_path != "hydra.launcher":
                raise ScenarioError(f"{path}: a scenario makes no objects", "hydra/launcher=NAME chooses one")
            check_resolvers(inner, path)
    elif isinstance(node, list):
        for number, inner in enumerate(node):
            check_resolvers(inner, f"{key_path}.{number}".lstrip("."))
    elif isinstance(node, str) and "${" in node:
        _check_text(node, key_path)


def check_started(document: Mapping[str, Any], typed: Sequence[str], looks: bool) -> None:
    """Check that no file of a scenario makes a program run before the user has asked for a launch.

    Args:
        document: The composed scenario.
        typed: The words that the user typed; every key that these words set is allowed.
        looks: Whether the user only wants to see what the scenario would do, as in a dry run.

    Raises:
        ScenarioError: a file sets an environment variable that makes a program load, start or write
            something; or ``looks`` is true and a file names the ``mpirun`` that would be started.
    """
    keys = [re.split("=", word.lstrip("+~"))[0] for word in typed]
    typed_keys = [key for key in keys if key != "mpi"]  # mpi=NAME chooses a file, and sets no value itself
    mpi = document.get("mpi")
    for section in ("env", "mca"):
        variables = mpi.get(section) if isinstance(mpi, Mapping) else None
        for name in variables if isinstance(variables, Mapping) else ():
            key = f"mpi.{section}.{name}"
            if (obeying := obeyed_by(str(name))) and not any(
                key == k or key.startswith(f"{k}.") for k in typed_keys
            ):
                raise ScenarioError(
                    f"a file of the scenario sets {key}, which is obeyed by {obeying}", "type it"
                )
    if looks and isinstance(mpi, Mapping) and mpi.get("mpirun") and "mpi.mpirun" not in typed_keys:
        raise ScenarioError(
            f"a file of the scenario names mpi.mpirun={mpi['mpirun']}, which would be started",
            "type mpi.mpirun=… as well, to say that it may",
        )


def _check_text(text: str, key: str) -> None:
    try:
        calls = [*_calls(parse(text))]
    except GrammarParseError:  # OmegaConf raises this error again before it resolves the value
        return
    for call in calls:
        name = call.getChild(1).getText()
        computed = _is_computed(call.getChild(1))
        argument = call.getChild(3)
        if name == "oc.env" and not computed:
            if key not in PATHS:
                raise ScenarioError(
                    f"{key} comes out of the environment, and would appear in journal and report",
                    "launches inherit the environment; for other values let the shell expand $NAME",
                )
            if not isinstance(argument, Grammar.SequenceContext) or _is_computed(argument.getChild(0)):
                raise ScenarioError(f"{key}={text}: which variable it reads is computed", "name it")
            if is_secret(variable := argument.getChild(0).getText()):
                raise ScenarioError(f"{key} comes out of {variable}, a secret by its name", "type the path")
        elif computed or name not in _RESOLVERS:
            raise ScenarioError(
                f"{key}={text}: resolver {name}",
                f"{allowed(name, _RESOLVERS)}; oc.env in keys that are paths: {', '.join(PATHS)}",
            )


def _calls(tree: Any) -> Iterator[Any]:
    if isinstance(tree, Grammar.InterpolationResolverContext):
        yield tree
    for child in getattr(tree, "children", None) or ():
        yield from _calls(child)


def _is_computed(tree: Any) -> bool:
    inner = getattr(tree, "children", None) or ()
    return isinstance(tree, Grammar.InterpolationContext) or any(map(_is_computed, inner))


class Files(FileConfigSource):
    """Reads scenario files, which anybody may have written, and refuses a file that is larger than 1 MiB."""

    def load_config(self, config_path: str) -> ConfigResult:
        """Return the configuration in a file.

        Raises:
            ScenarioError: the file is longer than ``MOST_YAML`` bytes, its aliases expand to more than
                ``MOST_YAML`` nodes, or its list of defaults contains an interpolation that a scenario may not
                use.
        """
        path = Path(self.path) / self._normalize_file_name(config_path)
        if folder("conf") not in path.parents:
            text = user_text(path, raised=ScenarioError, max_bytes=MOST_YAML)
            with suppress(yaml.YAMLError):  # Hydra reports the error when it reads the file
                if _parts(yaml.compose(text, yaml.SafeLoader), {}) > MOST_YAML:
                    raise ScenarioError(f"{path}: its aliases (*) stand for too much", "write it out")
        loaded = super().load_config(config_path)
        if folder("conf") not in path.parents and isinstance(loaded.config, DictConfig):
            defaults = loaded.config._get_node("defaults")  # Hydra resolves this list while it composes
            if defaults is not None and OmegaConf.is_list(defaults):
                check_resolvers(OmegaConf.to_container(defaults, resolve=False), f"{path}: defaults")
        return loaded


def _parts(node: yaml.Node | None, counts: dict[int, float]) -> float:
    """Return the number of nodes of a YAML text with aliases expanded; infinite if a node contains itself.

    ``counts`` maps the ``id`` of each node that was visited to its number of nodes, and is filled here.
    """
    if id(node) not in counts:
        counts[id(node)] = math.inf
        inner = node.value if isinstance(node, yaml.CollectionNode) else ()
        pairs = (child if isinstance(child, tuple) else (child,) for child in inner)
        counts[id(node)] = 1 + sum(_parts(part, counts) for pair in pairs for part in pair)
    return counts[id(node)]
