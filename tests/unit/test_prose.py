"""The rules of style, the linter that keeps them, and what a reader may expect of the book."""

import re
import tomllib

import pytest

import autotune
from autotune.lint.codes import GROUPS
from tests.prose import WORDS, findings, prose_of_markdown, prose_of_python, prose_of_template
from tests.unit.test_docs import DOCS, ROOT

PAIRS = list(WORDS["examples"].items())


def words_found(text):
    return [line for line in findings(text) if "[autotune." in line]


def test_there_are_twenty_examples():
    assert len(PAIRS) >= 20


@pytest.mark.parametrize(("before", "after"), PAIRS, ids=[before[:30] for before, _ in PAIRS])
def test_the_linter_refuses_what_was_written_and_takes_what_replaces_it(before, after):
    assert words_found(before.strip("`"))
    assert words_found(after.strip("`")) == []


def test_the_glossary_has_at_most_45_terms():
    terms = re.findall(r"^\| (?!term)(\S.*?) \|", (DOCS / "glossary.md").read_text("utf-8"), re.MULTILINE)
    assert 30 <= len(terms) <= 45
    assert terms == sorted(terms, key=lambda term: re.sub(r"\W", "", term).lower())


def test_a_finding_names_its_line_and_what_to_write():
    (found,) = findings("fine\nall was told\n", "page.md")
    assert found.startswith("page.md:2: 'told': write 'reported, shown'.")


def test_code_is_no_prose():
    assert findings(prose_of_markdown("`told`\n\n    told\n\n```text\ntold\n```\n[page](told.md)\n")) == []
    assert findings(prose_of_python('told = {"told": untold}\nx = f"of {told} here"\n')) == []


def test_a_page_is_read_on_behind_its_code():
    text = "    told\n\nAll was told.\n\n```text\ntold\n```\n\nIt is `told`, and was told.\n"
    found = words_found(prose_of_markdown(text))
    assert [line.split(":")[1] for line in found] == ["3", "9"]


@pytest.mark.parametrize(
    "text", ['"""All was told."""\n', "x = 1  # told\n", 'raise E("it was told")\n', 'f"{x} was told"\n']
)
def test_docstrings_comments_and_messages_are(text):
    assert len(words_found(prose_of_python(text))) == 1


def test_a_template_is_its_text():
    assert findings(prose_of_template('<p id="told">{{ told }} fine <code>told</code></p>')) == []
    assert len(words_found(prose_of_template("<p>All was told.</p>"))) == 1


@pytest.mark.parametrize("begin", WORDS["docstrings"]["begin"])
def test_a_docstring_begins_with_its_subject(begin):
    assert words_found(prose_of_python(f'def f():\n    """{begin} a thing."""\n'))


def test_the_readme_is_a_page():
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 60


@pytest.mark.parametrize("name", ["spack/packages/py-mpi-autotune/package.py", "mpi-autotune.eb"])
def test_a_recipe_is_python_and_names_every_dependency(name):
    text = (DOCS / "recipes" / name).read_text("utf-8")
    compile(text, name, "exec")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    asked = [*project["dependencies"], *project["optional-dependencies"]["tune"]]
    names = [re.match(r"[\w-]+", one)[0].lower() for one in asked]
    assert [one for one in names if one not in text.lower()] == []
    said = re.findall(r"(?m)^version = '(.+)'", text)
    assert set(said) <= {autotune.__version__}


def test_the_book_has_at_most_23950_words_beside_its_sources_and_the_codes_of_lint():
    """README and all pages below ``docs/`` but the list of papers, with tables and examples.

    The sections of codes in ``lint.md`` are looked up one at a time, from a finding. A word has a letter or a
    digit.
    """
    paths = (ROOT / "README.md", *(path for path in DOCS.rglob("*.md") if path.name != "sources.md"))
    texts = (path.read_text("utf-8").partition(f"\n## {GROUPS['1']}\n")[0] for path in paths)
    words = (word for text in texts for word in text.split())
    assert sum(bool(re.search(r"\w", word)) for word in words) <= 23_950


def test_no_table_of_the_book_escapes_a_bar():
    assert [path.name for path in DOCS.rglob("*.md") if r"\|" in path.read_text("utf-8")] == []
