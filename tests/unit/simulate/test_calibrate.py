import csv
from dataclasses import replace
from math import inf
from pathlib import Path

import numpy as np
import pytest
import yaml

from autotune.errors import TableError
from autotune.simulate.calibrate import EAGER, Series, check, expected, fit, machine_text
from autotune.simulate.machine import Machine, machine_from
from autotune.simulate.settings import JobSettings

SIZES = tuple(float(1 << i) for i in range(3, 22))
RENDEZVOUS = JobSettings(rndv_intra_bytes=0, rndv_inter_bytes=0)
MEASURED = Path(__file__).parents[2] / "data" / "calibration" / "pingpong_posix_cma.csv"


def series_on(machine: Machine, operation: str, **how: object) -> Series:
    """What the model itself would measure."""
    blank = Series(operation, SIZES, (1.0,) * len(SIZES), **how)
    return replace(blank, seconds=tuple(expected(machine, blank)))


@pytest.fixture
def truth(machine: Machine) -> Machine:
    memory = replace(
        machine.memory,
        latency_s=4e-7,
        cache_copy_bytes_per_s=9e9,
        copy_bytes_per_s=6e9,
        reduce_bytes_per_s=5e9,
        single_copy_bytes_per_s=7e9,
        rendezvous_s=2e-6,
    )
    rc = replace(machine.transports["rc"], latency_s=3e-6, flow_bytes_per_s=5e9, rendezvous_s=8e-6)
    return replace(machine, memory=memory, transports={**machine.transports, "rc": rc})


def all_series(truth: Machine) -> list[Series]:
    pingpongs = [
        series_on(truth, "pingpong", between_nodes=between, settings=settings)
        for between in (False, True)
        for settings in (EAGER, RENDEZVOUS)
    ]
    return [*pingpongs, series_on(truth, "copy"), series_on(truth, "reduce")]


def test_a_known_machine_is_found_again(machine: Machine, truth: Machine) -> None:
    found = fit(machine, all_series(truth), "itself")
    for verdict in check(found.machine, all_series(truth)):
        assert np.abs(verdict.errors).max() < 0.03, verdict.series.operation
    memory = found.machine.memory
    assert memory.cache_copy_bytes_per_s == pytest.approx(9e9, rel=0.05)
    assert memory.reduce_bytes_per_s == pytest.approx(5e9, rel=0.05)
    assert found.machine.transports["rc"].flow_bytes_per_s == pytest.approx(5e9, rel=0.05)


def test_what_was_not_measured_stays(machine: Machine, truth: Machine) -> None:
    found = fit(machine, [series_on(truth, "reduce")], "itself")
    assert found.fitted == ("memory.reduce_bytes_per_s",)
    assert found.machine.transports == machine.transports
    assert replace(found.machine.memory, reduce_bytes_per_s=12e9) == machine.memory


def test_a_latency_is_determined_but_not_the_split_of_it(machine: Machine, truth: Machine) -> None:
    small = replace(series_on(truth, "pingpong"), sizes_bytes=(8.0,), seconds=(1.8e-6,))
    found = fit(machine, [small], "one number").machine.memory
    assert found.latency_s + 2 * found.overhead_s == pytest.approx(1.8e-6, rel=0.05)
    assert found.latency_s > machine.memory.latency_s
    assert found.overhead_s > machine.memory.overhead_s


def test_the_text_is_a_machine_file(machine: Machine, truth: Machine) -> None:
    found = fit(machine, all_series(truth), "osu_latency.txt")
    text = machine_text(found, "mine", "bm_optimized3_36")
    again = machine_from(yaml.safe_load(text))
    assert (again.name, again.calibrated_from) == ("mine", "osu_latency.txt")
    assert again.memory.reduce_bytes_per_s == pytest.approx(found.machine.memory.reduce_bytes_per_s, rel=1e-4)
    assert again.transports["tcp"].latency_s == pytest.approx(machine.transports["tcp"].latency_s, rel=1e-4)
    lines = {line.split(":")[0].strip(): line for line in text.splitlines() if "#" in line}
    assert lines["reduce_bytes_per_s"].endswith("# measured")
    assert lines["socket_bytes_per_s"].endswith("# as in bm_optimized3_36")


def test_two_real_ranks_predict_the_sizes_that_were_held_out(machine: Machine) -> None:
    with MEASURED.open(newline="") as file:
        rows = [(r["protocol"], float(r["message_bytes"]), float(r["seconds"])) for r in csv.DictReader(file)]
    settings = {
        "eager": EAGER,
        "rendezvous": RENDEZVOUS,
        "auto": JobSettings(rndv_intra_bytes=262144, rndv_inter_bytes=inf),
    }

    def series(protocol: str, parity: int) -> Series:
        kept = [(size, s) for p, size, s in rows if p == protocol and size >= 4][parity::2]
        sizes, seconds = zip(*kept, strict=True)
        return Series("pingpong", sizes, seconds, settings=settings[protocol])

    found = fit(machine, [series("eager", 0), series("rendezvous", 0)], MEASURED.name)
    before = check(machine, [series("eager", 1), series("rendezvous", 1), series("auto", 1)])
    after = check(found.machine, [series("eager", 1), series("rendezvous", 1), series("auto", 1)])
    eager, rendezvous, auto = (c.median for c in after)
    assert eager < 0.05
    assert rendezvous < 0.15
    assert auto < 0.05
    assert np.mean([c.median for c in after]) < 0.5 * np.mean([c.median for c in before])


def test_nothing_measured_is_nothing_to_fit(machine: Machine) -> None:
    with pytest.raises(TableError, match="copy: 0 sizes and 0 times"):
        Series("copy", (), ())
    with pytest.raises(TableError, match="nothing was measured"):
        fit(machine, [], "")
