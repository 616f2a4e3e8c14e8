"""The page FlashAttention in every state of a link, its numbers against numpy, transformers and the published loops."""

import re

import numpy as np
import pytest
import torch
from streamlit.testing.v1 import AppTest

import viz_model as vm
from tests.support.app import PROMPTS, at, ids, opened
from tests.support.blobs import received_tiles
from tests.support.published_attention import algorithm_0, algorithm_1_of_2022, algorithm_1_of_2023
from tests.support.small_models import make_model, small_config
from tests.support.transformers_tiny_gpt import attentions, queries_keys_values
from viz_model.checkpoints import save
from viz_model.model.tokenizer import Tokenizer
from viz_ui.components.shared.packing import unpack

PROMPT = "The queen gave the girl a ring, and she thanked her."
LAYER, HEAD = 1, 1
ALGORITHMS = {"queries outside": algorithm_1_of_2023, "keys outside": algorithm_1_of_2022}


def app(**address) -> AppTest:
    return opened("flash_attention", **at(**({"prompt": PROMPT, "layer": LAYER, "head": HEAD} | address)))


def drawn(test: AppTest):
    """Header and tiles of the component; None where there is none."""
    found = [part.proto.bytes for part in test.main.get("bidi_component") if "tiles" in unpack(part.proto.bytes)[0]]
    return received_tiles(found[0]) if found else None


def table(test: AppTest) -> dict[str, list[int]]:
    """The counts: what -> written out, tiled."""
    [text] = [markdown.value for markdown in test.markdown if markdown.value.startswith("| this head")]
    rows = [line.strip("| ").split(" | ") for line in text.splitlines()[2:]]
    return {name.strip("*"): [int(number.replace(",", "")) for number in numbers] for name, *numbers in rows}


@pytest.mark.parametrize(
    ("choices", "mask"),
    [
        ({}, "causal"),
        ({"loops": "keys outside", "tile_rows": 3, "tile_columns": 4}, "causal"),
        ({"tile_rows": 4, "tile_columns": 13, "mask": "bidirectional"}, "bidirectional"),
        ({"loops": "keys outside", "tile_rows": 13, "tile_columns": 2, "mask": "bidirectional"}, "bidirectional"),
    ],
)
def test_tiles_of_a_real_head_are_those_of_numpy_and_their_bytes_those_of_the_papers(choices, mask):
    test, tokens = app(**choices), ids(PROMPT)
    header, tiles = drawn(test)
    length = len(tokens)
    query, key, value = queries_keys_values(tokens, LAYER, HEAD, mask)
    allowed = np.ones((length, length), bool) if mask == "bidirectional" else np.tri(length, dtype=bool)
    scores = query @ key.T / np.sqrt(32)
    rows, columns = choices.get("tile_rows", 5), choices.get("tile_columns", 5)  # 13 tokens: 5, 5 and 3 a side
    result = np.zeros((length, 32))
    for (top, bottom, left, right, *_), tile in zip(header["tiles"], tiles, strict=True):
        assert (bottom - top, right - left) == (min(rows, length - top), min(columns, length - left))
        here = allowed[top:bottom, left:right]
        assert here.any()
        np.testing.assert_array_equal(tile["allowed"], here)
        np.testing.assert_allclose(tile["scores"], np.where(here, scores[top:bottom, left:right], 0), atol=1e-4)
        result[top:bottom] = tile["output"] / tile["total"][:, None]
    for top, bottom, left, right in header["skipped"]:
        assert not allowed[top:bottom, left:right].any()
    exponentials = np.where(allowed, np.exp(scores - np.where(allowed, scores, -np.inf).max(1, keepdims=True)), 0)
    weights = exponentials / exponentials.sum(1, keepdims=True)
    np.testing.assert_allclose(result, weights @ value, atol=1e-5)
    if mask == "causal":
        np.testing.assert_allclose(weights, attentions(tokens)[LAYER, HEAD], atol=1e-5)
    memory = ALGORITHMS[choices.get("loops", "queries outside")](query, key, value, allowed, rows, columns)
    assert header["moved"] == [4 * memory.read, 4 * memory.written]
    written_out = algorithm_0(query, key, value, allowed)
    counts = table(test)
    assert counts["bytes read from slow memory"] == [4 * written_out.read, 4 * memory.read]
    assert counts["bytes written to slow memory"] == [4 * written_out.written, 4 * memory.written]
    cells = sum((bottom - top) * (right - left) for top, bottom, left, right, *_ in header["tiles"])
    assert counts["FLOPs of QKᵀ and A·V"] == [4 * length**2 * 32, 4 * cells * 32]
    if mask == "bidirectional":
        assert len(set(counts["FLOPs of QKᵀ and A·V"])) == 1, "the arithmetic of both is the same"


def test_the_page_says_how_far_both_ways_are_apart():
    [words] = [one.value for one in app().markdown if "The same result" in one.value]
    sizes = [float(m) * 10.0 ** int(p.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")))
             for m, p in re.findall(r"([\d.]+)×10([⁻⁰-⁹¹²³]+)", words)]  # fmt: skip
    assert len(sizes) == 3
    assert all(0 < size < 2e-6 for size in sizes)


@pytest.mark.parametrize("prompt", PROMPTS.values(), ids=PROMPTS)
def test_any_prompt_is_worked_out(prompt):
    header, tiles = drawn(app(prompt=prompt))
    length = len(ids(prompt))
    assert len(header["queries"]) == len(header["keys"]) == length
    assert sum(tile["allowed"].sum() for tile in tiles) == length * (length + 1) // 2
    assert len(tiles) + len(header["skipped"]) <= 64


@pytest.mark.parametrize(
    "address",
    [
        {"tile_rows": 0, "tile_columns": 9999, "tile": 77},
        {"tile_rows": "inf", "tile_columns": "-3", "tile": "x", "fast_memory": "1e9"},
        {"loops": "inside out", "fast_memory": 0, "layer": 99, "head": -1},
    ],
)
def test_a_link_with_nonsense_still_shows_a_head(address):
    header, tiles = drawn(app(**address))
    assert 0 <= header["step"] < len(tiles)


def test_a_link_restores_tile_sizes_loops_and_step():
    test = app(tile_rows=2, tile_columns=6, tile=4, query=7, loops="keys outside", fast_memory=64)
    header, _ = drawn(test)
    assert (header["step"], header["query"]) == (4, 7)
    assert header["tiles"][0][:4] == [0, 2, 0, 6]
    assert [test.number_input(key=key).value for key in ("tile_rows", "tile_columns", "fast_memory")] == [2, 6, 64]
    assert any("N = 16,384 numbers" in caption.value for caption in test.caption)


def test_more_steps_than_anybody_would_take_are_refused_with_a_sentence():
    test = app(prompt="king " * 200, tile_rows=1, tile_columns=1)
    assert drawn(test) is None
    assert "steps; this page can show 1,024. Make the tiles larger." in test.info[0].value
    assert test.get("plotly_chart"), "the curves need no steps"


@pytest.mark.parametrize("part", ["encoder", "decoder", "cross"])
def test_every_attention_of_an_encoder_decoder(part, tmp_path):
    torch.manual_seed(0)
    config = small_config(layout="encoder-decoder", n_encoder_layers=2, vocab_size=257, context_length=64)
    save(tmp_path / "both", make_model(config), Tokenizer.of_bytes())
    source = "three fish"
    test = app(model=tmp_path / "both", prompt=source, layer=1, head=2, part=part)
    header, tiles = drawn(test)
    trace = vm.load(tmp_path / "both").trace(source).of(part)
    assert (len(header["queries"]), len(header["keys"])) == (trace.length, trace.key_length)
    group = config.kv_head(2)
    scores = (trace.q(1)[2].double() @ trace.k(1)[group].double().T).numpy() / np.sqrt(config.d_head)
    allowed = trace.mask(1).numpy()
    exponentials = np.where(allowed, np.exp(scores), 0)
    expected = exponentials @ trace.v(1)[group].double().numpy() / exponentials.sum(1, keepdims=True)
    result = np.zeros_like(expected)
    for (top, bottom, *_), tile in zip(header["tiles"], tiles, strict=True):
        result[top:bottom] = tile["output"] / tile["total"][:, None]
    np.testing.assert_allclose(result, expected, atol=1e-5)
