"""Bytes as a short text of the letters that an address may hold, and back: zlib, then base64 without its filling."""

import base64
import zlib


def to_letters(data: bytes) -> str:
    """The bytes as A–Z, a–z, 0–9, - and _."""
    return base64.urlsafe_b64encode(zlib.compress(data, 9)).decode().rstrip("=")


def from_letters(letters: str, most: int) -> bytes:
    """The bytes, `most` of them at most, so that nobody's link makes the server unpack gigabytes.

    Raises ValueError for more, and for letters that were cut or changed on their way: zlib's checksum tells.
    """
    reader = zlib.decompressobj()
    try:
        data = reader.decompress(base64.urlsafe_b64decode(letters + "=" * (-len(letters) % 4)), most + 1)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if len(data) > most or not reader.eof or reader.unused_data:
        raise ValueError("too long, cut, or followed by something else")
    return data
