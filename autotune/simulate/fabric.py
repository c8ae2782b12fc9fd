"""Place the ranks of a job, and compute how long messages take while other ranks also send messages.

Place in the flow: `Machine` + `NodeLayout` + `JobSettings` → `Fabric` → ``schedule``, ``trees`` → `predict`.

Notation: g messages of n sizes are under way at the same time. If k messages cross the same NIC, each of them
gets 1/k of its bandwidth, and k gaps (LogGP's g) pass between two messages of a rank. Copies in one NUMA
domain share the domain's memory bandwidth, and messages between the sockets of a node share the link between
the sockets.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from autotune.errors import ScenarioError
from autotune.simulate.machine import Machine, Transport
from autotune.simulate.protocols import (
    DOMAIN,
    NETWORK,
    NODE,
    SELF,
    SOCKET,
    Costs,
    Floats,
    Ints,
    Protocols,
    Situation,
)
from autotune.simulate.settings import JobSettings


@dataclass(frozen=True, slots=True)
class NodeLayout:
    """Number of nodes of a job and number of ranks on each node."""

    nodes: int  # Number of nodes; ranks fill one node after another.
    ppn: int  # Number of ranks on each node.

    def __post_init__(self) -> None:
        if self.nodes < 1 or self.ppn < 1:
            raise ScenarioError(
                f"{self.nodes} nodes × {self.ppn} ranks", "a cluster needs at least one of each"
            )

    @property
    def ranks(self) -> int:
        """Return the number of ranks of the whole job."""
        return self.nodes * self.ppn

    def check(self, machine: Machine) -> None:
        """Raise an error if the nodes of a machine have fewer cores than a node has ranks.

        Raises:
            ScenarioError: If a node has more ranks than cores.
        """
        if self.ppn > (cores := machine.memory.cores):
            raise ScenarioError(f"{self.ppn} ranks per node on {machine.name}", f"at most {cores}, its cores")


class Fabric:
    """A job on a machine: the placement of its ranks, and the cost of messages between them.

    Raises:
        ScenarioError: If a node has more ranks than cores, or the machine does not have the requested
            transport.
    """

    def __init__(self, machine: Machine, cluster: NodeLayout, settings: JobSettings) -> None:
        memory = machine.memory
        cluster.check(machine)
        self.cluster = cluster
        self.settings = settings
        self.protocols = Protocols(machine, _transport(machine, cluster, settings), settings, cluster.ppn)
        self._prices: dict[tuple[Situation, bytes, bytes], Costs] = {}
        self.sockets = memory.sockets
        numa = settings.numa_per_socket
        rank = np.arange(cluster.ranks)
        local = rank % cluster.ppn
        if settings.mapping == "cyclic":
            # Like mappers, place ranks round-robin, first over the sockets: consecutive ranks are on
            # different sockets.
            socket, turn = local % memory.sockets, local // memory.sockets
            self.domain = socket * numa + turn % numa
        else:
            self.domain = local * (memory.sockets * numa) // memory.cores
        self.node = rank // cluster.ppn
        self.socket = self.domain // numa
        self._domain_key = self.node * (memory.sockets * numa) + self.domain
        self._n_domains = cluster.nodes * memory.sockets * numa

    @cached_property
    def ranks_per_domain(self) -> int:
        """Return the number of ranks in the NUMA domain with most ranks."""
        return int(np.bincount(self.domain[: self.cluster.ppn]).max())

    @cached_property
    def cache_per_rank_bytes(self) -> float:
        """Return the size of the caches that a rank can use: its own, and a part of the shared cache."""
        memory = self.protocols.machine.memory
        sharing = int(np.bincount(self.socket[: self.cluster.ppn]).max())
        return memory.cache_bytes + memory.socket_cache_bytes / sharing

    @property
    def overhead_s(self) -> float:
        """Return the CPU time, of sender and receiver together, for one more message in the same round."""
        machine, transport = self.protocols.machine, self.protocols.transport
        return 2.0 * (transport if self.cluster.nodes > 1 else machine.memory).overhead_s

    def part(self, ranks: int) -> "Fabric":
        """Return the job reduced to the nodes of its first ``ranks`` ranks, all filled equally."""
        ppn = min(ranks, self.cluster.ppn)
        cluster = NodeLayout(-(-ranks // ppn), ppn)
        if cluster == self.cluster:
            return self
        return Fabric(self.protocols.machine, cluster, self.settings)

    def distance(self, a: Ints, b: Ints) -> Ints:
        """Return the distance between the two ranks of each pair: SELF, DOMAIN, SOCKET, NODE or NETWORK."""
        far = np.where(self.socket[a] == self.socket[b], SOCKET, NODE)
        far = np.where(self.domain[a] == self.domain[b], DOMAIN, far)
        return np.where(self.node[a] == self.node[b], np.where(a == b, SELF, far), NETWORK)

    def costs(
        self,
        source: Ints,
        target: Ints,
        nbytes: Floats,
        missing: Floats,
        *,
        peers: int = 1,
        alone: bool = False,
    ) -> Costs:
        """Return the costs of g messages that are under way at the same time, each field of shape (g, n).

        Args:
            source: Sending ranks, shape (g,).
            target: Receiving ranks, shape (g,). A rank that sends nothing has its own number here.
            nbytes: Message sizes, shape (n,).
            missing: Share of the call's data that is not in caches, shape (n,).
            peers: Number of ranks on other nodes to which each rank sends in the whole algorithm.
            alone: Whether only one of the messages is under way at a time, so that messages share nothing.
        """
        distance = self.distance(source, target)
        crossing = distance == NETWORK
        far_ends = crossing * ((self.socket[source] != 0) * 1 + (self.socket[target] != 0))
        if alone:
            share, active, bridge = crossing * 1, (distance != SELF) * 1, (distance == NODE) * 1
        else:
            nodes, domains = self.cluster.nodes, self._n_domains
            out = np.bincount(self.node[source[crossing]], minlength=nodes)
            into = np.bincount(self.node[target[crossing]], minlength=nodes)
            share = crossing * np.maximum(out[self.node[source]], into[self.node[target]])
            moving = distance != SELF
            source_domain, target_domain = self._domain_key[source], self._domain_key[target]
            sending = np.bincount(source_domain[moving], minlength=domains)
            busy = np.maximum(sending, np.bincount(target_domain[moving], minlength=domains))
            active = moving * np.maximum(busy[source_domain], busy[target_domain])
            bridging = distance == NODE
            side = self.node[source] * self.sockets + self.socket[source]
            bridge = bridging * np.bincount(side[bridging], minlength=nodes * self.sockets)[side]
        # There are few different situations, so the costs in each situation are computed once, for all
        # messages in it.
        k = 1 + int(max(share.max(), active.max(), bridge.max()))
        code = (((distance * k + share) * k + active) * k + bridge) * 3 + far_ends
        _, first, case = np.unique(code, return_index=True, return_inverse=True)
        sizes = (nbytes.tobytes(), missing.tobytes())
        rows = []
        for i in first:
            situation = Situation._make(
                [*(int(feature[i]) for feature in (distance, share, active, bridge, far_ends)), peers]
            )
            if (situation, *sizes) not in self._prices:
                self._prices[situation, *sizes] = self.protocols.price(situation, nbytes, missing)
            rows.append(self._prices[situation, *sizes])
        return Costs(*(np.stack(column)[case] for column in zip(*rows, strict=True)))

    def copy_s(self, nbytes: Floats, missing: Floats) -> Floats:
        """Return the time of a copy if all ranks of the job copy at the same time, shape (n,)."""
        return self.protocols.copy_s(nbytes, self.ranks_per_domain, missing)

    def reduce_s(self, nbytes: Floats, missing: Floats) -> Floats:
        """Return the time to combine two payloads on every rank, (n,).

        It is never shorter than the time of a copy, for the data that are not in caches.
        """
        rate = self.protocols.machine.memory.reduce_bytes_per_s
        return np.maximum(nbytes / rate, missing * self.copy_s(nbytes, np.ones_like(nbytes)))


def missing(cache_bytes: float, touched_bytes: Floats) -> Floats:
    """Return the share of a core's data that does not fit into caches of the given size, shape (n,)."""
    return np.maximum(0.0, 1.0 - cache_bytes / np.maximum(touched_bytes, 1.0))


def _transport(machine: Machine, cluster: NodeLayout, settings: JobSettings) -> Transport:
    name = settings.tls.rpartition(",")[2]
    if name == "all":
        # UCX prefers rc up to a certain number of endpoints, dc with more endpoints, and tcp only if there is
        # nothing else.
        few_endpoints = cluster.ranks <= machine.rc_max_endpoints
        order = ("rc", "dc", "ud", "tcp") if few_endpoints else ("dc", "ud", "rc", "tcp")
        name = next(candidate for candidate in order if candidate in machine.transports)
    if name in machine.transports:
        return machine.transports[name]
    if cluster.nodes == 1:
        # Any transport will do here, because no message leaves the node.
        return next(iter(machine.transports.values()))
    raise ScenarioError(
        f"UCX_TLS={settings.tls}: {machine.name} has no {name}", f"it has {', '.join(machine.transports)}"
    )
