"""Terms of the field are explained on the page where they stand, shortly, and by somebody."""

import re

import pytest

from tests.support.app import opened
from viz_ui.components.shared.packing import unpack
from viz_ui.look.glossary import GLOSSARY, explained

TEXT, DATE = "Once upon a time there was a king.", "Friday, 3 May 2024"

# Pages in their states: those that show other words than the page at its plain address.
STATES = [
    ("heads", {"model": "tiny-gpt", "prompt": TEXT}),
    ("heads", {"model": "tiny-llama", "prompt": TEXT, "drawn": "value-weighted"}),
    ("heads", {"model": "tiny-bert", "prompt": TEXT, "drawn": "scores + mask"}),
    ("heads", {"model": "tiny-seq2seq", "prompt": DATE}),
    ("inside_a_head", {"model": "tiny-gpt", "prompt": TEXT}),
    ("inside_a_head", {"model": "tiny-gpt", "prompt": TEXT, "cell_shows": "why this score", "head": "1.0"}),
    ("inside_a_head", {"model": "tiny-llama", "prompt": TEXT}),
    ("inside_a_head", {"model": "tiny-seq2seq", "prompt": DATE, "part": "cross"}),
    ("masks", {"model": "tiny-gpt", "prompt": TEXT}),
    ("masks", {"model": "tiny-bert", "prompt": TEXT, "mask_b": "drawn by hand"}),
    ("masks", {"model": "tiny-seq2seq", "prompt": DATE, "part": "encoder", "mask_b": "padding"}),
    ("generate", {"model": "tiny-gpt", "prompt": TEXT, "new": 3}),
    ("generate", {"model": "tiny-seq2seq", "prompt": DATE, "part": "encoder", "new": 3, "greedy": "true"}),
    ("prediction", {"model": "tiny-gpt", "prompt": TEXT}),
    ("over_a_text", {"model": "tiny-gpt", "prompt": TEXT, "read": "random repeats"}),
    ("over_a_text", {"model": "tiny-seq2seq", "prompt": DATE, "read": "the prompt", "pattern": "evenly spread"}),
    ("switch_off", {"model": "tiny-gpt", "prompt": TEXT}),
    ("patching", {"model": "tiny-gpt", "prompt": TEXT}),
    ("patching", {"model": "tiny-gpt", "prompt": TEXT, "map": "paths into a head", "head": "2.1"}),
    ("patching", {"model": "tiny-seq2seq", "prompt": DATE, "part": "encoder", "map": "stream"}),
    ("circuits", {"model": "tiny-gpt", "prompt": TEXT}),
    ("circuits", {"model": "tiny-llama", "prompt": TEXT, "composition": "values"}),
    ("circuits", {"model": "tiny-seq2seq", "prompt": DATE, "part": "cross", "composition": "queries"}),
    ("generate", {"model": "tiny-gpt", "prompt": TEXT, "edits": ["off:1.0", "weight:1.0:3.1:0", "add:1:all:2:a:b"]}),
    ("masks", {"model": "tiny-gpt", "prompt": TEXT, "edits": "weight:1.0:3.1:0"}),
    ("layouts", {"model": "tiny-llama", "prompt": TEXT}),
    ("layouts", {"model": "tiny-gpt", "prompt": TEXT, "layouts": "Norms through depth"}),
    ("layouts", {"model": "tiny-gpt", "prompt": TEXT, "layouts": "Cross-attention"}),
    ("layouts", {"model": "tiny-gpt", "prompt": TEXT, "layouts": "Fill in the blank"}),
    ("flash_attention", {"model": "tiny-gpt", "prompt": TEXT}),
    ("flash_attention", {"model": "tiny-seq2seq", "prompt": DATE, "part": "cross"}),
    ("training", {"model": "tiny-gpt", "prompt": TEXT}),
    ("training", {"model": "tiny-bert", "prompt": TEXT}),
    ("training", {"model": "tiny-gpt", "prompt": TEXT, "lesson": "Train one, live"}),
    ("quantization", {"model": "tiny-gpt", "prompt": TEXT, "scheme": "LLM.int8"}),
    ("quantization", {"model": "tiny-gpt", "prompt": TEXT, "quantization": "What they do"}),
    ("quantization", {"model": "tiny-gpt", "prompt": TEXT, "quantization": "Three things"}),
    ("misconceptions", {"model": "tiny-gpt", "prompt": TEXT, "claim": "Lengths", "guess_lengths": "true"}),
    ("misconceptions", {"model": "tiny-gpt", "prompt": TEXT, "claim": "The whole", "guess_the_whole": "true"}),
    ("misconceptions", {"model": "tiny-gpt", "prompt": TEXT, "claim": "Memory", "guess_memory": "true"}),
    ("misconceptions", {"model": "tiny-gpt", "prompt": TEXT, "claim": "Equations", "guess_equations": "true"}),
    ("misconceptions", {"model": "tiny-gpt", "prompt": TEXT, "claim": "Approximate", "guess_approximate": "true"}),
    ("misconceptions", {"model": "tiny-gpt", "prompt": TEXT, "claim": "Concept", "guess_concept": "true"}),
    ("misconceptions", {"model": "tiny-gpt", "prompt": TEXT, "claim": "Weights", "guess_weights": "true"}),
    ("misconceptions", {"model": "tiny-gpt", "prompt": TEXT, "claim": "Switching off", "guess_switching_off": "true"}),
    ("positions", {"model": "tiny-gpt", "prompt": TEXT}),
    ("positions", {"model": "tiny-gpt", "prompt": TEXT, "positions": "Tables"}),
    ("positions", {"model": "tiny-llama", "prompt": TEXT, "positions": "Rotation"}),
    ("positions", {"model": "tiny-gpt", "prompt": TEXT, "positions": "Where they enter"}),
    ("positions", {"model": "tiny-llama", "prompt": TEXT, "positions": "Longer texts", "past_times": "512"}),
    ("shapes", {"model": "tiny-llama", "prompt": TEXT}),
    ("shapes", {"model": "tiny-seq2seq", "prompt": DATE}),
    ("shapes", {"model": "tiny-gpt", "prompt": TEXT, "shapes": "a model of any size"}),
    ("shape_reference", {"model": "tiny-llama", "prompt": TEXT}),
    ("shape_reference", {"model": "tiny-seq2seq", "prompt": DATE}),
]


def strings(message):
    """(field, text) of every text in a message of Streamlit's, however deep."""
    for field, value in message.ListFields():
        for part in [value] if isinstance(value, str | bytes) or not hasattr(value, "__iter__") else value:
            if hasattr(part, "ListFields"):
                yield from strings(part)
            elif isinstance(part, str):
                yield field.name, part


def spoken(data) -> list[str]:
    """The texts in the header of a component, without its keys and the roles that give colours."""
    if isinstance(data, dict):
        data = [value for key, value in data.items() if key != "role"]
    if isinstance(data, list):
        return [text for part in data for text in spoken(part)]
    return [data] if isinstance(data, str) else []


def on_screen(test) -> tuple[str, str]:
    """All text of a page, and what stands in its helps."""
    shown, helps = [], []
    for element in test._tree:
        proto = getattr(element, "proto", None)
        if proto is None or element.type == "html":  # the style sheet
            continue
        if blob := getattr(proto, "bytes", b""):
            shown += spoken(unpack(blob)[0])
        for name, text in strings(proto):
            if name == "help":
                helps.append(text)
            elif name in ("label", "body", "options", "caption", "columns", "text"):
                shown.append(text)
            if name == "columns":
                helps.append(text)
    return "\n".join(shown + helps), "\n".join(helps)


def spelled(term: str) -> str:
    return rf"(?<![\w-])({GLOSSARY[term].spelled or f'{re.escape(term)}s?'})(?![\w-])"


@pytest.mark.parametrize(("page", "address"), STATES, ids=lambda value: value if isinstance(value, str) else None)
def test_every_term_on_a_page_is_explained_there(page, address):
    text, helps = on_screen(opened(page, **address))
    without = text
    for term in GLOSSARY:
        without = without.replace(explained(term), "")  # a definition may use words that the page does not
    unexplained = {
        term: found[0]
        for term in GLOSSARY
        if (found := re.search(rf".{{0,60}}{spelled(term)}.{{0,60}}", without))
        and GLOSSARY[term].definition not in helps
    }
    assert not unexplained, unexplained


@pytest.mark.parametrize("term", GLOSSARY)
def test_a_definition_is_at_most_two_sentences_and_has_a_source(term):
    definition, source, _ = GLOSSARY[term]
    assert len(re.findall(r"[.!?](\s|$)", definition)) <= 2
    assert definition.endswith(".")
    assert re.search(r"\b(19|20)\d\d\b", source), "a source has a year"
