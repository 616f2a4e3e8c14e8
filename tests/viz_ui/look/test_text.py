"""How tokens and numbers read: tables of cases, and what must hold for any text."""

import html
import json
import unicodedata

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.support.numbers import read_number
from tests.support.properties import examples
from tests.support.sources import ROOT
from viz_ui.look.text import counted, labels, number, percent, plain, shown, size_words

# Of Unicode's Default_Ignorable_Code_Point (DerivedCoreProperties.txt, version 15), and blank pictures.
WITHOUT_PICTURE = [
    *(0x00AD, 0x034F, 0x061C, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2065, 0x3164, 0xFEFF, 0xFFA0),
    *(*range(0x180B, 0x1810), *range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2070)),
    *(*range(0xFE00, 0xFE10), *range(0xFFF0, 0xFFF9), *range(0x1BCA0, 0x1BCA4), *range(0x1D173, 0x1D17B)),
    *(0xE0000, 0xE0001, 0xE0041, 0xE007F, 0xE0100, 0xE01EF, 0xE0FFF, 0x2800, 0x00A0, 0x3000, 0x2028, 0x2029),
]


@pytest.mark.parametrize(
    ("token", "text"),
    [
        (b"", ""),
        (b" the", "·the"),
        (b"\n\n", "⏎⏎"),
        (b"\r\n", "\\x0d⏎"),
        (b"\t  x ", "⇥··x·"),
        ("naïve café 日本".encode(), "naïve·café·日本"),
        ("👍🏽".encode(), "👍🏽"),
        (
            "❤\ufe0f".encode(),
            "❤\\u{fe0f}",
        ),  # the selector that makes it a red heart is a token's business too
        ("👩\u200d🔬".encode(), "👩\\u{200d}🔬"),
        ("👍".encode()[:2], "\\xf0\\x9f"),
        ("👍".encode()[2:], "\\x91\\x8d"),
        (b"a\xffb", "a\\xffb"),
        ("e\u0301".encode(), "e\u0301"),
        ("\u0301".encode(), "◌\u0301"),
        ("\ufe0f".encode(), "\\u{fe0f}"),
        ("שלום".encode(), "שלום"),
        ("\u202eabc".encode(), "\\u{202e}abc"),
        ("\ufeff".encode(), "\\u{feff}"),
        (b"\x00\x1b[0m\x7f", "\\x00\\x1b[0m\\x7f"),
        ("\x85".encode(), "\\u{85}"),  # the character, of two bytes ...
        (b"\x85", "\\x85"),  # ... and the byte
        ("\ue000\u0378".encode(), "\\u{e000}\\u{378}"),
        (b"<b>&amp;*x*", "<b>&amp;*x*"),
        (b"<|endoftext|>", "<|endoftext|>"),
    ],
)
def test_tokens_as_they_read(token, text):
    assert shown(token) == text


@pytest.mark.parametrize("code", WITHOUT_PICTURE)
def test_what_has_no_picture_is_shown_by_its_number(code):
    assert shown(f"a{chr(code)}b".encode()) == f"a\\u{{{code:x}}}b"


tokens = st.one_of(st.binary(max_size=12), st.text(max_size=8).map(lambda text: text.encode()))


@examples(300)
@given(tokens)
def test_no_control_no_direction_and_no_empty_space_survives(token):
    for character in shown(token):
        assert unicodedata.category(character) not in {"Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp"}
        assert ord(character) not in WITHOUT_PICTURE
        assert unicodedata.bidirectional(character) not in {"LRE", "RLE", "LRO", "RLO", "LRI", "RLI", "FSI"}
    assert bool(shown(token)) == bool(token)


@examples(300)
@given(st.one_of(tokens, st.text("\x80\x85\xa0\xadáé\u200b", max_size=3).map(str.encode)))
def test_the_bytes_can_be_read_back(token):
    """So that different bytes read differently, but for the few signs that stand for others."""
    if any(sign in token.decode(errors="ignore") for sign in "·⏎⇥◌\\"):
        return
    text = shown(token).replace("·", " ").replace("⏎", "\n").replace("⇥", "\t").replace("◌", "")
    back = b""
    while text:
        if text.startswith("\\x"):
            back, text = back + bytes([int(text[2:4], 16)]), text[4:]
        elif text.startswith("\\u{"):
            code, _, text = text[3:].partition("}")
            back += chr(int(code, 16)).encode()
        else:
            back, text = back + text[0].encode(), text[1:]
    assert back == token


def test_labels_of_equal_tokens_are_distinct():
    assert labels([b" the", b" the", b"\n"]) == ["0 ·the", "1 ·the", "2 ⏎"]
    assert labels([]) == []


def test_a_token_that_is_a_number_is_told_from_its_index():
    assert labels([b"3", b" 3", b"rd", b"1,000", "٣".encode(), b"<7>"]) == [
        "0 ‘3’", "1 ·3", "2 rd", "3 ‘1,000’", "4 ‘٣’", "5 <7>"
    ]  # fmt: skip


HOSTILE = [
    *("*a* _b_ ~~c~~ `d` **e**", "# one", "1. one", "1) one", "- one", "+ one", "> one", "a\n===", "a\n---"),
    *("[x](y)", "![x](y)", "[^1]", "[x]: /y", "<b>x</b>", "<!-- x -->", "&amp; &#65;", "a  \nb", "a\\\nb"),
    *(
        "    code",
        "\tcode",
        "```\ncode\n```",
        "a\n\n\nb",
        "  both  ends  ",
        "|a|b|\n|-|-|\n|1|2|",
        "\\",
        "\\*",
    ),
    *(":smile:", ":material/face:", ":red[x]", "$a$", "$$a$$", "<script>alert(1)</script>", "---", "***"),
]


def as_read(markdown):
    """The text that CommonMark makes of it; None unless it is one paragraph and nothing else."""
    parser = pytest.importorskip("markdown_it").MarkdownIt("commonmark").enable(["table", "strikethrough"])
    if not markdown:
        return ""
    rendered = parser.render(markdown).removesuffix("\n")
    inner = rendered.removeprefix("<p>").removesuffix("</p>")
    if f"<p>{inner}</p>" != rendered or "<" in inner:
        return None
    return html.unescape(inner).replace("\u2060", "")  # the joiner that `plain` may set has no picture


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_reads_as_itself(text):
    assert as_read(plain(text)) == text


@examples(300)
@given(st.one_of(st.text(), st.text("*_`~#>+-=.!|[](){}<>&\\$:^1a \t\n\r")))
def test_any_text_reads_as_itself(text):
    # No other control characters: no Markdown may hold them, and `shown` leaves none.
    text = "".join(c for c in text.replace("\u2060", "") if c in "\t\n\r" or unicodedata.category(c) != "Cc")
    assert as_read(plain(text)) == text


@pytest.mark.parametrize("sign", "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
def test_every_sign_that_markdown_may_obey_is_escaped(sign):
    assert plain(f"a{sign} b") == f"a\\{sign} b"


# What Streamlit 1.67 makes of the text after Markdown is read, as seen in a browser.
@pytest.mark.parametrize(
    "text",
    [
        *("3 ->", "3 <-", "3 <->", "3 --", "3 >=", "3 <=", "3 ~=", ":streamlit:", "www.example.com"),
        *("WWW.example.com", "https://example.com", "http://a.b", "me@example.com"),
    ],
)
def test_what_streamlit_looks_for_is_parted(text):
    markdown = plain(text)
    assert "\u2060" in markdown
    assert text not in markdown.replace("\\", "")
    assert as_read(markdown) == text


def test_words_are_left_alone():
    assert plain("Once upon a time 123 ·é日") == "Once upon a time 123 ·é日"


# tests/viz_ui/components/numbers.test.js reads the same cases: a hover and the sentence below it say the same.
CASES = json.loads((ROOT / "tests/support/numbers.json").read_text())


@pytest.mark.parametrize(("value", "digits", "text"), CASES["measured"])
def test_numbers_as_they_read(value, digits, text):
    assert number(float(value), digits) == text


@pytest.mark.parametrize(("count", "noun", "text"), CASES["counted"])
def test_counts_as_they_read(count, noun, text):
    assert counted(count, noun) == text


@pytest.mark.parametrize(("count", "text"), CASES["bytes"])
def test_bytes_as_they_read(count, text):
    assert size_words(count) == text


@pytest.mark.parametrize("kind", [np.float32, np.float64, torch.tensor])
def test_numbers_of_any_library_read_alike(kind):
    assert number(kind(0.125), 2) == "0.13"


@examples(300)
@given(st.floats(allow_nan=False, allow_infinity=False).filter(lambda value: value == 0 or 1e-300 < abs(value) < 1e300))
def test_a_number_is_right_to_four_digits_and_holds_no_ascii_minus(value):
    text = number(value)
    assert read_number(text) == pytest.approx(value, rel=5.1e-4, abs=0)
    assert "-" not in text
    assert len(text) <= 14


def test_a_token_that_stands_for_nothing_in_the_text_is_seen():
    assert labels([b"", b" "]) == ["0 ∅", "1 ·"]


@pytest.mark.parametrize(
    ("share", "digits", "words"),
    [
        (0.5, 3, "50.0%"),
        (1, 3, "100%"),
        (0, 3, "0%"),
        (0.000412, 3, "0.0412%"),
        (0.123456, 2, "12%"),
        (0.05, 3, "5.00%"),
    ],
)
def test_a_share_is_0_only_where_it_is_exactly_0(share, digits, words):
    assert percent(share, digits) == words
