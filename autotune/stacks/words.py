"""Facts of an MPI implementation where none is installed (used by steps 5, 10 and 12).

A campaign's directory is read, and its files are written, on machines without any MPI: so the words of an
implementation stand apart from the implementation that was detected.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from autotune.collectives import COLLECTIVES
from autotune.errors import SpaceError, StackError, allowed
from autotune.space import Dropped, Parameter, Point, Space, check_words, names_in
from autotune.stacks import implementations
from autotune.stacks.installation import Installation
from autotune.stacks.ports import Placement

if TYPE_CHECKING:
    from autotune.stacks.stack import Stack

_BY_PLACE = "require=reproducible: sums depend on where ranks are"


class Dialect:
    """The words of an implementation; here of one that is not known."""

    formats: ClassVar[tuple[str, ...]] = ("env_sh",)  # What is exported where the scenario names no format.
    one_row: ClassVar[Mapping[str, int]] = {}
    """Collectives whose table holds as a whole or not at all, with the most rows that it may have: 1 where
    its files have no conditions on message sizes."""
    by_ranks: ClassVar[bool] = False  # Whether its files know communicators by their size.
    banner: ClassVar[re.Pattern[str] | None] = None
    """Its launcher's answer to ``--version``, with one group for the version; None: it has no launcher."""
    distribution: ClassVar[str] = ""  # The Python distribution that brings it; empty: there is none.
    campaigns: ClassVar[str] = ""  # The versions that campaigns can be made on; empty: none.
    slurm_plugins: ClassVar[tuple[str, ...]] = ()  # Slurm's plugins that start it, the best one first.

    reproducible: ClassVar[Mapping[str, str]] = {}
    """Variables under which sums do not depend on where ranks are; every launch has them, exports too."""
    by_place: ClassVar[tuple[str, ...]] = ()  # Prefixes of algorithms whose sums depend on where ranks are.
    switches: ClassVar[tuple[str, ...]] = ()  # Parameters of shipped spaces that would undo ``reproducible``.

    def sums_alike(self, space: Space) -> Space:
        """The space without what makes sums depend on the mapping of ranks under ``reproducible``."""
        kept, dropped = [], list(space.dropped)
        for parameter in space.parameters:
            if parameter.name in self.switches:
                dropped.append(Dropped(parameter.name, None, _BY_PLACE))
                continue
            if parameter.name == "algorithm":
                lists = {}
                for collective, values in parameter.collectives.items():
                    sums = COLLECTIVES[collective].sums
                    left_out = [v for v in values if sums and str(v).startswith(self.by_place)]
                    dropped += [Dropped(f"algorithm of {collective}", v, _BY_PLACE) for v in left_out]
                    if left := tuple(v for v in values if v not in left_out):
                        lists[collective] = left
                parameter = replace(parameter, collectives=lists)
            kept.append(parameter)
        return replace(space, parameters=tuple(kept), dropped=tuple(dropped))

    def environment(
        self, space: Space, point: Point, fixed: Mapping[str, str], components: Collection[str] = ()
    ) -> tuple[dict[str, str], dict[str, str]]:
        """The variables, and ``map_by`` and ``bind_to`` where set, that apply the job-wide values.

        The collective components are those that are there, if known.

        Raises:
            SpaceError: a template names a parameter that is not in the point.
        """
        env, placement = dict(fixed), {}
        for parameter in space.job:
            if parameter.name in point:
                for kind, target in targets(space, parameter, point).items():
                    if kind in ("map_by", "bind_to"):
                        placement[kind] = target
                    else:
                        env.update(self.variables(kind, target, components))
        return env, placement

    def needed(self, fixed: Mapping[str, str], env: Mapping[str, str], rules: bool) -> dict[str, str]:
        """Variables of every launch without which a recommendation has no effect.

        ``env`` are the recommendation's own variables, and ``rules`` says whether it has rules by size.
        """
        return {name: value for name, value in fixed.items() if self.reproducible.get(name) == value}

    def variables(self, kind: str, target: Mapping[str, str], components: Collection[str]) -> dict[str, str]:
        """One kind of target of a parameter's ``apply`` as environment variables."""
        return dict(target) if kind == "env" else {}

    def mpirun_options(self, placement: Placement, env: Mapping[str, str]) -> list[str]:
        """Words for ``mpirun`` that place the ranks and forward variables, of which only the names are used.

        Raises:
            StackError: it has no ``mpirun``.
        """
        raise StackError("no command line for this MPI", allowed("", implementations()))

    def mpirun_env(self, agent: Sequence[str] = ()) -> dict[str, str]:
        """Variables of ``mpirun`` itself; ``agent``: words that start a command on another host, or empty."""
        return {}

    def surroundings(self, mpirun: Path) -> dict[str, str]:
        """Variables by which an installation finds itself, and reports its actions, where its site sets none.

        Its launcher and all ranks get these; they are no part of a setting.
        """
        return {}

    def library_folders(self, mpirun: Path) -> list[Path]:
        """Where its library lies, if it can be asked; looked into before ``lib`` beside the launcher."""
        return []

    def detect(
        self, installation: Installation, settings: Mapping[str, str], env: Mapping[str, str], ranks: int
    ) -> "Stack":
        """The installed implementation under the scenario's fixed settings.

        The scenario fixes ``settings`` (the implementation's own parameters) and ``env`` for every launch;
        0 ranks: nobody knows yet.

        Raises:
            StackError: campaigns are not made on it, its tools do not answer, or a one-rank launch fails.
        """
        known = " or ".join(words.campaigns for words in implementations().values() if words.campaigns)
        raise StackError(
            f"{installation.mpirun} is {installation.flavour} {installation.version}",
            f"campaigns are made on {known}; set mpi.mpirun, or mpi.from=wheel",
        )


class CommandDialect(Dialect):
    """A program of the user's: what its parameters set is its own affair."""

    formats = ("json", "summary")


class RecordedDialect(Dialect):
    """A table: nobody knows what its columns set."""

    formats = ()


def forwarded(env: Mapping[str, str]) -> list[str]:
    """Names of the variables that ``mpirun`` has to forward, in a fixed order.

    Parameters of Open MPI and its runtime are forwarded by its own, and mean nothing to another.
    """
    return sorted(name for name in env if not name.startswith(("OMPI_MCA_", "PRTE_MCA_", "PMIX_MCA_")))


def targets(
    space: Space, parameter: Parameter, point: Mapping[str, Any], collective: str = "", always: bool = False
) -> dict[str, Any]:
    """How one value is applied, by kind: ``env``, ``mca`` and ``cvar`` dictionaries, ``map_by``, ``bind_to``.

    A default sets nothing, unless ``always``, or unless its template names another parameter too that is not
    at its own default.

    Raises:
        SpaceError: a template names what is not in the point, or gives no name of a variable.
    """
    value = point[parameter.name]
    by_value = any(key in parameter.values for key in parameter.apply)
    declared: Any = parameter.apply.get(str(value), {}) if by_value else parameter.apply
    fields = {**point, "value": value, "collective": collective, "COLLECTIVE": collective.upper()}
    partners = [n for n in point if n != parameter.name and f"{{{n}}}" in str(declared)]
    moved = any(point[n] != space[n].unset for n in partners)
    if value == parameter.unset and not (by_value or moved or always):
        return {}

    def fill(template: object) -> str:
        try:
            names_in(str(template), fields)
        except SpaceError as exc:
            raise SpaceError(f"{parameter.name}: {exc.message}", exc.hint) from exc
        return str(template).format_map(fields)

    filled: dict[str, Any] = {
        kind: {fill(k): fill(v) for k, v in target.items()} if isinstance(target, Mapping) else fill(target)
        for kind, target in declared.items()
    }
    for kind, target in filled.items():
        for name, words in target.items() if isinstance(target, dict) else ((kind, target),):
            check_words(kind, name, words)
    return filled
