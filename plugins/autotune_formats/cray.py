"""HPE Cray MPICH on Slingshot: its variables, a script of them, and what is wrong with anybody's.

Names and defaults as Cray MPICH 8.1.17 prints them under ``MPICH_ENV_DISPLAY=1``, the rest after the manuals
intro_mpi(3) and fi_cxi(7); never run here. It lets nobody choose algorithms by message size: what can be
said is which collectives go without its own optimisations, and the sizes at which these change.
"""

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from autotune.collectives import COLLECTIVES as _ALL
from autotune.errors import UserError, allowed
from autotune.exporters.launch_line import PROGRAM, sourced
from autotune.exporters.origin import UNTRIED, commented, remarks
from autotune.exporters.settings import EVERYWHERE, check_family, everywhere, one_algorithm
from autotune.lint.assignment import Assignment
from autotune.lint.finding import Finding, meant
from autotune.lint.traps import Traps
from autotune.recommend.recommendation import Recommendation
from autotune.stacks.knobs.recorded import recorded
from autotune.stacks.tables import tables

SCRIPT = "cray-mpich-env.sh"  # Name of the script.

OFF = "MPICH_COLL_OPT_OFF"  # Collectives without Cray's own algorithms: a list of ``mpi_NAME``, or 1 for all.

KNOBS: Mapping[str, str] = {
    OFF: "0",
    "MPICH_ALLGATHERV_VSHORT_MSG": "8192-16384",
    "MPICH_ALLGATHER_VSHORT_MSG": "8192-16384",
    "MPICH_ALLREDUCE_BLK_SIZE": "716800",
    "MPICH_ALLREDUCE_MAX_SMP_SIZE": "262144",
    "MPICH_ALLREDUCE_NO_SMP": "0",
    "MPICH_ALLTOALLV_THROTTLE": "8",
    "MPICH_ALLTOALL_BLK_SIZE": "16384",
    "MPICH_ALLTOALL_CHUNKING_MAX_NODES": "90",
    "MPICH_ALLTOALL_SHORT_MSG": "64-512",
    "MPICH_ALLTOALL_SYNC_FREQ": "1-24",
    "MPICH_ASYNC_PROGRESS": "0",
    "MPICH_BCAST_INTERNODE_RADIX": "4",
    "MPICH_BCAST_INTRANODE_RADIX": "4",
    "MPICH_BCAST_ONLY_TREE": "1",
    "MPICH_COLL_SYNC": "0",
    "MPICH_ENV_DISPLAY": "0",
    "MPICH_GATHERV_MIN_COMM_SIZE": "64",
    "MPICH_GATHERV_SHORT_MSG": "131072",
    "MPICH_GATHERV_SYNC_FREQ": "16",
    "MPICH_GPU_ALLREDUCE_USE_KERNEL": "0",
    "MPICH_GPU_IPC_THRESHOLD": "1024",
    "MPICH_GPU_SUPPORT_ENABLED": "0",
    "MPICH_OFI_NIC_MAPPING": "",
    "MPICH_OFI_NIC_POLICY": "NUMA",
    "MPICH_OFI_NUM_NICS": "",
    "MPICH_OFI_STARTUP_CONNECT": "0",
    "MPICH_RANK_REORDER_METHOD": "1",
    "MPICH_REDUCE_NO_SMP": "0",
    "MPICH_REDUCE_SCATTER_COMMUTATIVE_LONG_MSG_SIZE": "524288",
    "MPICH_REDUCE_SCATTER_MAX_COMMSIZE": "1000",
    "MPICH_SCATTERV_MIN_COMM_SIZE": "64",
    "MPICH_SCATTERV_SHORT_MSG": "2048-8192",
    "MPICH_SCATTERV_SYNCHRONOUS": "0",
    "MPICH_SCATTERV_SYNC_FREQ": "16",
    "MPICH_SHARED_MEM_COLL_CELLSZ": "256",
    "MPICH_SHARED_MEM_COLL_NCELLS": "8",
    "MPICH_SHARED_MEM_COLL_OPT": "1",
    "MPICH_SMP_SINGLE_COPY_MODE": "XPMEM",
    "MPICH_SMP_SINGLE_COPY_SIZE": "8192",
}
"""Variable that bears on speed → default; empty: none is printed."""

RENDEZVOUS, ALT_READ = "FI_CXI_RDZV_PROTO", "alt_read"
"""Slingshot's other rendezvous protocol, which a job must be given."""

NETWORK = "--network=disable_rdzv_get"  # The option of ``srun`` and ``sbatch`` without which it is not there.

COLLECTIVES = frozenset(_ALL)
"""Those that can go without, those with sizes of their own for each rank too (``MPICH_SCATTERV_*``)."""


def coupled(variables: Mapping[str, str]) -> str:
    """The option of Slurm that these variables mean nothing without; empty: none."""
    return NETWORK if variables.get(RENDEZVOUS) == ALT_READ else ""


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
            if word not in ("", _OPTIMISED, _PLAIN) or collective not in COLLECTIVES:
                raise UserError(
                    f"Cray MPICH lets nobody choose {word or 'anything'!r} for {collective}",
                    f"algorithm: {_OPTIMISED}, or {_PLAIN} for {OFF}",
                )
            plain += [f"mpi_{collective}"] if word == _PLAIN else []
        if plain:
            variables[OFF] = ",".join(plain)
        head = [
            *remarks(recommendation),
            UNTRIED,
            EVERYWHERE,
            "",
            f"use: {self.use(recommendation, directory)}",
        ]
        if coupled(variables):
            head.append(f"{RENDEZVOUS}={ALT_READ} works in jobs with {NETWORK} alone")
        lines = [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
        return {SCRIPT: "\n".join([*commented(head), *lines]) + "\n"}

    def use(self, recommendation: Recommendation, directory: Path) -> str:
        """By sourcing the script, with Slurm's option where one is needed; it prints the values in effect."""
        option = coupled(dict(recommendation.provenance.env))
        srun = " ".join(filter(None, ["MPICH_ENV_DISPLAY=1 srun", option, PROGRAM]))
        return sourced(directory / SCRIPT, srun)

    def _variables(self, recommendation: Recommendation) -> dict[str, str]:
        env = {n: v for n, v in recommendation.provenance.env if not n.startswith(_FOREIGN)}
        for name in env:
            if name.startswith("MPICH_") and name not in KNOBS:
                raise UserError(f"Cray MPICH has no {name} that this project knows", allowed(name, KNOBS))
        return env


class CrayTraps(Traps):
    """Variables of Cray MPICH, wherever they are set."""

    prefixes = ("MPICH_", "FI_CXI_")
    known = KNOBS

    def variable(self, a: Assignment) -> Iterator[Finding]:
        """Names that are slips, and words that are no collective."""
        if a.name.replace("MPICH_", "MPIR_CVAR_", 1) in recorded():
            return  # MPICH's own: it takes them by either name
        if a.name.startswith("MPICH_") and (close := meant(a.name, KNOBS)):
            yield a.finding(f"Cray MPICH knows no {a.name}: it is silently ignored", f"did you mean {close}?")
        if a.name == OFF and a.value not in ("0", "1"):
            for word in a.value.split(","):
                if word.strip().lower().removeprefix("mpi_") not in COLLECTIVES:
                    yield a.finding(
                        f"{word!r} is no collective: it goes on as before", "e.g. mpi_allreduce,mpi_bcast"
                    )

    def together(
        self, last: Mapping[str, Assignment], texts: Collection[str], own: Sequence[str]
    ) -> Iterator[Finding]:
        """Slurm's option that is missing, in a script or on its line, and a bound that is off."""
        set_to = {name: a.value for name, a in last.items()}
        option = coupled(set_to)
        launched = any("srun" in text or "#SBATCH" in text for text in texts)
        if option and launched and not any(option.partition("=")[2] in text for text in texts):
            effect = f"without {option} in the job {RENDEZVOUS}={ALT_READ} does not work"
            yield last[RENDEZVOUS].finding(effect, f"srun {option}, or #SBATCH {option}", sure=False)
        size = last.get("MPICH_ALLREDUCE_MAX_SMP_SIZE")
        if size and set_to.get("MPICH_ALLREDUCE_NO_SMP", "0") != "0":
            effect = "MPICH_ALLREDUCE_NO_SMP switches off what it bounds: it is ignored"
            yield size.finding(effect, "keep one of them")
