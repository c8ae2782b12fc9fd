"""Each dependency in pyproject.toml names a file or folder that imports it."""

import re
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = (ROOT / "pyproject.toml").read_text()
DECLARED = tomllib.loads(PROJECT)["project"]["dependencies"]


@pytest.mark.parametrize("requirement", DECLARED)
def test_the_named_files_import_the_dependency(requirement):
    name = re.split(r"[^\w-]", requirement)[0]
    modules = "|".join(m for m, owners in packages_distributions().items() if name in owners)
    named = re.search(rf'"{re.escape(requirement)}",\s*#\s*(.+)', PROJECT)
    assert named
    for place in re.sub(r"\(.*\)", "", named[1]).split(","):
        path = ROOT / place.strip()
        files = path.rglob("*.py") if path.is_dir() else [path]
        imports = rf"^\s*(from|import) ({modules})\b"
        assert any(re.search(imports, file.read_text(), re.MULTILINE) for file in files), place
