"""The Makefile has what it announces, and says of each what it is."""

import re
import shutil
import subprocess

import pytest

from tests.unit.test_docs import ROOT

TEXT = (ROOT / "Makefile").read_text()
PHONY = re.search(r"(?m)^\.PHONY: (.+)$", TEXT)[1].split()


def test_every_name_is_a_target_with_a_line_that_says_what_it_does():
    explained = re.findall(r"(?m)^([a-z][a-z-]*):[^#\n]*## \S", TEXT)
    assert sorted(PHONY) == sorted(explained)


@pytest.mark.skipif(shutil.which("make") is None, reason="no make here")
def test_help_lists_them():
    words = ["make", "--no-print-directory", "help"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=200, check=True)
    assert sorted(line.partition(":")[0] for line in done.stdout.splitlines()) == sorted(PHONY)


def test_no_document_names_another_target():
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]
    named = {name for page in pages for name in re.findall(r"`make ([a-z-]+)`", page.read_text())}
    assert named <= {*PHONY}
