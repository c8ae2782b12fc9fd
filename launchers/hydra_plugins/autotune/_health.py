"""Check the nodes of an allocation: free space, and the time in which neighbours exchange a message.

``srun`` runs this module, which uses the standard library alone, as one process on each node. The campaign's
process reads the output of these processes. Each node sends a message to the next node in the list and gets
it back, so a slow node makes two exchanges slow.
"""

import json
import os
import secrets
import socket
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

PLACES = ("/var/tmp", "/tmp", "/dev/shm")  # noqa: S108 - where launchers and libraries put their files
LEAST_MIB = 4
"""Free space in MiB that a launch needs: its files are small, but each peer needs a page of shared memory."""
SLOWER = 5.0
"""A node is slow if it takes more than this multiple of the median time; links of one switch differ by far
less."""
SENT_BYTES = 1 << 18  # Message size: large enough to show a throttled link, small enough for 1 Mbit/s.
_REPEATS, _PATIENCE_S = 3, 10.0
"""Number of exchanges with a neighbour, and the time limit of each step in seconds."""


@dataclass(frozen=True, slots=True)
class Health:
    """Hold the health of one node."""

    host: str
    free_mib: Mapping[str, float]  # Free space in MiB, by directory.
    exchange_s: float = 0.0  # Time of the shortest exchange with the next node in seconds; 0: no exchange.


def unfit(reports: Iterable[Health], hosts: Sequence[str]) -> dict[str, str]:
    """Return the nodes on which launches would fail, each with the reason."""
    by_host = {health.host: health for health in reports}
    if not by_host:  # no node could be asked
        return {}
    reasons = {host: "starts no process" for host in hosts if host not in by_host}
    for host, health in by_host.items():
        if full := [place for place, free in health.free_mib.items() if free < LEAST_MIB]:
            reasons[host] = f"no room in {', '.join(full)}"
    return reasons


def slow(reports: Iterable[Health], hosts: Sequence[str]) -> dict[str, float]:
    """Return the nodes that are slow with both neighbours, each with its time divided by the median time."""
    took = {report.host: report.exchange_s for report in reports if report.exchange_s}
    links = [took.get(host, 0.0) for host in hosts]
    best = {host: min(links[i - 1], links[i]) for i, host in enumerate(hosts) if links[i - 1] and links[i]}
    if len(best) < 3:  # with two nodes it is unclear which one is slow
        return {}
    usual = median(best.values())
    return {host: best[host] / usual for host in best if best[host] > SLOWER * usual}


def main(folder: Path, hosts: Sequence[str]) -> int:
    """Print the health of the node on which this program runs."""
    host = os.environ["SLURMD_NODENAME"]
    disks = {place: os.statvfs(place) for place in PLACES if Path(place).is_dir()}
    free = {place: disk.f_bavail * disk.f_frsize / 2**20 for place, disk in disks.items()}
    took_s, token = 0.0, secrets.token_bytes(16)
    with socket.create_server(("", 0)) as server:
        server.settimeout(_PATIENCE_S)
        partial = folder / f"{host}.part"
        partial.write_text(json.dumps([server.getsockname()[1], token.hex()]), encoding="utf-8")
        partial.replace(folder / host)
        answering = threading.Thread(target=_answer, args=(server, token), daemon=True)
        answering.start()
        try:
            took_s = _exchange(folder, hosts[(hosts.index(host) + 1) % len(hosts)])
        except (OSError, ValueError) as exc:
            sys.stderr.write(f"{host}: {exc}\n")
        answering.join(_PATIENCE_S)
    sys.stdout.write(json.dumps(asdict(Health(host, free, took_s))) + "\n")
    return 0


def _answer(server: socket.socket, token: bytes) -> None:
    try:
        connection, _ = server.accept()
        with connection:
            connection.settimeout(_PATIENCE_S)
            if _received(connection, len(token)) == token:
                for _ in range(_REPEATS):
                    connection.sendall(_received(connection, SENT_BYTES))
    except OSError:
        return


def _exchange(folder: Path, neighbour: str) -> float:
    deadline = time.monotonic() + _PATIENCE_S
    while not (folder / neighbour).exists():
        if time.monotonic() > deadline:
            raise OSError(f"{neighbour} did not begin")
        time.sleep(0.01)
    port, token = json.loads((folder / neighbour).read_text(encoding="utf-8"))
    sent, best_s = bytes(SENT_BYTES), float("inf")
    with socket.create_connection((neighbour, port), timeout=_PATIENCE_S) as connection:
        connection.sendall(bytes.fromhex(token))
        for _ in range(_REPEATS):
            began_s = time.perf_counter()
            connection.sendall(sent)
            _received(connection, SENT_BYTES)
            best_s = min(best_s, time.perf_counter() - began_s)
    return best_s


def _received(connection: socket.socket, n: int) -> bytes:
    buffer = bytearray()
    while len(buffer) < n:
        if not (piece := connection.recv(n - len(buffer))):
            raise OSError("the neighbour went away")
        buffer += piece
    return bytes(buffer)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
