"""Find MPICH and Intel MPI on this machine, and turn a trial into their environment and control variables.

MPICH's choices of algorithms are control variables that a running program can write
(``MPIR_CVAR_*_INTRA_ALGORITHM``), so one launch measures all algorithms; for users, the choices are written
to a selection tree (``stacks.mpich_tree``). Intel MPI reads ``I_MPI_ADJUST_*`` only at its start, so each
algorithm takes a launch of its own; for users, the same variables contain ranges of message sizes
(``stacks.intel_ranges``). Two checks prove that a setting was applied: control variables are read back, and
the libraries print at their start what they use.
"""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from autotune.history.trial import Subject, Trial
from autotune.probe.protocol import Expectation
from autotune.space import Space
from autotune.space.joined import variables
from autotune.stacks import mpich, mpich_tree
from autotune.stacks.cleared import cleared
from autotune.stacks.installation import Installation, output
from autotune.stacks.intel_ranges import adjustments
from autotune.stacks.ports import Rendering
from autotune.stacks.stack import WORKS, Stack, check_works
from autotune.stacks.tables import tables
from autotune.stacks.words import Dialect

TREE_FILE = "selection.json"  # Name of the selection tree inside the directory of a launch.

PROVIDERS = ("tcp", "tcp;ofi_rxm", "shm")  # Providers of libfabric that work without a fast network.

_NETMOD = "MPIR_CVAR_CH4_NETMOD"  # Variable that selects the device for messages between nodes.

_FABRIC = re.compile(r"libfabric provider: ([\w;]+)")
_PROGRAM = (
    "from mpi4py import MPI; import sys; world = MPI.COMM_WORLD; world.allreduce(world.rank); "
    f"sys.stdout.write('{WORKS} %d\\n%s\\n' % (world.size, MPI.Get_library_version()))"
)


@dataclass(frozen=True)
class MpichStack(Stack):
    """Describes MPICH, or an MPI derived from it, on this machine, with settings that the scenario fixes."""

    words: Dialect  # Names and options of the implementation.
    device: str = ""  # Device that sends messages between nodes, e.g. ``ofi`` or ``ucx``.
    networked: bool = False  # Whether ranks use the device: on several nodes, or without shared memory.
    providers: tuple[str, ...] = ()  # Members of ``PROVIDERS`` that work here, if libfabric is in use.
    provider: str = ""  # The provider that a launch with ``fixed`` really uses.
    declared: frozenset[str] = frozenset()  # Variables of the libfabric in use; empty: they are not known.

    @property
    def intel(self) -> bool:
        """Whether this is Intel MPI, in which ``I_MPI_ADJUST_*`` select algorithms."""
        return self.installation.flavour == "intelmpi"

    @property
    def description(self) -> str:
        """The version and the transport in one line, for reports and exported files."""
        way = f", {self.device} {self.provider}".rstrip() if self.networked else ", shared memory"
        return f"{self.installation.named}{way}"

    def _facts(self) -> set[str]:
        if not self.networked:
            return {"shared_memory"}
        # A layered provider such as ``tcp;ofi_rxm`` has the parameters of each of its layers.
        in_use = {f"provider_in_use:{name}" for name in self.provider.split(";") if name}
        return {f"netmod_in_use:{self.device}", *(f"provider:{name}" for name in self.providers), *in_use}

    def _own_findings(self) -> list[tuple[str, str]]:
        rows = [("between ranks", self.description.rpartition(", ")[2]), ("cores", str(self.cores))]
        if self.providers:
            rows.append(("libfabric providers", ", ".join(self.providers)))
        return rows

    def available(self, space: Space) -> Space:
        """Return the space without settings that this machine lacks or that its libfabric would ignore."""
        understood = self.declared | {"FI_PROVIDER"}
        needing = []
        for parameter in space.parameters:  # an undeclared variable gets a requirement that is never met
            libfabric_names = (
                [name for name in variables(parameter) if name.startswith("FI_")] if self.declared else []
            )
            needs = (f"{name} in libfabric" for name in libfabric_names if name not in understood)
            needing.append(replace(parameter, requires=(*parameter.requires, *needs)))
        offered = replace(space, parameters=tuple(needing)).restrict(self.facts)
        return cleared(offered, self.installation.flavour, self.installation.version, self.commutative)

    def render(self, space: Space, trial: Trial, collectives: Sequence[str]) -> Rendering:
        """Return the environment, files and per-size choices of a trial: see ``Stack``."""
        if trial.subject is Subject.UNTOUCHED:
            return self._with(Rendering(env=self.fixed))
        env, placement = self.words.environment(space, trial.point, self.fixed)
        plain = Rendering(env, placement.get("map_by", ""), placement.get("bind_to", ""))
        if trial.subject is not Subject.DEPLOYED:
            always = not self.intel
            choices = {c: self._choices(space, trial.point, c, always) for c in collectives}
            return self._with(replace(plain, choices=choices))
        if self.intel:
            # Intel MPI uses one table for all communicator sizes: use that of the largest communicator.
            by_comm_size = adjustments(trial.rules)
            variables = by_comm_size.get(max(by_comm_size, default=0), {})
            return self._with(replace(plain, env={**env, **variables}))
        if not any(rule.choice for rule in trial.rules):
            return self._with(plain)
        tree = mpich_tree.tuned(self._tree, tables(trial.rules))
        tree_variable = {mpich_tree.FILE_VARIABLE: f"{{directory}}/{TREE_FILE}"}
        return self._with(
            replace(plain, env={**env, **tree_variable}, files={TREE_FILE: mpich_tree.text(tree)})
        )

    @cached_property
    def _tree(self) -> mpich.Tree:
        return mpich.installed_tree(self.installation.library)

    def _settings(
        self, collective: str, algorithm: bool, applied: Mapping[str, Any]
    ) -> tuple[dict[str, int | str], dict[str, str]]:
        cvars, env = applied.get("cvar", {}), applied.get("env", {})
        return {variable: mpich.check(collective, text) for variable, text in cvars.items()}, {
            variable: str(mpich.intel_id(collective, text)) if algorithm else text
            for variable, text in env.items()
        }

    def _with(self, rendering: Rendering) -> Rendering:
        """Return the rendering with proofs that it was applied.

        The proofs are values that the probe compares, and lines that the launch must print.
        """
        env = {k: v for k, v in self._compared(rendering.env).items() if "{directory}" not in v}
        cvars = {k: v for k, v in env.items() if k.startswith("MPIR_CVAR_")}
        cvars = {k: v for k, v in cvars.items() if k not in mpich_tree.UNREADABLE}
        provider = env.get("FI_PROVIDER", "")
        must_print = [f"libfabric provider: {provider}"] if self.networked and provider in PROVIDERS else []
        if self.intel:
            must_print += [
                f"{name}={value}"
                for name, value in env.items()
                if name.startswith("I_MPI_ADJUST_") or (name.startswith("I_MPI_") and name not in self.fixed)
            ]
        expect = Expectation(str(self.installation.library), env, cvars)
        return replace(rendering, expect=expect, must_print=tuple(must_print))


def detect(words: Dialect, installation: Installation, env: Mapping[str, str], ranks: int) -> MpichStack:
    """Return the description of an installation, after a launch with one rank in this environment.

    ``ranks`` is the number of ranks of a launch on this machine; 0: launches use several nodes, or the number
    is not known yet.

    Raises:
        StackError: the launch fails.
    """
    text = _launch(words, installation, env)
    check_works(installation, text)
    cores = len(os.sched_getaffinity(0))
    if installation.flavour == "intelmpi":
        device, networked = "ofi", env.get("I_MPI_FABRICS", "") == "ofi"
    else:
        built = re.search(r"MPICH Device:\s+ch4:(.+)", text)
        names = re.split(r"[ ,]+", built[1].strip()) if built else [""]
        device, networked = env.get(_NETMOD) or names[0], env.get("MPIR_CVAR_NOLOCAL") == "1"
        if ranks > cores:
            # Ranks that poll on a shared core must wait for the scheduler, milliseconds in each call.
            env = {"MPIR_CVAR_ENABLE_HEAVY_YIELD": "1", **env}
    networked = networked or not ranks
    used = _FABRIC.search(text)
    providers: tuple[str, ...] = ()
    declared: frozenset[str] = frozenset()
    if networked and device == "ofi":
        from autotune.stacks.knobs.listing import read  # here, since that module needs this one

        outputs = {name: _launch(words, installation, {**env, "FI_PROVIDER": name}) for name in PROVIDERS}
        expected = {name: (f"{WORKS} 1", f"libfabric provider: {name}") for name in PROVIDERS}
        providers = tuple(
            name for name, text in outputs.items() if all(part in text for part in expected[name])
        )
        declared = frozenset(knob.name for knob in read("libfabric", installation))
    provider = used[1] if used and networked else ""
    details = (device, networked, providers, provider, declared)
    return MpichStack(installation, words, *details, fixed=dict(env), cores=cores)


def _launch(words: Dialect, installation: Installation, env: Mapping[str, str]) -> str:
    command = [str(installation.mpirun), "-n", "1", sys.executable, "-P", "-c", _PROGRAM]
    surroundings = words.surroundings(installation.mpirun)
    return output(command, {**surroundings, **env, "MPI4PY_LIBMPI": str(installation.library)})
