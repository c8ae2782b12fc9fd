"""Costs of messages under UCX's protocols, for one pair of ranks and one load, and for all sizes at once.

Place in the flow: `Machine` + `JobSettings` → `Protocols` → `Fabric` (which determines the `Situation` of
each message).

Notation: n sizes. Seven numbers (`Costs`), here each of shape (n,), describe a message of m bytes. They
follow from LogGP's latency L, overhead o and gaps g and G, and from the copies that UCX's protocols make:

- eager bcopy: the sender copies the data into a bounce buffer, the transfer takes m·G, and the receiver
  copies the data out of a buffer. These three overlap, because long messages are sent in fragments;
- eager zcopy (between nodes, from the zcopy threshold on): the sender's buffer is registered instead of
  copied, and the sender waits until the NIC has sent the data;
- rendezvous (from the rendezvous threshold on): no data move before both sides are ready and have exchanged a
  handshake. Then the CPUs copy nothing between nodes, and copy the data once instead of twice inside a node.
"""

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from autotune.simulate.machine import Machine, Transport
from autotune.simulate.settings import JobSettings

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

SELF, DOMAIN, SOCKET, NODE, NETWORK = range(5)
"""Distance between two ranks: the same rank, the same NUMA domain, the same socket, the same node, or
different nodes."""


class Costs(NamedTuple):
    """Costs of messages in seconds; shape (n,) for a single situation, (g, n) for g messages."""

    send: Floats  # CPU time of the sender until the message is under way.
    wire: Floats
    """Time from the end of ``send`` until a waiting receiver has the message; -inf if there is no message."""
    hold: Floats  # Time from the receiver's call until it has a message that arrived before the call.
    receive: Floats  # CPU time of the receiver after it has the message.
    port: Floats
    """Time during which the message occupies the sender's port, so that the next message has to wait."""
    release: Floats  # Time from the end of ``send`` until the sender's buffer may be used again (zcopy).
    synchronous: NDArray[np.bool_]
    """Whether the sender has to wait until the receiver has the message (rendezvous)."""


class Situation(NamedTuple):
    """Everything, other than its size, on which the cost of a message depends."""

    distance: int  # Distance between the two ranks: SELF, DOMAIN, SOCKET, NODE or NETWORK.
    share: int  # Number of messages that cross the same NIC at the same time.
    active: int  # Number of cores of the same NUMA domain that copy at the same time.
    bridge: int
    """Number of messages that leave the same socket for other sockets of the node at the same time."""
    far_ends: int  # Number of ends of the message, 0 to 2, that are not on the socket of their node's NIC.
    peers: int
    """Number of ranks on other nodes to which a rank sends in the whole algorithm, which is its number of
    connections."""


class Protocols:
    """The protocols in effect in a job with ``ppn`` ranks per node and one transport between nodes."""

    def __init__(self, machine: Machine, transport: Transport, settings: JobSettings, ppn: int) -> None:
        self.machine = machine
        self.transport = transport
        self.settings = settings
        self.ppn = ppn

    @cached_property
    def rndv_intra_bytes(self) -> float:
        """Return the rendezvous threshold in effect inside a node."""
        threshold = self.settings.rndv_intra_bytes
        return self._crossing(NODE) if threshold is None else threshold

    @cached_property
    def rndv_inter_bytes(self) -> float:
        """Return the rendezvous threshold in effect between nodes."""
        threshold = self.settings.rndv_inter_bytes
        return self._crossing(NETWORK) if threshold is None else threshold

    @cached_property
    def zcopy_bytes(self) -> float:
        """Return the zcopy threshold in effect.

        UCX's own threshold is the size from which on copying costs more than registering.
        """
        if self.settings.zcopy_bytes is not None:
            return self.settings.zcopy_bytes
        cheaper = self.transport.registration_s < _SIZES / _UCX_BCOPY_BYTES_PER_S
        return float(_SIZES[np.argmax(cheaper)]) if cheaper.any() else np.inf

    def copy_s(self, nbytes: Floats, active: int, missing: Floats, *, buffered: bool = False) -> Floats:
        """Return the time of a copy on one core while other cores of its NUMA domain also copy, (n,).

        Args:
            nbytes: Payloads, shape (n,).
            active: Number of cores of the domain that copy at the same time, including this core.
            missing: Share of the data that comes from memory instead of caches, shape (n,).
            buffered: Whether the source or the target is a small buffer that stays in caches, so that there
                is only half of the traffic to memory.
        """
        memory = self.machine.memory
        core = memory.copy_bytes_per_s * (1.0 + memory.numa_gain * (self.settings.numa_per_socket > 1))
        core = min(core, self._domain_bytes_per_s(active) * (2.0 if buffered else 1.0))
        return nbytes * ((1.0 - missing) / memory.cache_copy_bytes_per_s + missing / core)

    def _domain_bytes_per_s(self, active: int) -> float:
        """Return the memory bandwidth that one of the active cores of a NUMA domain gets."""
        return self.machine.memory.socket_bytes_per_s / self.settings.numa_per_socket / max(active, 1)

    def price(self, situation: Situation, nbytes: Floats, missing: Floats) -> Costs:
        """Return the costs of messages of n sizes in one situation.

        ``missing``, (n,), is the share of the data that is not in caches.
        """
        if situation.distance == SELF:
            nothing = np.zeros_like(nbytes)
            return Costs(nothing, nothing - np.inf, nothing, nothing, nothing, nothing, nothing > 0)
        network = situation.distance == NETWORK
        synchronous = nbytes >= (self.rndv_inter_bytes if network else self.rndv_intra_bytes)
        if network:
            eager, rendezvous = self._between_nodes(situation, nbytes, missing)
        else:
            eager, rendezvous = self._inside_node(situation, nbytes, missing)
        columns = [np.where(synchronous, r, e) for r, e in zip(rendezvous, eager, strict=True)]
        return Costs(*columns, synchronous)  # type: ignore[call-arg] # a protocol has the first six fields

    def _inside_node(
        self, at: Situation, nbytes: Floats, missing: Floats
    ) -> tuple[tuple[Floats, ...], tuple[Floats, ...]]:
        """Return (send, wire, hold, receive, port, release) of eager messages, and the same of rendezvous."""
        memory = self.machine.memory
        farther = {DOMAIN: 0.0, SOCKET: memory.domain_latency_s, NODE: memory.socket_latency_s}
        latency = memory.latency_s + farther[at.distance]
        nothing = np.zeros_like(nbytes)
        overhead = nothing + memory.overhead_s
        copy = self.copy_s(nbytes, at.active, missing, buffered=True)
        link = nothing
        if at.distance == NODE:
            link = nbytes * (max(at.bridge, 1) / memory.cross_socket_bytes_per_s)
        out = np.maximum(copy, link)
        # The receiver copies fragments while the sender copies further fragments: only the last fragment
        # takes additional time.
        last = out * _fraction(nbytes, memory.fragment_bytes)
        eager = (overhead + copy, latency + last, out, overhead, overhead + copy, nothing)
        single = memory.single_copy_bytes_per_s
        through = min(single, self._domain_bytes_per_s(at.active))
        pull = np.maximum(nbytes * ((1.0 - missing) / single + missing / through), link)
        hold = memory.rendezvous_s + memory.single_copy_setup_s + pull
        return eager, (overhead, latency + hold, hold, overhead, nothing, nothing)

    def _between_nodes(
        self, at: Situation, nbytes: Floats, missing: Floats
    ) -> tuple[tuple[Floats, ...], tuple[Floats, ...]]:
        """Return (send, wire, hold, receive, port, release) of eager messages, and the same of rendezvous."""
        net = self.transport
        share = max(at.share, 1)
        fetched = max(0.0, 1.0 - net.connections_cached / max(at.peers * self.ppn, 1))
        latency = net.latency_s + at.far_ends * self.machine.far_nic_latency_s
        latency += fetched * net.connection_miss_s + (net.retarget_s if at.peers > 1 else 0.0)
        gap = net.gap_s + fetched * net.connection_gap_s
        nothing = np.zeros_like(nbytes)
        overhead = nothing + net.overhead_s
        # A rank's traffic is limited by its connection, by its share of the NIC, and by its core.
        serial = nbytes * max(1.0 / net.flow_bytes_per_s, share / net.bytes_per_s)
        arriving = latency + np.maximum(serial, (share - 1) * gap)
        if at.peers > 1:
            # Ranks that always send to new partners get out of step: while some of them wait for the wire,
            # others use the NIC, so that latency and queueing overlap. In simulations by SMPI the two times a
            # and b combine to sqrt(a² + b²).
            alone = nbytes / net.flow_bytes_per_s
            arriving = alone + np.hypot(latency, arriving - latency - alone)
        software = nbytes / net.cpu_bytes_per_s
        copy = self.copy_s(nbytes, at.active, missing, buffered=True)
        zcopy = nbytes >= self.zcopy_bytes
        fraction = _fraction(nbytes, net.fragment_bytes)
        pushed = np.where(zcopy, net.registration_s, copy) + software
        begin = np.where(zcopy, net.registration_s, (copy + software) * fraction)
        out = copy + software
        # The last byte is on the wire when the CPU has pushed it and the NIC has sent all bytes before it.
        # Then the receiver copies the last fragment.
        wire = np.maximum(latency, begin + arriving - pushed) + out * fraction
        port = np.maximum(overhead + pushed, np.maximum(serial, share * gap))
        eager = (overhead + pushed, wire, out, overhead, port, np.where(zcopy, serial + latency, 0.0))
        # Without remote memory access the receiver copies each packet while further packets arrive.
        receiver_s = software if net.remote_access else out
        hold = net.rendezvous_s + net.registration_s + np.maximum(arriving, latency + receiver_s)
        return eager, (overhead + net.registration_s, latency + hold, hold, overhead, serial, nothing)

    def _crossing(self, distance: int) -> float:
        """Return the size from which on UCX expects rendezvous to be faster than eager messages.

        UCX estimates both times for an idle pair of ranks, with speeds that it assumes, and without overlap
        of copies and transfer.
        """
        memory, net = self.machine.memory, self.transport
        if distance == NETWORK:
            copy = _SIZES / _UCX_BCOPY_BYTES_PER_S
            eager = np.where(self.zcopy_bytes <= _SIZES, net.registration_s, copy) + copy
            rendezvous = net.rendezvous_s + 2.0 * net.registration_s + (0.0 if net.remote_access else copy)
        else:
            eager = 2.0 * _SIZES / _UCX_SHARED_MEMORY_BYTES_PER_S
            single = _SIZES / memory.single_copy_bytes_per_s
            rendezvous = memory.rendezvous_s + memory.single_copy_setup_s + single
        better = rendezvous <= eager
        return float(_SIZES[np.argmax(better)]) if better.any() else np.inf


_UCX_BCOPY_BYTES_PER_S = 7000 * 2**20
"""Rate that UCX assumes, on every machine, for a copy to or from a NIC's buffer (UCX 1.20, UCX_BCOPY_BW)."""
_UCX_SHARED_MEMORY_BYTES_PER_S = 15360 * 2**20
"""Rate that UCX assumes, on every machine, for a copy through shared memory (UCX 1.20, UCX_MM_BW)."""
_SIZES: Floats = 2.0 ** np.arange(8, 23, 0.25)
"""Sizes in bytes, from 256 B to 4 MiB, among which UCX's automatic thresholds are searched."""


def _fraction(nbytes: Floats, fragment_bytes: float) -> Floats:
    return np.minimum(1.0, fragment_bytes / np.maximum(nbytes, 1.0))
