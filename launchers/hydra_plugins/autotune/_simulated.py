"""Observe trials on a model of a cluster in place of the cluster.

``autotune.simulate`` computes the time of each call. Samples scatter around this time: all samples of a job
have a random factor in common, each sample has a factor of its own, and some samples are spikes (much
longer). The same trial with the same seed gives the same samples; every new seed is a new job. Nothing
sleeps: ``duration_s`` is the time that the launch would have taken. All results are marked ``SIMULATED``.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from autotune.campaign.bench import Bench, named_space, placement
from autotune.campaign.observing import Measurement, choices_of, observation
from autotune.campaign.spec import BenchKind, Stamp
from autotune.errors import ScenarioError, UserError, allowed
from autotune.history.lookup import choice_at
from autotune.history.trial import Observation, Phase, Rule, Status, Subject, Trial
from autotune.probe.protocol import BESIDE_CALLS, UNTIMED, CellSamples, ProbeResult
from autotune.resources import folder
from autotune.scenario import Scenario
from autotune.simulate.fabric import Fabric, NodeLayout
from autotune.simulate.machine import Machine, machine_from
from autotune.simulate.model import predict
from autotune.simulate.noise import (
    QUIET,
    RELIABLE,
    Faults,
    NoiseModel,
    imperfections_from,
    launch_factor,
    sample,
)
from autotune.simulate.planted import NOTHING_PLANTED, UNSET, Truth, truth_from
from autotune.simulate.settings import settings_from
from autotune.space import Parameter, Point, Space
from autotune.space.given import fixed
from autotune.space.joined import DISCOVER
from autotune.stacks.ports import START_S, LaunchOutcome, Placement

_CRASHED = "rank 0 was ended by signal 11"
_THREADS = "threads"
"""Parameter with the number of threads of a rank. With more threads a node has fewer ranks, so that each core
has one thread."""


@dataclass(frozen=True)
class Simulated:
    """Observe trials on a modelled machine."""

    machine: Machine  # The hardware.
    placement: Placement  # Where the ranks go.
    measurement: Measurement  # The measurements that are requested.
    space: Space  # The search space.
    noise: NoiseModel = QUIET  # How much samples differ.
    faults: Faults = RELIABLE  # How often launches fail.
    seed: int = 0  # Random seed of noise and faults; it is combined with the seed of each trial.
    truth: Truth = NOTHING_PLANTED  # Effects of knobs that the simulation invents, to test discoveries.
    bench: Mapping[str, Any] = field(default_factory=dict)
    """Values from the modelled cluster's configuration files, for parameters that a trial does not change."""
    at_once: bool = False  # Whether launches can run at the same time and take turns.

    def observe(self, trial: Trial) -> Observation:
        """Return the observation of a simulated launch; see ``Observer``."""
        return observation(trial, self.run(trial), self.measurement.estimator)

    def observe_at(self, trial: Trial, moment: int, jobs: int) -> Observation:
        """Return the observation of a launch in a heat (launches that take turns); see ``heats.Modelled``."""
        outcome = self.run(trial, moment, self.measurement.heat_s)
        # The launches of a heat share the time of their start, but not the time of their measurements.
        started_s = START_S * (1 - 1 / jobs) if outcome.duration_s >= START_S else 0.0
        outcome = replace(outcome, duration_s=outcome.duration_s - started_s)
        return observation(trial, outcome, self.measurement.estimator)

    def run(self, trial: Trial, moment: int | None = None, budget_s: float | None = None) -> LaunchOutcome:
        """Return the outcome that the model predicts; ``invalid`` if the machine cannot run the trial.

        Launches at the same ``moment`` (None: the trial's number) have the same disturbances by the machine;
        ``budget_s`` is the time for the timed calls in seconds (None: the time budget of the probe).
        """
        moment = trial.number if moment is None else moment
        if trial.phase is Phase.STARTS:
            budget_s = 0.0  # only one call of each cell is made, to check its result
        budget_s = self.measurement.probe.budget_s if budget_s is None else budget_s
        rng = np.random.default_rng([self.seed, trial.seed])
        place, timeout_s = self.placement, trial.timeout_s or self.measurement.timeout_s
        point = Point() if trial.subject is Subject.UNTOUCHED else trial.point
        try:
            cluster = NodeLayout(place.nodes, _shared(_ppn(place), int(point.get(_THREADS, 1))))
            defaults = {p.name: p.default for p in self.space.parameters}
            changed = {name: value for name, value in point.items() if value != defaults.get(name)}
            fabric = Fabric(self.machine, cluster, settings_from({**point, **self.bench, **changed}))
        except UserError as exc:
            return LaunchOutcome(Status.INVALID, exc.on_one_line)
        fate = self.truth.fate(point.items()) or self.faults.draw(rng)
        hosts = tuple(f"simulated{node:04d}" for node in range(fabric.cluster.nodes))
        late_text = f"no result after {timeout_s:g} s"
        late = LaunchOutcome(Status.TIMEOUT, late_text, duration_s=timeout_s, hosts=hosts)
        if fate == "hang":
            return late
        if fate == "crash":
            return replace(late, status=Status.CRASHED, reason=_CRASHED, duration_s=START_S)
        if fate == "lost_node":
            reason = f"{hosts[rng.integers(len(hosts))]} does not answer"
            return replace(late, status=Status.LOST, reason=reason, duration_s=START_S)
        factor = launch_factor(self.noise, self.seed, moment, rng)
        cells = list(self._cells(trial, point, fabric, rng, factor))
        if fate == "wrong_result" and cells:
            i, found = int(rng.integers(len(cells))), "rank 0 found other data than expected"
            cells[i] = replace(cells[i], samples_s=np.empty(0), status="wrong_result", reason=found)
        result = ProbeResult(
            "ok",
            cells=tuple(cells),
            hosts=tuple(hosts[node] for node in fabric.node),
            library=f"{stamp_of(self.machine)} {self.machine.name}",
            timing="native",
            overhead_s=0.0,
            notes=(str(stamp_of(self.machine)),),
            applied={name: str(value) for name, value in point.items()},
            beside=self._other_calls(point, fabric, rng, factor) if trial.phase is Phase.VERIFY else {},
        )
        duration_s = START_S + _measuring_s(cells, budget_s)
        if duration_s > timeout_s:
            return late
        return LaunchOutcome(Status.OK, result=result, duration_s=duration_s, hosts=hosts)

    def _cells(
        self, trial: Trial, point: Point, fabric: Fabric, rng: np.random.Generator, factor: float
    ) -> Iterator[CellSamples]:
        probe = self.measurement.probe
        # The requested precision of a median needs this many samples; the limits of the request apply as
        # well.
        needed = math.ceil((1.96 * 1.2533 * self.noise.within / probe.precision) ** 2)
        n = max(probe.min_samples, min(probe.max_samples, needed))
        for collective in probe.collectives:
            sizes = probe.sizes_of(collective)
            for comm_size in probe.comm_sizes or (fabric.cluster.ranks,):
                for choice in choices_of(self.space, trial, collective) or (None,):
                    values = dict(choice or {})
                    # With threads the job has fewer ranks, but the results are stored under the number of
                    # ranks that the job has without threads.
                    of = (collective, comm_size * int(point.get(_THREADS, 1)))
                    try:
                        if choice is not None:
                            curve = _curve(fabric, collective, comm_size, values, sizes)
                        else:
                            curve = _deployed(fabric, collective, comm_size, trial.rules, sizes)
                    except UserError as exc:
                        reason = exc.on_one_line
                        for size in sizes:
                            yield CellSamples(*of, size, values, np.empty(0), "invalid", reason)
                        continue
                    curve = curve * self._planted(point, collective, sizes)
                    for size, median_s in zip(sizes, curve, strict=True):
                        times = sample(float(median_s), n, rng, noise=self.noise, factor=factor)
                        yield CellSamples(*of, size, values, times)

    def _other_calls(
        self, point: Point, fabric: Fabric, rng: np.random.Generator, factor: float
    ) -> dict[str, float]:
        """Return the mean times in seconds of the other calls that a launch of the verification measures."""
        means, ranks = {}, fabric.cluster.ranks
        probe = replace(self.measurement.probe, beside=self.measurement.other_calls)
        for request in probe.other_calls(ranks):
            name, sizes = request.collectives[0], request.sizes_of(request.collectives[0])
            try:
                curve = _curve(fabric, name, ranks, {}, sizes) * self._planted(point, name, sizes)
            except UserError:  # there is no model of this call
                continue
            for size, median_s in zip(sizes, curve.tolist(), strict=True):
                times = sample(median_s, BESIDE_CALLS, rng, noise=self.noise, factor=factor)
                means[f"{name} {size}"] = float(np.mean(times))
        return means

    def _planted(self, point: Point, collective: str, sizes: tuple[int, ...]) -> np.ndarray:
        """Return the factor of the invented knobs at each size, interpolated between the scenario's sizes."""
        scenario_sizes = self.measurement.probe.sizes_bytes or (0,)
        factors = self.truth.factor(point.items(), len(scenario_sizes), collective)
        return np.asarray(np.interp(np.log2(np.add(sizes, 1)), np.log2(np.add(scenario_sizes, 1)), factors))


def _measuring_s(cells: Sequence[CellSamples], budget_s: float) -> float:
    sampled_s = sum(float(cell.samples_s.sum()) for cell in cells)
    if sampled_s <= budget_s:
        return sampled_s
    once_s = sum(float(np.median(cell.samples_s)) for cell in cells if cell.samples_s.size)
    return budget_s + UNTIMED * once_s


def _ppn(place: Placement) -> int:
    return place.ppn or -(-place.ranks // max(place.nodes, 1))


def _shared(cores: int, threads: int) -> int:
    if cores % threads:
        raise ScenarioError(f"{threads} threads a rank", f"needed: a divisor of the node's {cores} cores")
    return cores // threads


def stamp_of(machine: Machine) -> Stamp:
    """Return the stamp that marks all results of a modelled machine as simulated."""
    source = machine.calibrated_from
    return Stamp(BenchKind.SIMULATED, f"calibrated from {source}" if source else "uncalibrated")


def _curve(
    fabric: Fabric, collective: str, comm_size: int, values: Mapping[str, Any], sizes: tuple[int, ...]
) -> np.ndarray:
    algorithm = str(values.get("algorithm", "default"))
    return predict(fabric, collective, algorithm, int(values.get("segsize", 0)), sizes, comm_size)


def _deployed(
    fabric: Fabric, collective: str, comm_size: int, rules: tuple[Rule, ...], sizes: tuple[int, ...]
) -> np.ndarray:
    """Return the model's times in seconds, `(n_sizes,)`, with the choices that the rules make.

    Sizes without a rule have the times of the MPI's own default.
    """
    rows_by_choice: dict[Point, list[int]] = {}
    for i, size in enumerate(sizes):
        rows_by_choice.setdefault(choice_at(rules, (collective, comm_size, size)), []).append(i)
    curve = np.empty(len(sizes))
    for choice, rows in rows_by_choice.items():
        curve[rows] = _curve(fabric, collective, comm_size, choice, tuple(sizes[i] for i in rows))
    return curve


def simulated_bench(scenario: Scenario) -> Bench:
    """Return the bench (observer, search space and description) for a campaign on a modelled cluster.

    Raises:
        ScenarioError: the machine is missing, the machine, noise or faults are wrong, or there are more ranks
            than cores.
        SpaceError: the search space cannot be read, or does not contain a fixed value.
    """
    if not scenario.machine:
        shipped = [path.stem for path in sorted((folder("conf") / "machine").glob("*.yaml"))]
        raise ScenarioError("a simulated cluster needs machine=…", allowed("", shipped))
    machine = machine_from(scenario.machine)
    disturbed = imperfections_from(scenario.simulate)
    stamp = stamp_of(machine)
    truth = truth_from(disturbed.knobs, len(scenario.sizes))
    declared = named_space(scenario)
    place = placement(scenario)
    NodeLayout(place.nodes, _ppn(place)).check(machine)  # otherwise each launch would fail
    return Bench(
        observer=lambda measurement, space, directory: Simulated(
            *(machine, place, measurement, space, disturbed.noise, disturbed.faults, scenario.seed),
            *(truth, disturbed.site, disturbed.at_once),
        ),
        space=fixed(declared.restrict(_facts(declared, machine, place.nodes)), scenario.fix),
        placement=place,
        description=f"{stamp} {machine.name}, Open MPI 5 modelled",
        findings=(
            ("machine", f"{machine.name}: {machine.description}"),
            ("nodes × ranks", f"{place.nodes} × {place.ppn or place.ranks}"),
            ("transports", ", ".join(machine.transports)),
            ("model", str(stamp)),
        ),
        stamp=stamp,
        knobs=_knobs(disturbed.knobs) if scenario.space == DISCOVER else None,
        at_once=disturbed.at_once,
    )


def _knobs(planted: Mapping[str, Any]) -> Space:
    return Space(DISCOVER, tuple(
        Parameter(name, (UNSET, *levels), UNSET, apply={"env": {name: "{value}"}})
        for name, levels in planted.items()
    ))  # fmt: skip


def _facts(space: Space, machine: Machine, nodes: int) -> frozenset[str]:
    """Return all facts that the space requires, without transports and nodes that the machine lacks."""
    required = {t for p in space.parameters for t in p.requires}
    required |= {t for p in space.parameters for tokens in p.value_requires.values() for t in tokens}
    available = {f"ucx_tl:{name}" for name in machine.transports} | {"ucx_tl:sm"}
    available |= {f"nodes:{n}" for n in range(1, nodes + 1)}
    return frozenset(t for t in required if not t.startswith(("ucx_tl:", "nodes:")) or t in available)
