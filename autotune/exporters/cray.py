"""Variables for HPE Cray MPICH on Slingshot (step 12 of the flow)."""

import shlex
from collections.abc import Mapping
from pathlib import Path

from autotune.errors import UserError, allowed
from autotune.exporters.launch_line import PROGRAM, sourced
from autotune.exporters.origin import UNTRIED, commented, remarks
from autotune.exporters.settings import EVERYWHERE, check_family, everywhere, one_algorithm
from autotune.recommend.front import Recommendation
from autotune.stacks import cray
from autotune.stacks.tables import tables

SCRIPT = "cray-mpich-env.sh"
"""Name of the script."""

_FOREIGN = ("OMPI_MCA_", "UCX_", "UCC_", "I_MPI_", "MV2_", "MVP_")
_OPTIMISED, _PLAIN = "optimised", "plain"


class CrayMpich:
    """``MPICH_*`` and ``FI_CXI_*``; a rule can say of a collective that it goes without optimisations."""

    name = "cray"
    summary = f"{SCRIPT}: MPICH_* and FI_CXI_* variables (HPE Cray MPICH); format checked, never run"

    def export(self, recommendation: Recommendation, directory: Path) -> Mapping[str, str]:
        """The script.

        Raises:
            UserError: measured on another MPI, a variable that is not its own, or an algorithm by size.
        """
        check_family(recommendation, "craympich")
        variables = self._variables(recommendation)
        plain = []
        for collective, by_size in tables(everywhere(recommendation)).items():
            word = one_algorithm(collective, by_size)
            if word not in ("", _OPTIMISED, _PLAIN) or collective not in cray.COLLECTIVES:
                raise UserError(
                    f"Cray MPICH lets nobody choose {word or 'anything'!r} for {collective}",
                    f"algorithm: {_OPTIMISED}, or {_PLAIN} for {cray.OFF}",
                )
            plain += [f"mpi_{collective}"] if word == _PLAIN else []
        if plain:
            variables[cray.OFF] = ",".join(plain)
        head = [
            *remarks(recommendation),
            UNTRIED,
            EVERYWHERE,
            "",
            f"use: {self.use(recommendation, directory)}",
        ]
        if cray.coupled(variables):
            head.append(f"{cray.RENDEZVOUS}={cray.ALT_READ} works in jobs with {cray.NETWORK} alone")
        lines = [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
        return {SCRIPT: "\n".join([*commented(head), *lines]) + "\n"}

    def use(self, recommendation: Recommendation, directory: Path) -> str:
        """By sourcing the script, with Slurm's option where one is needed; it prints what is in force."""
        option = cray.coupled(dict(recommendation.provenance.env))
        srun = " ".join(filter(None, ["MPICH_ENV_DISPLAY=1 srun", option, PROGRAM]))
        return sourced(directory / SCRIPT, srun)

    def _variables(self, recommendation: Recommendation) -> dict[str, str]:
        env = {n: v for n, v in recommendation.provenance.env if not n.startswith(_FOREIGN)}
        for name in env:
            if name.startswith("MPICH_") and name not in cray.KNOBS:
                raise UserError(
                    f"Cray MPICH has no {name} that this project knows", allowed(name, cray.KNOBS)
                )
        return env
