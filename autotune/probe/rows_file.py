"""Rows of numbers in numpy's own format, written without numpy: samples that ranks leave for the driver.

References:
    NumPy, ``numpy.lib.format``: the NPY format, version 1.0; an NPZ file is a ZIP archive of such files.
"""

import struct
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_ORDER = "<" if sys.byteorder == "little" else ">"
_TYPES = {"d": f"{_ORDER}f8", "f": f"{_ORDER}f4", "i": f"{_ORDER}i4", "B": "|u1"}
"""Type in the NPY format by its name in ``array`` and ``memoryview``."""
_ALIGNED = 64  # The length of a header is a multiple of so many bytes.
_MAGIC = b"\x93NUMPY\x01\x00"  # Magic number and version at the start of a file.


def write_rows(path: Path, rows: Mapping[str, Any]) -> None:
    """Write rows of one dimension by name, as ``numpy.savez_compressed`` does.

    Raises:
        OSError: If the file cannot be written.
    """
    from zipfile import ZIP_DEFLATED, ZipFile  # here, since it is needed only once all is measured

    with ZipFile(path, "w", ZIP_DEFLATED, compresslevel=1) as file:
        for name, row in rows.items():
            file.writestr(f"{name}.npy", npy(memoryview(row)))


def npy(row: "memoryview[Any]") -> bytes:
    """Return the content of one row's NPY file."""
    head = f"{{'descr': '{_TYPES[row.format]}', 'fortran_order': False, 'shape': ({len(row)},), }}"
    padded = -(-(len(_MAGIC) + 2 + len(head) + 1) // _ALIGNED) * _ALIGNED - len(_MAGIC) - 2
    return _MAGIC + struct.pack("<H", padded) + head.ljust(padded - 1).encode() + b"\n" + row.tobytes()
