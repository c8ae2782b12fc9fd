"""Which classes implement a port, found in the sources, so that none stays out of its suite."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def implementations(*methods: str) -> set[str]:
    """Names of the classes that define all of these methods themselves; protocols are none.

    Args:
        methods: ``name``, or ``name(argument)`` with all that the method takes beside itself.
    """
    return {name for name, defined in _classes() if defined.issuperset(methods)}


@cache
def _classes() -> tuple[tuple[str, frozenset[str]], ...]:
    return tuple(
        (node.name, _defined(node))
        for folder in ("autotune", "launchers", "plugins", "tests")
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and not any("Protocol" in ast.unparse(base) for base in node.bases)
    )


def _defined(node: ast.ClassDef) -> frozenset[str]:
    """Methods of a class, each by its name, and by its name with its arguments."""
    methods = [item for item in node.body if isinstance(item, ast.FunctionDef)]
    called = {f"{m.name}({', '.join(a.arg for a in m.args.args if a.arg != 'self')})" for m in methods}
    return frozenset(called) | {method.name for method in methods}
