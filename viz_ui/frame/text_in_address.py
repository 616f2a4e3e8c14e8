"""A text that somebody pasted, in the letters that an address may hold, where it is short enough; and back.

UTF-8, compressed with zlib, in base64: a page of English takes about half its letters.
"""

from viz_model.masking.compressed_text import from_letters, to_letters

LONGEST = 2000  # characters; each has up to four bytes, which may not be compressible at all
LONGEST_CODE = 11_000  # letters that stand for so many characters


def to_address(text: str) -> str:
    """The text as an address holds it; "" where there is none, or it is too long."""
    if not 0 < len(text) <= LONGEST:
        return ""
    return to_letters(text.encode("utf-8", errors="replace"))


def from_address(code: str) -> str:
    """The text; "" for what is none, or was cut or changed on its way."""
    try:
        return from_letters(code, 4 * LONGEST).decode()
    except ValueError:  # and UnicodeDecodeError, which is one
        return ""
