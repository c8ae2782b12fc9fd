"""Which classes implement a port, found in the sources, so that none stays out of its suite."""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def implementations(*methods: str, folders: tuple[str, ...] = ("autotune", "launchers", "tests")) -> set[str]:
    """Names of the classes that define all of these methods themselves; protocols are none."""
    return {
        node.name
        for folder in folders
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
        and not any("Protocol" in ast.unparse(base) for base in node.bases)
        and {item.name for item in node.body if isinstance(item, ast.FunctionDef)}.issuperset(methods)
    }
