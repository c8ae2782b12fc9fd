"""Files that Open MPI 4.1 and 5.0 read themselves (step 12 of the flow)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from autotune.errors import UserError
from autotune.exporters.export_check import Recipe
from autotune.exporters.guard import guard_of
from autotune.exporters.launch_line import mpirun, stated
from autotune.exporters.openmpi_files import UCX_FILE, ucx_text
from autotune.exporters.origin import commented, remarks
from autotune.exporters.script_check import values_in
from autotune.exporters.settings import HAN_FILE, RULES_FILE, settings
from autotune.history.trial import Rule
from autotune.recommend.recommendation import Recommendation
from autotune.space import Point
from autotune.stacks import coll_tuned, han
from autotune.stacks.openmpi import PARAMETERS
from autotune.stacks.ports import Rendering

CONF_FILE = PARAMETERS  # Name of the parameter file.


class _ByWords:
    """Files for those who copy their lines."""

    def use(self, recommendation: Recommendation, directory: Path) -> str:
        """By a line of Open MPI's ``mpirun`` that says everything itself.

        A file that ``mca_base_param_files`` names would take the place of the site's own; named in front of
        that, it loses to ``~/.openmpi/mca-params.conf`` on 5.0, whose ``mpirun`` makes variables of it.
        Options win over all of these and leave the rest of them alone. Of ``UCX_CONFIG_DIR``
        each rank would warn as unused, although it obeys it, and ``UCX_WARN_UNUSED_ENV_VARS=n`` would hide
        misspelt names.
        """
        deployed = settings(recommendation, directory)
        return mpirun(recommendation, stated(deployed.mca, deployed.other))


class OpenMpiMca(_ByWords):
    """``openmpi-mca-params.conf`` with the rules file that it points to, and ``ucx.conf``."""

    name = "openmpi_mca"
    summary = f"{CONF_FILE}, the coll_tuned rules that it points to, and {UCX_FILE} (Open MPI 4.1, 5.0)"
    beside = (RULES_FILE, HAN_FILE, UCX_FILE)

    def export(self, recommendation: Recommendation, directory: Path) -> Mapping[str, str]:
        """The parameter file and, where sizes differ, the rules file; UCX's file where it is needed."""
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
        """By the content of the files; rules are made invalid by an id that no collective has."""

        def variables(place: Path) -> dict[str, str]:
            deployed = settings(recommendation, place)
            mca = {f"OMPI_MCA_{name}": value for name, value in values_in(place / CONF_FILE).items()}
            return mca | (values_in(place / UCX_FILE) if deployed.ucx else {}) | deployed.environment_only

        return recipe(recommendation, directory, invalid, self.export, variables)


class OpenMpiMcaList(_ByWords):
    """``openmpi-mca-params.conf`` with everything in it, for those who want a single parameter file."""

    name = "openmpi_mca_list"
    summary = f"{CONF_FILE} alone, with mca_base_env_list: it overrides what users export (4.1, 5.0)"
    beside = (RULES_FILE, HAN_FILE)

    def export(self, recommendation: Recommendation, directory: Path) -> Mapping[str, str]:
        """The parameter file and, where sizes differ, the rules file."""
        deployed = settings(recommendation, directory)
        mca, notes = dict(deployed.mca), []
        if deployed.other:
            mca["mca_base_env_list"] = env_list(deployed.other)
            notes = [
                "mca_base_env_list overrides what users export; on 4.1 every mpirun with -x beside it aborts"
            ]
        text = _conf_file(recommendation, mca, self.use(recommendation, directory), notes)
        return {CONF_FILE: text, **deployed.files}


class CollTuned(_ByWords):
    """The classic rules file alone."""

    name = "coll_tuned"
    summary = f"{RULES_FILE}: per-size rules of coll_tuned, classic format (Open MPI 4.1, 5.0)"

    def export(self, recommendation: Recommendation, directory: Path) -> Mapping[str, str]:
        """The rules file; one without any rule where the stack decides everything."""
        head = [*remarks(recommendation), "", f"use: {self.use(recommendation, directory)}"]
        text = coll_tuned.rules_file(recommendation.rules, head)
        beside = settings(recommendation, directory).files
        return {**beside, RULES_FILE: text or "\n".join([*commented(head), "0  # collectives"]) + "\n"}


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
    """Environment variables as ``mca_base_env_list`` takes them.

    Raises:
        UserError: a value that holds the separator.
    """
    for name, value in variables.items():
        if ";" in value:
            raise UserError(
                f"{name}={value!r} holds a semicolon, which separates the variables of mca_base_env_list",
                "use the environment script instead",
            )
    return ";".join(f"{name}={value}" for name, value in variables.items())


def _with_algorithm(rule: Rule) -> Rule:
    """A rule by which ``coll_han`` hands calls over, with an algorithm if it names none."""
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
    """How a format of Open MPI is checked; ``invalid``: where files with algorithms that do not exist go."""
    deployed = settings(recommendation, directory)
    # Calls that coll_han passes on with no algorithm show it only by one that does not exist.
    named = replace(recommendation, rules=tuple(map(_with_algorithm, recommendation.rules)))
    tables = coll_tuned.table(named.rules)

    def refusing(spared_bytes: int) -> Mapping[str, str]:
        if not tables:
            return {}
        rules = coll_tuned.text(coll_tuned.refusing(tables, spared_bytes))
        return {**export(named, invalid), RULES_FILE: rules}

    def under(place: Path, seen: bool = True) -> Callable[[Rendering], Rendering]:
        there = settings(recommendation if seen else named, place)

        def amended(rendering: Rendering) -> Rendering:
            expect = replace(
                rendering.expect,
                env=there.environment_only,
                cvars=dict(there.mca),
                ucx=rendering.expect.ucx or there.mca.get("pml") == "ucx",
                ucx_values=there.ucx,
            )
            source = recommendation.provenance
            where, env = dict(source.placement), {**dict(source.both_sides), **variables(place)}
            mapped = Rendering(env, where.get("map_by", ""), where.get("bind_to", ""))
            return replace(mapped, expect=expect) if seen else mapped

        return amended

    return Recipe(
        variables=(*deployed.mca, *deployed.other),
        under=under(directory),
        invalid=refusing,
        under_invalid=under(invalid, seen=False),
        covers=lambda slot: bool(coll_tuned.row_at(tables, slot).algorithm),
    )
