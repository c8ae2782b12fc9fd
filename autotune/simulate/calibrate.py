"""Fits a machine's numbers to what was measured on it, and says how well they predict what was not.

Place in the flow: measured series (ping-pong, copies, reductions) → :func:`fit` → `Machine` →
:func:`machine_text` → a file of ``conf/machine/``; :func:`check` compares it with series that were held out.

Notation: y are measured times, f(θ) the model's for the same operations, θ the machine's numbers. Minimised
is Σ log²(f(θ)/y) + λ² Σ log²(θ/θ₀): relative errors count alike at all sizes, and what the measurements do
not determine (the split of a latency into wire and overheads, say) stays near the machine θ₀ that one starts
from.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from math import inf, isinf
from typing import Any

import numpy as np

from autotune.errors import TableError, allowed
from autotune.simulate.fabric import Fabric, NodeLayout, missing
from autotune.simulate.machine import Machine, Memory, Transport
from autotune.simulate.protocols import Floats
from autotune.simulate.settings import JobSettings

RIDGE = 0.03  # λ: a number that moves by a factor e costs as much as a relative error of 3 % at one size.


EAGER = JobSettings(rndv_intra_bytes=inf, rndv_inter_bytes=inf)
"""Settings under which no message goes by rendezvous."""


@dataclass(frozen=True, slots=True)
class Series:
    """Times of one operation at several sizes, all else equal."""

    operation: str  # ``pingpong`` (half a round trip), ``copy`` or ``reduce`` (on one core).
    sizes_bytes: tuple[float, ...]  # Payloads.
    seconds: tuple[float, ...]  # What was measured, one for each size.
    partner: str = "domain"  # Of a ping-pong: same ``domain``, ``socket`` or ``node``, or ``network``.
    settings: JobSettings = EAGER  # Of a ping-pong, the protocols in effect; eager unless said otherwise.

    def __post_init__(self) -> None:
        for what, known in (("operation", _OPERATIONS), ("partner", _PARTNERS)):
            if (name := getattr(self, what)) not in known:
                raise TableError(f"no {what} {name!r}", allowed(name, known))
        if not self.seconds or len(self.sizes_bytes) != len(self.seconds):
            raise TableError(
                f"{self.operation}: {len(self.sizes_bytes)} sizes and {len(self.seconds)} times",
                "each size needs its time",
            )
        if min(self.seconds) <= 0 or min(self.sizes_bytes) < 0:
            raise TableError(f"{self.operation}: a time or size out of range", "times > 0 s, sizes ≥ 0 bytes")


@dataclass(frozen=True, slots=True)
class Calibration:
    """A machine and what is known about its numbers."""

    machine: Machine  # With the fitted numbers.
    fitted: tuple[str, ...]  # What the measurements determined: ``memory.NAME``, ``transports.KIND.NAME``.


@dataclass(frozen=True, slots=True)
class Check:
    """How a machine predicts one series."""

    series: Series  # What was measured.
    errors: tuple[float, ...]  # Predicted over measured, minus 1, for each size.

    @property
    def median(self) -> float:
        """Median of the absolute errors."""
        return float(np.median(np.abs(self.errors)))

    @property
    def worst(self) -> float:
        """Largest of the absolute errors."""
        return float(np.max(np.abs(self.errors)))


def expected(machine: Machine, series: Series) -> Floats:
    """The model's times for a series on a machine, seconds, shape (n,).

    Raises:
        ScenarioError: the machine lacks the transport of the series.
    """
    nbytes = np.asarray(series.sizes_bytes, dtype=np.float64)
    if series.operation == "pingpong":
        return _pingpong(machine, series, nbytes)
    fabric = Fabric(machine, NodeLayout(1, 1), series.settings)
    work = fabric.copy_s if series.operation == "copy" else fabric.reduce_s
    return work(nbytes, missing(fabric.cache_per_rank_bytes, 2 * nbytes))


def fit(machine: Machine, series: Sequence[Series], source: str) -> Calibration:
    """The machine whose predictions are nearest to the measurements (Levenberg-Marquardt in log θ).

    One starts from the given machine, of which stays what was not measured; ``source`` says where the series
    come from, and becomes `calibrated_from`.

    Raises:
        TableError: there are no measurements.
        ScenarioError: the machine lacks the transport of a series.
    """
    from scipy.optimize import least_squares

    if not series:
        raise TableError("nothing was measured", "a calibration needs ping-pongs, copies or reductions")
    free = tuple(name for name in _free(machine, series) if _get(machine, name) > 0)
    start = np.log([_get(machine, name) for name in free])
    measured = np.log(np.concatenate([s.seconds for s in series]))

    def at(theta: Floats) -> Machine:
        return _with(machine, dict(zip(free, np.exp(theta).tolist(), strict=True)))

    def residual(theta: Floats) -> Floats:
        predicted = np.log(np.concatenate([expected(at(theta), s) for s in series]))
        return np.concatenate([predicted - measured, RIDGE * (theta - start)])

    best = least_squares(residual, start, method="lm", ftol=_ENOUGH)
    # What the measurements halve the prior's variance of is theirs; the rest is the machine one started from.
    slope: Floats = np.asarray(best.jac)
    variance = np.diag(np.linalg.inv(slope.T @ slope)) * RIDGE**2
    known = tuple(name for name, left in zip(free, variance, strict=True) if left < 0.5)
    return Calibration(replace(at(best.x), calibrated_from=source), known)


def check(machine: Machine, series: Sequence[Series]) -> tuple[Check, ...]:
    """How well a machine predicts each series, best used on sizes and protocols that were not fitted."""
    errors = (expected(machine, s) / np.asarray(s.seconds) - 1.0 for s in series)
    return tuple(Check(s, tuple(of.tolist())) for s, of in zip(series, errors, strict=True))


def machine_text(calibrated: Calibration, name: str, base: str) -> str:
    """The YAML text of a machine file called ``name``, each number marked as measured or as in ``base``."""
    machine = calibrated.machine
    lines = [
        "# @package machine",
        "#",
        f"# Calibrated from {machine.calibrated_from}, starting from {base}.",
        f"name: {name}",
        f'description: "{machine.description}"',
        f'calibrated_from: "{machine.calibrated_from}"',
        "memory:",
    ]
    lines += _section(machine, "memory", calibrated.fitted, base, indent=2)
    lines.append("transports:")
    for kind in machine.transports:
        lines += [f"  {kind}:", *_section(machine, f"transports.{kind}", calibrated.fitted, base, indent=4)]
    for key in ("far_nic_latency_s", "rc_max_endpoints"):
        lines.append(_line(key, getattr(machine, key), f"as in {base}", 0))
    return "\n".join(lines) + "\n"


def _pingpong(machine: Machine, series: Series, nbytes: Floats) -> Floats:
    """One message to a rank that waits for it: send, wire, receive."""
    ppn = machine.memory.cores if series.partner != "network" else 1
    fabric = Fabric(machine, NodeLayout(2 if series.partner == "network" else 1, ppn), series.settings)
    here = np.zeros(1, dtype=np.intp)
    distances = fabric.distance(np.zeros(len(fabric.all_ranks), dtype=np.intp), fabric.all_ranks)
    there = np.flatnonzero(distances == _PARTNERS.index(series.partner) + 1)
    if not len(there):
        raise TableError(
            f"{machine.name} has no {series.partner} partner with NPS {series.settings.numa_per_socket}",
            "set numa_per_socket of the series to the value in effect",
        )
    # The buffers of sender and receiver are one core's each, and nobody else is there.
    memory = machine.memory
    uncached = missing(memory.cache_bytes + memory.socket_cache_bytes, nbytes)
    costs = fabric.costs(here, there[:1], nbytes, uncached, alone=True)
    return np.asarray((costs.send + costs.wire + costs.receive)[0])


_OPERATIONS = ("pingpong", "copy", "reduce")
_INSIDE = (
    *("latency_s", "overhead_s", "cache_copy_bytes_per_s", "copy_bytes_per_s", "fragment_bytes"),
    *("single_copy_bytes_per_s", "single_copy_setup_s", "rendezvous_s"),
)
_FARTHER = {"socket": ("domain_latency_s",), "node": ("socket_latency_s",)}
_BETWEEN = (
    *("latency_s", "overhead_s", "flow_bytes_per_s"),
    *("rendezvous_s", "registration_s", "cpu_bytes_per_s"),
)
"""The numbers that ping-pongs with a partner there say something about."""
_PARTNERS = ("domain", "socket", "node", "network")
_ENOUGH = 1e-6  # A step that lowers the sum of squares by a smaller share is the last one.


def _free(machine: Machine, series: Sequence[Series]) -> list[str]:
    """The numbers that the series say something about."""
    names: list[str] = []
    for s in series:
        if s.operation == "copy":
            names += ["memory.copy_bytes_per_s", "memory.cache_copy_bytes_per_s"]
        elif s.operation == "reduce":
            names += ["memory.reduce_bytes_per_s"]
        elif s.partner == "network":
            transport = Fabric(machine, NodeLayout(2, 1), s.settings).protocols.transport
            kind = next(kind for kind, t in machine.transports.items() if t is transport)
            names += [f"transports.{kind}.{n}" for n in _BETWEEN if not isinf(getattr(transport, n))]
        else:
            names += [f"memory.{n}" for n in (*_INSIDE, *_FARTHER.get(s.partner, ()))]
    return list(dict.fromkeys(names))


def _part(machine: Machine, path: str) -> Memory | Transport:
    return machine.memory if path == "memory" else machine.transports[path.split(".")[1]]


def _get(machine: Machine, name: str) -> float:
    path, _, last = name.rpartition(".")
    return float(getattr(_part(machine, path), last))


def _with(machine: Machine, values: Mapping[str, float]) -> Machine:
    """The machine with some numbers, by their dotted names, in place of its own."""
    parts: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        path, _, last = name.rpartition(".")
        parts.setdefault(path, {})[last] = value
    transports = dict(machine.transports)
    for kind, transport in machine.transports.items():
        own = parts.get(f"transports.{kind}", {})
        # A connection that turns out faster than its NIC was thought to be is a measurement of the NIC.
        nic = max(transport.bytes_per_s, own.get("flow_bytes_per_s", 0.0))
        transports[kind] = replace(transport, **{**own, "bytes_per_s": nic})
    return replace(machine, memory=replace(machine.memory, **parts.get("memory", {})), transports=transports)


def _section(machine: Machine, path: str, fitted: Sequence[str], base: str, indent: int) -> list[str]:
    """The lines of one nested mapping."""
    values = {f.name: getattr(_part(machine, path), f.name) for f in fields(_part(machine, path))}
    return [
        _line(name, value, "measured" if f"{path}.{name}" in fitted else f"as in {base}", indent)
        for name, value in values.items()
    ]


def _line(key: str, value: float, origin: str, indent: int) -> str:
    # Truth values and infinity as YAML has them.
    text = str(value).lower() if isinstance(value, int) else f"{value:.4e}".replace("inf", ".inf")
    return f"{' ' * indent + f'{key}: {text}':<40} # {origin}"
