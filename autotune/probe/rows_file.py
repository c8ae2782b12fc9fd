"""Write rows of numbers in numpy's file format without numpy: the samples that rank 0 saves for the driver.

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
"""Maps the name of a type in ``array`` and ``memoryview`` to its name in the NPY format."""
_ALIGNED = 64  # The length of a header in bytes is a multiple of this number.
_MAGIC = b"\x93NUMPY\x01\x00"  # Magic number and version at the start of a file.


def write_rows(path: Path, rows: Mapping[str, Any]) -> None:
    """Write one-dimensional arrays and their names to a file, as ``numpy.savez_compressed`` does.

    Raises:
        OSError: If the file cannot be written.
    """
    from zipfile import ZIP_DEFLATED, ZipFile  # imported here, since it is needed only at the end

    with ZipFile(path, "w", ZIP_DEFLATED, compresslevel=1) as file:
        for name, row in rows.items():
            file.writestr(f"{name}.npy", npy(memoryview(row)))


def npy(row: "memoryview[Any]") -> bytes:
    """Return the content of an NPY file with one row of numbers."""
    head = f"{{'descr': '{_TYPES[row.format]}', 'fortran_order': False, 'shape': ({len(row)},), }}"
    padded = -(-(len(_MAGIC) + 2 + len(head) + 1) // _ALIGNED) * _ALIGNED - len(_MAGIC) - 2
    return _MAGIC + struct.pack("<H", padded) + head.ljust(padded - 1).encode() + b"\n" + row.tobytes()
