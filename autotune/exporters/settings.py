"""Sort a recommendation's settings by the library that reads them, for all formats (step 12 of the flow)."""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from autotune.errors import UserError
from autotune.exporters.launch_line import PROGRAM, sourced
from autotune.exporters.origin import commented, remarks
from autotune.history.lookup import rule_at
from autotune.history.trial import Rule, left_to_the_stack
from autotune.recommend.recommendation import Recommendation
from autotune.resources import user_text
from autotune.stacks import coll_tuned, han
from autotune.stacks.cleared import check_rules
from autotune.stacks.installation import MAKERS
from autotune.stacks.tables import algorithm_of, tables

RULES_FILE = "coll_tuned_rules.conf"
"""Name of coll_tuned's rules file in the classic format, in the directory of the files that point to it."""
HAN_FILE = "coll_han_rules.conf"  # Name of the rules file of coll_han.

FAMILIES = {**MAKERS, "mvapich": "MVAPICH"}
"""Maps ``Provenance.family`` to the name of the MPI that its makers use."""

_MCA, _UCX = "OMPI_MCA_", "UCX_"
_DYNAMIC = ("coll_tuned_use_dynamic_rules", "coll_tuned_dynamic_rules_filename")
_FORCED = re.compile(r"coll_tuned_(\w+)_algorithm(_\w+)?")


@dataclass(frozen=True, slots=True)
class DeployedSettings:
    """Holds the job-wide values and rules files of a recommendation, as exported files contain them."""

    mca: Mapping[str, str]  # Maps each MCA parameter, without the prefix ``OMPI_MCA_``, to its value.
    other: Mapping[str, str]  # Maps every other environment variable to its value, as measured.
    rules: str
    """Text of the classic rules file that ``mca`` points to; empty if there are no rules."""
    han: str = ""  # Text of the rules file of coll_han, which chooses components; empty: there is none.

    @property
    def environment(self) -> dict[str, str]:
        """Return all settings as environment variables.

        ``mpirun`` forwards ``OMPI_MCA_*`` to other nodes by itself, and other variables only if ``-x`` names
        them. ``mca_base_env_list`` would forward other variables too, but it overrides users' own values, and
        on 4.1 it makes an ``mpirun`` with ``-x`` abort.
        """
        return {f"{_MCA}{name}": value for name, value in self.mca.items()} | dict(self.other)

    @property
    def ucx(self) -> dict[str, str]:
        """Return the variables that UCX also reads from its own file."""
        return {name: value for name, value in self.other.items() if name.startswith(_UCX)}

    @property
    def environment_only(self) -> dict[str, str]:
        """Return the variables that no file of Open MPI or UCX can set."""
        return {name: value for name, value in self.other.items() if not name.startswith(_UCX)}

    @property
    def files(self) -> dict[str, str]:
        """Return the rules files, as texts by file name; empty if there are none."""
        return {name: text for name, text in ((RULES_FILE, self.rules), (HAN_FILE, self.han)) if text}


EVERYWHERE = "its rules hold for messages of all sizes, also beyond those measured: it has no word for an end"
"""Remark in files of a format that cannot leave any message size to the library."""


def everywhere(recommendation: Recommendation) -> list[Rule]:
    """Return the rules that apply to some measured size; the first rule of each table begins at 0 bytes.

    A table consists of the rules for one collective and communicator size. If it is not known which sizes
    were measured, all rules are returned unchanged.
    """
    reached = {rule_at(recommendation.rules, gain.slot) for gain in recommendation.gains}
    kept_tables: dict[tuple[str, int], list[Rule]] = {}
    for rule in sorted(recommendation.rules, key=lambda r: (r.collective, r.comm_size, r.min_bytes)):
        if rule in reached or not reached:
            table = kept_tables.setdefault((rule.collective, rule.comm_size), [])
            table.append(rule if table or not reached else replace(rule, min_bytes=0))
    return [rule for table in kept_tables.values() for rule in table]


def one_algorithm(collective: str, by_size: Mapping[int, list[Rule]]) -> str:
    """Return the algorithm that all rules of a collective name; empty if they leave the choice to the MPI.

    Raises:
        UserError: The rules name several algorithms.
    """
    names = {algorithm_of(rule) for table in by_size.values() for rule in table}
    if len(names) > 1:
        listed = ", ".join(sorted(name or "the stack's own" for name in names))
        message = f"{collective} has different algorithms by size: {listed}"
        raise UserError(message, "a variable forces one for all sizes")
    return names.pop()


def check_family(recommendation: Recommendation, family: str) -> None:
    """Refuse a recommendation that was measured on another MPI, whose algorithms differ in names and speeds.

    Raises:
        UserError: The recommendation was measured on another family of MPI, or has an algorithm that the
            conformance table does not clear (it was never checked, or failed).
    """
    measured = recommendation.provenance.family
    if measured in FAMILIES and measured != family:
        raise UserError(
            f"{recommendation.provenance.campaign} was measured on {FAMILIES[measured]}",
            f"its algorithms say nothing about {FAMILIES[family]}: run a campaign there",
        )
    check_cleared(recommendation, family)


def check_cleared(recommendation: Recommendation, family: str) -> None:
    """Refuse algorithms that the conformance table does not clear: they were never checked, or failed.

    Raises:
        UserError: A rule names such an algorithm; the message says what failed.
    """
    pairs = ((rule.collective, str(rule.choice.get("algorithm", ""))) for rule in recommendation.rules)
    rules = [(collective, name) for collective, name in pairs if not left_to_the_stack(name)]
    source = recommendation.provenance
    check_rules(family, source.stack, rules, source.env, source.commutative)


def exports(
    recommendation: Recommendation, path: Path, variables: Mapping[str, str], notes: Sequence[str] = ()
) -> dict[str, str]:
    """Return a shell script for an MPI other than Open MPI, as text by file name.

    The script sets ``variables`` and the recommendation's job-wide variables.
    """
    other_variables = {n: v for n, v in recommendation.provenance.env if not n.startswith(_MCA)}
    head = [*remarks(recommendation), *notes, "", f"use: {by_script(path)}"]
    lines = [
        f"export {name}={shlex.quote(value)}" for name, value in {**other_variables, **variables}.items()
    ]
    return {path.name: "\n".join([*commented(head), *lines]) + "\n"}


class VariableScript:
    """Exports a script in which a variable for each collective selects one algorithm for all sizes."""

    family = file = ""
    notes: tuple[str, ...] = (EVERYWHERE,)

    def variables(self, collective: str, algorithm: str) -> dict[str, str]:
        """Return the variables that select an algorithm of a collective; empty if the library is to choose.

        Raises:
            UserError: The library has no such algorithm.
        """
        raise NotImplementedError

    def export(self, recommendation: Recommendation, directory: Path) -> Mapping[str, str]:
        """Return the script, as text by file name."""
        check_family(recommendation, self.family)
        variables: dict[str, str] = {}
        for collective, by_size in tables(everywhere(recommendation)).items():
            variables |= self.variables(collective, one_algorithm(collective, by_size))
        return exports(recommendation, directory / self.file, variables, self.notes)

    def use(self, recommendation: Recommendation, directory: Path) -> str:
        """Return the line that sources the script."""
        return by_script(directory / self.file)


def by_script(path: Path) -> str:
    """Return the command line that sources a script and starts a program with ``mpiexec``."""
    return sourced(path, f"mpiexec {PROGRAM}")


def values_in(file: Path) -> dict[str, str]:
    """Return the variables, with values, that an exported shell script or parameter file sets."""
    text = user_text(file)
    if file.suffix == ".sh":
        return {name: shlex.split(value)[0] for name, value in re.findall(r"(?m)^ *export (\w+)=(.+)$", text)}
    return dict(re.findall(r"(?m)^(\w+) ?= ?(.*)$", text))


def job_wide(recommendation: Recommendation) -> tuple[dict[str, str], dict[str, str]]:
    """Return the job-wide values in two parts: MCA parameters, without their prefix, and other variables."""
    env = dict(recommendation.provenance.env)
    mca = {name.removeprefix(_MCA): value for name, value in env.items() if name.startswith(_MCA)}
    return mca, {name: value for name, value in env.items() if not name.startswith(_MCA)}


def settings(recommendation: Recommendation, directory: Path) -> DeployedSettings:
    """Return the job-wide values and rules files of a recommendation; rules replace forced algorithms.

    A forced algorithm is a parameter that selects one algorithm for all sizes. If such a parameter and rules
    were both exported, Open MPI 5.0 would obey only the parameter, and Open MPI 4.1 only the rules file.
    ``directory`` is the directory of the rules files.

    Raises:
        UserError: The conformance table does not clear an algorithm (never checked, or failed); an algorithm
            is forced for a collective without rules; or ``coll_tuned`` cannot express a rule.
    """
    check_cleared(recommendation, "openmpi")
    mca, variables = job_wide(recommendation)
    rules = coll_tuned.rules_file(recommendation.rules, remarks(recommendation))
    uses_han = any(han.COMPONENT in rule.choice for rule in recommendation.rules)
    han_rules = han.rules_file(recommendation.rules, remarks(recommendation)) if uses_han else ""
    forced = {name: match[1] for name in mca if (match := _FORCED.fullmatch(name))}
    if rules:
        covered = {rule.collective for rule in recommendation.rules}
        for name, collective in forced.items():
            if collective not in covered:
                raise UserError(
                    f"{name}={mca[name]} is forced while other collectives have a rules file",
                    f"tune {collective} too, or take {name} out of the fixed environment",
                )
    if rules or not forced:
        mca = {n: v for n, v in mca.items() if n not in forced and n not in _DYNAMIC}
    if rules:
        mca["coll_tuned_use_dynamic_rules"] = "1"
        mca["coll_tuned_dynamic_rules_filename"] = str(directory.absolute() / RULES_FILE)
    if han_rules:
        mca["coll_han_use_dynamic_file_rules"] = "1"
        mca["coll_han_dynamic_rules_filename"] = str(directory.absolute() / HAN_FILE)
    for name, value in {**mca, **variables}.items():
        if value != value.strip() or "\n" in value:
            raise UserError(
                f"{name}={value!r} cannot be written to a parameter file",
                "values on one line, without spaces around them",
            )
    return DeployedSettings(mca, variables, rules, han_rules)
