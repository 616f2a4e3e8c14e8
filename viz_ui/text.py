"""How a token is shown: its index and its text, nothing swallowed and nothing interpreted."""

import re
import unicodedata
from collections.abc import Iterable

_MARKDOWN = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~$:&^])")
_SHOWN = {" ": "·", "\n": "⏎", "\t": "⇥"}
# Characters that would be invisible, or would turn the text around them.
_INVISIBLE = {"Cc", "Cf", "Zl", "Zp", "Zs", "Cn", "Co", "Cs"}


def shown(token: bytes) -> str:
    """The text of a token with every character visible: `·` space, `⏎` newline, `\\xNN` a byte that is no text.

    A token may hold part of a character only (byte-level BPE); its bytes are then shown as such.
    """
    decoded = token.decode("utf-8", errors="backslashreplace")
    return "".join(_visible(character, first=n == 0) for n, character in enumerate(decoded))


def _visible(character: str, first: bool) -> str:
    if character in _SHOWN:
        return _SHOWN[character]
    category = unicodedata.category(character)
    if category in _INVISIBLE:
        code = ord(character)
        return f"\\x{code:02x}" if code < 256 else f"\\u{{{code:x}}}"
    if first and category.startswith("M"):
        return f"◌{character}"  # a mark that would otherwise sit on whatever stands before it
    return character


def labels(tokens: Iterable[bytes]) -> list[str]:
    """One label a token, `index text`, so that equal tokens stay distinct."""
    return [f"{index} {shown(token)}" for index, token in enumerate(tokens)]


def plain(text: str) -> str:
    """The text with all Markdown escaped, for labels and captions that Streamlit reads as Markdown."""
    return _MARKDOWN.sub(r"\\\1", text)


def number(value: float) -> str:
    """A number for reading: four significant digits, a true minus sign, `×10ⁿ` where it is tiny or huge."""
    if value == 0:
        return "0"
    if not 1e-4 <= abs(value) < 1e6:
        mantissa, exponent = f"{value:.3e}".split("e")
        power = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
        return f"{mantissa}×10{power}".replace("-", "−")
    digits = max(0, 3 - int(np_floor_log10(abs(value))))
    return f"{value:.{digits}f}".replace("-", "−")


def np_floor_log10(value: float) -> int:
    """The power of ten of the first digit of a positive number."""
    return int(f"{value:e}".split("e")[1])
