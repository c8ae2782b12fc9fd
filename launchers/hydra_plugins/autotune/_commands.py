"""Launcher command lines as pure functions from a request to a list of words; nothing here starts anything.

A word is never read by a shell, and values of variables never stand in a command line: the launcher gets them
in its own environment and is only told their names.
"""

from collections.abc import Iterable, Mapping, Sequence

from autotune.errors import StackError, allowed
from autotune.stacks.ports import Placement

_DISTRIBUTIONS = {"core": "block:block", "slot": "block:block", "numa": "block:cyclic", "node": "cyclic"}
"""Open MPI's words for mapping → ``srun``'s: over nodes, then over the sockets of each."""
_CPU_BINDS = {"core": "cores", "numa": "ldoms", "socket": "sockets", "package": "sockets", "none": "none"}
_FORWARDED_BY_ITSELF = ("OMPI_MCA_", "PRTE_MCA_", "PMIX_MCA_")


def mpirun_argv(
    flavour: str,
    mpirun: str,
    placement: Placement,
    env: Mapping[str, str],
    program: Sequence[str],
    extra: Sequence[str] = (),
) -> list[str]:
    """The command line of ``mpirun`` for one launch.

    Args:
        flavour: ``openmpi``, ``mpich`` or ``intelmpi``.
        mpirun: Path of the launcher.
        placement: Ranks, nodes, mapping and binding.
        env: Variables that every rank must see; only their names are used.
        program: What every rank executes.
        extra: Further words of the scenario, placed before the program.

    Raises:
        StackError: a flavour that has no command line here.
    """
    if flavour == "openmpi":
        options = _openmpi(placement, env)
    elif flavour in ("mpich", "intelmpi"):
        options = _hydra_process_manager(placement, env)
    else:
        raise StackError(
            f"no command line for MPI {flavour!r}", allowed(flavour, ("openmpi", "mpich", "intelmpi"))
        )
    return [mpirun, *options, *extra, *program]


def srun_argv(mpi: str, placement: Placement, program: Sequence[str], extra: Sequence[str] = ()) -> list[str]:
    """The command line of ``srun`` for one launch inside an allocation.

    The environment needs no words: ``srun`` forwards all of its own.

    Args:
        mpi: Slurm's plugin for the MPI, such as ``pmix``.
        placement: Ranks, nodes, mapping and binding.
        program: What every rank executes.
        extra: Further words of the scenario, placed before the program.

    Raises:
        StackError: a mapping or binding that ``srun`` has no word for.
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
        words.append(f"--distribution={_word('map_by', placement.map_by, _DISTRIBUTIONS)}")
    if placement.bind_to:
        words.append(f"--cpu-bind={_word('bind_to', placement.bind_to, _CPU_BINDS)}")
    return [*words, *extra, *program]


def mpi_plugin(listed: str, flavour: str) -> str:
    """Slurm's plugin for an MPI, from the output of ``srun --mpi=list``; empty: it has none that fits."""
    offered = listed.split()
    for wanted in ("pmix",) if flavour == "openmpi" else ("pmi2", "pmix", "cray_shasta"):
        if wanted in offered:
            return wanted
    return ""


def _word(key: str, value: str, words: Mapping[str, str]) -> str:
    if value not in words:
        raise StackError(
            f"srun has no word for {key}={value!r}", f"{allowed(value, words)}; or launch.with=mpirun"
        )
    return words[value]


def _openmpi(placement: Placement, env: Mapping[str, str]) -> list[str]:
    words = ["-np", str(placement.ranks)]
    if placement.hosts:
        slots = placement.ppn or -(-placement.ranks // len(placement.hosts))
        words += ["--host", ",".join(f"{host}:{slots}" for host in placement.hosts)]
    map_by = placement.map_by
    if not map_by and placement.ppn and placement.nodes > 1:
        map_by = f"ppr:{placement.ppn}:node"
    if placement.oversubscribe:
        words.append("--oversubscribe")
    if map_by:
        words += ["--map-by", map_by]
    if placement.bind_to:
        words += ["--bind-to", placement.bind_to]
    for name in _forwarded(env):
        words += ["-x", name]
    return words


def _hydra_process_manager(placement: Placement, env: Mapping[str, str]) -> list[str]:
    words = ["-n", str(placement.ranks)]
    if placement.hosts:
        words += ["-hosts", ",".join(placement.hosts)]
    if placement.ppn:
        words += ["-ppn", str(placement.ppn)]
    if placement.map_by:
        words += ["-map-by", placement.map_by]
    if placement.bind_to:
        words += ["-bind-to", placement.bind_to]
    names = list(_forwarded(env))
    return [*words, "-genvlist", ",".join(names)] if names else words


def _forwarded(env: Mapping[str, str]) -> Iterable[str]:
    """Names that the launcher does not forward by itself, in a fixed order."""
    return sorted(name for name in env if not name.startswith(_FORWARDED_BY_ITSELF))
