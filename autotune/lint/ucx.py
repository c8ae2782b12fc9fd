"""Read ``ucx.conf``, and check UCX's variables wherever they are set."""

import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import PurePath

from autotune.lint.assignment import Assignment, Read
from autotune.lint.finding import Finding, Notes, likely_name
from autotune.stacks.known import KNOWN

COMMON: tuple[str, ...] = tuple(KNOWN["common"]["ucx"].split())
"""Variables that are often set; a name that is similar to one of these counts as a misspelling."""

_CONDITIONS = ("CPU vendor", "CPU model", "DMI board vendor", "Sys vendor", "Product name")
"""Keys of conditions on the machine in a section of ``ucx.conf`` (``ucs/config/parser.c``)."""
_TRANSPORTS = re.compile(
    r"all|sm|shm|mm|self|loopback|posix|sysv|cma|knem|xpmem|tcp|ib|ugni|cuda\w*|rocm\w*|gdr_copy|ze\w*|"
    r"rc(_v|_verbs|_x|_mlx5)?|ud(_v|_verbs|_x|_mlx5)?|dc(_x|_mlx5)?|srd|gga\w*|gpu\w*|rdmacm"
)

_ABOVE_ZERO = {
    "UCX_KEEPALIVE_INTERVAL": "inf turns the checks off",
    "UCX_KEEPALIVE_NUM_EPS": "1 or more; UCX_KEEPALIVE_INTERVAL = inf turns the checks off",
}
"""Maps each variable for which UCX 1.20.1 refuses 0 to a text that says what to write instead."""

_DEVICE_OF_IB = re.compile(r"(?:mlx[45]|hfi1|bnxt_re|irdma|efa|hns|rocep|rdmap)_?\w*")
"""Name of an RDMA device (of verbs) without a port number; no network interface has such a name."""
_DEVICE = re.compile(r"[^\s=;:/]+(?::\d+)?|")
"""Name of a device of UCX: a network interface, or an RDMA device (of verbs) with its port number."""
_NOT_JUDGED = re.compile(r"[*?\[\]{}'\"$]")
"""Characters in patterns for device names, and in mistakes that other findings report."""
_BEFORE_121 = re.compile(r"\bucx[-_/@=]+v?1\.(?:1?\d|20)(?!\d)", re.IGNORECASE)
"""Name of a UCX version that needs a port number after each RDMA device (openucx/ucx#11142)."""


def ucx_file(path: PurePath, text: str, version: tuple[int, int]) -> Read:
    """Read a ``ucx.conf``, which has lines ``NAME=value``."""
    notes = Notes(path)
    assigned: list[Assignment] = []
    section = False
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        section |= stripped.startswith("[")
        if not stripped or stripped.startswith(("#", ";", "[")):
            continue
        name, equals, value = (part.strip() for part in stripped.partition("="))
        if not equals:
            notes.note("MPI201", number, f"{stripped!r} assigns nothing: it is skipped", "NAME=value")
        elif name.startswith("export "):
            notes.note("MPI210", number, "this is not a shell: the line sets nothing", "leave export out")
        elif section and name in _CONDITIONS:
            continue
        elif not name.startswith("UCX_"):
            notes.note("MPI203", number, f"{name} is not a variable of UCX: it is ignored", "UCX_…")
        else:
            notes.quoted(number, name, value)
            notes.commented(number, name, value, r"\s#")
            assigned.append(Assignment(path, number, name, re.split(r"\s#", value)[0], variable=True))
    return Read(assigned, notes.findings)


def variables(
    assigned: Sequence[Assignment], installed: Collection[str] = (), text: str = ""
) -> list[Finding]:
    """Return the findings on UCX's variables: names that look misspelt, values that abort or are ignored.

    Args:
        assigned: The assignments.
        installed: Names of all variables of the UCX that is installed here.
        text: Content of the file that sets the variables; a version of UCX in the text is used.
    """
    findings = []
    for a in assigned:
        if not a.name.startswith("UCX_"):
            continue
        if a.name not in COMMON and (close := likely_name(a.name, installed) or likely_name(a.name, COMMON)):
            effect = f"UCX knows no {a.name}: it warns once and runs on without it"
            findings.append(a.finding("MPI601", effect, f"did you mean {close}?"))
        if a.name == "UCX_LOG":
            effect = "UCX knows no UCX_LOG: it warns once and runs on without it"
            findings.append(a.finding("MPI601", effect, "UCX_LOG_LEVEL"))
        if not a.literal:
            continue
        keys = {part.partition(":")[0] if ":" in part else "" for part in a.value.split(",")}
        places = keys & {"intra", "inter"}
        if a.name == "UCX_RNDV_THRESH" and len(places) == 1 and "" not in keys:
            effect = "intra: and inter: must both be given: UCX refuses one alone and the job aborts"
            findings.append(a.finding("MPI604", effect, "e.g. intra:64k,inter:256k"))
        if a.name not in ("UCX_RNDV_THRESH", "UCX_TLS") and places:
            effect = f"{a.name} takes neither intra: nor inter:: UCX refuses the value and the job aborts"
            findings.append(
                a.finding("MPI604", effect, "one value for both; only UCX_RNDV_THRESH distinguishes them")
            )
        if a.name in _ABOVE_ZERO and re.fullmatch(r"0+(?:\.0*)?[a-z]*", a.value):
            effect = f"UCX refuses {a.name} = {a.value}, and pml ucx is not there"
            findings.append(a.finding("MPI602", effect, _ABOVE_ZERO[a.name]))
        if a.name == "UCX_NET_DEVICES" and not _NOT_JUDGED.search(a.value):
            findings += _devices(a, wants_port=bool(_BEFORE_121.search(text)))
        if a.name == "UCX_TLS":
            names = [n.strip().removeprefix("\\") for n in a.value.lstrip("^").strip("'\"").split(",")]
            unknown = [n for n in names if n and not _TRANSPORTS.fullmatch(n.partition(":")[0])]
            if unknown:
                effect = f"UCX knows no transport {', '.join(unknown)}: it warns and leaves it out"
                # Not sure, because another build of UCX may have the transport.
                findings.append(a.finding("MPI606", effect, "ucx_info -d lists them", sure=False))
    return findings


def _devices(a: Assignment, *, wants_port: bool) -> Iterator[Finding]:
    """Yield a finding if a list of devices contains an item that cannot be the name of a device.

    UCX prints a warning about such an item, and does not use the network that was meant.
    """
    parts = [part.strip() for part in a.value.removeprefix("^").split(",")]
    wrong = next((part for part in parts if not _DEVICE.fullmatch(part)), "")
    bare = [part for part in parts if _DEVICE_OF_IB.fullmatch(part)]
    if wrong:
        effect = f"UCX looks for one device that is called {wrong!r}, warns, and goes on without it"
        yield a.finding(
            "MPI605", effect, "names between commas, each of verbs with its port: mlx5_0:1,mlx5_1:1"
        )
    elif bare:
        effect = f"UCX before 1.21 knows no device {bare[0]!r}: it warns, and goes on without it"
        yield a.finding("MPI605", effect, f"name the port: {bare[0]}:1", sure=wants_port)
