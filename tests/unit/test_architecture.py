"""The direction of imports, the owners of foreign libraries, the purity of the core, as rules."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

ROOMS = (
    *("errors", "structure", "resources", "space", "measure", "history", "importers", "simulate"),
    *("screening", "recommend", "verification", "probe", "scenario", "stacks", "campaign", "views"),
    *("proposers", "exporters", "lint", "replay", "site", "commands", "launchers", "cli", "__main__"),
)
"""From the bottom up, one rank for each folder or loose module: a room imports only rooms before it."""

STILL_UPWARD = {("screening", "views")}
"""Arrows that still point the wrong way."""

OWNERS = {
    "ax": {"proposers"},
    "botorch": {"proposers"},
    "gpytorch": {"proposers"},
    "torch": {"proposers"},
    "smac": {"proposers"},
    "ConfigSpace": {"proposers"},
    "optuna": {"proposers"},
    "mpi4py": {"probe"},
    "hydra": {"commands", "launchers"},
    "omegaconf": {"commands", "launchers"},
    "subprocess": {"launchers", "stacks", "probe"},
    "plotly": {"views", "replay"},
    "jinja2": {"views"},
    "pandas": {"views"},
    "rich": {"views", "commands"},
    "submitit": {"launchers"},
}
"""Who may import a foreign library; for files outside of ``autotune`` the top folder stands for the part."""

PURE = {
    "errors",
    "structure",
    "space",
    "screening",
    "recommend",
    "measure",
    "simulate",
    "verification",
    "importers",
    "lint",
}
IMPURE_CALLS = {"open", "print", "input", "eval", "exec", "locals"}
IMPURE_MODULES = {"time", "random", "os", "socket", "subprocess", "tempfile", "shutil", "pickle"}

FILES = sorted(
    [*ROOT.glob("autotune/**/*.py"), *ROOT.glob("launchers/**/*.py")],
    key=lambda path: path.relative_to(ROOT).as_posix(),
)


def part(path: Path) -> str:
    """The part of the architecture that a file belongs to."""
    relative = path.relative_to(ROOT)
    if relative.parts[0] == "launchers":
        return "launchers"
    return relative.parts[1].removesuffix(".py")


def imports(tree: ast.AST) -> list[tuple[str, int]]:
    """Every absolute import with its line; those for type checking alone are left out."""
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for inner in ast.walk(node)
    }
    found = []
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found += [(f"{node.module}.{alias.name}", node.lineno) for alias in node.names]
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_module_keeps_to_its_place(path):
    tree = ast.parse(path.read_text())
    mine = part(path)
    complaints = []
    for module, line in imports(tree):
        top = module.split(".")[0]
        if top in OWNERS and mine not in OWNERS[top]:
            complaints.append(f"line {line}: {module} belongs to {', '.join(sorted(OWNERS[top]))}")
        other = f"{module}.".split(".")[1] if top == "autotune" else mine
        upward = other in ROOMS and mine in ROOMS and ROOMS.index(other) > ROOMS.index(mine)
        if upward and (mine, other) not in STILL_UPWARD:
            complaints.append(f"line {line}: {module} stands above {mine}")
        if top == "hydra_plugins" and mine != "launchers":
            complaints.append(f"line {line}: {module}: launchers are connected by Hydra alone")
        if mine in PURE and top in IMPURE_MODULES:
            complaints.append(f"line {line}: {mine} is pure, {module} is not")
    for node in ast.walk(tree):
        called = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
        if called in ("eval", "exec", "locals") or (mine in PURE and called in IMPURE_CALLS):
            complaints.append(f"line {node.lineno}: {called}()")
    assert not complaints, "\n".join(complaints)
    assert ast.get_docstring(tree), "the module docstring comes first"


def test_importing_the_package_imports_nothing_heavy():
    import subprocess
    import sys

    heavy = "{'numpy', 'torch', 'ax', 'pandas', 'hydra', 'rich', 'typer'}"
    code = f"import sys, autotune; assert not {heavy} & set(sys.modules), {heavy} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_help_and_status_do_not_import_models(tmp_path):
    import subprocess
    import sys

    code = (
        "import sys; from autotune.cli import main; main(['--help'])\n"
        "heavy = {'torch', 'ax', 'botorch', 'optuna', 'smac', 'hydra', 'pandas', 'plotly', 'numpy'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
        f"assert main(['status', {str(tmp_path)!r}]) == 2\n"
        "heavy -= {'numpy'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_the_namespace_package_of_hydra_has_no_init():
    assert not (ROOT / "launchers" / "hydra_plugins" / "__init__.py").exists()
