"""Costs of a cluster's hardware, as numbers with units: the input that every prediction starts from.

Place in the flow: ``conf/machine/NAME.yaml`` (or a calibration) → :func:`machine_from` → `Machine` →
`predict`.

Notation: a *path* is the way between two ranks (same NUMA domain, same socket, other socket, other node); a
*transport* is what UCX uses between nodes (``rc``, ``ud``, ``dc``, ``tcp``); L, o, g, G are LogGP's latency,
overhead, gap per message and gap per byte (Alexandrov et al., "LogGP: Incorporating Long Messages into the
LogP Model", SPAA 1995). Bandwidths are bytes per second (G = 1 / bandwidth), times are seconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from math import inf
from typing import Any

from autotune.errors import ScenarioError
from autotune.structure import Document


@dataclass(frozen=True, slots=True)
class Memory:
    """One node: its cores, sockets and memory, and what a message inside it costs."""

    cores: int  # Cores of a node; ranks per node cannot exceed it.
    sockets: int  # Sockets of a node.
    copy_bytes_per_s: float  # Payload that one core copies from memory to memory.
    cache_copy_bytes_per_s: float  # Payload that one core copies while the data are in caches.
    cache_bytes: float  # Caches that a core has to itself.
    socket_cache_bytes: float  # Cache that the cores of a socket share.
    socket_bytes_per_s: float  # Payload that all cores of a socket together copy from memory to memory.
    cross_socket_bytes_per_s: float  # Payload one way that all between a node's sockets share.
    reduce_bytes_per_s: float  # Payload that one core combines (sum of doubles) out of its caches.
    latency_s: float  # Shared-memory latency of a message inside a NUMA domain, without the overheads.
    domain_latency_s: float  # Added to `latency_s` between two NUMA domains of one socket.
    socket_latency_s: float  # Added to `latency_s` between two sockets.
    overhead_s: float  # CPU time that sender and receiver each spend on one shared-memory message.
    fragment_bytes: float  # Eager messages travel in fragments of this size, so that both copies overlap.
    single_copy_bytes_per_s: float  # Payload that one core moves by one kernel copy (CMA).
    single_copy_setup_s: float  # System call and page look-up that start one single-copy transfer.
    rendezvous_s: float
    """Handshake of one rendezvous inside a node, beyond the latencies of the message itself."""
    numa_gain: float = 0.0  # How much faster memory copies are with two NUMA domains a socket.

    def __post_init__(self) -> None:
        _check_numbers(self, "memory")
        if self.cores % self.sockets:
            raise ScenarioError(f"memory: {self.cores} cores do not divide into {self.sockets} sockets")


@dataclass(frozen=True, slots=True)
class Transport:
    """One way to send between nodes."""

    latency_s: float  # L: wire, switch and NIC, without the overheads of the two CPUs.
    overhead_s: float  # o: CPU time that sender and receiver each spend on one message.
    gap_s: float  # g: time between two messages of one NIC (1 / message rate).
    bytes_per_s: float  # Payload that the NIC of a node carries in one direction, all ranks together.
    flow_bytes_per_s: float  # Payload that one connection carries at most.
    rendezvous_s: float
    """Handshake of a rendezvous (request, read request, acknowledgement) beyond the data's own latency."""
    registration_s: float  # Looking up (or making, averaged over its reuse) one buffer's memory registration.
    cpu_bytes_per_s: float = inf  # Payload a core pushes through a transport's software; inf: offloaded.
    fragment_bytes: float = 8192.0  # Eager messages go in fragments of this size: copy and wire overlap.
    remote_access: bool = True  # Whether a rendezvous puts data in place (RDMA): no copy at the end.
    connections_cached: float = inf  # Whose state the NIC keeps; with more, some messages wait.
    connection_miss_s: float = 0.0  # Fetching one connection's state from memory into the NIC.
    connection_gap_s: float = 0.0  # What such a fetch adds to the time between two messages of the NIC.
    retarget_s: float = 0.0  # Added when a message goes to another peer than the last (dc's set-up).

    def __post_init__(self) -> None:
        _check_numbers(self, "transport")


@dataclass(frozen=True, slots=True)
class Machine:
    """A cluster's nodes and network."""

    name: str  # The name of its file in ``conf/machine/``.
    description: str  # One line for people: nodes, network, and where the numbers come from.
    memory: Memory  # The node.
    transports: Mapping[str, Transport] = field(hash=False)
    """Transports between nodes by UCX's names: some of ``rc``, ``ud``, ``dc``, ``tcp``."""
    far_nic_latency_s: float = 0.0  # Added for each end on another socket than the NIC's (the first).
    rc_max_endpoints: int = 256  # UCX_TLS=all: ranks above which UCX leaves rc for dc.
    calibrated_from: str = ""  # The measurement that the numbers were fitted to; empty: not calibrated.

    def __post_init__(self) -> None:
        unknown = sorted(set(self.transports) - set(TRANSPORTS))
        if unknown or not self.transports:
            given = ", ".join(unknown) or "nothing"
            raise ScenarioError(
                f"machine {self.name}: transports must be some of {', '.join(TRANSPORTS)}, not {given}"
            )


TRANSPORTS = ("rc", "ud", "dc", "tcp")  # The transports between nodes that a machine may have, by UCX's names


def machine_from(values: Mapping[str, Any]) -> Machine:
    """The machine that a mapping (a file of ``conf/machine/``, read by someone else) describes.

    Raises:
        ScenarioError: If a field is missing, unknown or not a number, or a value is out of its range.
    """
    return Document("the machine", ScenarioError, infinite=True).structured(Machine, values, "machine")


def _check_numbers(part: Memory | Transport, where: str) -> None:
    """Check that times are finite and not negative, counts and bandwidths positive."""
    for f in fields(part):
        value = getattr(part, f.name)
        if isinstance(value, bool):
            continue
        is_time = f.name.endswith("_s") and not f.name.endswith("_per_s")
        if is_time or f.name == "numa_gain":
            sound, bound = 0 <= value < inf, "zero or more"
        else:
            sound, bound = value > 0, "more than zero"
        if not sound:
            raise ScenarioError(f"{where}.{f.name} must be {bound}, not {value!r}")
