"""UCX's own log of one process → whether it ran as it was asked to.

UCX accepts much silently: a misspelt variable or a transport that does not exist is a line of warning in a
log that nobody reads, and without a component that uses UCX its variables change nothing at all. So each rank
has UCX write to a file (``listen``, before MPI is initialised), sends a few messages, and reads the file.

Notation: a *configuration* is UCX's name for what connects two processes; its *lanes* are
``transport/device``; a *protocol* covers a range of message sizes there. Releases say it differently:

==============  ==========================================================================================
to 1.11         ``ep_cfg[1]: tag(sysv/memory cma/memory);``, which does not say where the other process is
1.12, 1.13      ``  ep_cfg[1]: tag(sysv/memory cma/memory)``; with UCX_PROTO_ENABLE=y tables alone, of the
                same configurations
1.14            ``0x2d96740 intra-node cfg#2tag(sysv/memory cma/memory)``, in places without that blank
from 1.15       ``ucp_context_0 intra-node cfg#1 tag(sysv/memory cma/memory)``, and tables
==============  ==========================================================================================

References:
    UCX 1.20, ``ucx_info -cf`` (UCX_PROTO_INFO, UCX_LOG_LEVEL, UCX_TLS and its aliases).
    openucx/ucx, pull requests 7185 (the lines of 1.11) and 8699 (those of 1.14).
"""

import ctypes
import json
import os
import re
import socket
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from autotune.probe.protocol import REQUEST

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
"""Aliases in UCX_TLS, as patterns of transports."""
_UNITS = {"": 1, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_INFINITE = 1 << 62  # Bytes, for a threshold that no message reaches.
_CONFIG = 1  # Flag of ``ucs_config_parser_print_all_opts``: names and values.
_LOG_BYTES = 16 << 20  # More is read of no log.
_WHERE = r"\S+ (?P<where>[\w-]+) cfg#\d+|(?:\S+ )?(?P<number>ep_cfg\[\d+\])"
"""How a line or the heading of a table names a configuration."""
_LINE = re.compile(rf"UCX\s+INFO\s+(?:{_WHERE}):?\s*(?P<lanes>\w+\(.*)")
_HEADING = re.compile(rf"\| (?:{_WHERE}) \| (?P<operation>.*?) *\|$")
_RANGE = re.compile(r"\|\s+(\d+[KMG]?)(?:\.\.\w+)? \| (?:\(\?\) )?(.*?) *\| (.*?) *\|")
_LANE = re.compile(r"\b\w+/[\w:.-]+")


@dataclass(frozen=True, slots=True)
class Protocol:
    """How messages of one range travel."""

    configuration: str
    """Where: ``self``, ``intra-node`` or ``inter-node``; ``ep_cfg[1]`` of a UCX that says no more."""
    operation: str  # What, e.g. ``tagged message by ucp_tag_send* from host memory``.
    first_bytes: int  # Of the range.
    name: str  # As UCX calls it, e.g. ``eager short``.


@dataclass(frozen=True, slots=True)
class UcxReport:
    """Findings in the log of one process."""

    lanes: Mapping[str, tuple[str, ...]]
    """Configuration (``intra-node``) → transport/device of each lane of tagged messages and the like."""
    protocols: tuple[Protocol, ...]  # In order.
    warnings: tuple[str, ...]  # Texts of lines with WARN or ERROR.

    def first_rendezvous(self, configuration: str) -> tuple[int, ...]:
        """Where rendezvous begins, in bytes, in each table of tagged messages of a configuration."""
        begins: dict[str, int] = {}
        for protocol in self.protocols:
            if protocol.configuration == configuration and "ucp_tag_send" in protocol.operation:
                begins.setdefault(protocol.operation, _INFINITE)
                if "rendezvous" in protocol.name:
                    begins[protocol.operation] = min(begins[protocol.operation], protocol.first_bytes)
        return tuple(begins.values())


def listen(directory: Path) -> Path | None:
    """Have UCX write its log where this process can read it, unless the request wants no check of UCX.

    Called before MPI is initialised, for that is when UCX reads its environment. None: nothing was changed.
    """
    try:
        wanted = bool(json.loads((directory / REQUEST).read_text(encoding="utf-8"))["expect"]["ucx"])
    except OSError:
        wanted = True  # a node that does not see the directory: rank 0 may want it
    except (ValueError, LookupError, TypeError):
        wanted = False  # what is wrong with the request is said later, by all ranks together
    if not wanted:
        return None
    place = directory if os.access(directory, os.W_OK) else Path(tempfile.gettempdir())
    log = place / f"ucx.{socket.gethostname()}.{os.getpid()}.log"
    os.environ.update(UCX_LOG_FILE=str(log), UCX_LOG_LEVEL="info", UCX_PROTO_INFO="y")
    return log


def last_errors(directory: Path) -> tuple[str, ...]:
    """UCX's errors in the logs in the directory of a launch.

    For a launch that ended without a result: its standard error says nothing of what went into the logs.
    """
    logs = []
    for path in sorted(directory.glob("ucx.*.log")):
        with path.open("rb") as file:
            logs.append(file.read(_LOG_BYTES).decode(errors="replace"))
    by_log = (re.findall(r"UCX\s+ERROR\s+(.*)", log) for log in logs)
    return tuple(dict.fromkeys(line.strip() for lines in by_log for line in lines))


def read_report(log: str) -> UcxReport:
    """The report in a log of level ``info`` with ``UCX_PROTO_INFO=y``."""
    lanes: dict[str, tuple[str, ...]] = {}
    protocols: list[Protocol] = []
    warnings: list[str] = []
    heading = ("", "")
    for line in log.splitlines():
        if match := re.search(r"UCX\s+(?:WARN|ERROR)\s+(.*)", line):
            if not match[1].startswith("(set "):  # how to silence the line before
                warnings.append(match[1].strip())
        elif match := _LINE.search(line):
            where, used = match["where"] or match["number"], _LANE.findall(match["lanes"])
            lanes[where] = tuple(dict.fromkeys((*lanes.get(where, ()), *used)))
        elif match := _HEADING.search(line):
            heading = (match["where"] or match["number"], match["operation"])
        elif match := _RANGE.search(line):
            protocols.append(Protocol(*heading, size_bytes(match[1]), match[2]))
            if heading[0].startswith("ep_cfg"):  # then there may be no line of its lanes
                used = _LANE.findall(match[3])
                lanes[heading[0]] = tuple(dict.fromkeys((*lanes.get(heading[0], ()), *used)))
    own = {where: "self" for where, used in lanes.items() if any(lane.startswith("self/") for lane in used)}
    return UcxReport(
        {own.get(where, where): used for where, used in lanes.items()},
        tuple(replace(p, configuration=own.get(p.configuration, p.configuration)) for p in protocols),
        tuple(dict.fromkeys(warnings)),
    )


def contradiction(report: UcxReport, asked: Mapping[str, str]) -> str:
    """In words, what UCX did otherwise than the launch's variables ask; empty: nothing.

    The report is of a process that has sent messages.
    """
    if not report.lanes:
        return "UCX is not in use: it reports no connection (is another pml or netmod selected?)"
    for warning in report.warnings:
        if re.search(r"\b(is|are) not available", warning):
            return f"UCX says: {warning}"
        if re.search(r"unused env(ironment)? variable", warning):
            unused = re.sub(r"\([^)]*\)", "", warning)  # in which it guesses what was meant
            if any(re.search(rf"\b{re.escape(name)}\b", unused) for name in asked):
                return f"UCX says: {warning}"
    return _other_transports(report, asked.get("UCX_TLS", "")) or _other_threshold(
        report, asked.get("UCX_RNDV_THRESH", "")
    )


def unread(wanted: Mapping[str, str]) -> str:
    """The variable that has another value in UCX in this process, in words; empty: none.

    UCX itself is asked, before and after the variables are put into the environment, where they win over its
    file: the values in effect do not change by that. So it is UCX that says which spellings mean the same.
    """
    before = _in_force()
    own = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        after = _in_force()
    finally:
        for name, value in own.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
    if not after:
        return "UCX does not report its configuration (is another pml or netmod selected?)"
    changed = next((name for name, value in after.items() if before.get(name) != value), "")
    return f"UCX uses {changed}={before.get(changed)}, asked for {after[changed]}" if changed else ""


def _in_force() -> dict[str, str]:
    """Every variable of the UCX in this process with its value, as its configuration parser prints them."""
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
    """A size in UCX's words: ``8184``, ``16K``, ``64kb``, ``1m``, ``inf``.

    Raises:
        ValueError: something else.
    """
    if text.strip().lower() == "inf":
        return _INFINITE
    match = re.fullmatch(r"(\d+)([BKMG]?)B?", text.strip().upper())
    if not match:
        raise ValueError(f"{text!r} is not a size")
    return int(match[1]) * _UNITS[match[2]]


def _other_transports(report: UcxReport, asked: str) -> str:
    """A lane over a transport that UCX_TLS does not allow."""
    denied = asked.startswith("^")
    named = [name.strip() for name in asked.removeprefix("^").split(",") if name.strip()]
    if not named or "all" in named or any(":" in name or "\\" in name for name in named):
        return ""
    listed = [pattern for name in named for pattern in _ALIASES.get(name, (name,))]
    if not denied and any(pattern.startswith(("rc_", "dc_")) for pattern in listed):
        listed.append("ud_*")  # by which connected transports connect
    for configuration, lanes in report.lanes.items():
        for lane in lanes:
            transport = lane.partition("/")[0]
            if any(fnmatchcase(transport, pattern) for pattern in listed) == denied:
                return f"UCX_TLS={asked} asked for, but {configuration} runs over {lane}"
    return ""


def _other_threshold(report: UcxReport, asked: str) -> str:
    """No table in which rendezvous begins where UCX_RNDV_THRESH says; old UCX prints no tables."""
    keyed = dict(item.split(":", 1) for item in asked.split(",") if ":" in item)
    for configuration in dict.fromkeys(p.configuration for p in report.protocols):
        if configuration == "self":
            continue
        wanted = keyed.get(configuration.partition("-")[0], asked if not keyed else "")
        first_sizes = report.first_rendezvous(configuration)
        try:
            threshold = size_bytes(wanted)
        except ValueError:
            continue  # auto, or nothing asked
        if first_sizes and threshold not in first_sizes:
            begins = ", ".join("never" if first == _INFINITE else str(first) for first in first_sizes)
            return f"UCX_RNDV_THRESH={asked} asked for, but {configuration} rendezvous begins at {begins}"
    return ""
