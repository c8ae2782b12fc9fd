"""Knowledge of an MPI implementation without one being installed (used by steps 5, 10 and 12).

A campaign's directory is read, and its files are written, on machines without any MPI. So the words of an
implementation (``Dialect``) are separate from an implementation that was detected (``Stack``).
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
    """Knows the words of an MPI implementation; this base class stands for one that is not known."""

    formats: ClassVar[tuple[str, ...]] = ("env_sh",)  # Formats to export where the scenario names none.
    one_row: ClassVar[Mapping[str, int]] = {}
    """Collective whose table holds as a whole or not at all → the most rows that the table may have; 1 where
    the implementation's files have no conditions on message sizes."""
    by_ranks: ClassVar[bool] = False  # Whether its files can choose by communicator size.
    banner: ClassVar[re.Pattern[str] | None] = None
    """Pattern of its launcher's answer to ``--version``, with one group for the version; None: it has no
    launcher."""
    distribution: ClassVar[str] = ""  # The Python distribution that brings it; empty: there is none.
    campaigns: ClassVar[str] = ""  # The versions that campaigns can be made on, in words; empty: none.
    slurm_plugins: ClassVar[tuple[str, ...]] = ()  # Slurm's plugins that start it, the best one first.

    reproducible: ClassVar[Mapping[str, str]] = {}
    """Variables under which sums do not depend on where ranks are; with ``require=reproducible`` every launch
    and every export has them."""
    by_place: ClassVar[tuple[str, ...]] = ()  # Prefixes of algorithms whose sums depend on where ranks are.
    switches: ClassVar[tuple[str, ...]] = ()  # Parameters of shipped spaces that would undo ``reproducible``.

    def sums_alike(self, space: Space) -> Space:
        """Return the space without what makes sums depend on where ranks are despite ``reproducible``."""
        parameters, dropped = [], list(space.dropped)
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
                    if remaining := tuple(v for v in values if v not in left_out):
                        lists[collective] = remaining
                parameter = replace(parameter, collectives=lists)
            parameters.append(parameter)
        return replace(space, parameters=tuple(parameters), dropped=tuple(dropped))

    def environment(
        self, space: Space, point: Point, fixed: Mapping[str, str], components: Collection[str] = ()
    ) -> tuple[dict[str, str], dict[str, str]]:
        """Return the variables that apply the job-wide values, and the placement (``map_by``, ``bind_to``).

        Args:
            space: The space of the point.
            point: The job-wide values.
            fixed: Environment of every launch, which the variables are added to.
            components: Collective components that are built; empty: not known.

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
        """Return the fixed variables without which a recommendation would not have its effect.

        Args:
            fixed: Environment of every launch of the campaign.
            env: The recommendation's own variables.
            rules: Whether the recommendation has rules by size.
        """
        return {name: value for name, value in fixed.items() if self.reproducible.get(name) == value}

    def variables(self, kind: str, target: Mapping[str, str], components: Collection[str]) -> dict[str, str]:
        """Return one kind of target of a parameter's ``apply`` as environment variables.

        Args:
            kind: A key of ``apply``, e.g. ``env``.
            target: Name → value.
            components: Collective components that are built; empty: not known.
        """
        return dict(target) if kind == "env" else {}

    def mpirun_options(self, placement: Placement, env: Mapping[str, str]) -> list[str]:
        """Return the words for ``mpirun`` that place the ranks and forward the variables of ``env`` by name.

        Raises:
            StackError: the implementation has no ``mpirun``.
        """
        raise StackError("no command line for this MPI", allowed("", implementations()))

    def mpirun_env(self, agent: Sequence[str] = ()) -> dict[str, str]:
        """Return variables for ``mpirun`` itself.

        Args:
            agent: Words that start a command on another host; empty: the launcher's own way.
        """
        return {}

    def surroundings(self, mpirun: Path) -> dict[str, str]:
        """Return variables that let an installation find its own files and report what it does.

        Those that the site sets are left alone. The launcher and all ranks get them; they are no part of a
        setting.
        """
        return {}

    def library_folders(self, mpirun: Path) -> list[Path]:
        """Return folders where its library may lie, to be searched before ``lib`` beside the launcher."""
        return []

    def detect(
        self, installation: Installation, settings: Mapping[str, str], env: Mapping[str, str], ranks: int
    ) -> "Stack":
        """Return the stack that an installation is, under the scenario's fixed settings.

        Args:
            installation: The MPI.
            settings: The implementation's own parameters that the scenario fixes for every launch.
            env: Environment variables that the scenario fixes for every launch.
            ranks: Ranks of a launch on this machine; 0: it is not known yet.

        Raises:
            StackError: campaigns are not made on it, its tools do not answer, or a one-rank launch fails.
        """
        versions = " or ".join(words.campaigns for words in implementations().values() if words.campaigns)
        raise StackError(
            f"{installation.mpirun} is {installation.flavour} {installation.version}",
            f"campaigns are made on {versions}; set mpi.mpirun, or mpi.from=wheel",
        )


class CommandDialect(Dialect):
    """Stands for a program of the user's, whose parameters have no meaning here."""

    formats = ("json", "summary")


class RecordedDialect(Dialect):
    """Stands for a recorded table, of whose columns it is not known what they set."""

    formats = ()


def forwarded(env: Mapping[str, str]) -> list[str]:
    """Return the names of the variables that ``mpirun`` forwards only on request, sorted.

    Open MPI's launcher forwards parameters of Open MPI and its runtime by itself, and they mean nothing to
    other implementations.
    """
    return sorted(name for name in env if not name.startswith(("OMPI_MCA_", "PRTE_MCA_", "PMIX_MCA_")))


def targets(
    space: Space, parameter: Parameter, point: Mapping[str, Any], collective: str = "", always: bool = False
) -> dict[str, Any]:
    """Return how a value of a parameter is applied, by kind.

    The kinds ``env``, ``mca`` and ``cvar`` have dictionaries; ``map_by`` and ``bind_to`` have a text. A
    default sets nothing, except with ``always``, or if its template names another parameter that is not at
    its own default.

    Args:
        space: The space of the parameter.
        parameter: The parameter.
        point: Values of all active parameters, among them this one.
        collective: Collective of a call-level value; empty for a job-wide one.
        always: Whether values at their defaults are applied too.

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
