"""Open MPI 4.1 and 5.0: what is here, and a trial as environment variables.

Everything is said in the environment (``OMPI_MCA_*``, ``UCX_*``), so that ``mpirun`` and ``srun`` start the
same thing. ``coll_tuned`` obeys forced algorithms and rules files only with
``coll_tuned_use_dynamic_rules``, which is therefore set wherever choices are swept or rules are in effect,
and never in an untouched launch.
"""

import os
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from autotune.errors import StackError
from autotune.history.trial import Subject, Trial
from autotune.probe.protocol import Expectation, SweptChoice
from autotune.space import Dropped, Space
from autotune.stacks import coll_tuned, han, ucx
from autotune.stacks.cleared import cleared
from autotune.stacks.installation import Installation, output
from autotune.stacks.known import of_the_runtime
from autotune.stacks.ports import Placement, Rendering
from autotune.stacks.stack import WORKS, Stack, check_works, reason
from autotune.stacks.words import Dialect, forwarded

PARAMETERS = "openmpi-mca-params.conf"  # Name of the parameter file for everybody.
RULES_FILE, HAN_RULES_FILE = "coll_tuned.rules", "coll_han.rules"
"""Names of the rules files inside the directory of a launch."""

_MCA = "OMPI_MCA_"
_PML = f"{_MCA}pml"

_SELECTING = {
    "UCX_": rf"{_MCA}(pml|opal_common_ucx_(tls|devices))",
    f"{_MCA}pml_": _PML,
    f"{_MCA}coll_": rf"{_MCA}coll(_\w+_(priority|enable))?",
}
"""How names begin that only some component reads → the parameters that select it."""


@dataclass(frozen=True)
class OpenMpiStack(Stack):
    """Open MPI on this machine, with what the scenario fixes for every launch."""

    components: Mapping[str, tuple[str, ...]]  # Framework → components: ``coll`` → (``basic``, ``han`` …).
    enumerators: Mapping[str, Mapping[str, int]]  # Collective → algorithm, as ``ompi_info`` spells it → id.
    ucx: ucx.Ucx | None  # The UCX that belongs to it.
    pml: str  # The point-to-point component that a launch with ``fixed`` really uses.
    numa_nodes: int = 1  # Of this machine.
    read_only: tuple[str, ...] = ()  # Variables of algorithms that cannot be written while a program runs.

    @property
    def coll(self) -> tuple[str, ...]:
        """Its collective components."""
        return self.components.get("coll", ())

    @property
    def description(self) -> str:
        """See ``Stack``."""
        tail = f", UCX {self.ucx.version}" if self.ucx else ""
        chosen = "" if _PML in self.fixed else " by default"
        return f"{self.named}{tail}, pml {self.pml}{chosen}"

    def _facts(self) -> set[str]:
        tokens = {f"pml_in_use:{self.pml}"}
        for framework, names in self.components.items():
            tokens |= {f"{framework}:{name}" for name in names if framework != "pml"}
        tokens.add(f"pml:{self.pml}")  # the others are there, but a variable of theirs would change nothing
        tokens |= {f"pml_built:{name}" for name in self.components.get("pml", ())}
        if self.ucx:
            tokens |= {f"ucx_tl:{name}" for name in self.ucx.transports}
            for family in ("rc", "ud", "dc"):
                if any(t.split("_")[0] == family for t in self.ucx.transports):
                    tokens.add(f"ucx_tl:{family}")
            if {"sysv", "posix"} & set(self.ucx.transports):
                tokens.add("ucx_tl:sm")
            if tuple(map(int, re.findall(r"\d+", self.ucx.version)[:2])) >= (1, 17):
                tokens.add("ucx>=1.17")
        return tokens | {f"numa:{n}" for n in range(1, self.numa_nodes + 1)}

    def _own_findings(self) -> list[tuple[str, str]]:
        rows = [
            ("pml in use", self.pml),
            ("UCX", f"{self.ucx.version}: {', '.join(self.ucx.devices)}" if self.ucx else "not found"),
            ("coll components", ", ".join(self.coll)),
            ("cores, NUMA nodes", f"{self.cores}, {self.numa_nodes}"),
        ]
        if self.ucx and self.ucx.warnings:
            rows.append(("UCX warns", "; ".join(self.ucx.warnings)))
        if self.read_only:
            rows.append(("read-only", f"{', '.join(self.read_only)}: no sweep sets it, rules do"))
        return rows

    def render(self, space: Space, trial: Trial, collectives: Sequence[str]) -> Rendering:
        """The trial as environment, mapping, files and call-level choices."""
        if trial.subject is Subject.UNTOUCHED:
            return Rendering(env=self.fixed, expect=self._expect(self.fixed))
        env, placement = OpenMpiDialect().environment(space, trial.point, self.fixed, self.coll)
        files: dict[str, str] = {}
        choices: dict[str, tuple[SweptChoice, ...]] = {}
        if trial.subject is Subject.DEPLOYED:
            if rules := coll_tuned.rules_file(trial.rules):
                env |= {
                    f"{_MCA}coll_tuned_use_dynamic_rules": "1",
                    f"{_MCA}coll_tuned_dynamic_rules_filename": f"{{directory}}/{RULES_FILE}",
                }
                files[RULES_FILE] = rules
            if handing := han.rules_file(trial.rules):
                env |= {
                    f"{_MCA}coll_han_use_dynamic_file_rules": "1",
                    f"{_MCA}coll_han_dynamic_rules_filename": f"{{directory}}/{HAN_RULES_FILE}",
                }
                files[HAN_RULES_FILE] = handing
        else:
            choices = {c: self._choices(space, trial.point, c, always=True) for c in collectives}
            if any(choice.cvars for listed in choices.values() for choice in listed):
                env[f"{_MCA}coll_tuned_use_dynamic_rules"] = "1"
        where = placement.get("map_by", ""), placement.get("bind_to", "")
        return Rendering(env, *where, files=files, choices=choices, expect=self._expect(env))

    def available(self, space: Space) -> Space:
        """The space without what lacks a component and without algorithms that this library does not list."""
        restricted = self._as_fixed(space).restrict(self.facts)
        algorithms = []
        for parameter in restricted.parameters:
            if parameter.name != "algorithm" or not parameter.collectives:
                algorithms.append(parameter)
                continue
            kept = {
                collective: tuple(v for v in values if self._offers(collective, str(v)))
                for collective, values in parameter.collectives.items()
            }
            algorithms.append(replace(parameter, collectives=kept))
        here = replace(restricted, parameters=tuple(algorithms))
        return cleared(here, self.installation.flavour, self.installation.version)

    def _as_fixed(self, space: Space) -> Space:
        """The space without a choice of the pml where the scenario made it; what needs another is gone."""
        if _PML not in self.fixed or "pml" not in {p.name for p in space.parameters}:
            return space
        wanted, declared = self.fixed[_PML], space["pml"]
        held = space.fix({"pml": wanted if wanted in declared.values else declared.default})
        kept = tuple(replace(p, held_from=None, apply={}) if p.name == "pml" else p for p in held.parameters)
        gone = {p.name for p in space.parameters} - {p.name for p in kept}
        reason = f"the scenario fixes pml = {wanted}"
        dropped = tuple(Dropped(p.name, None, reason) for p in space.parameters if p.name in gone)
        return replace(held, parameters=kept, dropped=(*held.dropped, *dropped))

    def _offers(self, collective: str, algorithm: str) -> bool:
        known = self.enumerators.get(collective)
        return known is None or coll_tuned.algorithm_id(collective, algorithm) in known.values()

    def _said(
        self, collective: str, algorithm: bool, applied: Mapping[str, Any]
    ) -> tuple[dict[str, int | str], dict[str, str]]:
        number = partial(coll_tuned.algorithm_id, collective) if algorithm else int
        return {variable: number(text) for variable, text in applied.get("cvar", {}).items()}, {}

    def _expect(self, env: Mapping[str, str]) -> Expectation:
        # What the launcher reads it keeps to itself: PRTE_MCA_*, and of OMPI_MCA_* what no library knows.
        seen = {k: v for k, v in env.items() if not k.startswith("PRTE_MCA_")}
        directory_free = {k: v for k, v in seen.items() if "{directory}" not in v}
        cvars = {k.removeprefix(_MCA): v for k, v in directory_free.items() if k.startswith(_MCA)}
        cvars = {k: v for k, v in cvars.items() if not of_the_runtime(k)}
        ucx_moves = env.get(_PML, self.pml) == "ucx"
        return Expectation(str(self.installation.library), directory_free, cvars, ucx=ucx_moves)


class OpenMpiDialect(Dialect):
    """Open MPI's words."""

    formats = ("openmpi_mca", "env_sh")
    one_row: ClassVar[Mapping[str, int]] = dict.fromkeys(sorted(coll_tuned.ONE_ROW), 1)
    by_ranks = True
    banner = re.compile(r"(?:mpirun|mpiexec|orterun)\S* \((?:Open MPI|OpenRTE)\) (\S+)")
    distribution = "openmpi"
    campaigns = "Open MPI 4.1 or 5"
    slurm_plugins = ("pmix",)
    # Components that sum inside a node first; a priority has no effect on missing ones.
    reproducible: ClassVar[Mapping[str, str]] = {f"{_MCA}coll": "^han,xhc,acoll,hcoll,ucc,sm"}
    switches = ("coll_han",)

    def needed(self, fixed: Mapping[str, str], env: Mapping[str, str], rules: bool) -> dict[str, str]:
        """Parameters that select the component which reads the recommended ones."""
        readers = [*env, *([f"{_MCA}coll_tuned"] if rules else [])]
        used = _SELECTING.items()
        selecting = [chosen for prefix, chosen in used if any(n.startswith(prefix) for n in readers)]
        alike = super().needed(fixed, env, rules)
        return alike | {
            name: value
            for name, value in fixed.items()
            if name not in env and any(re.fullmatch(chosen, name) for chosen in selecting)
        }

    def variables(self, kind: str, target: Mapping[str, str], components: Collection[str]) -> dict[str, str]:
        """MCA parameters as variables too, without switches of collective components that are not there.

        A stack without a component does not know its switches.
        """
        if kind != "mca":
            return super().variables(kind, target, components)

        def known(name: str) -> bool:
            switch = re.fullmatch(r"coll_(\w+)_(?:enable|priority)", name)
            return switch is None or not components or switch[1] in components

        return {f"{_MCA}{name}": value for name, value in target.items() if known(name)}

    def mpirun_options(self, placement: Placement, env: Mapping[str, str]) -> list[str]:
        """Words for ``mpirun``."""
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
        return [*words, *(word for name in forwarded(env) for word in ("-x", name))]

    def mpirun_env(self, agent: Sequence[str] = ()) -> dict[str, str]:
        """Variables ``mpirun`` needs to run for root, and the agent, for Open MPI 5 (PRRTE) and 4.1."""
        agents = ("PRTE_MCA_plm_ssh_agent", f"{_MCA}plm_rsh_agent") if agent else ()
        runs = ("OMPI_ALLOW_RUN_AS_ROOT", "PRTE_ALLOW_RUN_AS_ROOT") if os.geteuid() == 0 else ()
        return {
            **{f"{name}{suffix}": "1" for name in runs for suffix in ("", "_CONFIRM")},
            **dict.fromkeys(agents, " ".join(agent)),
        }

    def library_folders(self, mpirun: Path) -> list[Path]:
        """Where ``ompi_info`` says, or two above: Debian's has only its own links there."""
        return [place for folder in _built(mpirun, "libdir") for place in (folder, folder.parent.parent)]

    def detect(
        self, installation: Installation, settings: Mapping[str, str], env: Mapping[str, str], ranks: int
    ) -> "OpenMpiStack":
        """See ``Dialect``; more ranks than cores make waiting ranks yield."""
        cores = len(os.sched_getaffinity(0))
        fixed = {**env, **{f"{_MCA}{k}": v for k, v in settings.items()}}
        if ranks > cores:
            # Spinning ranks that share a core cost scheduler quanta, milliseconds a call.
            fixed.setdefault(f"{_MCA}mpi_yield_when_idle", "1")
        text = output([str(installation.mpirun.resolve().with_name("ompi_info")), "--parsable", "--all"])
        components: dict[str, set[str]] = {}
        for framework, name in re.findall(r"^mca:(\w+):(\w+):version:", text, re.MULTILINE):
            components.setdefault(framework, set()).add(name)
        if not components:
            raise StackError(f"ompi_info beside {installation.mpirun} lists nothing: {reason(text)}")
        enumerators: dict[str, dict[str, int]] = {}
        pattern = r"^mca:coll:tuned:param:coll_tuned_(\w+)_algorithm:enumerator:value:(\d+):(\S+)$"
        for collective, number, name in re.findall(pattern, text, re.MULTILINE):
            enumerators.setdefault(collective, {})[name] = int(number)
        pattern = r"^mca:coll:tuned:param:(coll_tuned_\w+_algorithm):status:read-only$"
        read_only = tuple(re.findall(pattern, text, re.MULTILINE))
        return OpenMpiStack(
            installation=installation,
            components={k: tuple(sorted(v)) for k, v in components.items()},
            enumerators=enumerators,
            ucx=ucx.detect(installation.library),
            pml=_pml_in_use(installation, fixed),
            fixed=fixed,
            numa_nodes=len(list(Path("/sys/devices/system/node").glob("node[0-9]*"))) or 1,
            cores=cores,
            read_only=read_only,
        )


def site_folder(mpirun: Path) -> Path:
    """Where an installation looks for the parameter files of everybody.

    Below its own prefix, wherever it was moved to; Debian's, which has none there, where it was built for.
    """
    own = mpirun.resolve().parent.parent / "etc"
    built = () if (own / PARAMETERS).exists() else _built(mpirun, "sysconfdir")
    return next((folder for folder in built if folder.is_dir()), own)


def _built(mpirun: Path, what: str) -> list[Path]:
    """The folder that ``ompi_info`` knows by this name, if it is there and says one."""
    info = mpirun.resolve().with_name("ompi_info")
    text = output([str(info), "--parsable", "--path", what]) if info.exists() else ""
    return [Path(folder) for folder in re.findall(rf"^path:{what}:(.+)$", text, re.MULTILINE)[:1]]


def _pml_in_use(installation: Installation, fixed: Mapping[str, str]) -> str:
    """The point-to-point component that a launch selects; also the first proof that a launch works at all."""
    env = {**fixed, **OpenMpiDialect().mpirun_env(), "MPI4PY_LIBMPI": str(installation.library)}
    env[f"{_MCA}pml_base_verbose"] = "10"
    program = [sys.executable, "-P", "-c", f"from mpi4py import MPI; print('{WORKS}', MPI.COMM_WORLD.size)"]
    text = output([str(installation.mpirun), "-np", "1", *program], env)
    check_works(installation, text)
    match = re.search(r"select: component (\w+) selected", text)
    return match[1] if match else "unknown"
