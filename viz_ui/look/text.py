"""How a token is shown: its index and its text, nothing swallowed and nothing interpreted."""

import math
import re
import unicodedata
from collections.abc import Iterable
from decimal import ROUND_HALF_UP, Context, Decimal
from html import escape

_SHOWN = {" ": "·", "\n": "⏎", "\t": "⇥"}

# Categories of characters that are invisible, or that turn the text around them: control, format (zero-width,
# direction), separators, and what has no meaning or no picture.
_INVISIBLE = {"Cc", "Cf", "Zl", "Zp", "Zs", "Cn", "Co", "Cs"}

# Letters and marks without a picture (Unicode's Default_Ignorable_Code_Point, and the blank braille pattern).
_BLANK = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")

_PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")  # of ASCII: what Markdown lets be escaped
# Streamlit makes arrows, links and its logo of the text that Markdown has read, when escapes are gone: a word
# joiner (no picture, no break) parts their signs.
_READ_LATER = re.compile(r"(?<=[-<>~])(?=[->=])|(?<=:)(?=//|streamlit:)|(?<=@)(?=\w)|(?<=www)(?=\.)", re.I)
_WORD_JOINER = "\u2060"
_LAYOUT = re.compile(r"[\t\n\r]|^ | $|(?<= ) ")  # white space that Markdown drops or obeys

_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def shown(token: bytes) -> str:
    """The text of a token with every character visible: `·` space, `⏎` newline, `\\xNN` a byte.

    A token may hold part of a character only (byte-level BPE); its bytes are then shown as such. A character
    without a picture is shown by its number, `\\u{200b}`.
    """
    decoded = token.decode("utf-8", errors="backslashreplace")
    return "".join(_visible(character, first=n == 0) for n, character in enumerate(decoded))


def _visible(character: str, first: bool) -> str:
    if character in _SHOWN:
        return _SHOWN[character]
    category = unicodedata.category(character)
    if category in _INVISIBLE or _BLANK.match(character):
        code = ord(character)
        return f"\\x{code:02x}" if code < 128 else f"\\u{{{code:x}}}"  # above 127, \xNN is half a character
    if first and category.startswith("M"):
        return f"◌{character}"  # a mark that would otherwise sit on whatever stands before it
    return character


def sentence(text: str) -> str:
    """A text that may hold what somebody typed, its invisible characters by their numbers; spaces stay."""
    return "".join(character if character == " " else _visible(character, first=False) for character in text)


def labels(tokens: Iterable[bytes]) -> list[str]:
    """One label a token, `index text`, so that equal tokens stay distinct; see `label`."""
    return [label(index, token) for index, token in enumerate(tokens)]


def label(index: int, token: bytes) -> str:
    """A number and a token; one that stands for no text is `∅`.

    A text that begins with a digit is quoted: “1 2” would read as two numbers, `1 ‘2’` as an index and a token.
    """
    text = shown(token) or "∅"
    return f"{index} ‘{text}’" if text[0].isdigit() else f"{index} {text}"


def plain(text: str) -> str:
    """Markdown that Streamlit shows as this text, for labels and captions that it takes as Markdown.

    White space that Markdown would drop or obey is written by its number.
    """
    parted = _READ_LATER.sub(_WORD_JOINER, text)
    return _LAYOUT.sub(lambda space: f"&#{ord(space[0])};", _PUNCTUATION.sub(r"\\\1", parted))


def plotly_text(text: str) -> str:
    """A text whose markup Plotly shows instead of obeying it. Quotation marks stay: it would write their names."""
    return escape(text, quote=False)


def number(value: float, significant: int = 4) -> str:
    """A measured number with so many significant digits: 0.3312, −12.04, 35,330.

    `1.204×10⁻⁵` below 0.001 and from a million on. A 0 is exactly 0: what is only rounded to it shows its power of
    ten. Components write by the same rule (`components/shared/numbers.js`), and tests/support/numbers.json has the
    cases of both.
    """
    value = float(value)
    if math.isnan(value):
        return "not a number"
    sign, size = "−" if value < 0 else "", abs(value)
    if size == 0 or math.isinf(size):
        return f"{sign}∞" if size else "0"
    rounded = _rounded(size, significant)
    power = rounded.adjusted()
    if -3 <= power < 6:
        return f"{sign}{rounded:,.{max(0, significant - 1 - power)}f}"
    mantissa = f"{rounded.scaleb(-power):.{significant - 1}f}"
    return f"{sign}{mantissa}×10{str(power).translate(_SUPERSCRIPT)}"


def percent(share: float, significant: int = 3) -> str:
    """A measured share of 1, in hundredths by the rule of `number`: 12.3%, 0.0412%; 100% where it is all."""
    return "100%" if share == 1 else f"{number(100 * share, significant)}%"


def _rounded(size: float, significant: int) -> Decimal:
    """To so many digits, halves away from 0 as in a browser; a format of Python's would send them to the even digit."""
    return Context(prec=significant, rounding=ROUND_HALF_UP).create_decimal(Decimal(size))


def counted(count: int, noun: str, nouns: str = "") -> str:
    """A count with its noun: "1 query", "1,024 queries". nouns: the plural, where it is not `noun` with an s."""
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"


def size_words(count: int) -> str:
    """Bytes to three digits, in thousands: 96 B, 12.3 kB, 498 MB."""
    value, units = _rounded(count, 3), ["B", "kB", "MB", "GB", "TB", "PB"]
    while value >= 1000 and len(units) > 1:
        value, units = value / 1000, units[1:]
    whole, _, decimals = f"{value:,f}".partition(".")
    decimals = decimals.rstrip("0")
    return f"{whole}{'.' if decimals else ''}{decimals} {units[0]}"


def milliseconds(seconds: float) -> str:
    """Seconds as thousandths, three digits of them."""
    return f"{number(seconds * 1e3, 3)} ms"
