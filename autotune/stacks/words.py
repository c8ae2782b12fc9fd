"""Names and options of an MPI implementation, whether or not it is installed.

The directory of a campaign is also read, and its files are also written, on machines without any MPI. So what
is known of any implementation (``Dialect``) is separate from an installed implementation (``Stack``).
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from autotune.collectives import COLLECTIVES
from autotune.errors import SpaceError, StackError, allowed
from autotune.space import Dropped, Parameter, Point, Space, Value, check_words, names_in
from autotune.stacks import implementations
from autotune.stacks.installation import Installation
from autotune.stacks.ports import Placement

if TYPE_CHECKING:
    from autotune.stacks.stack import Stack

_BY_PLACE = "require=reproducible: sums depend on where ranks are"
ALGORITHM_OF = "algorithm of "  # Name under which a dropped algorithm is listed; the collective follows it.


class Dialect:
    """Knows the names and options of an MPI; this base class stands for an implementation that is unknown."""

    formats: ClassVar[tuple[str, ...]] = ("env_sh",)  # Formats to export if the scenario names none.
    one_row: ClassVar[Mapping[str, int]] = {}
    """Maps a collective whose rules must cover all message sizes, or be absent, to the largest number of
    rows; 1 if the implementation's files have no conditions on the message sizes of the collective."""
    by_ranks: ClassVar[bool] = False  # Whether the files can choose an algorithm by communicator size.
    banner: ClassVar[re.Pattern[str] | None] = None
    """Pattern of the launcher's answer to ``--version``, with one group for the version; None: there is no
    launcher."""
    distribution: ClassVar[str] = ""  # The PyPI package that contains the implementation; empty: none.
    campaigns: ClassVar[str] = ""  # The versions that can be tuned, in words; empty: none.
    slurm_plugins: ClassVar[tuple[str, ...]] = ()  # Slurm's plugins that start ranks, the best one first.

    reproducible: ClassVar[Mapping[str, str]] = {}
    """Variables with which sums do not depend on where ranks are; with ``require=reproducible`` every launch
    and every export sets them."""
    by_place: ClassVar[tuple[str, ...]] = ()  # Prefixes of algorithms whose sums depend on where ranks are.
    switches: ClassVar[tuple[str, ...]] = ()  # Parameters of shipped spaces that would undo ``reproducible``.

    def sums_alike(self, space: Space) -> Space:
        """Return the space without settings that make sums depend on where ranks are.

        Settings are removed that have this effect in spite of the variables in ``reproducible``.
        """
        parameters, dropped = [], list(space.dropped)
        for parameter in space.parameters:
            if parameter.name in self.switches:
                dropped.append(Dropped(parameter.name, None, _BY_PLACE))
                continue
            if parameter.name == "algorithm":
                parameter, left_out = without_algorithms(parameter, self._depends_on_place)
                dropped += left_out
            parameters.append(parameter)
        return replace(space, parameters=tuple(parameters), dropped=tuple(dropped))

    def _depends_on_place(self, collective: str, algorithm: Value) -> str:
        sums = COLLECTIVES[collective].sums
        return _BY_PLACE if sums and str(algorithm).startswith(self.by_place) else ""

    def environment(
        self, space: Space, point: Point, fixed: Mapping[str, str], components: Collection[str] = ()
    ) -> tuple[dict[str, str], dict[str, str]]:
        """Return the variables that apply the job-wide values, and the placement (``map_by``, ``bind_to``).

        The variables are added to ``fixed``, which every launch has. ``components`` are the collective
        components that are built; empty if they are not known.

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
        """Return the campaign's fixed variables without which a recommendation would not have its effect.

        ``env`` are the recommendation's own variables; ``rules`` says whether it has rules by message size.
        """
        return {name: value for name, value in fixed.items() if self.reproducible.get(name) == value}

    def variables(self, kind: str, target: Mapping[str, str], components: Collection[str]) -> dict[str, str]:
        """Return the environment variables that one entry of a parameter's ``apply`` sets.

        ``kind`` is the key of the entry, such as ``env``. ``components`` are the collective components that
        are built; empty if they are not known.
        """
        return dict(target) if kind == "env" else {}

    def mpirun_options(self, placement: Placement, env: Mapping[str, str]) -> list[str]:
        """Return the options of ``mpirun`` that place the ranks and forward the variables of ``env`` by name.

        Raises:
            StackError: the implementation has no ``mpirun``.
        """
        raise StackError("no command line for this MPI", allowed("", implementations()))

    def mpirun_env(self, agent: Sequence[str] = ()) -> dict[str, str]:
        """Return variables for ``mpirun`` itself; ``agent`` is the command that reaches another host."""
        return {}

    def surroundings(self, mpirun: Path) -> dict[str, str]:
        """Return variables with which an installation finds its own files and prints what it uses.

        Variables that the site sets are left out. The launcher and all ranks get these variables; they are
        not part of a trial's settings.
        """
        return {}

    def library_folders(self, mpirun: Path) -> list[Path]:
        """Return folders that may contain the MPI library; they are searched before ``lib``."""
        return []

    def detect(
        self, installation: Installation, settings: Mapping[str, str], env: Mapping[str, str], ranks: int
    ) -> "Stack":
        """Return a description of an installed MPI with the scenario's fixed settings.

        Args:
            installation: The MPI.
            settings: The implementation's own parameters that the scenario fixes for every launch.
            env: Environment variables that the scenario fixes for every launch.
            ranks: Number of ranks of a launch on this machine; 0: it is not known yet.

        Raises:
            StackError: this MPI cannot be tuned, its tools do not answer, or a launch with one rank fails.
        """
        versions = " or ".join(words.campaigns for words in implementations().values() if words.campaigns)
        raise StackError(
            f"{installation.mpirun} is {installation.flavour} {installation.version}",
            f"campaigns are made on {versions}; set mpi.mpirun, or mpi.from=wheel",
        )


class CommandDialect(Dialect):
    """Represents a user's program, whose parameters have no meaning for this project."""

    formats = ("json", "summary")


class RecordedDialect(Dialect):
    """Represents a recorded table; it is not known which settings its columns describe."""

    formats = ()


def without_algorithms(
    parameter: Parameter, why_not: Callable[[str, Value], str]
) -> tuple[Parameter, list[Dropped]]:
    """Return the parameter ``algorithm`` without some values, and the removed values with their reasons.

    ``why_not`` returns the reason to remove a value of a collective, or an empty text to keep the value.
    """
    lists, dropped = {}, []
    for collective, values in parameter.collectives.items():
        reasons = {value: reason for value in values if (reason := why_not(collective, value))}
        dropped += [Dropped(f"{ALGORITHM_OF}{collective}", value, why) for value, why in reasons.items()]
        if remaining := tuple(value for value in values if value not in reasons):
            lists[collective] = remaining
    return replace(parameter, collectives=lists), dropped


def forwarded(env: Mapping[str, str]) -> list[str]:
    """Return the names of the variables that ``mpirun`` forwards only on request, sorted.

    Parameters of Open MPI and its runtime are not among them: Open MPI's launcher forwards such parameters
    without a request, and other implementations ignore them.
    """
    return sorted(name for name in env if not name.startswith(("OMPI_MCA_", "PRTE_MCA_", "PMIX_MCA_")))


def targets(
    space: Space, parameter: Parameter, point: Mapping[str, Any], collective: str = "", always: bool = False
) -> dict[str, Any]:
    """Return the settings that apply a value of a parameter, by the kind of setting.

    For the kinds ``env``, ``mca`` and ``cvar`` a setting is a dictionary of variables; for ``map_by`` and
    ``bind_to`` it is a text. A default value sets nothing, except with ``always``, or if its template names
    another parameter that does not have its own default value.

    Args:
        space: The space of the parameter.
        parameter: The parameter.
        point: Values of all active parameters, including ``parameter``.
        collective: Collective of a per-size value; empty for a job-wide value.
        always: Whether default values are applied too.

    Raises:
        SpaceError: a template names a parameter that is not in the point, or yields no valid variable name.
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
