"""A UCX library and the transports it finds on this machine.

Run as a program (``python -m autotune.stacks.ucx LIBUCP``) it creates a UCP context and lets the library
print it; in a process of its own, because a library that crashes must not take the tuner along.
"""

import ctypes
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from autotune.errors import StackError
from autotune.stacks.installation import output

_VERSION = re.compile(r"^version (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Ucx:
    """One UCX library."""

    version: str  # As the library says.
    transports: tuple[str, ...]  # Those that have a device here, e.g. ``posix``, ``tcp``, ``rc_mlx5``.
    devices: tuple[str, ...]  # ``transport/device`` pairs.
    warnings: tuple[str, ...] = ()  # Whatever it says of its settings as it starts.


def site_file(libmpi: Path) -> Path | None:
    """The file for everybody of the UCX beside an MPI library; None where another place may be its own.

    UCX 1.20 looks for ``../etc/ucx/ucx.conf`` from where its libraries lie (1.13 does not), and both in the
    directory for configuration that they were built with; tried.
    """
    library = beside(libmpi)
    return None if library is None else library.parent.parent / "etc" / "ucx" / "ucx.conf"


def beside(libmpi: Path) -> Path | None:
    """The ``libucp`` that lies with an MPI library; None where the loader finds one elsewhere."""
    for folder in (libmpi.parent / "openmpi", libmpi.parent):
        for library in sorted(folder.glob("libucp.so.[0-9]*"), key=lambda p: len(p.name)):
            return library
    return None


def detect(libmpi: Path) -> Ucx | None:
    """The UCX that belongs to an MPI library; None where there is none that can be loaded.

    Raises:
        StackError: it finds no transport at all.
    """
    library = beside(libmpi) or Path("libucp.so.0")  # wherever the loader finds it
    text = _printed(library)
    return parse(text, library) if library.is_absolute() or _VERSION.search(text) else None


def _printed(libucp: Path) -> str:
    """Output of this module on a library, run as a program, with all that UCX says."""
    return output([sys.executable, "-P", "-m", "autotune.stacks.ucx", str(libucp)])


def parse(text: str, libucp: Path) -> Ucx:
    """A library from what this module printed of it.

    Raises:
        StackError: it cannot be loaded or finds no transport at all.
    """
    version = _VERSION.search(text)
    devices = tuple(re.findall(r"^#\s+resource \d+\s*:.*\s(\S+/\S+)\s*$", text, re.MULTILINE))
    if version is None or not devices:
        said = "; ".join(_told(text, "ERROR") or _told(text, "WARN")) or text.strip()[-300:]
        raise StackError(f"UCX at {libucp} does not start: {said}")
    transports = tuple(dict.fromkeys(d.split("/")[0] for d in devices))
    return Ucx(version[1], transports, devices, tuple(_told(text, "WARN")))


def _told(text: str, level: str) -> dict[str, None]:
    """Messages of a level in what UCX printed, each once, without the time and the place in its source."""
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
