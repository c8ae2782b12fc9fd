"""Cost of one message under UCX's protocols, in one situation, for all sizes at once.

Place in the flow: `Machine` + `JobSettings` → `Protocols` → `Fabric` (which finds out the situation of each
message).

Notation: n sizes. A message of m bytes is described by seven numbers (`Costs`), each of shape (n,) here,
built from LogGP's L, o, g, G and the copies of UCX's protocols:

- eager bcopy: the sender copies into a bounce buffer, the wire carries m·G, the receiver copies out;
  fragments make the three overlap;
- eager zcopy (from the zcopy threshold on, between nodes): a registration in place of the sender's copy, and
  the sender is held until the NIC has sent the data;
- rendezvous (from the rendezvous threshold on): nothing moves before both sides are there; a handshake, then
  no CPU copies between nodes, and one copy in place of two inside a node.
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
"""How far apart two ranks are: the same rank, NUMA domain, socket, node, or none of these."""


class Costs(NamedTuple):
    """Costs of a message, seconds; shape (n,) for one situation, (g, n) for each of g messages."""

    send: Floats  # CPU of the sender before the message is under way.
    wire: Floats  # From there until a waiting receiver has it; -inf where there is no message.
    hold: Floats  # From the receiver's being ready until it has it, if the message was waiting.
    receive: Floats  # CPU of the receiver afterwards.
    port: Floats  # Time for which the message keeps the sender's port busy; the next one leaves no earlier.
    release: Floats  # From the send until the sender's buffer is free (zcopy).
    synchronous: NDArray[np.bool_]  # Whether the sender is held until the receiver has it (rendezvous).


class Situation(NamedTuple):
    """Everything but its size that a message's cost depends on."""

    distance: int  # SELF … NETWORK.
    share: int  # Messages that cross the same NIC together.
    active: int  # Cores of the same NUMA domain that copy together.
    bridge: int  # Messages that leave the same socket for another one of its node together.
    far_ends: int  # Ends (0, 1, 2) that sit on another socket than their node's NIC.
    peers: int  # Ranks of other nodes that each rank talks to in the whole algorithm (connections kept).


class Protocols:
    """The protocols in effect for a job of ``ppn`` ranks a node, with one transport between nodes."""

    def __init__(self, machine: Machine, transport: Transport, settings: JobSettings, ppn: int) -> None:
        self.machine = machine
        self.transport = transport
        self.settings = settings
        self.ppn = ppn

    @cached_property
    def rndv_intra_bytes(self) -> float:
        """The rendezvous threshold in effect inside a node."""
        chosen = self.settings.rndv_intra_bytes
        return self._crossing(NODE) if chosen is None else chosen

    @cached_property
    def rndv_inter_bytes(self) -> float:
        """The rendezvous threshold in effect between nodes."""
        chosen = self.settings.rndv_inter_bytes
        return self._crossing(NETWORK) if chosen is None else chosen

    @cached_property
    def zcopy_bytes(self) -> float:
        """The zcopy threshold in effect: UCX's own is where a copy costs more than a registration."""
        if self.settings.zcopy_bytes is not None:
            return self.settings.zcopy_bytes
        cheaper = self.transport.registration_s < _SIZES / _UCX_BCOPY_BYTES_PER_S
        return float(_SIZES[np.argmax(cheaper)]) if cheaper.any() else np.inf

    def copy_s(self, nbytes: Floats, active: int, missing: Floats, *, buffered: bool = False) -> Floats:
        """One core's copy of a payload while `active` cores of its NUMA domain do the same; shape (n,).

        ``missing`` (n,) is the share of the data that comes from memory, not from caches. ``buffered``: one
        end is a small buffer that stays in the caches, so half of the traffic is spared.
        """
        memory = self.machine.memory
        core = memory.copy_bytes_per_s * (1.0 + memory.numa_gain * (self.settings.numa_per_socket > 1))
        core = min(core, self._domain_bytes_per_s(active) * (2.0 if buffered else 1.0))
        return nbytes * ((1.0 - missing) / memory.cache_copy_bytes_per_s + missing / core)

    def _domain_bytes_per_s(self, active: int) -> float:
        """One core's part of the memory bandwidth of a NUMA domain."""
        return self.machine.memory.socket_bytes_per_s / self.settings.numa_per_socket / max(active, 1)

    def price(self, situation: Situation, nbytes: Floats, missing: Floats) -> Costs:
        """Costs of messages (n,) in one situation, by each one's protocol; ``missing``: not in caches."""
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
        return Costs(*columns, synchronous)  # type: ignore[call-arg] # the six of both protocols

    def _inside_node(
        self, at: Situation, nbytes: Floats, missing: Floats
    ) -> tuple[tuple[Floats, ...], tuple[Floats, ...]]:
        """send, wire, hold, receive, port, release of a shared-memory message: eager, and rendezvous."""
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
        # The receiver copies fragments out while the sender is still copying: only the last one adds up.
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
        """send, wire, hold, receive, port, release of a message over the network: eager, and rendezvous."""
        net = self.transport
        share = max(at.share, 1)
        fetched = max(0.0, 1.0 - net.connections_cached / max(at.peers * self.ppn, 1))
        latency = net.latency_s + at.far_ends * self.machine.far_nic_latency_s
        latency += fetched * net.connection_miss_s + (net.retarget_s if at.peers > 1 else 0.0)
        gap = net.gap_s + fetched * net.connection_gap_s
        nothing = np.zeros_like(nbytes)
        overhead = nothing + net.overhead_s
        # A rank's traffic is limited by its connection, by its share of the NIC, and by its own core.
        serial = nbytes * max(1.0 / net.flow_bytes_per_s, share / net.bytes_per_s)
        arriving = latency + np.maximum(serial, (share - 1) * gap)
        if at.peers > 1:
            # With ever new partners ranks drift apart: while some wait for the wire, others use the NIC, so
            # that latency and queueing hide behind each other. Their sum in quadrature is what SMPI finds.
            alone = nbytes / net.flow_bytes_per_s
            arriving = alone + np.hypot(latency, arriving - latency - alone)
        software = nbytes / net.cpu_bytes_per_s
        copy = self.copy_s(nbytes, at.active, missing, buffered=True)
        zcopy = nbytes >= self.zcopy_bytes
        fraction = _fraction(nbytes, net.fragment_bytes)
        pushed = np.where(zcopy, net.registration_s, copy) + software
        begin = np.where(zcopy, net.registration_s, (copy + software) * fraction)
        out = copy + software
        # The last byte is on the wire once it is both pushed and sent; its last fragment is then copied out.
        wire = np.maximum(latency, begin + arriving - pushed) + out * fraction
        port = np.maximum(overhead + pushed, np.maximum(serial, share * gap))
        eager = (overhead + pushed, wire, out, overhead, port, np.where(zcopy, serial + latency, 0.0))
        # Without remote memory access the receiver still copies each packet, while the others arrive.
        taken = software if net.remote_access else out
        hold = net.rendezvous_s + net.registration_s + np.maximum(arriving, latency + taken)
        return eager, (overhead + net.registration_s, latency + hold, hold, overhead, serial, nothing)

    def _crossing(self, distance: int) -> float:
        """The size from which UCX expects a rendezvous to be faster, by its own figures for an idle pair.

        Its estimate adds the copies to the transfer without any overlap, at speeds that it takes for granted.
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
"""UCX's assumed rate of a copy into or out of a NIC's buffer, anywhere (UCX 1.20, UCX_BCOPY_BW)."""
_UCX_SHARED_MEMORY_BYTES_PER_S = 15360 * 2**20
"""UCX's assumed rate of a copy through shared memory, anywhere (UCX 1.20, UCX_MM_BW)."""
_SIZES: Floats = 2.0 ** np.arange(8, 23, 0.25)
"""Where UCX's automatic thresholds are looked for: 256 B to 4 MiB."""


def _fraction(nbytes: Floats, fragment_bytes: float) -> Floats:
    """The part of a message that one fragment of it is."""
    return np.minimum(1.0, fragment_bytes / np.maximum(nbytes, 1.0))
