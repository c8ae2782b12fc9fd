"""Every example of the book runs: files with a title are written, commands run, in the order of the page."""

import dataclasses
import importlib.util
import os
import re
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from autotune.scenario import Scenario
from tests.program import ran

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
TRIED = ("index.md", "tutorial.md", "clusters.md", "applications.md")
PAGES = sorted([*(DOCS / "howto").glob("*.md"), *(DOCS / name for name in TRIED)])
_BLOCK = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```", re.MULTILINE | re.DOTALL)


def ground(folder: Path) -> dict[str, str]:
    """A checkout that an example may change, and an environment in which its programs are this project's."""
    for name in ("autotune", "launchers", "plugins", "conf", "search_spaces"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / ".venv" / "bin").mkdir(parents=True)
    (folder / ".venv" / "bin" / "activate").touch()  # that this environment is in PATH is its work
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM", "COV_"))}
    path = f"{Path(sys.executable).parent}:{kept['PATH']}"
    return kept | {
        "PATH": path,
        "PYTHONPATH": f"{folder}:{folder / 'launchers'}:{folder / 'plugins'}",
        "SLURM_CONF": "/no/such/slurm.conf",
        "OMPI_ALLOW_RUN_AS_ROOT": "1",  # campaigns say it themselves, a reader's own mpirun does not
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
@pytest.mark.slow
@pytest.mark.timeout(1800)  # campaigns for real, on cores that others may use too
def test_the_examples_of_a_page_run(page, tmp_path):
    environment, run = ground(tmp_path), 0
    for language, title, text in _BLOCK.findall(page.read_text(encoding="utf-8")):
        if title:
            (tmp_path / title).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / title).write_text(text)
        elif language in ("sh", "python"):
            command = ["bash", "-euo", "pipefail"] if language == "sh" else [sys.executable, "-"]
            done = ran(command, input=text, cwd=tmp_path, env=environment, timeout=900)
            assert done.returncode == 0, f"{text}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
            run += 1
    assert run


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_blocks_have_a_language(page):
    fences = re.findall(r"^```(.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert all(re.match(r"(sh|python|toml|yaml|csv|text)\b", fence) for fence in fences[::2])


def test_the_site_lists_every_key_of_a_scenario():
    spec = importlib.util.spec_from_file_location("_book", DOCS / "_book.py")
    book = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(book)
    table = book.key_table()
    keys = set(re.findall(r"^\| \*{0,2}`([\w.]+)`", table, re.MULTILINE))
    assert {"collective", "sizes", "budget.launches", "mpi.from", "verify.max_loss", "warm_start"} <= keys
    assert {f.name for f in dataclasses.fields(Scenario)} - {"name"} <= keys
    assert "| `verify.max_loss` | number | " in table
    assert not re.search(r"`verify.max_loss` \| number \| \|", table)  # with what config.yaml says of it
    page = SimpleNamespace(file=SimpleNamespace(src_uri="howto/parameter.md"))
    shown = book.on_page_markdown("[a](../search_spaces.md) [b](../../conf/config.yaml) [c](x.md#y)", page)
    assert shown == "[a](../search_spaces.md) b [c](x.md#y)"


def test_every_page_is_in_the_books_contents():
    named = set(
        re.findall(r"^ +- .*?: ([\w/]+\.md)$|^  - .*?: (\w+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.M)
    )
    listed = {one or other for one, other in named}
    pages = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}
    assert pages == listed
