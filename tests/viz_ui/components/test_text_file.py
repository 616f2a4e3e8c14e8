"""What is believed of a file that a browser says it read."""

import pytest

from viz_ui.components.text_file import FileText, checked_file
from viz_ui.components.text_file.text_file import LARGEST, LONGEST_NAME


def test_a_text_comes_with_its_name_and_the_line_breaks_of_a_text():
    assert checked_file({"name": "a.txt", "text": "one\r\ntwo\n"}) == FileText("a.txt", "one\ntwo\n")
    assert len(checked_file({"name": "n" * 1000, "text": "a"}).name) == LONGEST_NAME


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"problem": "large"}, "has more than 2 MB"),
        ({"problem": "encoding"}, "is not text in UTF-8"),
        ({"problem": "unreadable"}, "could not be read"),
        ({"text": "a" * (LARGEST + 1)}, "has more than 2 MB"),
        ({"text": "a\0b"}, "is not text in UTF-8"),
    ],
)
def test_what_is_wrong_with_a_file_is_a_sentence(value, words):
    file = checked_file({"name": "a.bin"} | value)
    assert file.problem.startswith(f"“a.bin” {words}")
    assert file.problem.endswith(".")
    assert file.text == ""


@pytest.mark.parametrize(
    "value",
    [
        None,
        "a",
        [],
        {},
        {"name": 3, "text": "a"},
        {"name": "a"},
        {"name": "a", "text": 5},
        {"name": "a", "problem": "x"},
    ],
    ids=repr,
)
def test_nonsense_is_no_file(value):
    assert checked_file(value) is None
