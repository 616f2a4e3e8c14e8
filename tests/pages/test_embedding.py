"""What a page within another one shows (`?embed=true`): its main picture alone; the browser test sees that it does."""

import pytest

from tests.support.app import ROOT, at, opened

PAGES = sorted(path.parent.name for path in (ROOT / "pages").glob("*/page.py"))
SECTIONS = [
    ("shapes", {"shapes": "a model of any size"}),
    ("positions", {"positions": "Rotation"}),
    ("training", {"lesson": "Train one, live"}),
    ("quantization", {"quantization": "Three things"}),
    ("misconceptions", {"claim": "Memory"}),
    ("over_a_text", {"read": "the prompt"}),  # less than what it reads by itself
]


def pictures(test):
    """The containers that are shown within another page."""
    return [node for node in test.main if "-picture_" in getattr(node.proto, "id", "")]


def kinds(blocks):
    return {node.type for block in blocks for node in block}


@pytest.mark.parametrize(("page", "address"), [*((page, {}) for page in PAGES if page != "over_a_text"), *SECTIONS])
def test_every_page_says_what_its_main_picture_is(page, address):
    test = opened(page, is_embedded=True, **at(**address))
    found = kinds(pictures(test))
    drawn = {"bidi_component", "plotly_chart", "table", "metric", "markdown"}  # a table may be Markdown
    assert found & drawn, found
    assert "title" not in found
    assert "title" in kinds([test.main])


def test_who_cannot_guess_sees_the_experiment():
    [info] = opened("misconceptions").info
    assert info.value.startswith("Guess first.")
    assert not opened("misconceptions", is_embedded=True).info


@pytest.mark.parametrize("address", [{"model": "no-such-model"}, {"prompt": ""}, {"model": "tiny-bert"}])
def test_what_stands_against_a_picture_is_said_in_its_place(address):
    """The sidebar, which says it elsewhere, is not there."""
    page = "generate" if address == {"model": "tiny-bert"} else "heads"
    test = opened(page, is_embedded=True, **at(**address))
    said = [node for block in pictures(test) for node in block if node.type in ("info", "warning")]
    assert len(said) == 1
    assert not test.sidebar.warning
