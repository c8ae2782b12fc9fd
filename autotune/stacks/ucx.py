"""Find a UCX library and the transports that it offers on this machine.

Run as a program (``python -m autotune.stacks.ucx LIBUCP``), this module creates a UCP context and lets the
library print the context. The program is a process of its own, so that a crash of the library does not end
the tuner.
"""

import ctypes
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from autotune.errors import StackError, ending
from autotune.stacks.installation import output

_VERSION = re.compile(r"^version (\S+)$", re.MULTILINE)

_ALL = dict.fromkeys((f"UCX_{kind}" for kind in ("TLS", "NET_DEVICES", "SHM_DEVICES", "ACC_DEVICES")), "all")
"""Variables that select transports, with UCX's defaults; in the environment they override UCX's files."""


@dataclass(frozen=True, slots=True)
class Ucx:
    """Describes one UCX library on this machine."""

    version: str  # Version that the library prints.
    transports: tuple[str, ...]  # Transports that have a device here, e.g. ``posix``, ``tcp``, ``rc_mlx5``.
    devices: tuple[str, ...]  # ``transport/device`` pairs.
    warnings: tuple[str, ...] = ()  # Warnings about settings that the library prints at its start.


def site_file(libmpi: Path) -> Path | None:
    """Return the path of the file with UCX's settings for all users; None if no UCX is next to ``libmpi``.

    UCX 1.20 reads ``../etc/ucx/ucx.conf`` relative to the folder of its libraries; 1.13 does not. Both also
    read the configuration directory that was set when they were built. This was tried out.
    """
    library = beside(libmpi)
    return None if library is None else library.parent.parent / "etc" / "ucx" / "ucx.conf"


def beside(libmpi: Path) -> Path | None:
    """Return the ``libucp`` that is installed next to an MPI library; None if there is none."""
    for folder in (libmpi.parent / "openmpi", libmpi.parent):
        for library in sorted(folder.glob("libucp.so.[0-9]*"), key=lambda p: len(p.name)):
            return library
    return None


def detect(libmpi: Path, all_transports: bool = False) -> Ucx | None:
    """Return the UCX that an MPI library uses; None if no UCX can be loaded.

    With ``all_transports``, transports that the environment or the site's file excludes are listed too.

    Raises:
        StackError: UCX finds no transport at all.
    """
    library = beside(libmpi) or Path("libucp.so.0")  # a name without a path: the loader searches for it
    command = [sys.executable, "-P", "-m", "autotune.stacks.ucx", str(library)]
    text = output(command, _ALL if all_transports else {})
    return parse(text, library) if library.is_absolute() or _VERSION.search(text) else None


def parse(text: str, libucp: Path) -> Ucx:
    """Return the description of a library, from the output of this module as a program.

    Raises:
        StackError: the library cannot be loaded or finds no transport at all.
    """
    version = _VERSION.search(text)
    devices = tuple(re.findall(r"^#\s+resource \d+\s*:.*\s(\S+/\S+)\s*$", text, re.MULTILINE))
    if version is None or not devices:
        messages = "; ".join(_messages(text, "ERROR") or _messages(text, "WARN")) or ending(text, 300)
        raise StackError(f"UCX at {libucp} does not start: {messages}")
    transports = tuple(dict.fromkeys(d.split("/")[0] for d in devices))
    return Ucx(version[1], transports, devices, tuple(_messages(text, "WARN")))


def _messages(text: str, level: str) -> dict[str, None]:
    """Return the messages of a level in UCX's output, each once, without time and source position."""
    return dict.fromkeys(re.findall(rf"^\[.*?\bUCX +{level} +(.+?)\s*$", text, re.MULTILINE))


def _print_context(libucp: str) -> None:
    """Let the library print a context with tag matching, the feature that MPI needs.

    References:
        UCX API, ``ucp_init``, ``ucp_context_print_info``; UCP_PARAM_FIELD_FEATURES = UCP_FEATURE_TAG = bit 0.
    """
    ucp = ctypes.CDLL(libucp, ctypes.RTLD_GLOBAL)
    ucp.ucp_get_version_string.restype = ctypes.c_char_p
    sys.stdout.write(f"version {ucp.ucp_get_version_string().decode()}\n")
    sys.stdout.flush()
    numbers = [ctypes.c_uint() for _ in range(3)]
    ucp.ucp_get_version(*map(ctypes.byref, numbers))
    config, context = ctypes.c_void_p(), ctypes.c_void_p()
    ucp.ucp_config_read(None, None, ctypes.byref(config))
    params = (ctypes.c_uint64 * 64)(1, 1)  # field mask, features; the rest of the structure stays zero
    if ucp.ucp_init_version(numbers[0], numbers[1], params, config, ctypes.byref(context)) == 0:
        libc = ctypes.CDLL(None)
        ucp.ucp_context_print_info(context, ctypes.c_void_p.in_dll(libc, "stdout"))
        libc.fflush(None)


if __name__ == "__main__":
    _print_context(sys.argv[1])
