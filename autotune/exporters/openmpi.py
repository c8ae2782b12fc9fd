"""Export files that Open MPI 4.1 and 5.0, or UCX, read themselves (step 12 of the data flow)."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from autotune.errors import UserError
from autotune.exporters.export_check import Recipe
from autotune.exporters.launch_line import mpirun, parted, stated
from autotune.exporters.origin import commented, remarks
from autotune.exporters.settings import (
    HAN_FILE,
    RULES_FILE,
    DeployedSettings,
    job_wide,
    settings,
    values_in,
)
from autotune.exporters.version_check import guard_of
from autotune.history.trial import Rule
from autotune.recommend.recommendation import Recommendation
from autotune.resources.secret import with_secrets
from autotune.space import Point
from autotune.stacks import coll_tuned, han
from autotune.stacks.openmpi import PARAMETERS
from autotune.stacks.ports import Rendering

CONF_FILE, TUNE_FILE, UCX_FILE = PARAMETERS, "autotune.tune", "ucx.conf"  # Names of the exported files.


class _CommandLine:
    """Serves as the base of formats whose settings users may also put on the command line."""

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


class Tune:
    """Exports a file for ``mpirun --tune``, in syntax that Open MPI 4.1 and 5.0 both read correctly."""

    name = "tune"
    summary = f"{TUNE_FILE}: for mpirun --tune (Open MPI 4.1, 5.0; srun does not read it)"
    companions = (RULES_FILE, HAN_FILE)

    def export(self, recommendation: Recommendation, directory: Path) -> Mapping[str, str]:
        """Return texts by file name: the file and, if choices differ by message size, the rules file.

        Raises:
            UserError: A value cannot be written to a file for ``--tune``.
        """
        deployed = settings(recommendation, directory)
        for name, value in {**deployed.mca, **deployed.other}.items():
            if not value or any(c.isspace() or c in "'\"" for c in value):
                raise UserError(
                    f"{name}={value!r} cannot be written to a file for --tune",
                    "such a file takes no empty values, no spaces and no quotes; use openmpi_mca instead",
                )
        use = self.use(recommendation, directory)
        usage = f"use: {use}" if use else f"not by the name of this file: {parted(directory / TUNE_FILE)}"
        lines = commented([*remarks(recommendation), "", usage])
        lines += [f"--mca {name} {value}" for name, value in deployed.mca.items()]
        lines += [f"-x {name}={value}" for name, value in deployed.other.items()]
        return {TUNE_FILE: "\n".join(lines) + "\n", **deployed.files}

    def use(self, recommendation: Recommendation, directory: Path) -> str:
        """Return the command line of ``mpirun`` with ``--tune``.

        Options on the command line take precedence over the file; on 5.0 a user's own parameter file does
        too.
        """
        path = directory.absolute() / TUNE_FILE
        return "" if parted(path) else mpirun(recommendation, ["--tune", shlex.quote(str(path))])


class HanRules:
    """Exports dynamic rules of ``coll_han``, which choose a component within nodes and between them."""

    name = "han_rules"
    summary = f"{HAN_FILE}: per-size rules of coll_han (Open MPI 4.1, 5.0)"

    def export(self, recommendation: Recommendation, directory: Path) -> Mapping[str, str]:
        """Return the rules file.

        Raises:
            UserError: No rule names a component for ``coll_han``.
        """
        head = [*remarks(recommendation), "", f"use: {self.use(recommendation, directory)}"]
        text = han.rules_file(recommendation.rules, head)
        if not text:
            raise UserError(
                "no rule of this recommendation names a component for coll_han",
                f"per-size values: {', '.join(han.LEVELS)}",
            )
        return {HAN_FILE: text}

    def use(self, recommendation: Recommendation, directory: Path) -> str:
        """Return the command line that uses the rules and contains all settings outside the rules."""
        mca, variables = job_wide(recommendation)
        mca["coll_han_use_dynamic_file_rules"] = "1"
        mca["coll_han_dynamic_rules_filename"] = str(directory.absolute() / HAN_FILE)
        return mpirun(recommendation, stated(mca, variables))


class UcxConf:
    """Exports ``ucx.conf``, which UCX reads itself under any MPI."""

    name = "ucx_conf"
    summary = f"{UCX_FILE}: UCX variables, read from $UCX_CONFIG_DIR, $HOME or the working directory"

    def export(self, recommendation: Recommendation, directory: Path) -> Mapping[str, str]:
        """Return the file; it sets no variable if the recommendation sets no variable of UCX."""
        deployed = settings(recommendation, directory)
        return {UCX_FILE: ucx_text(recommendation, deployed, self.use(recommendation, directory))}

    def use(self, recommendation: Recommendation, directory: Path) -> str:
        """Return the command line that uses the file and contains all settings that UCX does not read."""
        deployed = settings(recommendation, directory)
        folder = {"UCX_CONFIG_DIR": str(directory.absolute())} if deployed.ucx else {}
        mca, _ = job_wide(recommendation)
        return mpirun(recommendation, stated(mca, deployed.environment_only), folder, folder)


def ucx_text(recommendation: Recommendation, deployed: DeployedSettings, use: str) -> str:
    """Return the text of UCX's own file; without variables of UCX it consists only of comments."""
    usage = [f"use: {use}"] if use else []
    head = [
        *remarks(recommendation),
        "",
        *usage,
        f"{'or ' * bool(usage)}copy the lines below to ~/ucx.conf, for everybody to UCX's etc/ucx/ucx.conf;",
        "what the environment sets wins",
    ]
    return "\n".join([*commented(head), *(f"{n}={v}" for n, v in deployed.ucx.items())]) + "\n"


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
    """Return a rule with some algorithm added if it names only a component for ``coll_han``."""
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
    # A call that coll_han passes on to coll_tuned is refused only if its rule names an (invalid) algorithm.
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
