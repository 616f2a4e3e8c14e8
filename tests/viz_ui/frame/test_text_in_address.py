"""A pasted text in a link: nothing is lost, what is damaged or too long is none, and no link unpacks to gigabytes."""

import re
import zlib
from base64 import urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.properties import examples
from viz_ui.frame.text_in_address import LONGEST, LONGEST_CODE, from_address, to_address


@examples(100)
@given(st.text(min_size=1, max_size=LONGEST))
def test_any_text_comes_back(text):
    code = to_address(text)
    assert re.fullmatch(r"[A-Za-z0-9_-]+", code)
    assert len(code) <= LONGEST_CODE  # what the parameter of the address may hold
    assert from_address(code) == text.encode("utf-8", errors="replace").decode()


def test_english_becomes_shorter_and_what_is_too_long_stays_out():
    page = "Once upon a time there was a king who had three daughters, and the youngest was the fairest of all. " * 5
    assert len(to_address(page)) < len(page) / 2
    assert to_address("x" * LONGEST)
    assert to_address("x" * (LONGEST + 1)) == to_address("") == ""


@pytest.mark.parametrize("code", ["", "x", "????", "eJw", "é", to_address("a text")[:-3], to_address("a") + "AAAA"])
def test_what_is_damaged_is_no_text(code):
    assert from_address(code) == ""


def test_a_small_code_cannot_make_much_memory():
    bomb = urlsafe_b64encode(zlib.compress(b"a" * 50_000_000, 9)).decode()
    assert from_address(bomb) == ""
    assert from_address(urlsafe_b64encode(zlib.compress(b"\xff\xfe")).decode()) == ""
