"""What a page keeps from one run to the next is never taken for something else."""

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from tests.support.app import at, blobs_of, opened

GPT = at(prompt="The queen gave the girl a ring.", layer=1, head=2, query=5, key=3)
SEQ2SEQ = at(model="tiny-seq2seq", prompt="3 May 2024", target="2024-0", part="cross", layer=1, head=1, query=2, key=1)
LONG = at(prompt="The red fox met a grey goose by the old mill. The red fox met a", layer=1, head=2, query=1, key=0)
DECODER = SEQ2SEQ | {"part": "decoder"}  # its tokens and its place are those of the cross-attention too
CHOICES = {
    "another mask": (GPT, {"mask": "bidirectional"}),
    "another head": (GPT, {"head": 5}),
    "another layer": (GPT, {"layer": 3}),
    "another query": (GPT, {"query": 6}),
    "another prompt": (GPT, {"prompt": "A cat sat on the mat."}),
    "another target": (SEQ2SEQ, {"target": "2023-1"}),
    "another attention": (SEQ2SEQ, {"part": "encoder"}),
    "the other attention of a token": (DECODER, {"part": "cross"}),
    "a query far off": (LONG, {"query": 16}),
    "another edit": (GPT | {"edits": "!scale:0.3:0.9"}, {"edits": "scale:0.3:0.9"}),
}
# The names that a kept picture most easily lacks.
QUICK = ("another mask", "another prompt", "another target", "another edit")
QUICK_ON = {  # kept under these too
    "prediction": "a query far off",
    "switch_off": "the other attention of a token",
    "patching": "another layer",
}
WIDGETS = ("button_group", "number_input", "text_area", "text_input")
PAGES = {
    "heads": {},
    "inside_a_head": {"cell_shows": "why this score"},
    "masks": {},
    "shapes": {"node": "attn.weights"},
    "shape_reference": {},
    "positions": {"positions": "Shuffle the words", "shuffle": 1},
    "quantization": {"quantization": "What they do"},
    "layouts": {"layouts": "Norms through depth"},
    "flash_attention": {"tile_rows": 3, "tile_columns": 3},
    "misconceptions": {"claim": "Concept", "guess_concept": "true"},
    "prediction": {},
    "switch_off": {},
    "patching": {"map": "heads × positions"},
    "circuits": {},
    "over_a_text": {"read": "the prompt"},
}
CASES = [
    pytest.param(page, choice, marks=() if choice in (*QUICK, QUICK_ON.get(page)) else pytest.mark.slow)
    for page in PAGES
    for choice in CHOICES
]


def shown(test: AppTest) -> list:
    """All that the page draws and says, beside its sidebar."""
    charts = [element.proto.spec for element in test.main.get("plotly_chart")]
    tables = [table.value.to_csv() for table in (*test.main.dataframe, *test.main.table)]
    said = [one.value for kind in ("markdown", "caption", "info", "metric") for one in test.main.get(kind)]
    return [*blobs_of(test), *charts, *tables, *said]


@pytest.mark.parametrize(("page", "choice"), CASES)
def test_after_a_choice_a_page_shows_what_a_link_to_it_shows(page, choice):
    """A picture that is kept under too short a name is still of the former choice."""
    before, change = CHOICES[choice]
    test = opened(page, **(PAGES[page] | before))
    for name, value in change.items():
        if name == "edits":
            test.button(key="edit_0_on").click().run()
            continue
        [widget] = [one for kind in WIDGETS for one in test.get(kind) if one.key == name]
        widget.set_value(value).run()
    assert not test.exception, test.exception
    seen = shown(test)
    st.cache_resource.clear()  # or the link would show what is kept of this visit
    assert seen == shown(opened(page, **(PAGES[page] | before | change)))
