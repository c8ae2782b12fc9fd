"""What pyproject.toml asks for: each dependency names a file that imports it, and a small default."""

import re
import sys
import tomllib
from importlib.metadata import distribution, packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from autotune.errors import BROUGHT
from tests.program import ran

ROOT = Path(__file__).resolve().parents[2]
PROJECT = (ROOT / "pyproject.toml").read_text()
DECLARED = tomllib.loads(PROJECT)["project"]
EXTRAS = {n: its for n, its in DECLARED["optional-dependencies"].items() if n not in ("all", "test", "dev")}
IMPORTED = [r for n, its in EXTRAS.items() if n != "openmpi" for r in its]
OWNERS = packages_distributions()
TUNING = [*DECLARED["dependencies"], *EXTRAS["tune"]]
AT_MOST_BYTES = 1.2e9
"""Of what a campaign needs beside PyTorch: homes on clusters have quotas, of 10 GB and less."""
LIGHT_BYTES = 150e6  # Of the light one; tests/integration/test_light_install.py measures a fresh one.


@pytest.mark.parametrize("requirement", [*DECLARED["dependencies"], *IMPORTED])
def test_the_named_files_import_the_dependency(requirement):
    name = canonicalize_name(Requirement(requirement).name)
    modules = "|".join(m for m, owners in OWNERS.items() if name in map(canonicalize_name, owners))
    assert modules
    named = re.findall(rf'"{re.escape(requirement)}",\s*#\s*(.+)', PROJECT)
    assert named
    for place in re.sub(r"\(.*\)", "", ",".join(named)).split(","):
        path = ROOT / place.strip()
        files = path.rglob("*.py") if path.is_dir() else [path]
        imports = rf"^\s*(from|import) ({modules})\b"
        assert any(re.search(imports, file.read_text(), re.MULTILINE) for file in files), place


def needed(requirements):
    """The names of all distributions that requirements need, with what those need."""
    found, left = [], [(Requirement(text), "") for text in requirements]
    while left:
        one, extra = left.pop()
        if (one.marker and not one.marker.evaluate({"extra": extra})) or (one.name, one.extras) in found:
            continue
        found.append((one.name, one.extras))
        its = [Requirement(text) for text in distribution(one.name).requires or ()]
        left += [(requirement, extra) for extra in ("", *one.extras) for requirement in its]
    return {re.sub(r"[-_.]+", "-", name).lower() for name, _ in found}


def size_bytes(name):
    """What the files of a distribution take."""
    paths = (file.locate() for file in distribution(name).files)
    return sum(path.stat().st_size for path in paths if path.is_file())


@pytest.mark.parametrize(
    ("brought", "most"),
    [
        (needed(TUNING) - needed(["torch"]), AT_MOST_BYTES),
        (needed(DECLARED["dependencies"]), LIGHT_BYTES),
    ],
    ids=["a campaign's, beside PyTorch", "light"],
)
def test_an_installation_is_small(brought, most):
    sizes = {name: size_bytes(name) for name in brought}
    assert sum(sizes.values()) <= most, sorted(sizes.items(), key=lambda one: -one[1])[:10]


def test_the_table_of_libraries_that_extras_bring_is_that_of_the_extras():
    names = {n: {canonicalize_name(Requirement(r).name) for r in its} for n, its in EXTRAS.items()}
    owners = {library: {*map(canonicalize_name, OWNERS[library])} for library in BROUGHT}
    assert [library for library, extra in BROUGHT.items() if not owners[library] & names[extra]] == []
    assert set().union(*owners.values()) == set().union(*names.values()) - {"openmpi"}


def test_no_extra_is_in_the_default_and_all_is_every_extra():
    default = needed(DECLARED["dependencies"])
    assert default.isdisjoint({"optuna", "smac", "configspace", "pyarrow", "statsmodels", "openmpi"})
    assert default.isdisjoint({"torch", "ax-platform", "botorch", "gpytorch", "scipy", "pandas", "plotly"})
    (everything,) = DECLARED["optional-dependencies"]["all"]
    assert Requirement(everything).name == DECLARED["name"]
    assert Requirement(everything).extras == set(EXTRAS)


def test_the_first_lines_of_the_readme_install_what_lint_imports(tmp_path):
    readme = (ROOT / "README.md").read_text("utf-8")
    assert "\n    pip install --no-compile -c constraints.txt -e .\n" in readme
    (tmp_path / "job.sh").write_text("export OMPI_MCA_pml=ucx\nmpirun -n 2 ./app\n")
    program = (
        "import sys\nbefore = {*sys.modules}\nfrom autotune.cli import main\nmain(['lint', 'job.sh'])\n"
        "print(*{name.partition('.')[0] for name in {*sys.modules} - before})"
    )
    done = ran([sys.executable, "-c", program], cwd=tmp_path, check=True)
    loaded = done.stdout.splitlines()[-1].split()
    brought = {re.sub(r"[-_.]+", "-", one).lower() for name in loaded for one in OWNERS.get(name, ())}
    assert "tree-sitter-bash" in brought
    assert brought - {DECLARED["name"]} <= needed(DECLARED["dependencies"])


HINT = re.compile(
    r"pip install (?:-\S+ )*['\"]?autotune\b|pip (?:show|uninstall) autotune\b|['\"`]autotune\["
)


def test_nobody_is_told_to_install_somebody_elses_autotune():
    """On the public index that name belongs to another project."""
    assert DECLARED["name"] == "mpi-autotune"
    assert all(map(HINT.search, ("pip install autotune", "pip install 'autotune[openmpi]'")))
    kinds = {".py", ".md", ".toml", ".txt", ".ipynb", ".yaml", ".yml", ".sh", ""}
    folders = ("autotune", "launchers", "plugins", "conf", "search_spaces", "docs", "notebooks", "benchmarks")
    folders = (*folders, ".ci")
    files = [*ROOT.glob("*.*"), ROOT / "Makefile", *(p for f in folders for p in (ROOT / f).rglob("*"))]
    texts = {p: p.read_text() for p in files if p.is_file() and p.suffix in kinds}
    assert len(texts) > 300
    assert [str(path) for path, text in texts.items() if HINT.search(text)] == []
