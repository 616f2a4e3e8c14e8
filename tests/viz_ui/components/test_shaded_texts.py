"""What shaded texts send to the browser: all that is shown, and links to this app alone."""

import pytest

from viz_ui.components.shared.packing import unpack
from viz_ui.components.tokens.shaded_texts import ShadedText, ShadedToken, pack_texts


def text(href):
    return ShadedText("mean 0.5", "See it", href, [ShadedToken("a", 0.25, is_key=True, skipped=3)], left=2)


def test_all_that_is_shown_is_sent():
    header, body = unpack(pack_texts([("Most", [text("./?head=1.0"), text("")]), ("Least", [])]))
    assert not body
    assert [group["title"] for group in header["groups"]] == ["Most", "Least"]
    [first, second] = header["groups"][0]["texts"]
    assert (first["href"], second["href"], first["left"]) == ("./?head=1.0", "", 2)
    assert first["tokens"] == [{"label": "a", "weight": 0.25, "is_query": False, "is_key": True, "skipped": 3}]


@pytest.mark.parametrize("href", ["javascript:alert(1)", "https://example.org", "//example.org", "?head=1.0"])
def test_a_link_to_somewhere_else_is_refused(href):
    with pytest.raises(ValueError, match="first page of this app"):
        pack_texts([("Most", [text(href)])])
