"""MPICH and Intel MPI on this machine: what is here, and a trial as variables and control variables.

Algorithms of MPICH are control variables that a running program can write
(``MPIR_CVAR_*_INTRA_ALGORITHM``), so a launch sweeps them; for a deployed setting they stand in a selection
tree (``stacks.mpich_tree``). Intel MPI reads ``I_MPI_ADJUST_*`` once, as it starts: each algorithm is a
launch of its own, and a deployed setting has ranges of message sizes in the same variables
(``stacks.intel_ranges``). What was asked for is proved by control variables that read back, and by what the
libraries themselves print as they start.
"""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from autotune.errors import StackError
from autotune.history.trial import Subject, Trial
from autotune.probe.protocol import Expectation, SweptChoice
from autotune.space import Parameter, Point, Space
from autotune.space.joined import variables
from autotune.stacks import mpich, mpich_tree
from autotune.stacks.installation import Installation, output
from autotune.stacks.intel_ranges import adjustments
from autotune.stacks.ports import Rendering
from autotune.stacks.tables import tables
from autotune.stacks.words import Dialect, targets

TREE_FILE = "selection.json"
"""Name of the selection tree inside the directory of a launch."""

PROVIDERS = ("tcp", "tcp;ofi_rxm", "shm")
"""Providers of libfabric that need no fast network."""

_NETMOD = "MPIR_CVAR_CH4_NETMOD"
"""Chooses the device between nodes."""

_FABRIC = re.compile(r"libfabric provider: ([\w;]+)")
_PROGRAM = (
    "from mpi4py import MPI; import sys; world = MPI.COMM_WORLD; world.allreduce(world.rank); "
    "sys.stdout.write('MPI works %d\\n%s\\n' % (world.size, MPI.Get_library_version()))"
)


@dataclass(frozen=True)
class MpichStack:
    """MPICH, or what is made from it, on this machine, with what the scenario fixes for every launch."""

    installation: Installation
    """Which one."""
    words: Dialect
    """Its dialect."""
    device: str = ""
    """What moves messages between nodes, e.g. ``ofi`` or ``ucx``."""
    networked: bool = False
    """Whether messages between ranks go through it: several nodes, or shared memory switched off."""
    providers: tuple[str, ...] = ()
    """Of ``PROVIDERS`` those that work here, where libfabric is in use."""
    provider: str = ""
    """The one that a launch with ``fixed`` really uses."""
    declared: frozenset[str] = frozenset()
    """Variables that its libfabric declares, where that is in use; empty: it could not be asked."""
    fixed: Mapping[str, str] = field(default_factory=dict)
    """Environment of every launch, the untouched ones too."""
    cores: int = 1
    """That this process may use."""

    @property
    def coll(self) -> tuple[str, ...]:
        """None: algorithms belong to no components."""
        return ()

    @property
    def maker(self) -> str:
        """What its makers call it."""
        return "Intel MPI" if self.intel else "MPICH"

    @property
    def intel(self) -> bool:
        """Whether algorithms are chosen by ``I_MPI_ADJUST_*``."""
        return self.installation.flavour == "intelmpi"

    @property
    def description(self) -> str:
        """One line for reports and exported files."""
        way = f", {self.device} {self.provider}".rstrip() if self.networked else ", shared memory"
        return f"{self.maker} {self.installation.version}{way}"

    @cached_property
    def facts(self) -> frozenset[str]:
        """Tokens that ``requires`` in a search space can name."""
        flavour, version = self.installation.flavour, self.installation.version
        tokens = {f"mpi:{flavour}", f"{flavour}:{version.partition('.')[0]}"}
        tokens |= {f"cores:{n}" for n in range(1, self.cores + 1)}
        if not self.networked:
            return frozenset(tokens | {"shared_memory"})
        tokens |= {f"netmod_in_use:{self.device}", *(f"provider:{name}" for name in self.providers)}
        # Layered providers carry the parameters of each layer.
        return frozenset(tokens | {f"provider_in_use:{name}" for name in self.provider.split(";") if name})

    def findings(self) -> tuple[tuple[str, str], ...]:
        """What ``doctor`` shows, as (what, finding)."""
        rows = [
            ("mpirun", f"{self.installation.mpirun} ({self.installation.origin})"),
            ("MPI", f"{self.maker} {self.installation.version}"),
            ("library", str(self.installation.library)),
            ("between ranks", self.description.rpartition(", ")[2]),
            ("cores", str(self.cores)),
        ]
        if self.providers:
            rows.append(("libfabric providers", ", ".join(self.providers)))
        if self.fixed:
            rows.append(("fixed by the scenario", " ".join(f"{k}={v}" for k, v in self.fixed.items())))
        return tuple(rows)

    def available(self, space: Space) -> Space:
        """The space without what this machine lacks, and without what its libfabric would ignore."""
        return replace(space, parameters=tuple(map(self._needing, space.parameters))).restrict(self.facts)

    def _needing(self, parameter: Parameter) -> Parameter:
        """The parameter with a need that nothing fulfils where libfabric does not know its variable."""
        ours = (name for name in variables(parameter) if name.startswith("FI_") and name != "FI_PROVIDER")
        unknown = [name for name in ours if self.declared and name not in self.declared]
        return replace(
            parameter, requires=(*parameter.requires, *(f"{name} in libfabric" for name in unknown))
        )

    def render(self, space: Space, trial: Trial, collectives: Sequence[str]) -> Rendering:
        """The trial as environment, files and choices.

        Raises:
            SpaceError: a parameter is applied in a way that it does not know.
            UserError: rules that it cannot be told.
        """
        if trial.subject is Subject.UNTOUCHED:
            return self._with(Rendering(env=self.fixed))
        env, placement = self.words.environment(space, trial.point, self.fixed)
        plain = Rendering(env, placement.get("map_by", ""), placement.get("bind_to", ""))
        if trial.subject is not Subject.DEPLOYED:
            choices = {c: self._choices(space, trial.point, c) for c in collectives}
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

    def _choices(self, space: Space, point: Point, collective: str) -> tuple[SweptChoice, ...]:
        """The sweep of one collective; a choice at its defaults leaves what the environment says in force."""
        swept = space.choices(collective, point)
        used = [p for p in space.call if any(p.name in choice for choice in swept)]
        listed = []
        for choice in swept:
            cvars: dict[str, int | str] = {}
            env: dict[str, str] = {}
            where = {**point, **{p.name: choice.get(p.name, p.default) for p in used}}
            chosen = any(where[p.name] != p.unset for p in used)
            for parameter in used if chosen else ():
                applied = targets(space, parameter, where, collective, always=not self.intel)
                for variable, text in applied.get("cvar", {}).items():
                    cvars[variable] = mpich.check(collective, text)
                for variable, text in applied.get("env", {}).items():
                    is_algorithm = parameter.name == "algorithm"
                    env[variable] = str(mpich.intel_id(collective, text)) if is_algorithm else text
            listed.append(SweptChoice(dict(choice), cvars, env))
        return tuple(listed)

    def _with(self, rendering: Rendering) -> Rendering:
        """The rendering with what the probe and the launch must show of it."""
        env = {k: v for k, v in rendering.env.items() if "{directory}" not in v}
        cvars = {
            k: v for k, v in env.items() if k.startswith("MPIR_CVAR_") and k not in mpich_tree.UNREADABLE
        }
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
    """What a launch of one rank says of itself; 0 ranks: they are on several nodes, or nobody knows yet.

    Raises:
        StackError: that launch fails.
    """
    text = _launch(words, installation, env)
    if "MPI works 1" not in text:
        tail = "\n  ".join(text.strip().splitlines()[-6:])
        raise StackError(
            f"a one-rank launch by {installation.mpirun} fails:\n  {tail}", "see mpi.* in the scenario"
        )
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
    if networked and device == "ofi":
        tried = {name: _launch(words, installation, {**env, "FI_PROVIDER": name}) for name in PROVIDERS}
        providers = tuple(
            name
            for name, said in tried.items()
            if "MPI works 1" in said and f"libfabric provider: {name}" in said
        )
    declared: frozenset[str] = frozenset()
    if networked and device == "ofi":
        from autotune.stacks.knobs.listing import read  # it needs the words that need this module

        declared = frozenset(knob.name for knob in read("libfabric", installation))
    return MpichStack(
        installation,
        words,
        device,
        networked,
        providers,
        used[1] if used and networked else "",
        declared,
        dict(env),
        cores,
    )


def _launch(words: Dialect, installation: Installation, env: Mapping[str, str]) -> str:
    """What one rank prints under these variables."""
    command = [str(installation.mpirun), "-n", "1", sys.executable, "-c", _PROGRAM]
    own = words.surroundings(installation.mpirun)
    return output(command, {**own, **env, "MPI4PY_LIBMPI": str(installation.library)})
