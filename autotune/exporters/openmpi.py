"""Files that Open MPI 4.1 and 5.0 read themselves (step 12 of the flow)."""

from collections.abc import Mapping
from pathlib import Path

from autotune.errors import UserError
from autotune.exporters.settings import RULES_FILE, commented, remarks, settings
from autotune.recommend.front import Recommendation
from autotune.stacks import coll_tuned

CONF_FILE = "openmpi-mca-params.conf"
"""Name of the parameter file."""


class OpenMpiMca:
    """``openmpi-mca-params.conf`` with the rules file that it points to."""

    name = "openmpi_mca"
    summary = f"{CONF_FILE} and the coll_tuned rules that it points to (Open MPI 4.1, 5.0)"
    use = (CONF_FILE, "OMPI_MCA_mca_base_param_files={path} mpirun … your_program")

    def export(self, recommendation: Recommendation, directory: Path) -> Mapping[str, str]:
        """The parameter file and, where sizes are told apart, the rules file.

        Raises:
            UserError: a value that a parameter file cannot hold, or rules that ``coll_tuned`` cannot say.
        """
        found = settings(recommendation, directory)
        lines = commented(
            [
                *remarks(recommendation),
                "",
                f"use: OMPI_MCA_mca_base_param_files={directory.absolute() / CONF_FILE} mpirun …",
                "or copy the lines below to ~/.openmpi/mca-params.conf",
            ]
        )
        lines.append("")
        lines += [f"{name} = {value}" for name, value in found.mca.items()]
        if found.other:
            lines.append(f"mca_base_env_list = {env_list(found.other)}")
        return {CONF_FILE: "\n".join(lines) + "\n", **found.files}


class CollTuned:
    """The classic rules file alone."""

    name = "coll_tuned"
    summary = f"{RULES_FILE}: per-size rules of coll_tuned, classic format (Open MPI 4.1, 5.0)"

    def export(self, recommendation: Recommendation, directory: Path) -> Mapping[str, str]:
        """The rules file; one without any rule where the stack decides everything.

        Raises:
            UserError: rules that ``coll_tuned`` cannot say.
        """
        path = directory.absolute() / RULES_FILE
        head = [
            *remarks(recommendation),
            "",
            "use: --mca coll_tuned_use_dynamic_rules 1",
            f"     --mca coll_tuned_dynamic_rules_filename {path}",
        ]
        text = coll_tuned.rules_file(recommendation.rules, head)
        return {RULES_FILE: text or "\n".join([*commented(head), "0  # collectives"]) + "\n"}


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
