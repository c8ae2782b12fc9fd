"""The comparison with the cloud study counts what it says it counts."""

import csv
from pathlib import Path

import pytest
import yaml

from autotune.simulate.machine import Machine, machine_from
from benchmarks.study_comparison import MACHINE, Case, document

STUDY = Path(__file__).parents[2] / "benchmarks" / "study_ucx_nodes.csv"


@pytest.fixture(scope="module")
def machine() -> Machine:
    return machine_from(yaml.safe_load(MACHINE.read_text()))


@pytest.fixture(scope="module")
def rows() -> list[dict[str, str]]:
    with STUDY.open(newline="") as file:
        return list(csv.DictReader(file))


def test_every_row_of_the_study_can_be_asked(machine, rows):
    assert len(rows) == 144
    for row in rows:
        case = Case(machine, row)
        assert all(case.reported[name] in values for name, values in case.factors.items())


def test_the_optimum_is_no_worse_than_the_study_nor_than_untouched(machine, rows):
    case = Case(machine, next(r for r in rows if (r["nodes"], r["collective"]) == ("2", "allreduce")))
    best = case.optimum()
    assert case.regret(best) >= -1e-9
    assert case.gain(best) >= 1.0
    assert all(case.loss(best, name) >= -1e-9 for name in case.factors)


def test_the_document_counts_rows(machine, rows):
    text = document([Case(machine, row) for row in rows[:2] + [r for r in rows if r["nodes"] == "2"][:1]])
    assert "| UCX_TLS | 1 |" in text
    assert "| NPS | 3 |" in text
    assert text.count("| alltoall |") == 3
