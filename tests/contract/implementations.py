"""Which classes implement a port, found in the sources, so that none stays out of its suite."""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def implementations(*methods: str) -> set[str]:
    """Names of the classes that define all of these methods themselves; protocols are none.

    Args:
        methods: ``name``, or ``name(argument)`` with all that the method takes beside itself.
    """
    return {
        node.name
        for folder in ("autotune", "launchers", "plugins", "tests")
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
        and not any("Protocol" in ast.unparse(base) for base in node.bases)
        and _defined(node).issuperset(methods)
    }


def _defined(node: ast.ClassDef) -> set[str]:
    """Methods of a class, each by its name, and by its name with its arguments."""
    methods = [item for item in node.body if isinstance(item, ast.FunctionDef)]
    called = {f"{m.name}({', '.join(a.arg for a in m.args.args if a.arg != 'self')})" for m in methods}
    return called | {method.name for method in methods}
