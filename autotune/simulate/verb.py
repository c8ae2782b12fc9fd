"""``calibrate``: measure a machine or read benchmark logs, and write a machine file for simulations.

The probe measures ping-pongs between two ranks on this machine, sent eagerly and by rendezvous. Copies and
reductions on one core are measured in this process. The fit leaves out every third size, and the measurements
with UCX's own choice of protocol; the report says how well the fit predicts them.
"""

import sys
import tempfile
import timeit
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np

from autotune.campaign.bench import Bench
from autotune.campaign.observing import measurement_of
from autotune.errors import CampaignError, ScenarioError, TableError, allowed, check_installed
from autotune.exporters.writing import write_files
from autotune.history.trial import Observation, Phase, Trial
from autotune.resources import MOST_YAML, folder, user_text
from autotune.scenario import Scenario
from autotune.simulate.calibrate import EAGER, Series, check, fit, machine_text
from autotune.simulate.machine import Machine, machine_from
from autotune.simulate.settings import JobSettings
from autotune.space.loader import read_yaml
from autotune.tables.importers import read
from autotune.views.text import size_text

_RENDEZVOUS = "1k"  # Value of ``UCX_RNDV_THRESH`` with which messages from 1 KiB on are sent by rendezvous.
_REPEATS = 7  # Number of timings of an operation on one core, of which the median is taken.


def from_here(scenario: Scenario, bench: Bench, base: str, out: Path | None) -> int:
    """Measure this machine as a composed scenario says, and write its machine file.

    Args:
        scenario: Scenario with the message sizes and the probe's options for the measurements.
        bench: Means of making launches on this machine.
        base: Name or path of the machine file at whose values the fit starts.
        out: File to be written; None stands for ``machine.yaml``.

    Raises:
        CampaignError: a launch failed.
        ScenarioError: there is no machine file ``base``, or it is not YAML.
        UserError: what the fit needs is not installed.
    """
    check_installed("calibrate", "scipy")
    machine = _base(base)
    with tempfile.TemporaryDirectory(prefix="autotune-calibrate-") as name:
        measurement = measurement_of(scenario, bench.placement.ranks)
        observer = bench.observer(measurement, bench.space, Path(name))

        def launch(number: int, **values: str) -> Observation:
            point = bench.space.complete(values)
            observation = observer.observe(Trial(number, Phase.SEARCH, point, seed=scenario.seed))
            if not observation.ok:
                raise CampaignError(f"the ping-pong was {observation.status}: {observation.reason}")
            return observation

        eager = _pingpong(launch(1, UCX_RNDV_THRESH="inf"), EAGER)
        threshold = JobSettings(rndv_intra_bytes=1024.0, rndv_inter_bytes=1024.0)
        rendezvous = _pingpong(launch(2, UCX_RNDV_THRESH=_RENDEZVOUS), threshold)
        own_protocol = _pingpong(launch(3), JobSettings())
    cores = [_timed("copy", scenario.sizes), _timed("reduce", scenario.sizes)]
    source = f"{bench.description} on {', '.join(bench.placement.hosts) or 'this machine'}"
    return _written(machine, base, [eager, rendezvous, *cores], source, out, extra=[own_protocol])


def from_files(paths: Sequence[Path], base: str, out: Path | None) -> int:
    """Fit a machine to ping-pongs between two nodes, from logs of OSU's or Intel's MPI benchmarks.

    ``base`` and ``out`` are as in ``from_here``.

    Raises:
        TableError: a log cannot be read, or no log contains a ping-pong.
        ScenarioError: there is no machine file ``base``, or it is not YAML.
    """
    series = []
    for path in paths:
        times_us = [
            (float(row.message_bytes), row.latency_us)
            for row in read(user_text(path, lenient=True), str(path))
            if row.collective == "pingpong" and row.latency_us
        ]
        if times_us:
            sizes, seconds = zip(*((size, us * 1e-6) for size, us in times_us), strict=True)
            series.append(Series("pingpong", sizes, seconds, between_nodes=True, settings=JobSettings()))
    if not series:
        raise TableError(
            f"no ping-pong in {', '.join(map(str, paths))}",
            "needed: osu_latency or IMB PingPong between nodes",
        )
    return _written(_base(base), base, series, ", ".join(p.name for p in paths), out)


def _base(name: str) -> Machine:
    shipped = {path.stem: path for path in sorted((folder("conf") / "machine").glob("*.yaml"))}
    path = shipped.get(name, Path(name))
    if not path.is_file():
        raise ScenarioError(f"--base {name}: no such machine", allowed(name, shipped))
    text = user_text(path, raised=ScenarioError, max_bytes=MOST_YAML)
    try:
        values = read_yaml(text)
    except ValueError as exc:
        raise ScenarioError(f"{path} is no YAML: {exc}") from exc
    return machine_from(values)


def _pingpong(observation: Observation, settings: JobSettings) -> Series:
    pairs = sorted((e.cell.message_bytes, e.median_s) for e in observation.usable)
    sizes, seconds = zip(*pairs, strict=True)
    return Series("pingpong", tuple(map(float, sizes)), seconds, settings=settings)


def _timed(operation: Literal["copy", "reduce"], sizes: Sequence[int]) -> Series:
    """Time copies or sums of doubles on one core; each time is the median of several timings."""
    # For smaller sizes the call itself takes most of the time.
    timed_sizes = [size for size in sizes if size >= 1024]
    seconds = []
    for size in timed_sizes:
        source, target = np.ones(size // 8), np.ones(size // 8)
        loops = max(3, int(2**24 // size))
        copies = operation == "copy"
        work = partial(np.copyto, target, source) if copies else partial(np.add, source, target, target)
        samples = timeit.repeat(work, number=loops, repeat=_REPEATS)
        seconds.append(float(np.median(samples)) / loops)
    return Series(operation, tuple(map(float, timed_sizes)), tuple(seconds))


def _written(
    machine: Machine,
    base: str,
    series: Sequence[Series],
    source: str,
    out: Path | None,
    extra: Sequence[Series] = (),
) -> int:
    training = [_part(s, held_out=False) for s in series]
    held_out = [_part(s, held_out=True) for s in series if len(s.sizes_bytes) > 1]
    trial = fit(machine, training, source)
    lines = [f"fitted to {source}, starting from {base}", "held out             median error   worst"]
    for checked in check(trial.machine, [*held_out, *extra]):
        label = (
            "UCX's own protocol" if checked.series in extra else f"{checked.series.operation}, other sizes"
        )
        worst = max(range(len(checked.errors)), key=lambda i: abs(checked.errors[i]))
        size = size_text(int(checked.series.sizes_bytes[worst]))
        lines.append(f"{label:20} {checked.median:8.1%}       {checked.errors[worst]:+.1%} at {size}")
    final = fit(machine, series, source)
    target = out or Path("machine.yaml")
    write_files({target: machine_text(final, target.stem, base)})
    lines += [
        f"measured: {', '.join(final.fitted)}",
        f"wrote {target}; everything else in it is as in {base}",
        f"use it: --config-dir DIR machine={target.stem}   (as DIR/machine/{target.name})",
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def _part(series: Series, *, held_out: bool) -> Series:
    pairs = zip(series.sizes_bytes, series.seconds, strict=True)
    sizes, seconds = zip(*(pair for i, pair in enumerate(pairs) if (i % 3 == 1) == held_out), strict=True)
    return replace(series, sizes_bytes=sizes, seconds=seconds)
