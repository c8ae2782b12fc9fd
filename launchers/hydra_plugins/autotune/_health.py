"""Health of the nodes of an allocation: room, and how fast neighbours exchange a message.

Run by ``srun``, a process on each node, by the standard library alone; the driver reads what they print. A
node sends to the next one in the list and gets back what it sent, so that both links of a slow node are slow.
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
LEAST_MIB = 4  # Of room: files of a launch are small, but a page of shared memory is needed for each peer.
SLOWER = 5.0  # A node is slow at so many times its peers' time; links of one switch differ by far less.
SENT_BYTES = 1 << 18  # Long enough that a throttled link shows, short enough for one of 1 Mbit/s.
_REPEATS, _PATIENCE_S = 3, 10.0


@dataclass(frozen=True, slots=True)
class Health:
    """One node."""

    host: str
    free_mib: Mapping[str, float]  # By place.
    exchange_s: float = 0.0  # With the next node, best of a few; 0: it was not reached.


def unfit(reports: Iterable[Health], hosts: Sequence[str]) -> dict[str, str]:
    """Nodes on which launches fail, with the reason."""
    said = {one.host: one for one in reports}
    if not said:  # nobody could be asked
        return {}
    found = {host: "starts no process" for host in hosts if host not in said}
    for host, one in said.items():
        full = [place for place, free in one.free_mib.items() if free < LEAST_MIB]
        if full:
            found[host] = f"no room in {', '.join(full)}"
    return found


def slow(reports: Iterable[Health], hosts: Sequence[str]) -> dict[str, float]:
    """Nodes that exchange messages slowly with both neighbours, by how many times their peers' time."""
    took = {one.host: one.exchange_s for one in reports if one.exchange_s}
    links = [took.get(host, 0.0) for host in hosts]
    best = {host: min(links[i - 1], links[i]) for i, host in enumerate(hosts) if links[i - 1] and links[i]}
    if len(best) < 3:  # of two nodes nobody can say which one is slow
        return {}
    usual = median(best.values())
    return {host: best[host] / usual for host in best if best[host] > SLOWER * usual}


def main(folder: Path, hosts: Sequence[str]) -> int:
    """On a node: print its health."""
    host = os.environ["SLURMD_NODENAME"]
    free = {p: _free_mib(p) for p in PLACES if Path(p).is_dir()}
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


def _free_mib(place: str) -> float:
    found = os.statvfs(place)
    return found.f_bavail * found.f_frsize / 2**20


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
    taken = bytearray()
    while len(taken) < n:
        if not (piece := connection.recv(n - len(taken))):
            raise OSError("the neighbour went away")
        taken += piece
    return bytes(taken)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
