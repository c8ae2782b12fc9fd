"""The house as rules: a rank for each room, an owner for each foreign library, a core that touches nothing.

A room is a folder or a loose module of ``autotune/``; ``launchers/`` and ``plugins/`` are one each. Modules
are written as ``room.module``. Every table here is exact: an entry that is no longer true fails as one that
is missing does.
"""

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import packages_distributions
from pathlib import Path

from autotune.commands import companions
from autotune.errors import BROUGHT

ROOT = Path(__file__).resolve().parents[2]

CORE = (
    *("__init__", "errors", "collectives", "structure", "resources", "text_table", "launch_command", "space"),
    *("measure", "history", "screening", "recommend", "verification", "probe", "scenario", "stacks"),
    *("campaign", "replay", "views", "proposers", "exporters", "commands"),
)
"""The rooms that make a campaign, from the bottom up: one imports only rooms before it."""

COMPANIONS = ("application", "doe", "guard", "lint", "simulate", "site", "tables")
"""Rooms that the core can do without: each imports the core and no other companion."""

OUTER = ("launchers", "autotune_formats", "cli", "__main__")
"""What connects them; nobody imports these."""

ROOMS = (*CORE, *COMPANIONS, *OUTER)

CROSSINGS = {
    ("application.profiles", "tables"): "tables by hand are read as all tables are",
    ("commands.api", "application"): "the public functions, which import it when they are called",
    ("commands.api", "lint"): "the same",
    ("doe.regression", "tables"): "a table's columns",
    ("simulate.verb", "tables"): "logs that a machine is calibrated from",
}
"""Imports of a companion by the core or by another companion, with the reason."""

EVERYWHERE = {"numpy"}
"""Foreign libraries that any room may import."""

OWNERS = {
    "ax": {"proposers"},
    "botorch": {"proposers"},
    "ConfigSpace": {"proposers"},
    "gpytorch": {"proposers"},
    "hydra": {"commands.composing", "commands.hydra_bridge", "launchers"},
    "jinja2": {"views"},
    "matplotlib": {"views"},
    "mpi4py": {"probe"},
    "omegaconf": {"commands.composing", "commands.hydra_bridge"},
    "optuna": {"proposers"},
    "otf2": {"application"},
    "pandas": {"views"},
    "plotly": {"views", "doe"},
    "pyarrow": {"text_table"},
    "pycubexr": {"application"},
    "pyDOE3": {"screening"},
    "re2": {"scenario.pattern"},
    "rich": {"views", "commands", "tables"},
    "threadpoolctl": {"recommend"},
    "scipy": {
        *("measure", "screening", "recommend", "verification"),
        *("application", "doe", "guard", "simulate", "site", "tables"),
    },
    "smac": {"proposers"},
    "statsmodels": {"doe"},
    "submitit": {"launchers"},
    "torch": {"proposers"},
    "typer": {
        *("cli", "commands.companions", "commands.options"),
        *("application.cli", "doe.cli", "guard.cli", "lint.cli", "simulate.cli", "tables.cli"),
    },
    "tree_sitter": {"lint"},
    "tree_sitter_bash": {"lint"},
    "yaml": {"space", "scenario", "stacks.knobs.rules", "commands"},
    "subprocess": {"stacks.application", "stacks.installation", "probe.compiling", "launchers"},
}
"""Who may import a library: a room, or one module of it. Starting processes counts as one."""

LOADED_BY_OTHERS = {"pyarrow": "pandas writes Parquet with it"}
"""Dependencies that are there because another library asks for them."""

CONNECTED = {"hydra_plugins": "launchers", "autotune_formats": "autotune_formats"}
"""Packages beside ``autotune`` → their rooms, which nobody imports: Hydra and entry points find them."""

OUTSIDE = {"resources", "probe", "launchers", "commands", "cli", "__main__"}
"""Rooms whose work is to touch the world."""

TOUCHING = {
    "campaign.directory": "the time of the journal's last event",
    "campaign.interruption": "the signals that end the work",
    "campaign.entrants": "the directory of each part of a launch",
    "campaign.observing": "the directory of each launch",
    "campaign.sealing": "keeps the user's key",
    "campaign.turns": "draws an order that differs each time",
    "campaign.bench": "counts the cores of this machine, and looks what else runs there",
    "collectives": "reads the table that stands beside it",
    "exporters.export_check": "the files of the launches that check an export",
    "exporters.files": "looks for what an earlier export left",
    "guard.before": "copies and reads parameter files of the day of ``guard keep``",
    "guard.bisect": "the time of a whole verb",
    "guard.by_hand": "copies parameter files that somebody wrote",
    "guard.place": "finds and launches what is guarded",
    "guard.retune": "reads what the last check found",
    "guard.trust": "who owns a file",
    "lint.doctor_checks": "looks at this machine",
    "lint.doctor_settings": "starts MPI without one setting after the other",
    "simulate.verb": "the verb ``calibrate``",
    "site.check": "the files of the launches that check a site",
    "site.costs": "a clock",
    "site.directory": "reads the campaigns of a site",
    "site.next_job": "reads what its jobs have written",
    "site.verb": "``conf=site``",
    "tables.cli": "looks whether ``compare`` was given files",
    "guard.verbs": "``guard keep``, ``check`` and ``history``",
    "guard.facts": "asks this machine and the nodes of a job what they are, and hashes libraries",
    "guard.heats": "a clock",
    "guard.kept": "reads and adds nights",
    "application.documents": "a recording, a floor that is kept beside it, and what a run has learnt",
    "application.scenario": "looks whether the recording is there",
    "exporters.user_files": "reads the parameter files in the user's home",
    "exporters.writing": "writes files whole or not at all",
    "history.folder": "walks into a campaign's directory without following links",
    "history.journal": "locks, appends and syncs the journal",
    "proposers.ax": "keeps Ax's logging quiet",
    "proposers.smac": "SMAC wants a directory to write to",
    "stacks.application": "starts the user's application",
    "stacks.installation": "looks for an MPI on this machine",
    "stacks.knobs.child": "starts a process for each library that is asked",
    "stacks.knobs.libfabric": "loads libfabric there",
    "stacks.knobs.mpich": "loads MPICH there",
    "stacks.knobs.ucx": "loads UCX or UCC there",
    "stacks.mpich": "reads the tree inside of an MPICH library",
    "stacks.mpich_here": "asks the machine for cores",
    "stacks.openmpi": "asks the machine for cores and NUMA domains",
    "stacks.ucx": "asks a UCX library for its transports",
}
"""Modules of other rooms that read or write the world all the same, with the reason."""

IMPURE_MODULES = {
    *("ctypes", "fcntl", "getpass", "logging", "mmap", "multiprocessing", "os", "pickle", "random", "select"),
    *("shutil", "signal", "socket", "subprocess", "tempfile", "threading", "time", "urllib", "uuid"),
}
IMPURE_CALLS = {"open", "print", "input"}
IMPURE_METHODS = {
    *("open", "read_text", "read_bytes", "write_text", "write_bytes", "mkdir", "unlink", "rmdir", "rename"),
    *("exists", "is_file", "is_dir", "stat", "glob", "rglob", "iterdir", "symlink_to", "chmod", "touch"),
    *("cwd", "home", "now", "today"),
}
"""Of ``Path``, ``date`` and ``datetime``."""


@dataclass(frozen=True)
class Module:
    """One file of the package, of the launchers or of the plugins."""

    path: Path

    @property
    def name(self) -> str:
        """``room.module``, without ``__init__`` of a folder."""
        relative = self.path.relative_to(ROOT).with_suffix("").parts
        parts = ["launchers", *relative[3:]] if relative[0] == "launchers" else list(relative[1:])
        return ".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)

    @property
    def room(self) -> str:
        """The folder or loose module that it belongs to."""
        return self.name.split(".")[0]

    @cached_property
    def text(self) -> str:
        """Its source."""
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        """Its source, parsed."""
        return ast.parse(self.text)

    @cached_property
    def calls(self) -> tuple[ast.Call, ...]:
        """All calls in it."""
        return tuple(node for node in ast.walk(self.tree) if isinstance(node, ast.Call))

    @cached_property
    def imports(self) -> tuple[tuple[str, int], ...]:
        """What it imports anywhere, also for type checking alone, each with its line."""
        names: list[tuple[str, int]] = []
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                names += [(alias.name, node.lineno) for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert not node.level, f"{self.name}, line {node.lineno}: relative imports hide the room"
                names += [(f"{node.module}.{alias.name}", node.lineno) for alias in node.names]
        return tuple(names)

    def rooms_used(self) -> Iterator[tuple[str, int]]:
        """Other rooms that it imports from, each with the line."""
        for dotted, line in self.imports:
            top, _, rest = dotted.partition(".")
            if top == "autotune":
                used = rest.split(".")[0]
                used = used if used in ROOMS else "__init__"
            elif top in CONNECTED:
                used = CONNECTED[top]
            else:
                continue
            if used != self.room:
                yield used, line

    def impurities(self) -> Iterator[str]:
        """Where it reads a clock, a file or the machine, or draws from a global generator."""
        for dotted, line in self.imports:
            if dotted.split(".")[0] in IMPURE_MODULES:
                yield f"line {line}: import {dotted}"
        for node in self.calls:
            called = ast.unparse(node.func)
            last = called.rpartition(".")[2]
            seeded = last == "default_rng" and (node.args or node.keywords)
            if (
                called in IMPURE_CALLS
                or (isinstance(node.func, ast.Attribute) and last in IMPURE_METHODS)
                or (re.fullmatch(r"(np|numpy)\.random\.\w+", called) and not seeded and last.islower())
            ):
                yield f"line {node.lineno}: {called}()"


MODULES = tuple(
    Module(path)
    for folder in ("autotune", "launchers", "plugins")
    for path in sorted(ROOT.glob(f"{folder}/**/*.py"))
    if path.relative_to(ROOT).parts[1:] != ("hydra_plugins", "autotune", "__init__.py")
)
PURE = tuple(module for module in MODULES if module.room not in OUTSIDE and ".verbs." not in module.name)


def owned(module: Module, owners: set[str]) -> set[str]:
    """Which of the owners the module is, or belongs to."""
    return {owner for owner in owners if f"{module.name}.".startswith(f"{owner}.")}


def test_every_room_has_one_rank():
    assert Counter(ROOMS) == Counter({module.room for module in MODULES})


def test_a_module_imports_only_rooms_below_its_own():
    upward = [
        f"{module.name}, line {line}: {used} stands above {module.room}"
        for module in MODULES
        for used, line in module.rooms_used()
        if used not in COMPANIONS and ROOMS.index(used) > ROOMS.index(module.room)
    ]
    assert not upward, "\n".join(upward)


def test_the_core_imports_no_companion_and_no_companion_another():
    crossings = {
        (module.name, used)
        for module in MODULES
        for used, _ in module.rooms_used()
        if used in COMPANIONS and module.room not in CONNECTED.values()
    }
    assert crossings == set(CROSSINGS)


def test_companions_are_named_in_one_table_alone():
    """Not in strings of the core either, from which a module could be imported."""
    assert tuple(companions.COMPANIONS) == COMPANIONS
    named = re.compile(rf"""["']autotune\.({"|".join(COMPANIONS)})\.\w""")
    rooms = (*CORE, "cli")
    assert {m.name for m in MODULES if m.room in rooms and named.search(m.text)} == {"commands.companions"}


def test_every_foreign_library_is_imported_by_its_owners_alone_and_every_owner_imports_it():
    users: dict[str, set[str]] = {name: set() for name in OWNERS}
    for module in MODULES:
        for top in {dotted.split(".")[0] for dotted, _ in module.imports}:
            if top in OWNERS:
                users[top] |= owned(module, OWNERS[top]) or {module.name}
            elif top not in sys.stdlib_module_names | EVERYWHERE | {"autotune", *CONNECTED}:
                users[top] = users.get(top, set()) | {module.name}
    assert users == OWNERS


def test_every_dependency_is_imported_and_every_import_declared():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = {
        re.split(r"[^\w-]", requirement)[0].lower().replace("_", "-")
        for name, extra in project["optional-dependencies"].items()
        for requirement in (*project["dependencies"], *extra)
        if name not in ("openmpi", "all", "test", "dev")
    }
    distributions = packages_distributions()
    imported = {
        distributions[top][0].lower().replace("_", "-")
        for top in {*OWNERS, *EVERYWHERE, *LOADED_BY_OTHERS} - sys.stdlib_module_names
    }
    assert declared == imported


def test_the_core_touches_nothing_but_for_exceptions_that_are_needed():
    impure = {module.name: found for module in PURE if (found := list(module.impurities()))}
    assert {name: impure[name] for name in impure.keys() - TOUCHING.keys()} == {}
    assert TOUCHING.keys() - impure.keys() == set()


def test_a_module_begins_with_what_it_is_for_and_evaluates_no_text():
    assert [module.name for module in MODULES if not ast.get_docstring(module.tree)] == []
    forbidden = {"eval", "exec", "locals"}
    assert [m.name for m in MODULES if forbidden & {ast.unparse(call.func) for call in m.calls}] == []


def test_text_is_read_and_written_in_a_named_encoding():
    """The locale's own is ASCII on many a node; bytes have none."""
    for module, node in ((its, call) for its in MODULES for call in its.calls):
        called = ast.unparse(node.func)
        last, words = called.rpartition(".")[2], [*node.args, *(keyword.value for keyword in node.keywords)]
        text = last in ("read_text", "write_text")
        if called == "open" or last == "fdopen" or (last == "open" and called != "os.open" and words):
            said = [word.value for word in words if isinstance(word, ast.Constant)]
            text = any(re.fullmatch("[rwax]t?[+]?", str(mode)) for mode in said)
        named = {keyword.arg for keyword in node.keywords}
        assert not text or "encoding" in named, f"{module.name}, line {node.lineno}: {called}"


def test_launchers_are_connected_by_hydra_alone_and_formats_by_entry_points():
    for package, room in CONNECTED.items():
        assert {m.room for m in MODULES for dotted, _ in m.imports if dotted.split(".")[0] == package} == {
            room
        }
    assert not (ROOT / "launchers" / "hydra_plugins" / "__init__.py").exists()  # a namespace package


def test_what_is_private_to_hydra_stands_in_the_bridge_and_in_one_module_of_the_launchers():
    users = {m.name for m in MODULES if any(dotted.startswith("hydra._internal") for dotted, _ in m.imports)}
    assert {name.rpartition(".")[2] for name in users} == {"composing", "hydra_bridge", "_plugin"}


def test_no_module_imports_what_the_light_installation_lacks_before_it_is_used():
    """Within functions alone, and for type checking."""
    eager = re.compile(rf"^(?:import|from) (?:{'|'.join(BROUGHT)})\b", re.MULTILINE)
    assert [module.name for module in MODULES if eager.search(module.text)] == []


def test_importing_the_package_imports_nothing_heavy():
    heavy = "{'numpy', 'torch', 'ax', 'pandas', 'hydra', 'rich', 'typer'}"
    code = f"import sys, autotune; assert not {heavy} & set(sys.modules), {heavy} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_help_and_status_do_not_import_models(tmp_path):
    code = (
        "import sys; from autotune.cli import main; main(['--help'])\n"
        "heavy = {'torch', 'ax', 'botorch', 'optuna', 'smac', 'hydra', 'pandas', 'plotly', 'numpy'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
        f"assert main(['status', {str(tmp_path)!r}]) == 2\n"
        "heavy -= {'numpy'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
