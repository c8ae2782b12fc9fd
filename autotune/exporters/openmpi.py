"""Export files that Open MPI 4.1 and 5.0 read themselves (step 12 of the data flow)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from autotune.errors import UserError
from autotune.exporters.export_check import Recipe
from autotune.exporters.launch_line import mpirun, stated
from autotune.exporters.openmpi_files import UCX_FILE, ucx_text
from autotune.exporters.origin import commented, remarks
from autotune.exporters.script_check import values_in
from autotune.exporters.settings import HAN_FILE, RULES_FILE, settings
from autotune.exporters.version_check import guard_of
from autotune.history.trial import Rule
from autotune.recommend.recommendation import Recommendation
from autotune.resources.secret import with_secrets
from autotune.space import Point
from autotune.stacks import coll_tuned, han
from autotune.stacks.openmpi import PARAMETERS
from autotune.stacks.ports import Rendering

CONF_FILE = PARAMETERS  # Name of the parameter file.


class _CommandLine:
    """A format whose settings users may also put on the command line."""

    def use(self, recommendation: Recommendation, directory: Path) -> str:
        """Return a command line of Open MPI's ``mpirun`` that sets everything without any file.

        Options on the command line take precedence over all parameter files, and do not affect other
        parameters in these files. Naming the exported file in ``mca_base_param_files`` would replace the
        site's own file; even if both files are named, on 5.0 ``~/.openmpi/mca-params.conf`` takes precedence,
        because ``mpirun`` turns that file into variables. Setting ``UCX_CONFIG_DIR`` would work, but each
        rank would warn of an unused variable, and ``UCX_WARN_UNUSED_ENV_VARS=n`` would also hide warnings of
        misspelt names.
        """
        deployed = settings(recommendation, directory)
        return mpirun(recommendation, stated(deployed.mca, deployed.other))


class OpenMpiMca(_CommandLine):
    """Exports ``openmpi-mca-params.conf`` with the rules file that it points to, and ``ucx.conf``."""

    name = "openmpi_mca"
    summary = f"{CONF_FILE}, the coll_tuned rules that it points to, and {UCX_FILE} (Open MPI 4.1, 5.0)"
    companions = (RULES_FILE, HAN_FILE, UCX_FILE)

    def export(self, recommendation: Recommendation, directory: Path) -> Mapping[str, str]:
        """Return texts by file name: the parameter file, and files that belong to it.

        A rules file is added if choices differ by message size, and UCX's own file if UCX variables are set.
        """
        deployed = settings(recommendation, directory)
        notes = []
        if deployed.ucx:
            notes = [
                f"UCX's variables are in {UCX_FILE}, which UCX reads itself: what users export still wins.",
                "Both files belong together: one without the other is a setting that nobody measured.",
                "(mca_base_env_list would override it, and on 4.1 abort every mpirun with -x; see the format",
                "openmpi_mca_list)",
            ]
        notes += [f"in the environment of the job: {n}={v}" for n, v in deployed.environment_only.items()]
        text = _conf_file(recommendation, deployed.mca, self.use(recommendation, directory), notes)
        ucx = {UCX_FILE: ucx_text(recommendation, deployed, "")} if deployed.ucx else {}
        return {CONF_FILE: text, **deployed.files, **ucx}

    def recipe(self, recommendation: Recommendation, directory: Path, invalid: Path) -> Recipe:
        """Return how parameters and rules are checked; an invalid rule has an id that no algorithm has."""

        def variables(place: Path) -> dict[str, str]:
            deployed = settings(recommendation, place)
            mca = {f"OMPI_MCA_{name}": value for name, value in values_in(place / CONF_FILE).items()}
            return mca | (values_in(place / UCX_FILE) if deployed.ucx else {}) | deployed.environment_only

        return recipe(recommendation, directory, invalid, self.export, variables)


class OpenMpiMcaList(_CommandLine):
    """Exports one ``openmpi-mca-params.conf`` that contains all settings, those of UCX included."""

    name = "openmpi_mca_list"
    summary = f"{CONF_FILE} alone, with mca_base_env_list: it overrides what users export (4.1, 5.0)"
    companions = (RULES_FILE, HAN_FILE)

    def export(self, recommendation: Recommendation, directory: Path) -> Mapping[str, str]:
        """Return the parameter file and, if choices differ by message size, the rules file."""
        deployed = settings(recommendation, directory)
        mca, notes = dict(deployed.mca), []
        if deployed.other:
            mca["mca_base_env_list"] = env_list(deployed.other)
            notes = [
                "mca_base_env_list overrides what users export; on 4.1 every mpirun with -x beside it aborts"
            ]
        text = _conf_file(recommendation, mca, self.use(recommendation, directory), notes)
        return {CONF_FILE: text, **deployed.files}


class CollTuned(_CommandLine):
    """Exports the rules file of ``coll_tuned`` in the classic format, without a parameter file."""

    name = "coll_tuned"
    summary = f"{RULES_FILE}: per-size rules of coll_tuned, classic format (Open MPI 4.1, 5.0)"

    def export(self, recommendation: Recommendation, directory: Path) -> Mapping[str, str]:
        """Return the rules file; it contains no rule if the MPI decides everything."""
        head = [*remarks(recommendation), "", f"use: {self.use(recommendation, directory)}"]
        text = coll_tuned.rules_file(recommendation.rules, head)
        other_files = settings(recommendation, directory).files
        return {**other_files, RULES_FILE: text or "\n".join([*commented(head), "0  # collectives"]) + "\n"}


def _conf_file(recommendation: Recommendation, mca: Mapping[str, str], use: str, notes: Sequence[str]) -> str:
    guard = guard_of(recommendation)
    head = [
        *remarks(recommendation),
        "",
        f"use: {use}",
        *([f"holds for {guard.versions} alone; no parameter file can ask"] if guard else []),
        "or copy the lines below to ~/.openmpi/mca-params.conf",
        *notes,
    ]
    return "\n".join([*commented(head), "", *(f"{name} = {value}" for name, value in mca.items())]) + "\n"


def env_list(variables: Mapping[str, str]) -> str:
    """Return environment variables in the form of a value of ``mca_base_env_list``.

    Raises:
        UserError: A value contains the separator.
    """
    for name, value in variables.items():
        if ";" in value:
            raise UserError(
                f"{name}={value!r} holds a semicolon, which separates the variables of mca_base_env_list",
                "use the environment script instead",
            )
    return ";".join(f"{name}={value}" for name, value in variables.items())


def _with_algorithm(rule: Rule) -> Rule:
    """Return a rule; if it only names a component for ``coll_han``, it also gets some algorithm."""
    if han.COMPONENT not in rule.choice or "algorithm" in rule.choice:
        return rule
    first = coll_tuned.algorithms(rule.collective)[1]
    return replace(rule, choice=Point.of({**rule.choice, "algorithm": first}))


def recipe(
    recommendation: Recommendation,
    directory: Path,
    invalid: Path,
    export: Callable[[Recommendation, Path], Mapping[str, str]],
    variables: Callable[[Path], Mapping[str, str]],
) -> Recipe:
    """Return how the files of a format of Open MPI are checked on fresh launches.

    Args:
        recommendation: The exported recommendation.
        directory: Directory of the exported files.
        invalid: Directory for files with algorithms that do not exist.
        export: Function that returns the files of the format for a directory.
        variables: Function that returns the variables that the files in a directory set.
    """
    deployed = settings(recommendation, directory)
    # A call that coll_han passes on is refused only if its rule names an algorithm, an invalid one.
    with_algorithms = replace(recommendation, rules=tuple(map(_with_algorithm, recommendation.rules)))
    tables = coll_tuned.table(with_algorithms.rules)

    def refusing(spared_bytes: int) -> Mapping[str, str]:
        if not tables:
            return {}
        rules = coll_tuned.text(coll_tuned.refusing(tables, spared_bytes))
        return {**export(with_algorithms, invalid), RULES_FILE: rules}

    def under(place: Path, expects_values: bool = True) -> Callable[[Rendering], Rendering]:
        settings_there = settings(recommendation if expects_values else with_algorithms, place)

        def amended(rendering: Rendering) -> Rendering:
            expect = replace(
                rendering.expect,
                env=settings_there.environment_only,
                cvars=dict(settings_there.mca),
                ucx=rendering.expect.ucx or settings_there.mca.get("pml") == "ucx",
                ucx_values=settings_there.ucx,
            )
            source = recommendation.provenance
            common = with_secrets(dict(source.both_sides), rendering.env)
            placement, env = dict(source.placement), {**common, **variables(place)}
            mapped = Rendering(env, placement.get("map_by", ""), placement.get("bind_to", ""))
            return replace(mapped, expect=expect) if expects_values else mapped

        return amended

    return Recipe(
        variables=(*deployed.mca, *deployed.other),
        under=under(directory),
        invalid=refusing,
        under_invalid=under(invalid, expects_values=False),
        covers=lambda slot: bool(coll_tuned.row_at(tables, slot).algorithm),
    )
