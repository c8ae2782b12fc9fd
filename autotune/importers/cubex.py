"""An application's calls from its CubeX profile (Score-P): the document that ``record`` writes.

Beside the flow of a campaign. A profile has sums for each call path and rank: visits, time, and the bytes
that were sent and received, which Score-P counts as in its traces (see `traces`). So the calls of one path
have their mean size, and the ranks that came through it are taken for their communicator. Waiting is not
separated, nor is the time of the waits for non-blocking calls.

References:
    P. Saviankou et al., "Cube v4: From Performance Report Explorer to Performance Analysis Tool", Procedia
    Computer Science 51 (2015).
"""

import struct
import tarfile
import warnings
import zlib
from collections import defaultdict
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError

import numpy as np
from numpy.typing import NDArray

from autotune.collectives import COLLECTIVES, Pattern, called
from autotune.errors import TableError, needing
from autotune.importers.recording import KINDS, RecordedCalls, Recording, even_block, of_tool

_DAMAGED = (
    *(OSError, tarfile.TarError, ParseError, struct.error, zlib.error, EOFError, RecursionError),
    *(AssertionError, AttributeError, IndexError, KeyError, TypeError, ValueError),
)
"""Errors of the library for a file that is damaged or of another kind."""


def read_cubex(path: Path) -> Recording:
    """The recording in a profile (``profile.cubex``).

    Raises:
        UserError: the library that reads profiles is not installed.
        TableError: no profile, a damaged one, or one of a program without MPI.
    """
    with needing("cubex", f"{path}, a CubeX profile,"):
        import pycubexr
        from pycubexr.utils.exceptions import (
            CorruptIndexError,
            MissingMetricError,
            UnsupportedMetricFormatError,
        )
    parser = pycubexr.CubexParser(str(path))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of checksums, which CubeW 4.8 got wrong
            with parser as cube:
                return _read(cube, path)
    except (*_DAMAGED, CorruptIndexError, MissingMetricError, UnsupportedMetricFormatError) as exc:
        raise TableError(
            f"{path} cannot be read as a CubeX profile: {exc}", "name Score-P's profile.cubex"
        ) from exc
    finally:
        if opened := getattr(
            parser, "_cubex_file", None
        ):  # it stays open where its table of contents is damaged
            opened.close()


def _read(cube: Any, path: Path) -> Recording:
    """Sums over all call paths that end in a collective."""
    metrics = {metric.name: metric for metric in cube.all_metrics()}
    if lacking := sorted({"visits", "time", "bytes_sent", "bytes_received"} - set(metrics)):
        raise TableError(f"{path}: a profile without {', '.join(lacking)}", "is it of Score-P, with MPI?")
    (machine,) = cube._anchor_result.system_tree_nodes
    groups = [group for group in machine.all_location_groups() if group.type == "process"]
    threads = [[place.id for place in group.all_locations()] for group in groups]
    if not threads:
        raise TableError(f"{path}: a profile without any process")

    def of(metric: str, node: Any) -> NDArray[np.float64]:
        """``(n_ranks,)``, all threads of a rank together."""
        values = np.asarray(cube.get_metric_values(metrics[metric]).cnode_values(node), float)
        return np.array([values[ids].sum() for ids in threads])

    totals: dict[tuple[str, str, int, int], Any] = defaultdict(lambda: np.zeros(3))
    for node in cube.all_cnodes():
        name, kind = _collective(cube.get_region(node).name)
        if name not in COLLECTIVES:
            continue
        visits = of("visits", node)
        came = visits > 0
        if came.any():
            ranks = int(came.sum())
            per_call = [of(key, node)[came] / visits[came] for key in ("bytes_sent", "bytes_received")]
            n_bytes = _size(name, ranks, *per_call)
            calls = visits.sum()
            key = name, kind, ranks, int(n_bytes).bit_length()
            totals[key] += (calls, calls * n_bytes, of("time", node).sum())
    run = cube.get_metric_values(metrics["time"])
    run_s = max(
        float(np.max(run.cnode_values(root, convert_to_inclusive=True))) for root in cube.get_root_cnodes()
    )
    if not run_s > 0:
        raise TableError(f"{path}: a profile of no time")
    found = [
        RecordedCalls(
            *(name, kind, comm_size, float(n_bytes / calls), round(calls), float(calls) / len(threads)),
            *(float(seconds) / len(threads), 0.0),
            *((round(calls), 0.0, None) if kind == KINDS[0] else (0, None, None)),
        )
        for (name, kind, comm_size, _), (calls, n_bytes, seconds) in totals.items()
    ]
    return of_tool("as in a CubeX profile", run_s, len(threads), max(1, _nodes(machine)), found)


def _collective(region: str) -> tuple[str, str]:
    """MPI's name of a collective, lower case, and the kind of call; another function's is no collective."""
    name = region.removeprefix("MPI_").removesuffix("_c").lower() if region.startswith("MPI_") else ""
    if name.endswith("_init"):
        return name.removesuffix("_init"), KINDS[2]
    if not called(name) and name.startswith("i"):
        return name[1:], KINDS[1]
    return name, KINDS[0]


def _size(name: str, ranks: int, sent: NDArray[np.float64], received: NDArray[np.float64]) -> float:
    """The message size, as in ``collectives``, of what each rank sent and received in a call, ``(n_ranks,)``.

    Of calls with a root what every rank gives, or gets, is one block, the root's own included.
    """
    blocks = even_block(name, ranks, sent + received)
    if blocks is None:
        blocks = received if COLLECTIVES[name].pattern is Pattern.ONE_TO_ALL else sent
    some = blocks[blocks > 0]  # in place the root counts none
    return float(some.mean()) if some.size else 0.0


def _nodes(machine: Any) -> int:
    """Places in a tree of the machine that have processes."""
    return int(bool(machine._location_group_children)) + sum(map(_nodes, machine._system_tree_node_children))
