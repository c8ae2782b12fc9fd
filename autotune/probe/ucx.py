"""Find out from UCX's own log of one process whether UCX ran with the settings of its launch.

UCX reports few mistakes. A misspelt variable or a transport that does not exist gives one line of warning in
a log that nobody reads, and if no component of MPI uses UCX, UCX's variables change nothing at all. So each
rank lets UCX write to a file (``listening``, before MPI is initialised), sends a few messages, and reads the
file.

Notation: a *configuration* is UCX's name for the way in which two processes are connected. Its *lanes* are
pairs ``transport/device``; each of its *protocols* covers a range of message sizes. The form of the lines
that list the lanes of a configuration depends on the release:

==============  ==========================================================================================
to 1.11         ``ep_cfg[1]: tag(sysv/memory cma/memory);``, which does not say where the other process is
1.12, 1.13      ``  ep_cfg[1]: tag(sysv/memory cma/memory)``; with UCX_PROTO_ENABLE=y only tables, which
                have the same names of configurations
1.14            ``0x2d96740 intra-node cfg#2tag(sysv/memory cma/memory)``, sometimes with a blank before
                ``tag``
from 1.15       ``ucp_context_0 intra-node cfg#1 tag(sysv/memory cma/memory)``, and tables
==============  ==========================================================================================

References:
    UCX 1.20, ``ucx_info -cf`` (UCX_PROTO_INFO, UCX_LOG_LEVEL, UCX_TLS and its aliases).
    openucx/ucx, pull requests 7185 (the lines of 1.11) and 8699 (those of 1.14).
"""

import ctypes
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

_SHARED_MEMORY = ("posix", "sysv", "cma", "knem", "xpmem")
_ALIASES: Mapping[str, tuple[str, ...]] = {
    "sm": _SHARED_MEMORY,
    "shm": _SHARED_MEMORY,
    "mm": ("posix", "sysv", "xpmem"),
    "ib": ("*_verbs", "*_mlx5"),
    "rc": ("rc_*",),
    "rc_v": ("rc_verbs",),
    "rc_x": ("rc_mlx5",),
    "ud": ("ud_*",),
    "ud_v": ("ud_verbs",),
    "ud_x": ("ud_mlx5",),
    "dc": ("dc_*",),
    "dc_x": ("dc_mlx5",),
    "cuda": ("cuda_*", "gdr_copy"),
    "rocm": ("rocm_*",),
}
"""Maps an alias in UCX_TLS to patterns of the transports that it stands for."""
_UNITS = {"": 1, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}  # Unit of a size → its number of bytes.
_INFINITE = 1 << 62  # Bytes that stand for a threshold which no message reaches.
_CONFIG = 1  # Flag of ``ucs_config_parser_print_all_opts``: print names and values.
_LOG_BYTES = 16 << 20  # Largest part of a log that is read, in bytes.
_WHERE = r"\S+ (?P<where>[\w-]+) cfg#\d+|(?:\S+ )?(?P<number>ep_cfg\[\d+\])"
"""Regular expression of a configuration's name in a line of the log or in the heading of a table."""
_LINE = re.compile(rf"UCX\s+INFO\s+(?:{_WHERE}):?\s*(?P<lanes>\w+\(.*)")
_HEADING = re.compile(rf"\| (?:{_WHERE}) \| (?P<operation>.*?) *\|$")
_RANGE = re.compile(r"\|\s+(\d+[KMG]?)(?:\.\.\w+)? \| (?:\(\?\) )?(.*?) *\| (.*?) *\|")
_LANE = re.compile(r"\b\w+/[\w:.-]+")


@dataclass(frozen=True, slots=True)
class Protocol:
    """Protocol that UCX uses for the messages in one range of sizes."""

    configuration: str
    """Way in which two processes are connected: ``self``, ``intra-node`` or ``inter-node``.

    Releases of UCX without these names number configurations, such as ``ep_cfg[1]``."""
    operation: str  # The operation, e.g. ``tagged message by ucp_tag_send* from host memory``.
    first_bytes: int  # Smallest size of the range, in bytes.
    name: str  # UCX's name of the protocol, e.g. ``eager short``.


@dataclass(frozen=True, slots=True)
class UcxReport:
    """The content of UCX's log of one process."""

    lanes: Mapping[str, tuple[str, ...]]
    """Maps each configuration (such as ``intra-node``) to the ``transport/device`` of each of its lanes."""
    protocols: tuple[Protocol, ...]  # All protocols, in the order of the log.
    warnings: tuple[str, ...]  # Messages of the log's lines with WARN or ERROR.

    def first_rendezvous(self, configuration: str) -> tuple[int, ...]:
        """Return the message sizes in bytes from which on a configuration uses a rendezvous protocol.

        There is one size for each table of protocols for tagged messages in the log.
        """
        begins: dict[str, int] = {}
        for protocol in self.protocols:
            if protocol.configuration == configuration and "ucp_tag_send" in protocol.operation:
                begins.setdefault(protocol.operation, _INFINITE)
                if "rendezvous" in protocol.name:
                    begins[protocol.operation] = min(begins[protocol.operation], protocol.first_bytes)
        return tuple(begins.values())


def last_errors(directory: Path) -> tuple[str, ...]:
    """Return the errors in UCX's logs in the directory of a launch.

    The driver shows them if a launch ended without a result, since the launch's standard error lacks them.
    """
    logs = []
    for path in sorted(directory.glob("ucx.*.log")):
        with path.open("rb") as file:
            logs.append(file.read(_LOG_BYTES).decode(errors="replace"))
    by_log = (re.findall(r"UCX\s+ERROR\s+(.*)", log) for log in logs)
    return tuple(dict.fromkeys(line.strip() for lines in by_log for line in lines))


def read_report(log: str) -> UcxReport:
    """Return the content of a log that UCX wrote at level ``info`` with ``UCX_PROTO_INFO=y``."""
    lanes: dict[str, tuple[str, ...]] = {}
    protocols: list[Protocol] = []
    warnings: list[str] = []
    heading = ("", "")
    for line in log.splitlines():
        if match := re.search(r"UCX\s+(?:WARN|ERROR)\s+(.*)", line):
            if not match[1].startswith("(set "):  # UCX's hint how to silence the preceding line
                warnings.append(match[1].strip())
        elif match := _LINE.search(line):
            configuration, used = match["where"] or match["number"], _LANE.findall(match["lanes"])
            lanes[configuration] = tuple(dict.fromkeys((*lanes.get(configuration, ()), *used)))
        elif match := _HEADING.search(line):
            heading = (match["where"] or match["number"], match["operation"])
        elif match := _RANGE.search(line):
            protocols.append(Protocol(*heading, size_bytes(match[1]), match[2]))
            if heading[0].startswith("ep_cfg"):  # this release may print no line with the lanes
                used = _LANE.findall(match[3])
                lanes[heading[0]] = tuple(dict.fromkeys((*lanes.get(heading[0], ()), *used)))
    renamed = {
        configuration: "self"
        for configuration, used in lanes.items()
        if any(lane.startswith("self/") for lane in used)
    }
    return UcxReport(
        {renamed.get(configuration, configuration): used for configuration, used in lanes.items()},
        tuple(replace(p, configuration=renamed.get(p.configuration, p.configuration)) for p in protocols),
        tuple(dict.fromkeys(warnings)),
    )


def contradiction(report: UcxReport, requested: Mapping[str, str]) -> str:
    """Return how UCX deviates from the requested variables, in words; empty if it does not deviate.

    Args:
        report: Content of the log of a process that has sent messages.
        requested: Environment and UCX variables that the launch sets.
    """
    if not report.lanes:
        return "UCX is not in use: it reports no connection (is another pml or netmod selected?)"
    for warning in report.warnings:
        if re.search(r"\b(is|are) not available", warning):
            return f"UCX says: {warning}"
        if re.search(r"unused env(ironment)? variable", warning):
            unused = re.sub(r"\([^)]*\)", "", warning)  # remove UCX's guesses of the intended names
            if any(re.search(rf"\b{re.escape(name)}\b", unused) for name in requested):
                return f"UCX says: {warning}"
    return _other_transports(report, requested.get("UCX_TLS", "")) or _other_threshold(
        report, requested.get("UCX_RNDV_THRESH", "")
    )


def unread(requested: Mapping[str, str]) -> str:
    """Describe a variable that does not have its requested value in this process's UCX; empty if all do.

    UCX prints its values twice: first as they are, then after the requested values were put into the
    environment, where they override UCX's configuration file. If a value changes in between, UCX did not use
    the requested value before. In this way UCX itself decides which spellings mean the same value.
    """
    in_effect = _values_in_effect()
    original = {name: os.environ.get(name) for name in requested}
    os.environ.update(requested)
    try:
        effective_after = _values_in_effect()
    finally:
        for name, value in original.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
    if not effective_after:
        return "UCX does not report its configuration (is another pml or netmod selected?)"
    changed = next((name for name, value in effective_after.items() if in_effect.get(name) != value), "")
    return (
        f"UCX uses {changed}={in_effect.get(changed)}, asked for {effective_after[changed]}"
        if changed
        else ""
    )


def _values_in_effect() -> dict[str, str]:
    """Return variable → value of the UCX in this process, as UCX prints them; empty if there is no UCX."""
    libraries = re.findall(
        r"(/.*/libucs\.so\S*)$", Path("/proc/self/maps").read_text(encoding="utf-8"), re.MULTILINE
    )
    if not libraries:
        return {}
    ucs, libc = ctypes.CDLL(libraries[0]), ctypes.CDLL(None)
    libc.tmpfile.restype = ctypes.c_void_p
    stream = ctypes.c_void_p(libc.tmpfile())
    tables = ctypes.c_char.in_dll(ucs, "ucs_config_global_list")
    ucs.ucs_config_parser_print_all_opts(stream, b"UCX_", _CONFIG, ctypes.byref(tables), None)
    libc.fflush(stream)
    with os.fdopen(os.dup(libc.fileno(stream)), encoding="utf-8", errors="replace") as printed:
        printed.seek(0)
        lines = printed.read().splitlines()
    libc.fclose(stream)
    return dict(line.split("=", 1) for line in lines if line.startswith("UCX_"))


def size_bytes(text: str) -> int:
    """Return the number of bytes that a size in UCX's spelling means: ``8184``, ``16K``, ``64kb``, ``inf``.

    Raises:
        ValueError: If the text is no size.
    """
    if text.strip().lower() == "inf":
        return _INFINITE
    match = re.fullmatch(r"(\d+)([BKMG]?)B?", text.strip().upper())
    if not match:
        raise ValueError(f"{text!r} is not a size")
    return int(match[1]) * _UNITS[match[2]]


def _other_transports(report: UcxReport, requested: str) -> str:
    """Describe a connection over a transport that the requested UCX_TLS excludes; empty if there is none."""
    denied = requested.startswith("^")
    names = [name.strip() for name in requested.removeprefix("^").split(",") if name.strip()]
    if not names or "all" in names or any(":" in name or "\\" in name for name in names):
        return ""
    listed = [pattern for name in names for pattern in _ALIASES.get(name, (name,))]
    if not denied and any(pattern.startswith(("rc_", "dc_")) for pattern in listed):
        listed.append("ud_*")  # these transports set up their connections over ud
    for configuration, lanes in report.lanes.items():
        for lane in lanes:
            transport = lane.partition("/")[0]
            if any(fnmatchcase(transport, pattern) for pattern in listed) == denied:
                return f"UCX_TLS={requested} asked for, but {configuration} runs over {lane}"
    return ""


def _other_threshold(report: UcxReport, requested: str) -> str:
    """Describe a configuration whose rendezvous protocol does not begin at the requested UCX_RNDV_THRESH.

    The text is empty if there is none, as for old releases of UCX, which print no tables of protocols.
    """
    keyed = dict(item.split(":", 1) for item in requested.split(",") if ":" in item)
    for configuration in dict.fromkeys(p.configuration for p in report.protocols):
        if configuration == "self":
            continue
        text = keyed.get(configuration.partition("-")[0], requested if not keyed else "")
        first_sizes = report.first_rendezvous(configuration)
        try:
            threshold = size_bytes(text)
        except ValueError:
            continue  # the requested threshold is ``auto``, or there is none
        if first_sizes and threshold not in first_sizes:
            begins = ", ".join("never" if first == _INFINITE else str(first) for first in first_sizes)
            return f"UCX_RNDV_THRESH={requested} asked for, but {configuration} rendezvous begins at {begins}"
    return ""
