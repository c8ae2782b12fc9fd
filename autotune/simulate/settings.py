"""Job-wide settings whose effect can be simulated, with their names in the search spaces.

Place in the flow: the job-wide values of a trial → :func:`settings_from` → `JobSettings` → `predict`.
Settings that are missing in a trial have the MPI stack's own default, so an empty mapping is the untuned
baseline.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from autotune.errors import SpaceError, allowed
from autotune.space.parameter import size_in_bytes

TLS = ("all", "self,sm,rc", "self,sm,ud", "self,sm,dc", "self,sm,tcp")
"""Values of UCX_TLS that can be simulated."""
COMPONENTS = ("tuned", "han", "hcoll", "ucc")  # Collective components that can be simulated.
STACK_COMPONENT = "han"
"""Component that runs collectives by default: Open MPI 5 gives han a higher priority (35) than tuned (30)."""
MAPPINGS = ("block", "cyclic")  # Ways to place the ranks of a node on its NUMA domains.


@dataclass(frozen=True, slots=True)
class JobSettings:
    """Job-wide settings for all messages; a threshold of None means UCX's ``auto``."""

    tls: str = "all"  # Value of UCX_TLS, one of `TLS`.
    rndv_intra_bytes: float | None = None
    """UCX_RNDV_THRESH inside a node: smallest size of a message that is sent by rendezvous; inf if no message
    is."""
    rndv_inter_bytes: float | None = None  # UCX_RNDV_THRESH between nodes.
    zcopy_bytes: float | None = None
    """UCX_ZCOPY_THRESH: smallest size of an eager message that is sent without a copy."""
    component: str = "tuned"
    """Collective component, one of `COMPONENTS`. An algorithm can be chosen only with ``tuned``."""
    mapping: str = "block"  # Way to place the ranks of a node on its NUMA domains, one of `MAPPINGS`.
    numa_per_socket: int = 1  # Number of NUMA domains per socket, a setting of the firmware (NPS, SNC).

    def __post_init__(self) -> None:
        for name, value, choices in (
            ("UCX_TLS", self.tls, TLS),
            ("component", self.component, COMPONENTS),
            ("mapping", self.mapping, MAPPINGS),
            ("NPS", self.numa_per_socket, (1, 2, 4)),
        ):
            if value not in choices:
                raise SpaceError(f"{name}={value!r} is unknown to the model", allowed(value, choices))


def settings_from(values: Mapping[str, str | int | float | bool]) -> JobSettings:
    """Return the settings that the values of a trial describe.

    Names of settings that cannot be simulated are ignored; algorithms and segment sizes are arguments of
    `predict`.

    Raises:
        SpaceError: If a setting that can be simulated has a value that cannot be simulated.
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
    text = str(values.get(name, "auto")).strip().lower()
    if text == "auto":
        return None
    if (size := inf if text == "inf" else size_in_bytes(text)) is None:
        hint = "give auto, inf or bytes such as 4k or 131072"
        raise SpaceError(f"{name}={values[name]!r} is not a size", hint)
    return size
