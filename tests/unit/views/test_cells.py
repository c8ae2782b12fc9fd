"""A cell that a spreadsheet would take for a formula is text, and is read back as it was."""

import csv
from io import StringIO

import pytest

from autotune.text_table import read_rows
from autotune.views.documents import cell, csv_text
from autotune.views.frames import Table

FORMULAS = ("=HYPERLINK(1)", "+cmd|' /C calc'!A0", "-2+3+cmd", "@SUM(A1)", "\t=1", "\r=1")
NUMBERS = ("-1", "+2", "-1.5e-6", "-inf")


@pytest.mark.parametrize("text", FORMULAS)
def test_a_formula_is_quoted(text):
    assert cell(text) == f"'{text}"


@pytest.mark.parametrize("value", [*NUMBERS, -1, -2.5, None, "", "^ofi", "a=b", "ring"])
def test_everything_else_stays(value):
    assert cell(value) is value


def test_every_table_that_is_written_is_safe_and_is_read_as_it_was(tmp_path):
    rows = [{"=name": text, "n": -1} for text in (*FORMULAS[:4], *NUMBERS)]
    table = Table({"=name": "string", "n": "Int64"}, [[*row.values()] for row in rows])
    for name, text in (
        ("rows", csv_text(rows, list(rows[0]))),
        ("table", table.written("csv").decode()),
    ):
        written = list(csv.reader(StringIO(text)))
        assert not [c for row in written for c in row if c.startswith(("=", "@", "+cmd", "-2+3"))]
        assert {row[1] for row in written[1:]} == {"-1"}
        (path := tmp_path / f"{name}.csv").write_text(text)
        read = read_rows(path, "rows")[1]
        assert [row["'=name"] for row in read] == [row["=name"] for row in rows]
