"""A simulated cluster's hardware as numbers with units, from which every prediction is computed.

Place in the flow: ``conf/machine/NAME.yaml`` (or a calibration) → :func:`machine_from` → `Machine` →
`predict`.

Notation: a *transport* is UCX's way to send between nodes (``rc``, ``ud``, ``dc``, ``tcp``). L, o, g, G are
LogGP's latency, overhead, gap per message and gap per byte (Alexandrov et al., "LogGP: Incorporating Long
Messages into the LogP Model", SPAA 1995). Bandwidths are bytes per second (G = 1 / bandwidth), times are
seconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from math import inf
from typing import Any

from autotune.errors import ScenarioError
from autotune.structure import Document


@dataclass(frozen=True, slots=True)
class Memory:
    """One node: its cores, sockets and memory, and the costs of a message inside it."""

    cores: int  # Number of cores of a node; a node cannot have more ranks.
    sockets: int  # Number of sockets of a node.
    copy_bytes_per_s: float  # Payload that one core copies from memory to memory.
    cache_copy_bytes_per_s: float  # Payload that one core copies while the data are in caches.
    cache_bytes: float  # Size of the caches that a core does not share.
    socket_cache_bytes: float  # Size of the cache that the cores of a socket share.
    socket_bytes_per_s: float  # Bandwidth at which all cores of a socket together copy memory.
    cross_socket_bytes_per_s: float  # Bandwidth in one direction between two sockets, which all ranks share.
    reduce_bytes_per_s: float  # Payload that one core combines (sum of doubles) while the data are in caches.
    latency_s: float  # Shared-memory latency of a message inside a NUMA domain, without the overheads.
    domain_latency_s: float  # Latency in addition to `latency_s` between two NUMA domains of one socket.
    socket_latency_s: float  # Latency in addition to `latency_s` between two sockets.
    overhead_s: float  # CPU time that sender and receiver each spend on one shared-memory message.
    fragment_bytes: float  # Size of the fragments of eager messages, which let both copies overlap.
    single_copy_bytes_per_s: float  # Payload that one core moves by one kernel copy (CMA).
    single_copy_setup_s: float  # System call and page look-up at the start of one single-copy transfer.
    rendezvous_s: float
    """Time of the handshake of one rendezvous inside a node, in addition to the latency of the message
    itself."""
    numa_gain: float = 0.0  # Relative speed-up of memory copies with several NUMA domains per socket.

    def __post_init__(self) -> None:
        _check_numbers(self, "memory")
        if self.cores % self.sockets:
            raise ScenarioError(f"memory: {self.cores} cores do not divide into {self.sockets} sockets")


@dataclass(frozen=True, slots=True)
class Transport:
    """One of UCX's ways to send between nodes, with its costs."""

    latency_s: float  # L: wire, switch and NIC, without the overheads of the two CPUs.
    overhead_s: float  # o: CPU time that sender and receiver each spend on one message.
    gap_s: float  # g: time between two messages of one NIC (1 / message rate).
    bytes_per_s: float  # Payload that the NIC of a node carries in one direction, for all ranks together.
    flow_bytes_per_s: float  # Payload that one connection carries at most.
    rendezvous_s: float
    """Time of the handshake of a rendezvous (request, read request, acknowledgement), in addition to the
    latency of the data."""
    registration_s: float
    """Time to look up one buffer's memory registration, or to make it, averaged over its reuse."""
    cpu_bytes_per_s: float = inf
    """Payload that a core sends through the transport's software; inf: the NIC does all the work."""
    fragment_bytes: float = 8192.0
    """Size of the fragments of eager messages, by which copying and sending overlap."""
    remote_access: bool = True
    """Whether the NIC writes the data of a rendezvous in place (RDMA), without a copy."""
    connections_cached: float = inf
    """Number of connections whose state the NIC keeps. With more connections, some messages have to wait."""
    connection_miss_s: float = 0.0  # Time to fetch one connection's state from memory into the NIC.
    connection_gap_s: float = 0.0  # Time that fetching a connection's state adds between two messages.
    retarget_s: float = 0.0
    """Time that a message takes longer if it goes to another peer than the previous one (dc's set-up)."""

    def __post_init__(self) -> None:
        _check_numbers(self, "transport")


@dataclass(frozen=True, slots=True)
class Machine:
    """A cluster's nodes and network."""

    name: str  # Name of the machine's file in ``conf/machine/``.
    description: str  # One line for users: nodes, network, and the origin of the numbers.
    memory: Memory  # The hardware of a node.
    transports: Mapping[str, Transport] = field(hash=False)
    """Transports between nodes by UCX's names: some of ``rc``, ``ud``, ``dc``, ``tcp``."""
    far_nic_latency_s: float = 0.0
    """Latency that is added for sender and receiver each if its socket is not the first one, to which the NIC
    is attached."""
    rc_max_endpoints: int = 256  # Number of ranks above which UCX prefers dc to rc, with UCX_TLS=all.
    calibrated_from: str = ""  # Measurement to which the numbers were fitted; empty: not calibrated.

    def __post_init__(self) -> None:
        unknown = sorted(set(self.transports) - set(TRANSPORTS))
        if unknown or not self.transports:
            listed = ", ".join(unknown) or "nothing"
            raise ScenarioError(
                f"machine {self.name}: transports must be some of {', '.join(TRANSPORTS)}, not {listed}"
            )


TRANSPORTS = ("rc", "ud", "dc", "tcp")
"""The transports between nodes that a machine may have, by UCX's names."""


def machine_from(values: Mapping[str, Any]) -> Machine:
    """Return the machine that a mapping describes, as read from a file of ``conf/machine/``.

    Raises:
        ScenarioError: If a field is missing, unknown or not a number, or a value is out of its range.
    """
    return Document("the machine", ScenarioError, infinite=True).structured(Machine, values, "machine")


def _check_numbers(part: Memory | Transport, section: str) -> None:
    """Refuse times that are negative or infinite, and counts and bandwidths that are not positive."""
    for f in fields(part):
        value = getattr(part, f.name)
        if isinstance(value, bool):
            continue
        is_time = f.name.endswith("_s") and not f.name.endswith("_per_s")
        may_be_zero = is_time or f.name == "numa_gain"
        if not (0 <= value < inf if may_be_zero else value > 0):
            bound = "zero or more" if may_be_zero else "more than zero"
            raise ScenarioError(f"{section}.{f.name} must be {bound}, not {value!r}")
