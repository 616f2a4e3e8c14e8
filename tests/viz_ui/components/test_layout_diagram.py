"""What the browser gets of layouts side by side, and which boxes there are."""

from dataclasses import replace

import numpy as np
import pytest

from viz_ui.components.layout_diagram import Box, DiagramBlock, DiagramStack, Half, Layout, Picture, boxes, pack_layouts
from viz_ui.components.shared.packing import unpack

RANDOM = np.random.default_rng(0)
STEPS, ALLOWED = RANDOM.integers(0, 256, (3, 5)).astype(np.uint8), RANDOM.random((3, 5)) < 0.5
WEIGHTS = Box("gpt weights", "self-attention", "causal", "weights", picture=Picture(STEPS, ALLOWED))
HALVES = (
    Half(WEIGHTS, Box("gpt norm1", "N"), True),
    Half(Box("gpt ffn", "feed-forward"), Box("gpt norm2", "N"), False),
)
STACK = DiagramStack(
    "", "a b", Box("gpt embed", "tokens"), [DiagramBlock(HALVES, Box("gpt end", "block 0"))], [Box("gpt out", "logits")]
)
LAYOUT = Layout("decoder-only", "gpt", "", [STACK])


def test_boxes_stand_in_the_order_of_the_pass():
    names = [box.name for box in boxes([LAYOUT])]
    assert names == [f"gpt {name}" for name in ("embed", "norm1", "weights", "ffn", "norm2", "end", "out")]


def test_pictures_travel_as_steps_and_bits():
    header, body = unpack(pack_layouts([LAYOUT], "gpt out"))
    assert header["pictures"] == [["gpt weights", 3, 5]]
    assert header["chosen"] == "gpt out"
    pixels, bits = body[768 : 768 + 15], body[768 + 15 :]
    np.testing.assert_array_equal(np.frombuffer(pixels, np.uint8).reshape(3, 5), STEPS)
    np.testing.assert_array_equal(np.unpackbits(np.frombuffer(bits, np.uint8))[:15].reshape(3, 5), ALLOWED)
    [half, _] = header["layouts"][0]["stacks"][0]["blocks"][0]["halves"]
    assert half["norm_first"]
    assert half["branch"]["words"] == "causal"


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(ValueError, match="same name"):
        pack_layouts([LAYOUT, LAYOUT], "")
    for box, words in (
        (replace(WEIGHTS, role="colour"), "Unknown roles: colour"),
        (replace(WEIGHTS, picture=Picture(STEPS, ALLOWED.T)), "picture of gpt weights"),
    ):
        stack = replace(STACK, start=box, blocks=[])
        with pytest.raises(ValueError, match=words):
            pack_layouts([replace(LAYOUT, stacks=[stack])], "")
