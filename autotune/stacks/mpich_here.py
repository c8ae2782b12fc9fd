"""MPICH and Intel MPI on this machine: what is here, and a trial as variables and control variables.

Algorithms of MPICH are control variables that a running program can write
(``MPIR_CVAR_*_INTRA_ALGORITHM``), so a launch sweeps them; for a deployed setting they are in a selection
tree (``stacks.mpich_tree``). Intel MPI reads ``I_MPI_ADJUST_*`` once, as it starts: each algorithm is a
launch of its own, and a deployed setting has ranges of message sizes in the same variables
(``stacks.intel_ranges``). What was asked for is proved by control variables that read back, and by what the
libraries themselves print as they start.
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

PROVIDERS = ("tcp", "tcp;ofi_rxm", "shm")  # Providers of libfabric that need no fast network.

_NETMOD = "MPIR_CVAR_CH4_NETMOD"  # Chooses the device between nodes.

_FABRIC = re.compile(r"libfabric provider: ([\w;]+)")
_PROGRAM = (
    "from mpi4py import MPI; import sys; world = MPI.COMM_WORLD; world.allreduce(world.rank); "
    f"sys.stdout.write('{WORKS} %d\\n%s\\n' % (world.size, MPI.Get_library_version()))"
)


@dataclass(frozen=True)
class MpichStack(Stack):
    """MPICH, or what is made from it, on this machine, with what the scenario fixes for every launch."""

    words: Dialect  # Its dialect.
    device: str = ""  # What moves messages between nodes, e.g. ``ofi`` or ``ucx``.
    networked: bool = False  # Whether ranks' messages go through it: nodes, or no shared memory.
    providers: tuple[str, ...] = ()  # Of ``PROVIDERS`` those that work here, where libfabric is in use.
    provider: str = ""  # The one that a launch with ``fixed`` really uses.
    declared: frozenset[str] = frozenset()  # Variables of the libfabric in use; empty: it was not asked.

    @property
    def intel(self) -> bool:
        """Whether algorithms are chosen by ``I_MPI_ADJUST_*``."""
        return self.installation.flavour == "intelmpi"

    @property
    def description(self) -> str:
        """One line for reports and exported files."""
        way = f", {self.device} {self.provider}".rstrip() if self.networked else ", shared memory"
        return f"{self.named}{way}"

    def _facts(self) -> set[str]:
        if not self.networked:
            return {"shared_memory"}
        # Layered providers carry the parameters of each layer.
        in_use = {f"provider_in_use:{name}" for name in self.provider.split(";") if name}
        return {f"netmod_in_use:{self.device}", *(f"provider:{name}" for name in self.providers), *in_use}

    def _own_findings(self) -> list[tuple[str, str]]:
        rows = [("between ranks", self.description.rpartition(", ")[2]), ("cores", str(self.cores))]
        if self.providers:
            rows.append(("libfabric providers", ", ".join(self.providers)))
        return rows

    def available(self, space: Space) -> Space:
        """The space without what this machine lacks, and without what its libfabric would ignore."""
        known = self.declared | {"FI_PROVIDER"}
        needing = []
        for parameter in space.parameters:  # nothing fulfils the need of a variable that is not declared
            ours = [name for name in variables(parameter) if name.startswith("FI_")] if self.declared else []
            needs = (f"{name} in libfabric" for name in ours if name not in known)
            needing.append(replace(parameter, requires=(*parameter.requires, *needs)))
        here = replace(space, parameters=tuple(needing)).restrict(self.facts)
        return cleared(here, self.installation.flavour, self.installation.version)

    def render(self, space: Space, trial: Trial, collectives: Sequence[str]) -> Rendering:
        """The trial as environment, files and choices."""
        if trial.subject is Subject.UNTOUCHED:
            return self._with(Rendering(env=self.fixed))
        env, placement = self.words.environment(space, trial.point, self.fixed)
        plain = Rendering(env, placement.get("map_by", ""), placement.get("bind_to", ""))
        if trial.subject is not Subject.DEPLOYED:
            always = not self.intel
            choices = {c: self._choices(space, trial.point, c, always) for c in collectives}
            return self._with(replace(plain, choices=choices))
        if self.intel:
            # It obeys one table for communicators of any size: that of the most ranks.
            by_comm_size = adjustments(trial.rules)
            variables = by_comm_size.get(max(by_comm_size, default=0), {})
            return self._with(replace(plain, env={**env, **variables}))
        if not any(rule.choice for rule in trial.rules):
            return self._with(plain)
        tree = mpich_tree.tuned(self._tree, tables(trial.rules))
        named = {mpich_tree.FILE_VARIABLE: f"{{directory}}/{TREE_FILE}"}
        return self._with(replace(plain, env={**env, **named}, files={TREE_FILE: mpich_tree.text(tree)}))

    @cached_property
    def _tree(self) -> mpich.Tree:
        return mpich.installed_tree(self.installation.library)

    def _said(
        self, collective: str, algorithm: bool, applied: Mapping[str, Any]
    ) -> tuple[dict[str, int | str], dict[str, str]]:
        cvars, env = applied.get("cvar", {}), applied.get("env", {})
        return {variable: mpich.check(collective, text) for variable, text in cvars.items()}, {
            variable: str(mpich.intel_id(collective, text)) if algorithm else text
            for variable, text in env.items()
        }

    def _with(self, rendering: Rendering) -> Rendering:
        """The rendering with what the probe and the launch must show of it."""
        env = {k: v for k, v in rendering.env.items() if "{directory}" not in v}
        cvars = {k: v for k, v in env.items() if k.startswith("MPIR_CVAR_")}
        cvars = {k: v for k, v in cvars.items() if k not in mpich_tree.UNREADABLE}
        provider = env.get("FI_PROVIDER", "")
        said = [f"libfabric provider: {provider}"] if self.networked and provider in PROVIDERS else []
        if self.intel:
            said += [
                f"{name}={value}"
                for name, value in env.items()
                if name.startswith("I_MPI_ADJUST_") or (name.startswith("I_MPI_") and name not in self.fixed)
            ]
        expect = Expectation(str(self.installation.library), env, cvars)
        return replace(rendering, expect=expect, said=tuple(said))


def detect(words: Dialect, installation: Installation, env: Mapping[str, str], ranks: int) -> MpichStack:
    """The facts from a launch of one rank; 0 ranks: they are on several nodes, or nobody knows yet.

    Raises:
        StackError: that launch fails.
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
            # Spinning ranks that share a core cost scheduler quanta, milliseconds a call.
            env = {"MPIR_CVAR_ENABLE_HEAVY_YIELD": "1", **env}
    networked = networked or not ranks
    used = _FABRIC.search(text)
    providers: tuple[str, ...] = ()
    declared: frozenset[str] = frozenset()
    if networked and device == "ofi":
        from autotune.stacks.knobs.listing import read  # it needs the words that need this module

        tried = {name: _launch(words, installation, {**env, "FI_PROVIDER": name}) for name in PROVIDERS}
        shown = {name: (f"{WORKS} 1", f"libfabric provider: {name}") for name in PROVIDERS}
        providers = tuple(name for name, said in tried.items() if all(part in said for part in shown[name]))
        declared = frozenset(knob.name for knob in read("libfabric", installation))
    provider = used[1] if used and networked else ""
    seen = (device, networked, providers, provider, declared)
    return MpichStack(installation, words, *seen, fixed=dict(env), cores=cores)


def _launch(words: Dialect, installation: Installation, env: Mapping[str, str]) -> str:
    command = [str(installation.mpirun), "-n", "1", sys.executable, "-P", "-c", _PROGRAM]
    own = words.surroundings(installation.mpirun)
    return output(command, {**own, **env, "MPI4PY_LIBMPI": str(installation.library)})
