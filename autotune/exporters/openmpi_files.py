"""Export further files that Open MPI or UCX reads (step 12 of the data flow)."""

import shlex
from collections.abc import Mapping
from pathlib import Path

from autotune.errors import UserError
from autotune.exporters.launch_line import mpirun, parted, stated
from autotune.exporters.origin import commented, remarks
from autotune.exporters.settings import HAN_FILE, RULES_FILE, DeployedSettings, job_wide, settings
from autotune.recommend.recommendation import Recommendation
from autotune.stacks import han

TUNE_FILE, UCX_FILE = "autotune.tune", "ucx.conf"  # Names of the exported files.


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
        """Return the file; it sets no variable if the recommendation sets none of UCX."""
        deployed = settings(recommendation, directory)
        return {UCX_FILE: ucx_text(recommendation, deployed, self.use(recommendation, directory))}

    def use(self, recommendation: Recommendation, directory: Path) -> str:
        """Return the command line that uses the file and contains all settings that UCX does not read."""
        deployed = settings(recommendation, directory)
        folder = {"UCX_CONFIG_DIR": str(directory.absolute())} if deployed.ucx else {}
        mca, _ = job_wide(recommendation)
        return mpirun(recommendation, stated(mca, deployed.environment_only), folder, folder)


def ucx_text(recommendation: Recommendation, deployed: DeployedSettings, use: str) -> str:
    """Return the text of UCX's own file; it sets no variable if the recommendation sets none of UCX."""
    usage = [f"use: {use}"] if use else []
    head = [
        *remarks(recommendation),
        "",
        *usage,
        f"{'or ' * bool(usage)}copy the lines below to ~/ucx.conf, for everybody to UCX's etc/ucx/ucx.conf;",
        "what the environment sets wins",
    ]
    return "\n".join([*commented(head), *(f"{n}={v}" for n, v in deployed.ucx.items())]) + "\n"
