"""Job-wide settings that the model understands, under the names that the search spaces use.

Place in the flow: a trial's launch-level point → :func:`settings_from` → `JobSettings` → `predict`. Settings
that a point does not contain keep the stack's own default, so an empty mapping is the untuned baseline.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from autotune.errors import SpaceError, allowed
from autotune.space.parameter import size_in_bytes

TLS = ("all", "self,sm,rc", "self,sm,ud", "self,sm,dc", "self,sm,tcp")
"""The values of UCX_TLS that the model knows."""
COMPONENTS = ("tuned", "han", "hcoll", "ucc")  # The collective components that the model knows.
STACK_COMPONENT = "han"
"""The component that makes collective calls by default: Open MPI 5 ranks han (35) above tuned (30)."""
MAPPINGS = ("block", "cyclic")  # Ways to place the ranks of a node on its NUMA domains.


@dataclass(frozen=True, slots=True)
class JobSettings:
    """Settings of one job for all its messages; None is UCX's ``auto``."""

    tls: str = "all"  # UCX_TLS, one of `TLS`.
    rndv_intra_bytes: float | None = None
    """UCX_RNDV_THRESH inside a node: smallest message sent by rendezvous (inf: never)."""
    rndv_inter_bytes: float | None = None  # UCX_RNDV_THRESH between nodes.
    zcopy_bytes: float | None = None
    """UCX_ZCOPY_THRESH: eager messages from this size on are not copied first."""
    component: str = "tuned"  # Collective component, of `COMPONENTS`; only ``tuned`` takes algorithms.
    mapping: str = "block"  # The layout of a node's ranks over its NUMA domains, one of `MAPPINGS`.
    numa_per_socket: int = 1  # NPS (SNC): NUMA domains of a socket, a firmware setting.

    def __post_init__(self) -> None:
        _one_of("UCX_TLS", self.tls, TLS)
        _one_of("component", self.component, COMPONENTS)
        _one_of("mapping", self.mapping, MAPPINGS)
        _one_of("NPS", self.numa_per_socket, (1, 2, 4))
        for name in ("rndv_intra_bytes", "rndv_inter_bytes", "zcopy_bytes"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise SpaceError(f"{name} must be zero or more bytes, not {value!r}")


def settings_from(values: Mapping[str, str | int | float | bool]) -> JobSettings:
    """Return the settings that a point's values describe.

    Names that the model does not know are ignored; algorithms and segment sizes are arguments of `predict`.

    Raises:
        SpaceError: If a known name has a value that the model does not know.
    """
    return JobSettings(
        tls=str(values.get("UCX_TLS", "all")),
        rndv_intra_bytes=_threshold(values, "UCX_RNDV_THRESH_INTRA"),
        rndv_inter_bytes=_threshold(values, "UCX_RNDV_THRESH_INTER"),
        zcopy_bytes=_threshold(values, "UCX_ZCOPY_THRESH"),
        component=str(values.get("component", STACK_COMPONENT)),
        mapping=str(values.get("mapping", "block")),
        numa_per_socket=int(values.get("NPS", 1)),
    )


def _threshold(values: Mapping[str, str | int | float | bool], name: str) -> float | None:
    """Return a threshold in bytes; None is ``auto``.

    Raises:
        SpaceError: If the value is no size.
    """
    text = str(values.get(name, "auto")).strip().lower()
    if text == "auto":
        return None
    if text == "inf":
        return inf
    size = size_in_bytes(text)
    if size is None:
        raise SpaceError(
            f"{name}={values[name]!r} is not a size", "give auto, inf or bytes such as 4k or 131072"
        )
    return size


def _one_of(name: str, value: object, choices: tuple[object, ...]) -> None:
    """Check a value.

    Raises:
        SpaceError: If it is none of the choices.
    """
    if value not in choices:
        raise SpaceError(f"{name}={value!r} is unknown to the model", allowed(value, choices))
