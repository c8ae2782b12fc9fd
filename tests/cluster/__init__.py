"""A real 8-node Slurm cluster on one machine: the proving ground of the launchers.

Every node is a set of namespaces (network, UTS, IPC, PID, mount) with its own address on a bridge, its own
host name, its own ``/dev/shm`` and ``/var/tmp``, and a real ``slurmd``; a login node runs ``slurmctld`` and
``munged``. All of it lives inside *one* outer set of namespaces::

    the machine ── unshare ──┐ login (10.88.0.254): slurmctld, munged, bridge, /run on a tmpfs
                             ├── cn0 (10.88.0.1): slurmd, prted, ranks
                             ├── …
                             └── cn7 (10.88.0.8)

so the machine's own interfaces, hosts file, ``/run`` and processes are never touched: state, sockets, keys
and logs are on a tmpfs that only the cluster sees, and when the outer process dies, however it dies, the
kernel drops processes, interfaces and files together. The file system outside ``/run``, ``/dev/shm`` and
``/var/tmp`` is the machine's own on every node, which stands for the shared file system of a real cluster.

- :mod:`tests.cluster.configuration` — what Slurm is told; pure text.
- :mod:`tests.cluster.inside` — the cluster's PID 1: builds nodes, starts daemons, reaps.
- :mod:`tests.cluster.ground` — the handle on it from outside: up, run, break, down.
- ``python -m tests.cluster up|down|status|exec|run`` — the same by hand.
"""
