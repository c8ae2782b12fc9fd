"""Find Open MPI 4.1 or 5.0 on this machine, and turn a trial into its environment variables.

All settings are environment variables (``OMPI_MCA_*``, ``UCX_*``), so that a launch by ``mpirun`` and one by
``srun`` have the same settings. ``coll_tuned`` uses forced algorithms and rules files only with
``coll_tuned_use_dynamic_rules``. So this parameter is set if a launch measures several algorithms or has
rules, and never in an untouched launch (one with the MPI's own defaults).
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
from autotune.space import Dropped, Parameter, Space
from autotune.stacks import coll_tuned, han, ucx
from autotune.stacks.cleared import cleared
from autotune.stacks.installation import Installation, output
from autotune.stacks.known import of_the_runtime
from autotune.stacks.ompi_info import components_in
from autotune.stacks.ports import Placement, Rendering
from autotune.stacks.stack import WORKS, Stack, check_works, framed_message, reason
from autotune.stacks.words import Dialect, forwarded

PARAMETERS = "openmpi-mca-params.conf"  # Name of the parameter file for all users of an installation.
RULES_FILE, HAN_RULES_FILE = "coll_tuned.rules", "coll_han.rules"
"""Names of the rules files inside the directory of a launch."""

_MCA = "OMPI_MCA_"
_PML = f"{_MCA}pml"

_SELECTING = {
    "UCX_": rf"{_MCA}(pml|opal_common_ucx_(tls|devices))",
    f"{_MCA}pml_": _PML,
    f"{_MCA}coll_": rf"{_MCA}coll(_\w+_(priority|enable))?",
}
"""Maps the prefix of variables that only one component reads to a pattern of the variables that select it."""


@dataclass(frozen=True)
class OpenMpiStack(Stack):
    """Describes Open MPI on this machine, with the settings that the scenario fixes for every launch."""

    components: Mapping[str, tuple[str, ...]]  # Framework → components: ``coll`` → (``basic``, ``han`` …).
    enumerators: Mapping[str, Mapping[str, int]]
    """Maps a collective to its algorithms, as ``ompi_info`` spells them, and each algorithm to its id."""
    ucx: ucx.Ucx | None  # The UCX that this Open MPI uses; None: it has no UCX.
    pml: str  # The point-to-point component that a launch with ``fixed`` really uses.
    numa_nodes: int = 1  # Number of NUMA nodes of this machine.
    read_only: tuple[str, ...] = ()  # Variables that force algorithms, but that no running program can write.

    @property
    def coll(self) -> tuple[str, ...]:
        """The collective components that are built: see ``Stack``."""
        return self.components.get("coll", ())

    @property
    def description(self) -> str:
        """The versions of Open MPI and UCX and the point-to-point component, in one line: see ``Stack``."""
        tail = f", UCX {self.ucx.version}" if self.ucx else ""
        suffix = "" if _PML in self.fixed else " by default"
        return f"{self.installation.named}{tail}, pml {self.pml}{suffix}"

    def _facts(self) -> set[str]:
        tokens = {f"pml_in_use:{self.pml}"}
        for framework, names in self.components.items():
            tokens |= {f"{framework}:{name}" for name in names if framework != "pml"}
        tokens.add(f"pml:{self.pml}")  # variables of the other components would have no effect
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
        """Return the environment, mapping, files and per-size choices of a trial: see ``Stack``."""
        if trial.subject is Subject.UNTOUCHED:
            return Rendering(env=self.fixed, expect=self._expect(self.fixed))
        env, placement = OpenMpiDialect().environment(space, trial.point, self.fixed, self.coll)
        files: dict[str, str] = {}
        choices: dict[str, tuple[SweptChoice, ...]] = {}
        if trial.subject is Subject.DEPLOYED:
            for component, switch, file, rules in (
                ("tuned", "use_dynamic_rules", RULES_FILE, coll_tuned.rules_file(trial.rules)),
                ("han", "use_dynamic_file_rules", HAN_RULES_FILE, han.rules_file(trial.rules)),
            ):
                if rules:
                    env[f"{_MCA}coll_{component}_{switch}"] = "1"
                    env[f"{_MCA}coll_{component}_dynamic_rules_filename"] = f"{{directory}}/{file}"
                    files[file] = rules
        else:
            choices = {c: self._choices(space, trial.point, c, always=True) for c in collectives}
            if any(choice.cvars for listed in choices.values() for choice in listed):
                env[f"{_MCA}coll_tuned_use_dynamic_rules"] = "1"
        placement_words = placement.get("map_by", ""), placement.get("bind_to", "")
        return Rendering(env, *placement_words, files=files, choices=choices, expect=self._expect(env))

    def available(self, space: Space) -> Space:
        """Return the space without settings of missing components and algorithms of other versions."""
        restricted = self._as_fixed(space).restrict(self.facts)
        parameters = tuple(self._offered(p) if p.name == "algorithm" else p for p in restricted.parameters)
        offered = replace(restricted, parameters=parameters)
        return cleared(offered, self.installation.flavour, self.installation.version, self.commutative)

    def _as_fixed(self, space: Space) -> Space:
        """Return the space without a choice of the point-to-point component (pml), if the scenario fixes it.

        Parameters that need another pml are removed too.
        """
        if _PML not in self.fixed or "pml" not in {p.name for p in space.parameters}:
            return space
        pml, declared = self.fixed[_PML], space["pml"]
        narrowed = space.fix({"pml": pml if pml in declared.values else declared.default})
        parameters = tuple(
            replace(p, held_from=None, apply={}) if p.name == "pml" else p for p in narrowed.parameters
        )
        lost = {p.name for p in space.parameters} - {p.name for p in parameters}
        reason = f"the scenario fixes pml = {pml}"
        dropped = tuple(Dropped(p.name, None, reason) for p in space.parameters if p.name in lost)
        return replace(narrowed, parameters=parameters, dropped=(*narrowed.dropped, *dropped))

    def _offered(self, algorithm: Parameter) -> Parameter:
        """Return the parameter without algorithms that the library does not list."""
        collectives = {}
        for name, values in algorithm.collectives.items():
            if (listed := self.enumerators.get(name)) is not None:
                values = tuple(v for v in values if coll_tuned.algorithm_id(name, str(v)) in listed.values())
            collectives[name] = values
        return replace(algorithm, collectives=collectives)

    def _settings(
        self, collective: str, algorithm: bool, applied: Mapping[str, Any]
    ) -> tuple[dict[str, int | str], dict[str, str]]:
        number = partial(coll_tuned.algorithm_id, collective) if algorithm else int
        return {variable: number(text) for variable, text in applied.get("cvar", {}).items()}, {}

    def _expect(self, env: Mapping[str, str]) -> Expectation:
        # Ranks do not check variables that only the launcher reads: PRTE_MCA_*, and some of OMPI_MCA_*.
        visible = {k: v for k, v in self._compared(env).items() if not k.startswith("PRTE_MCA_")}
        directory_free = {k: v for k, v in visible.items() if "{directory}" not in v}
        cvars = {k.removeprefix(_MCA): v for k, v in directory_free.items() if k.startswith(_MCA)}
        cvars = {k: v for k, v in cvars.items() if not of_the_runtime(k)}
        ucx_moves = env.get(_PML, self.pml) == "ucx"
        return Expectation(str(self.installation.library), directory_free, cvars, ucx=ucx_moves)


class OpenMpiDialect(Dialect):
    """Knows the names and options of Open MPI."""

    formats = ("openmpi_mca", "env_sh")
    one_row: ClassVar[Mapping[str, int]] = dict.fromkeys(sorted(coll_tuned.ONE_ROW), 1)
    by_ranks = True
    banner = re.compile(r"(?:mpirun|mpiexec|orterun)\S* \((?:Open MPI|OpenRTE)\) (\S+)")
    distribution = "openmpi"
    campaigns = "Open MPI 4.1 or 5"
    slurm_plugins = ("pmix",)
    # The excluded components first sum inside each node. A component that is not built can be excluded too.
    reproducible: ClassVar[Mapping[str, str]] = {f"{_MCA}coll": "^han,xhc,acoll,hcoll,ucc,sm"}
    switches = ("coll_han",)

    def needed(self, fixed: Mapping[str, str], env: Mapping[str, str], rules: bool) -> dict[str, str]:
        """Return the fixed parameters that select the components which read the recommended parameters."""
        readers = [*env, *([f"{_MCA}coll_tuned"] if rules else [])]
        used = _SELECTING.items()
        selecting = [pattern for prefix, pattern in used if any(n.startswith(prefix) for n in readers)]
        common = super().needed(fixed, env, rules)
        return common | {
            name: value
            for name, value in fixed.items()
            if name not in env and any(re.fullmatch(pattern, name) for pattern in selecting)
        }

    def variables(self, kind: str, target: Mapping[str, str], components: Collection[str]) -> dict[str, str]:
        """Return environment variables, also for MCA parameters: see ``Dialect``.

        Parameters that enable a component, or set its priority, are left out if the component is not built,
        since the library then does not know these parameters.
        """
        if kind != "mca":
            return super().variables(kind, target, components)

        def is_built(name: str) -> bool:
            switch = re.fullmatch(r"coll_(\w+)_(?:enable|priority)", name)
            return switch is None or not components or switch[1] in components

        return {f"{_MCA}{name}": value for name, value in target.items() if is_built(name)}

    def mpirun_options(self, placement: Placement, env: Mapping[str, str]) -> list[str]:
        """Return the options of ``mpirun``: see ``Dialect``."""
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
        """Return variables that let ``mpirun`` run as root and that name the command to reach other hosts.

        The variables have the names of both Open MPI 5 (PRRTE) and 4.1.
        """
        agents = ("PRTE_MCA_plm_ssh_agent", f"{_MCA}plm_rsh_agent") if agent else ()
        runs = ("OMPI_ALLOW_RUN_AS_ROOT", "PRTE_ALLOW_RUN_AS_ROOT") if os.geteuid() == 0 else ()
        return {
            **{f"{name}{suffix}": "1" for name in runs for suffix in ("", "_CONFIRM")},
            **dict.fromkeys(agents, " ".join(agent)),
        }

    def library_folders(self, mpirun: Path) -> list[Path]:
        """Return the library folder that ``ompi_info`` reports, and the folder two levels above it.

        In Debian, the reported folder contains only links, which Debian adds.
        """
        return [place for folder in _built(mpirun, "libdir") for place in (folder, folder.parent.parent)]

    def detect(
        self, installation: Installation, settings: Mapping[str, str], env: Mapping[str, str], ranks: int
    ) -> "OpenMpiStack":
        """Return the description of an installation: see ``Dialect``.

        With more ranks than cores, waiting ranks yield their cores to others.
        """
        cores = len(os.sched_getaffinity(0))
        fixed = {**env, **{f"{_MCA}{k}": v for k, v in settings.items()}}
        if ranks > cores:
            # Ranks that poll on a shared core must wait for the scheduler, milliseconds in each call.
            fixed.setdefault(f"{_MCA}mpi_yield_when_idle", "1")
        text = output([str(installation.mpirun.resolve().with_name("ompi_info")), "--parsable", "--all"])
        components = components_in(text)
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
    """Return the folder where an installation looks for the parameter files of all its users.

    The folder is below the installation's own prefix, even if the installation was moved. Debian's Open MPI
    has no such folder there; it uses the folder that was configured when it was built.
    """
    prefix_folder = mpirun.resolve().parent.parent / "etc"
    built = () if (prefix_folder / PARAMETERS).exists() else _built(mpirun, "sysconfdir")
    return next((folder for folder in built if folder.is_dir()), prefix_folder)


def _built(mpirun: Path, folder_name: str) -> list[Path]:
    """Return the folder that ``ompi_info`` reports for a name such as ``libdir``, as a list."""
    info = mpirun.resolve().with_name("ompi_info")
    text = output([str(info), "--parsable", "--path", folder_name]) if info.exists() else ""
    return [Path(folder) for folder in re.findall(rf"^path:{folder_name}:(.+)$", text, re.MULTILINE)[:1]]


def _pml_in_use(installation: Installation, fixed: Mapping[str, str]) -> str:
    """Return the point-to-point component that a launch with one rank selects.

    The launch also shows that launches work at all.
    """
    env = {**fixed, **OpenMpiDialect().mpirun_env(), "MPI4PY_LIBMPI": str(installation.library)}
    env[f"{_MCA}pml_base_verbose"] = "10"
    program = [sys.executable, "-P", "-c", f"from mpi4py import MPI; print('{WORKS}', MPI.COMM_WORLD.size)"]
    text = output([str(installation.mpirun), "-np", "1", *program], env)
    if WORKS not in text and not framed_message(text):
        # A rank sends its error message to mpirun and aborts; mpirun may end before it has printed the
        # message (in one of three launches of Open MPI 5.0.11). Without mpirun, a process prints it itself.
        alone = output(program, {"OPAL_PREFIX": str(installation.mpirun.parent.parent), **env})
        text = alone if WORKS not in alone and framed_message(alone) else text
    check_works(installation, text)
    match = re.search(r"select: component (\w+) selected", text)
    return match[1] if match else "unknown"
