"""How arrays travel to a component.

Components v2 hands `bytes` to the browser as they are (a Uint8Array), so one blob carries everything:

    u32 little-endian n | n bytes of UTF-8 JSON (the header) | the arrays' raw bytes, one after another

The header is padded with spaces so that the arrays start at a multiple of four bytes: the script may then
lay a Float32Array over them without copying. Within the arrays, put the widest items first.
"""

from __future__ import annotations

import json
import struct

import numpy as np

EXACT_CELLS = 16_384  # matrices up to this size travel as float32, larger ones as float16
_HALF_RANGE = 60_000  # float16 values are scaled to fill its range (up to 65,504): nothing overflows


def pack(header: dict, *arrays: np.ndarray) -> bytes:
    """One blob of `header` and the raw bytes of `arrays`, each in its own dtype and C order.

    The header says what the arrays are: shapes, dtypes and order are the caller's to write down.
    Raises ValueError for a header that holds NaN or infinity, which JSON has no word for.
    """
    text = json.dumps(header, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    head = text.encode("utf-8", errors="replace")
    head += b" " * (-len(head) % 4)
    parts = [np.ascontiguousarray(array).tobytes() for array in arrays]
    return b"".join([struct.pack("<I", len(head)), head, *parts])


def unpack(blob: bytes) -> tuple[dict, bytes]:
    """The header and the bytes of the arrays of a blob made by `pack`; what the script does, for tests."""
    (length,) = struct.unpack_from("<I", blob)
    return json.loads(blob[4 : 4 + length]), blob[4 + length :]


def as_halves(values: np.ndarray) -> tuple[np.ndarray, float]:
    """The values in float16, and the unit that they are multiples of; 0 where all values are 0."""
    unit = float(np.abs(values).max(initial=0.0)) / _HALF_RANGE
    return (values.astype(np.float64) / (unit or 1)).astype(np.float16), unit
