"""Nothing that is started, printed or written has Python import from the folder where it happens to run."""

import ast
import re
import sys
from pathlib import Path

import pytest

from tests.program import ran

ROOT = Path(__file__).parents[2]
SOURCES = [*(ROOT / "autotune").rglob("*.py"), *(ROOT / "launchers").rglob("*.py")]
SAFE = {"-P", "-I"}


def commands():
    """Lists of words with this interpreter in them, and the words after it."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.List | ast.Tuple):
                words = [ast.unparse(word) for word in node.elts]
                if "sys.executable" in words:
                    behind = [w.strip("'") for w in words[words.index("sys.executable") + 1 :]]
                    if {"-m", "-c"} & set(behind):
                        yield f"{path.relative_to(ROOT)}:{node.lineno}", behind


COMMANDS = dict(commands())


@pytest.mark.parametrize("place", COMMANDS)
def test_python_is_started_without_the_current_folder_on_its_path(place):
    assert COMMANDS[place][0] in SAFE


def test_messages_name_the_installed_program():
    """``python -m autotune`` in a folder that was unpacked imports the ``typer.py`` there."""
    said = {}
    for path in SOURCES:
        tree = ast.parse(path.read_text())
        documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        docs = {ast.get_docstring(n, clean=False) for n in ast.walk(tree) if isinstance(n, documented)}
        texts = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
        if bad := [t for t in texts if t not in docs and re.search(r"python3? -m autotune(?![\w.])", t)]:
            said[str(path.relative_to(ROOT))] = bad
    assert said == {}


def test_the_line_for_cron_imports_nothing_from_a_foreign_folder(tmp_path):
    for name in ("typer.py", "rich.py", "numpy.py", "json.py"):
        (tmp_path / name).write_text("open('owned', 'w')\n")
    words = [sys.executable, "-P", "-m", "autotune", "export", "--list"]
    done = ran(words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "owned").exists()
