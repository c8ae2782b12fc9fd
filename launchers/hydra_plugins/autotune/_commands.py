"""Build the command lines of launchers as lists of words; nothing is started here.

No shell reads the words. Values of environment variables are never on a command line: the launcher gets the
values in its own environment, and on its command line only the names of the variables.
"""

from collections.abc import Mapping, Sequence

from autotune.errors import StackError, allowed
from autotune.stacks import dialect
from autotune.stacks.ports import Placement
from autotune.stacks.srun import CPU_BINDS, DISTRIBUTIONS


def mpirun_argv(
    flavour: str, mpirun: str, placement: Placement, env: Mapping[str, str], program: Sequence[str],
    extra: Sequence[str] = (),
) -> list[str]:  # fmt: skip
    """Return the command line of the launcher ``mpirun`` for one launch.

    ``env`` has the variables that every rank must see; only their names are used. ``extra`` are further
    options from the scenario, which are placed before the program.

    Raises:
        StackError: the flavour is not known, so it has no command line.
    """
    options = dialect(flavour).mpirun_options(placement, env)
    return [mpirun, *options, *extra, *program]


def srun_argv(mpi: str, placement: Placement, program: Sequence[str], extra: Sequence[str] = ()) -> list[str]:
    """Return the command line of ``srun`` for one launch inside an allocation.

    The command line names no variables, since ``srun`` forwards its whole environment. ``mpi`` is Slurm's
    plugin for the MPI, such as ``pmix``.

    Raises:
        StackError: ``srun`` has no option for the mapping or binding.
    """
    nodes = len(placement.hosts) or placement.nodes
    words = ["srun", f"--mpi={mpi}", "--export=ALL", "--kill-on-bad-exit=1", "--input=none"]
    words += [f"--nodes={nodes}", f"--ntasks={placement.ranks}"]
    if placement.hosts:
        words.append(f"--nodelist={','.join(placement.hosts)}")
    if placement.ppn:
        words.append(f"--ntasks-per-node={placement.ppn}")
    if placement.oversubscribe:
        words.append("--overcommit")
    if placement.map_by:
        words.append(f"--distribution={_word('map_by', placement.map_by, DISTRIBUTIONS)}")
    if placement.bind_to:
        words.append(f"--cpu-bind={_word('bind_to', placement.bind_to, CPU_BINDS)}")
    return [*words, *extra, *program]


def mpi_plugin(listed: str, flavour: str) -> str:
    """Return Slurm's plugin for an MPI, from the output of ``srun --mpi=list``; empty if none fits."""
    offered = listed.split()
    return next((plugin for plugin in dialect(flavour).slurm_plugins if plugin in offered), "")


def _word(key: str, value: str, words: Mapping[str, str]) -> str:
    if value not in words:
        hint = f"{allowed(value, words)}; or launch.with=mpirun"
        raise StackError(f"srun has no word for {key}={value!r}", hint)
    return words[value]
