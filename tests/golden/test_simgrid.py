"""The model against what SimGrid's SMPI said once (the table), and says now (where it is installed)."""

import csv
import shutil
from collections import defaultdict
from pathlib import Path

import pytest

from benchmarks.simgrid_golden import PPNS, REPLAYS, predicted, replay

TABLE = Path(__file__).with_name("simgrid_smpi.csv")


def rows() -> list[tuple[str, str, int, int, float]]:
    with TABLE.open(newline="") as file:
        return [
            (r["collective"], r["algorithm"], int(r["ppn"]), int(r["message_bytes"]), float(r["smpi_s"]))
            for r in csv.DictReader(file)
        ]


def test_the_table_is_complete():
    assert {(r[0], r[1]) for r in rows()} == set(REPLAYS)
    assert {8 * r[2] for r in rows()} == {8, 64, 288}
    assert len(rows()) == len(REPLAYS) * len(PPNS) * 6


@pytest.mark.parametrize(("collective", "algorithm"), REPLAYS, ids="-".join)
def test_the_model_is_within_20_percent_of_smpi(collective, algorithm):
    errors = {
        (ppn, size): predicted(collective, algorithm, ppn, size) / smpi_s - 1
        for c, a, ppn, size, smpi_s in rows()
        if (c, a) == (collective, algorithm)
    }
    assert {at: round(e, 3) for at, e in errors.items() if abs(e) > 0.20} == {}


def test_the_model_has_no_bias_against_smpi():
    by_algorithm = defaultdict(list)
    for collective, algorithm, ppn, size, smpi_s in rows():
        by_algorithm[collective, algorithm].append(predicted(collective, algorithm, ppn, size) / smpi_s - 1)
    means = {name: sum(errors) / len(errors) for name, errors in by_algorithm.items()}
    assert max(map(abs, means.values())) < 0.06


@pytest.mark.simgrid
@pytest.mark.skipif(not shutil.which("smpirun"), reason="needs SimGrid's smpirun (Debian: libsimgrid-dev)")
@pytest.mark.parametrize(
    "row", [r for r in rows() if r[2] == 8 and r[3] in (2304, 9216)], ids=lambda r: f"{r[0]}-{r[1]}-{r[3]}"
)
def test_smpi_says_the_same_today(row):
    collective, algorithm, ppn, size, smpi_s = row
    assert replay(collective, REPLAYS[collective, algorithm], ppn, size) == pytest.approx(smpi_s, rel=1e-3)
