"""The Makefile has what it announces, and says of each what it is."""

import re
import shutil
import tomllib
from itertools import product

import pytest

from tests.program import ran
from tests.unit.test_docs import ROOT

TEXT = (ROOT / "Makefile").read_text()
PHONY = re.search(r"(?m)^\.PHONY: (.+)$", TEXT)[1].split()


def test_every_name_is_a_target_with_a_line_that_says_what_it_does():
    explained = re.findall(r"(?m)^([a-z][a-z-]*):[^#\n]*## \S", TEXT)
    assert sorted(PHONY) == sorted(explained)


@pytest.mark.skipif(shutil.which("make") is None, reason="no make here")
def test_help_lists_them():
    words = ["make", "--no-print-directory", "help"]
    done = ran(words, cwd=ROOT, check=True)
    assert sorted(line.partition(":")[0] for line in done.stdout.splitlines()) == sorted(PHONY)


def test_no_document_names_another_target():
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]
    named = {name for page in pages for name in re.findall(r"`make ([a-z-]+)`", page.read_text())}
    assert named <= {*PHONY}


def expressions():
    """The marker expressions of all targets, with the Makefile's variables put in."""
    given = dict(re.findall(r"(?m)^(\w+) *= (.*)$", TEXT))
    for quoted, word in re.findall(r'(?m)^\t.* -m (?:"(.*)"|(\w+))$', TEXT):
        expression = quoted or word
        while "$(" in expression:
            expression = re.sub(r"\$\((\w+)\)", lambda name: given[name[1]], expression)
        yield expression


def test_each_test_belongs_to_exactly_one_target_whatever_its_markers():
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    names = [line.partition(":")[0] for line in tools["pytest"]["ini_options"]["markers"]]
    wanted = [compile(one, "Makefile", "eval") for one in expressions()]
    for values in product([False, True], repeat=len(names)):
        marked = dict(zip(names, values, strict=True))
        assert sum(eval(one, {}, marked) for one in wanted) == 1, marked  # noqa: S307 (the Makefile's own words)


def test_ci_runs_the_tests_of_the_readme_before_it_installs_anything_of_debians():
    script = (ROOT / ".ci" / "run").read_text()
    first = script.index("\nstep make test\n")
    packages = script.index("step debian_packages")
    assert first < packages < script.index("\nstep make debian-test\n")
    before = script[:first].partition("debian_packages() {")
    beside = re.findall(r"apt-get install (.*)", before[0] + before[2].partition("\n}\n")[2])
    assert [[word for word in one.split() if word.isalnum()] for one in beside] == [["make"]]
