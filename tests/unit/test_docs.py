"""What the documents say is what the program does."""

import re
from pathlib import Path

import pytest
import yaml

import autotune
from autotune.cli import cli
from autotune.collectives import MEASURED, PATTERNS
from autotune.errors import ExitCode
from autotune.history.trial import History, Phase, Status, Subject
from autotune.proposers import PROPOSERS
from autotune.resources import folder
from autotune.space.loader import APPLY_KEYS, PARAMETER_KEYS, load_space
from autotune.views.frames import history_frame
from tests.golden.test_exports import OURS
from tests.unit.test_architecture import COMPANIONS, CORE, OWNERS, ROOMS

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


def blocks(name, language):
    """The fenced blocks of one language in a document."""
    return re.findall(
        rf"^```{language}\n(.*?)^```", (DOCS / name).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )


@pytest.mark.parametrize("text", blocks("search_spaces.md", "yaml"), ids=lambda text: text.split()[0])
def test_example_spaces_load(text):
    space = load_space(text, "an example")
    assert {p.name for p in space.parameters} == set(yaml.safe_load(text)["parameters"])
    for point in space.points():
        assert point in space


@pytest.mark.parametrize("text", blocks("reference.md", "python"), ids=lambda text: text.split()[3])
def test_python_in_the_reference_runs(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(text, {})  # noqa: S102 - our own document
    assert (tmp_path / "campaigns/allreduce_8node/report.html").exists()


def test_every_key_of_a_search_space_is_documented():
    text = (DOCS / "search_spaces.md").read_text(encoding="utf-8")
    rows = set(re.findall(r"^\| `([a-z_]+)", text, re.MULTILINE))
    assert set(PARAMETER_KEYS) <= rows
    assert set(APPLY_KEYS) <= rows


def named(document):
    """Every word in backquotes, and the first word of a longer quotation."""
    text = (DOCS / document).read_text(encoding="utf-8")
    quoted = re.findall(r"`([^`\n]+)`", text)
    return {word for quotation in quoted for word in (quotation, quotation.split()[0])}


def verbs():
    return {c.name or c.callback.__name__ for c in cli.registered_commands}


def launchers():
    plugins = (ROOT / "launchers" / "hydra_plugins" / "autotune").glob("[a-z]*.py")
    return {path.stem for path in plugins}


def scenario_keys():
    config = yaml.safe_load((folder("conf") / "config.yaml").read_text())
    return {key for key in config if key not in ("defaults", "hydra")} | {"budget", "probe", "proposer"}


@pytest.mark.parametrize(
    "wanted",
    [verbs, launchers, scenario_keys, lambda: set(MEASURED) - set(PATTERNS), lambda: PROPOSERS, lambda: OURS,
     lambda: Status, lambda: Phase, lambda: Subject],
    ids=["verbs", "launchers", "keys", "collectives", "proposers", "formats", "status", "phase", "subject"],
)  # fmt: skip
def test_the_reference_is_complete(wanted):
    assert set(map(str, wanted())) <= named("reference.md")


def test_every_pattern_is_in_the_table():
    assert set(PATTERNS) <= named("patterns.md")


def test_every_verb_that_is_named_exists():
    pages = [*DOCS.rglob("*.md"), *ROOT.glob("*.md"), *(ROOT / "notebooks").glob("*.ipynb")]
    named = {
        (path.name, verb)
        for path in pages
        for verb in re.findall(r"(?:python -m |`)autotune ([a-z]+)(?=[ `\n\"]|$)", path.read_text("utf-8"))
    }
    known = verbs() | {"guard", "help"}
    assert len(named) > 20
    assert {(name, verb) for name, verb in named if verb not in known} == set()


def test_the_reference_has_every_exit_code():
    rows = re.findall(r"^\| (\d+) \| (.*) \|$", (DOCS / "reference.md").read_text("utf-8"), re.MULTILINE)
    assert [(int(code), meaning) for code, meaning in rows] == [(code, code.meaning) for code in ExitCode]


def test_the_reference_has_every_column_of_a_history():
    assert set(history_frame(History()).columns) <= named("reference.md")


def first_column(document, heading):
    """What the first table under a heading names, row by row."""
    text = (DOCS / document).read_text(encoding="utf-8").split(f"\n## {heading}\n")[1]
    table = re.search(r"(?:^\|.*\n)+", text, re.MULTILINE)
    return re.findall(r"^\| `(\w+)` \|", table[0], re.MULTILINE)


def test_the_architecture_draws_the_rooms_in_their_order():
    assert first_column("architecture.md", "The core, from the bottom up") == [
        room for room in CORE if not room.startswith("__")
    ]
    assert first_column("architecture.md", "Companions") == sorted(COMPANIONS)


def test_the_picture_of_the_rooms_has_all_of_them():
    drawn = re.findall(r"<text[^>]*>([\w ]+)</text>", (DOCS / "images" / "rooms.svg").read_text())
    assert {*CORE, *COMPANIONS} - {"__init__"} <= set(drawn)


def test_the_architecture_names_every_foreign_library_and_every_contract():
    assert OWNERS.keys() <= named("architecture.md")
    suites = {f"tests/contract/{path.name}" for path in (ROOT / "tests" / "contract").glob("test_*.py")}
    assert suites - {"tests/contract/test_hydra_launchers.py"} <= named("architecture.md")


def test_the_package_names_a_room_for_each_step():
    assert set(re.findall(r"``(\w+)``", autotune.__doc__)) & set(ROOMS) >= {
        *("commands", "scenario", "space", "stacks", "screening", "campaign", "probe", "measure", "history"),
        *("proposers", "recommend", "verification", "exporters", "views"),
    }


def test_paths_in_the_project_that_are_named_exist():
    """In documents and docstrings; NAME and the like stand for many."""
    folders = "autotune|launchers|plugins|conf|search_spaces|tests|docs|benchmarks|notebooks"
    named = re.compile(rf"`((?:{folders})/[\w./*-]*)`")
    for path in (*ROOT.glob("*.md"), *DOCS.glob("*.md"), *ROOT.glob("autotune/**/*.py")):
        for target in named.findall(path.read_text(encoding="utf-8")):
            if not re.search(r"[A-Z]{3}", target.replace("README", "")):
                assert list(ROOT.glob(target.rstrip("/"))), f"{path.name}: {target}"


def test_links_between_documents_lead_somewhere():
    for path in [*DOCS.rglob("*.md"), *ROOT.glob("*.md")]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", path.read_text(encoding="utf-8")):
            assert (path.parent / target).exists(), f"{path.name}: {target}"


def test_every_kind_of_fault_has_a_promise_of_a_line_and_tests_that_exist():
    text = (DOCS / "reliability.md").read_text("utf-8").split("\n## Measured\n")[0]
    rows = re.findall(r"^\| (?!kind |-)(.+) \| (.+) \| (.+) \|$", text, re.MULTILINE)
    assert len(rows) >= 50
    for kind, promise, tests in rows:
        assert len(promise.split()) <= 18, kind
        named = re.findall(r"`([^`]+)`", tests)
        assert named and all((ROOT / test).is_file() for test in named), kind
