"""A text that somebody pasted, in the letters that an address may hold, where it is short enough; and back.

UTF-8, compressed with zlib, in base64: a page of English takes about half its letters.
"""

import base64
import binascii
import zlib

LONGEST = 2000  # characters; each has up to four bytes, which may not be compressible at all
FORM = r"[A-Za-z0-9_-]{1,11000}"  # what such a text looks like


def to_address(text: str) -> str:
    """The text as an address holds it; "" where there is none, or it is too long."""
    if not 0 < len(text) <= LONGEST:
        return ""
    packed = zlib.compress(text.encode("utf-8", errors="replace"), 9)
    return base64.urlsafe_b64encode(packed).decode().rstrip("=")


def from_address(code: str) -> str:
    """The text; "" for what is none, or was cut or changed on its way."""
    most = 4 * LONGEST  # so that nobody's link makes the server unpack gigabytes
    try:
        reader = zlib.decompressobj()
        found = reader.decompress(base64.urlsafe_b64decode(code + "=" * (-len(code) % 4)), most + 1)
        return found.decode() if reader.eof and not reader.unused_data and len(found) <= most else ""
    except (zlib.error, binascii.Error, ValueError):  # UnicodeDecodeError is a ValueError
        return ""
