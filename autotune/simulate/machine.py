"""Hardware of a simulated cluster, as numbers with units, from which all predictions are computed.

Place in the flow: ``conf/machine/NAME.yaml`` (or a calibration) → :func:`machine_from` → `Machine` →
`predict`.

Notation: a *transport* is one of UCX's ways to send between nodes (``rc``, ``ud``, ``dc``, ``tcp``). L, o, g
and G are the latency, the overhead, the gap per message and the gap per byte of LogGP (Alexandrov et al.,
"LogGP: Incorporating Long Messages into the LogP Model", SPAA 1995). Bandwidths are in bytes per second (G =
1 / bandwidth), times in seconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from math import inf
from typing import Any

from autotune.errors import ScenarioError
from autotune.structure import Document


@dataclass(frozen=True, slots=True)
class Memory:
    """A node: its cores, sockets and memory, and the costs of messages inside the node."""

    cores: int  # Number of cores of a node, which is the largest number of ranks on a node.
    sockets: int  # Number of sockets of a node.
    copy_bytes_per_s: float  # Rate at which one core copies payload from memory to memory.
    cache_copy_bytes_per_s: float  # Rate at which one core copies payload that is in caches.
    cache_bytes: float  # Size of the caches that a core has for itself.
    socket_cache_bytes: float  # Size of the cache that all cores of a socket share.
    socket_bytes_per_s: float
    """Rate at which all cores of a socket together copy payload from memory to memory."""
    cross_socket_bytes_per_s: float  # Bandwidth between two sockets in one direction, which all ranks share.
    reduce_bytes_per_s: float  # Rate at which one core combines payload (sum of doubles) that is in caches.
    latency_s: float  # Latency of a shared-memory message inside a NUMA domain, without the overheads.
    domain_latency_s: float  # Additional latency, beyond `latency_s`, between two NUMA domains of one socket.
    socket_latency_s: float  # Additional latency, beyond `latency_s`, between two sockets.
    overhead_s: float  # CPU time that sender and receiver each need for one shared-memory message.
    fragment_bytes: float
    """Size of the fragments of eager messages; sender and receiver copy different fragments at the same
    time."""
    single_copy_bytes_per_s: float
    """Rate at which one core moves payload by a single copy in the kernel (CMA)."""
    single_copy_setup_s: float
    """Time at the start of one single-copy transfer for the system call and the look-up of pages."""
    rendezvous_s: float
    """Time of the handshake of one rendezvous inside a node, in addition to the latency of the message."""
    numa_gain: float = 0.0
    """Relative gain in the speed of memory copies if there are several NUMA domains per socket."""

    def __post_init__(self) -> None:
        _check_numbers(self, "memory")
        if self.cores % self.sockets:
            raise ScenarioError(f"memory: {self.cores} cores do not divide into {self.sockets} sockets")


@dataclass(frozen=True, slots=True)
class Transport:
    """One of UCX's ways to send between nodes, with its costs."""

    latency_s: float  # L: latency of wire, switch and NIC, without the overheads of the two CPUs.
    overhead_s: float  # o: CPU time that sender and receiver each need for one message.
    gap_s: float  # g: shortest time between two messages of one NIC (1 / message rate).
    bytes_per_s: float  # Bandwidth of a node's NIC in one direction, which all ranks of the node share.
    flow_bytes_per_s: float  # Largest bandwidth of one connection.
    rendezvous_s: float
    """Time of the handshake of one rendezvous (request, read request, acknowledgement), in addition to the
    latency of the data."""
    registration_s: float
    """Mean time to register a buffer's memory, or to look its registration up, averaged over the uses of the
    buffer."""
    cpu_bytes_per_s: float = inf
    """Rate at which a core sends payload through the transport's software; inf if the NIC does all the
    work."""
    fragment_bytes: float = 8192.0
    """Size of the fragments of eager messages; copying one fragment and sending another overlap."""
    remote_access: bool = True
    """Whether the NIC writes the data of a rendezvous directly to their destination (RDMA), without a
    copy."""
    connections_cached: float = inf
    """Number of connections whose state the NIC keeps; with more connections, some messages have to wait for
    their state."""
    connection_miss_s: float = 0.0
    """Additional time of a message for fetching its connection's state from memory into the NIC."""
    connection_gap_s: float = 0.0
    """Additional time between two messages for fetching the state of a connection."""
    retarget_s: float = 0.0
    """Additional time of a message that goes to another peer than the message before it (dc's set-up)."""

    def __post_init__(self) -> None:
        _check_numbers(self, "transport")


@dataclass(frozen=True, slots=True)
class Machine:
    """The nodes and the network of a cluster."""

    name: str  # Name of the machine's file in ``conf/machine/``.
    description: str  # One line for users on the nodes, the network and the origin of the numbers.
    memory: Memory  # Hardware of each node.
    transports: Mapping[str, Transport] = field(hash=False)
    """Transports between nodes, by UCX's names: one or more of ``rc``, ``ud``, ``dc``, ``tcp``."""
    far_nic_latency_s: float = 0.0
    """Latency that is added at each end of a message whose rank is not on the first socket, to which the NIC
    is attached."""
    rc_max_endpoints: int = 256  # Largest number of ranks for which UCX prefers rc to dc, with UCX_TLS=all.
    calibrated_from: str = ""
    """Measurements to which the numbers were fitted; empty if the machine is not calibrated."""

    def __post_init__(self) -> None:
        unknown = sorted(set(self.transports) - set(TRANSPORTS))
        if unknown or not self.transports:
            listed = ", ".join(unknown) or "nothing"
            raise ScenarioError(
                f"machine {self.name}: transports must be some of {', '.join(TRANSPORTS)}, not {listed}"
            )


TRANSPORTS = ("rc", "ud", "dc", "tcp")
"""Transports between nodes that a machine may have, by UCX's names."""


def machine_from(values: Mapping[str, Any]) -> Machine:
    """Return the machine that a mapping describes; the mapping has the form of a file of ``conf/machine/``.

    Raises:
        ScenarioError: If a field is missing, unknown or not a number, or if a value is out of range.
    """
    return Document("the machine", ScenarioError, infinite=True).structured(Machine, values, "machine")


def _check_numbers(part: Memory | Transport, section: str) -> None:
    """Raise an error for negative or infinite times, and for counts or bandwidths that are not positive."""
    for f in fields(part):
        value = getattr(part, f.name)
        if isinstance(value, bool):
            continue
        is_time = f.name.endswith("_s") and not f.name.endswith("_per_s")
        may_be_zero = is_time or f.name == "numa_gain"
        if not (0 <= value < inf if may_be_zero else value > 0):
            bound = "zero or more" if may_be_zero else "more than zero"
            raise ScenarioError(f"{section}.{f.name} must be {bound}, not {value!r}")
