"""Fit the parameters of a simulated machine to measurements, and check its predictions on other measurements.

Place in the flow: measured series (ping-pong, copies, reductions) → :func:`fit` → `Machine` →
:func:`machine_text` → a file of ``conf/machine/``. :func:`check` compares a `Machine` with series that were
not used in the fit.

Notation: y are measured times, f(θ) the predicted times of the same operations, θ the machine's parameters.
The fit minimises Σ log²(f(θ)/y) + λ² Σ log²(θ/θ₀). So relative errors have the same weight at all sizes.
Parameters that the measurements do not determine (such as how a latency divides into wire and overheads) stay
near those of the machine θ₀ at which the fit starts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from math import inf, isinf
from typing import Any, Literal

import numpy as np

from autotune.errors import TableError
from autotune.simulate.fabric import Fabric, NodeLayout, missing
from autotune.simulate.machine import Machine, Memory, Transport
from autotune.simulate.protocols import Floats
from autotune.simulate.settings import JobSettings

RIDGE = 0.03
"""λ: a change of a parameter by a factor of e has the same weight in the fit as a relative error of 3 % at
one size."""


EAGER = JobSettings(rndv_intra_bytes=inf, rndv_inter_bytes=inf)
"""Settings with which no message is sent by rendezvous."""


@dataclass(frozen=True, slots=True)
class Series:
    """Measured times of one operation at several sizes, under otherwise equal conditions."""

    operation: Literal["pingpong", "copy", "reduce"]
    """Kind of the operation: half of a round trip, or work on one core."""
    sizes_bytes: tuple[float, ...]
    seconds: tuple[float, ...]  # Measured time at each size, in seconds.
    between_nodes: bool = False
    """Whether a ping-pong crosses the network; otherwise both ranks are in one NUMA domain."""
    settings: JobSettings = EAGER  # Settings of a ping-pong, which determine its protocol.

    def __post_init__(self) -> None:
        if not self.seconds:
            raise TableError(f"{self.operation}: 0 sizes and 0 times", "each size needs its time")


@dataclass(frozen=True, slots=True)
class Calibration:
    """A machine with fitted parameters, and which parameters were fitted."""

    machine: Machine
    fitted: tuple[str, ...]
    """Names of the parameters that the measurements determine: ``memory.NAME`` or
    ``transports.KIND.NAME``."""


@dataclass(frozen=True, slots=True)
class Check:
    """Comparison of a machine's predictions with one series of measurements."""

    series: Series
    errors: tuple[float, ...]  # Predicted time / measured time − 1, at each size.

    @property
    def median(self) -> float:
        """Return the median of the absolute errors."""
        return float(np.median(np.abs(self.errors)))


def expected(machine: Machine, series: Series) -> Floats:
    """Return the times that the model predicts for a series on a machine, in seconds, shape (n,).

    Raises:
        ScenarioError: If the machine does not have the transport that the series used.
    """
    nbytes = np.asarray(series.sizes_bytes, dtype=np.float64)
    if series.operation == "pingpong":
        return _pingpong(machine, series, nbytes)
    fabric = Fabric(machine, NodeLayout(1, 1), series.settings)
    work = fabric.copy_s if series.operation == "copy" else fabric.reduce_s
    return work(nbytes, missing(fabric.cache_per_rank_bytes, 2 * nbytes))


def fit(machine: Machine, series: Sequence[Series], source: str) -> Calibration:
    """Return the machine whose predictions are closest to the measurements.

    The fit is by Levenberg-Marquardt in log θ.

    Args:
        machine: The machine at which the fit starts; its values remain where nothing was measured.
        series: The measurements.
        source: Origin of the measurements, which becomes `calibrated_from`.

    Raises:
        TableError: If there are no measurements.
        ScenarioError: If the machine does not have the transport that a series used.
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
    # The measurements determine a parameter if they halve its prior variance; other parameters are marked as
    # unchanged.
    slope: Floats = np.asarray(best.jac)
    variance = np.diag(np.linalg.inv(slope.T @ slope)) * RIDGE**2
    determined = tuple(name for name, share in zip(free, variance, strict=True) if share < 0.5)
    return Calibration(replace(at(best.x), calibrated_from=source), determined)


def check(machine: Machine, series: Sequence[Series]) -> tuple[Check, ...]:
    """Compare predictions with each series, which should have sizes or protocols that were not fitted."""
    return tuple(
        Check(s, tuple((expected(machine, s) / np.asarray(s.seconds) - 1.0).tolist())) for s in series
    )


def machine_text(calibrated: Calibration, name: str, base: str) -> str:
    """Return the YAML text of a machine file, whose comments say which values were measured."""
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
    """Return the time from sending a message until a waiting receiver has it, shape (n,)."""
    memory = machine.memory
    layout = NodeLayout(2, 1) if series.between_nodes else NodeLayout(1, memory.cores)
    fabric = Fabric(machine, layout, series.settings)
    if not series.between_nodes and fabric.ranks_per_domain < 2:
        raise TableError(f"{machine.name} has one core in a NUMA domain", "a ping-pong needs two")
    # Sender and receiver each use the caches of one core; no other rank is active.
    uncached = missing(memory.cache_bytes + memory.socket_cache_bytes, nbytes)
    costs = fabric.costs(np.array([0]), np.array([1]), nbytes, uncached, alone=True)
    return np.asarray((costs.send + costs.wire + costs.receive)[0])


_INSIDE = (
    *("latency_s", "overhead_s", "cache_copy_bytes_per_s", "copy_bytes_per_s", "fragment_bytes"),
    *("single_copy_bytes_per_s", "single_copy_setup_s", "rendezvous_s"),
)
_BETWEEN = (
    *("latency_s", "overhead_s", "flow_bytes_per_s"),
    *("rendezvous_s", "registration_s", "cpu_bytes_per_s"),
)
"""Names of the parameters that ping-pongs determine: ``_INSIDE`` those within a NUMA domain, ``_BETWEEN``
those between nodes."""
_ENOUGH = 1e-6  # The fit ends when a step lowers the sum of squares by a smaller share than this.


def _free(machine: Machine, series: Sequence[Series]) -> list[str]:
    """Return the dotted names of the parameters that influence the times of the series."""
    names: list[str] = []
    for s in series:
        if s.operation == "copy":
            names += ["memory.copy_bytes_per_s", "memory.cache_copy_bytes_per_s"]
        elif s.operation == "reduce":
            names += ["memory.reduce_bytes_per_s"]
        elif s.between_nodes:
            transport = Fabric(machine, NodeLayout(2, 1), s.settings).protocols.transport
            kind = next(kind for kind, t in machine.transports.items() if t is transport)
            names += [f"transports.{kind}.{n}" for n in _BETWEEN if not isinf(getattr(transport, n))]
        else:
            names += [f"memory.{n}" for n in _INSIDE]
    return list(dict.fromkeys(names))


def _part(machine: Machine, path: str) -> Memory | Transport:
    return machine.memory if path == "memory" else machine.transports[path.split(".")[1]]


def _get(machine: Machine, name: str) -> float:
    path, _, last = name.rpartition(".")
    return float(getattr(_part(machine, path), last))


def _with(machine: Machine, values: Mapping[str, float]) -> Machine:
    parts: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        path, _, last = name.rpartition(".")
        parts.setdefault(path, {})[last] = value
    transports = dict(machine.transports)
    for kind, transport in machine.transports.items():
        values_of_transport = parts.get(f"transports.{kind}", {})
        # If one connection was measured to be faster than the NIC, the NIC gets the rate of the connection.
        nic = max(transport.bytes_per_s, values_of_transport.get("flow_bytes_per_s", 0.0))
        transports[kind] = replace(transport, **{**values_of_transport, "bytes_per_s": nic})
    return replace(machine, memory=replace(machine.memory, **parts.get("memory", {})), transports=transports)


def _section(machine: Machine, path: str, fitted: Sequence[str], base: str, indent: int) -> list[str]:
    values = {f.name: getattr(_part(machine, path), f.name) for f in fields(_part(machine, path))}
    return [
        _line(name, value, "measured" if f"{path}.{name}" in fitted else f"as in {base}", indent)
        for name, value in values.items()
    ]


def _line(key: str, value: float, origin: str, indent: int) -> str:
    text = str(value).lower() if isinstance(value, int) else f"{value:.4e}".replace("inf", ".inf")
    return f"{' ' * indent + f'{key}: {text}':<40} # {origin}"
