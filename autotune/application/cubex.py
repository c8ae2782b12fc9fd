"""Read an application's calls from its CubeX profile (Score-P), as the document that ``record`` writes.

A profile has sums for each call path (chain of functions) and rank: number of visits, time, and the bytes
that were sent and received, which Score-P counts as in its traces (see `traces`). So all calls of one path
count with their mean size, and their communicator is assumed to consist of the ranks that visited the path. A
profile shows neither the waiting for late ranks nor the time of MPI_Wait for non-blocking calls.

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

from autotune.application.recording import KINDS, RecordedCalls, Recording, even_block, of_tool
from autotune.collectives import COLLECTIVES, Pattern, called
from autotune.errors import TableError, needing

_DAMAGED = (
    *(OSError, tarfile.TarError, ParseError, struct.error, zlib.error, EOFError, RecursionError),
    *(AssertionError, AttributeError, IndexError, KeyError, TypeError, ValueError),
)
"""Errors that the library raises for a file that is damaged or of another kind."""


def read_cubex(path: Path) -> Recording:
    """Return the recording in a profile (``profile.cubex``).

    Raises:
        UserError: The library that reads profiles is not installed.
        TableError: The file is no profile, is damaged, or is the profile of a program without MPI.
    """
    with needing("cubex", f"{path}, a CubeX profile,"):
        import pycubexr
        from pycubexr.utils import exceptions
    parser = pycubexr.CubexParser(str(path))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the parser warns of checksums, which CubeW 4.8 wrote wrongly
            with parser as cube:
                return _read(cube, path)
    except (
        *(*_DAMAGED, exceptions.CorruptIndexError, exceptions.MissingMetricError),
        exceptions.UnsupportedMetricFormatError,
    ) as exc:
        raise TableError(
            f"{path} cannot be read as a CubeX profile: {exc}", "name Score-P's profile.cubex"
        ) from exc
    finally:
        # The parser leaves the file open where its table of contents is damaged.
        if opened := getattr(parser, "_cubex_file", None):
            opened.close()


def _read(cube: Any, path: Path) -> Recording:
    """Return a recording of the collectives, from the sums over all call paths that end in a collective."""
    metrics = {metric.name: metric for metric in cube.all_metrics()}
    if lacking := sorted({"visits", "time", "bytes_sent", "bytes_received"} - set(metrics)):
        raise TableError(f"{path}: a profile without {', '.join(lacking)}", "is it of Score-P, with MPI?")
    (machine,) = cube._anchor_result.system_tree_nodes
    groups = [group for group in machine.all_location_groups() if group.type == "process"]
    threads = [[place.id for place in group.all_locations()] for group in groups]
    if not threads:
        raise TableError(f"{path}: a profile without any process")

    def per_rank(metric: str, node: Any) -> NDArray[np.float64]:
        """Return a metric of a call path, summed over the threads of each rank, ``(n_ranks,)``."""
        values = np.asarray(cube.get_metric_values(metrics[metric]).cnode_values(node), float)
        return np.array([values[ids].sum() for ids in threads])

    totals = defaultdict[tuple[str, str, int, int], Any](lambda: np.zeros(3))
    for node in cube.all_cnodes():
        name, kind = _collective(cube.get_region(node).name)
        if name not in COLLECTIVES:
            continue
        visits = per_rank("visits", node)
        took_part = visits > 0
        if ranks := int(took_part.sum()):
            sent, received = (
                per_rank(key, node)[took_part] / visits[took_part] for key in ("bytes_sent", "bytes_received")
            )
            n_bytes, calls = _size(name, ranks, sent, received), visits.sum()
            key = name, kind, ranks, int(n_bytes).bit_length()
            totals[key] += (calls, calls * n_bytes, per_rank("time", node).sum())
    times, roots = cube.get_metric_values(metrics["time"]), cube.get_root_cnodes()
    run_s = max(float(np.max(times.cnode_values(root, convert_to_inclusive=True))) for root in roots)
    if not run_s > 0:
        raise TableError(f"{path}: a profile of no time")
    recorded = [
        RecordedCalls(
            *(name, kind, comm_size, float(n_bytes / calls), round(calls), float(calls) / len(threads)),
            *(float(seconds) / len(threads), 0.0),
            *((round(calls), 0.0, None) if kind == KINDS[0] else (0, None, None)),
        )
        for (name, kind, comm_size, _), (calls, n_bytes, seconds) in totals.items()
    ]
    return of_tool("as in a CubeX profile", run_s, len(threads), max(1, _nodes(machine)), recorded)


def _collective(region: str) -> tuple[str, str]:
    """Return the name of the collective that a function calls, and the kind of the call.

    If the function calls no collective, the name is not that of any collective.
    """
    name = region.removeprefix("MPI_").removesuffix("_c").lower() if region.startswith("MPI_") else ""
    if name.endswith("_init"):
        return name.removesuffix("_init"), KINDS[2]
    if not called(name) and name.startswith("i"):
        return name[1:], KINDS[1]
    return name, KINDS[0]


def _size(name: str, ranks: int, sent: NDArray[np.float64], received: NDArray[np.float64]) -> float:
    """Return the message size in bytes, counted as in ``collectives``, from the bytes of each rank in a call.

    In calls with a root, the message size is that of the block which every rank, including the root, sends or
    receives.
    """
    blocks = even_block(name, ranks, sent + received)
    if blocks is None:
        blocks = received if COLLECTIVES[name].pattern is Pattern.ONE_TO_ALL else sent
    sizes = blocks[blocks > 0]  # in an in-place call the root counts no bytes
    return float(sizes.mean()) if sizes.size else 0.0


def _nodes(machine: Any) -> int:
    """Return the number of nodes with processes in the profile's tree of the machine."""
    return int(bool(machine._location_group_children)) + sum(map(_nodes, machine._system_tree_node_children))
