"""The page Positions in every state that a reader can bring it to, its numbers against `transformers` and numpy."""

import base64
import json
import re

import numpy as np
import pytest
import torch
from streamlit.testing.v1 import AppTest
from transformers.models.llama import modeling_llama

import viz_model as vm
from tests.support.app import PROMPTS, address_of, at, ids, opened
from tests.support.blobs import opened_large, received
from tests.support.rotary_model import NAME, save_turning
from tests.support.transformers_tiny_gpt import FOLDER as TINY_GPT
from tests.support.transformers_tiny_gpt import unmasked_attentions
from tests.support.transformers_tiny_llama import llama
from viz_ui.components.shared.packing import unpack

PROMPT, LAYER, HEAD, QUERY, KEY = "The queen gave the girl a ring, and she thanked her.", 1, 2, 9, 4
T = len(ids(PROMPT))
SECTIONS = ("Shuffle the words", "Tables", "Rotation", "Where they enter")
LONGER = "Longer texts"


@pytest.fixture(autouse=True)
def turning(monkeypatch, tmp_path):
    """A rotary model in the catalogue, whatever is bundled."""
    monkeypatch.setenv("VIZ_FETCHED", str(tmp_path))
    return save_turning(tmp_path)


def app(**choices) -> AppTest:
    chosen = {"prompt": PROMPT, "layer": LAYER, "head": HEAD, "query": QUERY, "key": KEY} | choices
    return opened("positions", **at(**chosen))


def headers(test, having):
    """Headers of the components that have this field."""
    found = [unpack(element.proto.bytes)[0] for element in test.main.get("bidi_component")]
    return [header for header in found if having in header]


def matrices(test):
    blobs = [element.proto.bytes for element in test.main.get("bidi_component")]
    return {
        name: values for blob in blobs if "items" in unpack(blob)[0] for name, (values, _) in received(blob).items()
    }


def words(test):
    return " ".join([*(m.value for m in test.main.markdown), *(c.value for c in test.main.caption)])


@pytest.mark.parametrize("scheme", ["none", "learned"])
def test_a_given_order_against_transformers(scheme):
    order = [3, 0, 1, 2, *range(12, 3, -1)]
    test = app(scheme=scheme, order="-".join(map(str, order)))
    drawn = matrices(test)
    rows = torch.zeros(256, 256) if scheme == "none" else None
    typed = unmasked_attentions(ids(PROMPT), wpe=rows)
    shuffled = unmasked_attentions([ids(PROMPT)[token] for token in order], wpe=rows)
    np.testing.assert_allclose(drawn["typed"], typed[LAYER, HEAD], atol=1e-4)
    np.testing.assert_allclose(drawn["shuffled"], shuffled[LAYER, HEAD], atol=1e-4)
    back = shuffled[:, :, np.argsort(order)][:, :, :, np.argsort(order)]
    np.testing.assert_allclose(drawn["difference"], (back - typed)[LAYER, HEAD], atol=1e-4)
    name = "no positions" if scheme == "none" else scheme
    said = re.search(rf"\*\*{name} ([\d.]+)(×10\S+)?\*\*", words(test))
    largest = np.abs(back - typed).max()
    if scheme == "none":
        assert said[2] in ("×10⁻⁶", "×10⁻⁷", "×10⁻⁸")
        assert largest < 1e-5
    else:
        assert float(said[1]) == pytest.approx(largest, rel=0.05)
    assert address_of(test)["order"] == "-".join(map(str, order))


def test_shuffling_again_takes_the_next_seed_and_as_typed_changes_nothing():
    test = app(shuffle=7)
    [before] = headers(test, "order")
    next(button for button in test.button if button.label == "Shuffle again").click().run()
    [after] = headers(test, "order")
    assert address_of(test)["shuffle"] == "8"
    assert sorted(after["order"]) == sorted(before["order"]) == list(range(T))
    assert after["order"] != before["order"]
    next(button for button in test.button if button.label == "As typed").click().run()
    assert headers(test, "order")[0]["order"] == list(range(T))
    assert not matrices(test)["difference"].any()


def test_tables_against_the_file_and_the_formula():
    drawn = matrices(app(positions="Tables"))
    table = vm.load("tiny-gpt").transformer.positions.weight.numpy()
    np.testing.assert_allclose(drawn["rows"], table, atol=1e-3)
    unit = table / np.linalg.norm(table, axis=1, keepdims=True)
    np.testing.assert_allclose(drawn["cosines"], unit @ unit.T, atol=1e-3)
    test = app(positions="Tables", table="sinusoidal")
    angles = np.arange(256)[:, None] / 10000 ** (np.arange(0, 256, 2) / 256)
    sinusoids = np.stack([np.sin(angles), np.cos(angles)], -1).reshape(256, 256)
    np.testing.assert_allclose(matrices(test)["rows"], sinusoids, atol=1e-3)
    product = sinusoids[QUERY] @ sinusoids[KEY]
    assert f"Rows {QUERY} and {KEY} have the dot product {product:.1f}" in words(test)
    assert "Position 256 has no row" in words(test).replace("\\", "")


def test_a_model_without_a_table_shows_another_s_and_says_so():
    said = words(app(model=NAME, positions="Tables")).replace("\\", "")
    assert re.search(
        rf"This section shows \S+, because {NAME} does not fit: the section needs a model of this project .* rows", said
    )


def test_pairs_are_the_queries_and_keys_before_their_rotation(turning):
    test = app(model=NAME, positions="Rotation", layer=1, head=3, shift=5, apart=-2, pair=1)
    [header] = headers(test, "pairs")
    trace = turning.trace(PROMPT)
    query, key = trace["blocks.1.attn.q_pre"][3, QUERY], trace["blocks.1.attn.k_pre"][1, KEY]
    for index, pair in enumerate(header["pairs"]):
        assert pair["numbers"] == [index, index + 3]  # "halves", D = 6
        np.testing.assert_allclose(pair["query"], query[[index, index + 3]], atol=1e-6)
        np.testing.assert_allclose(pair["key"], key[[index, index + 3]], atol=1e-6)
        assert pair["theta"] == pytest.approx(10000 ** (-2 * index / 6))
    assert (header["shift"], header["distance"], header["pair"]) == (5, QUERY - KEY - 2, 1)
    angles = torch.outer(torch.tensor([QUERY, KEY]), torch.tensor([pair["theta"] for pair in header["pairs"]])).repeat(
        1, 2
    )
    both = torch.stack([query, key])[None, None]
    turned, _ = modeling_llama.apply_rotary_pos_emb(both, both, angles.cos()[None], angles.sin()[None])
    assert header["computed"] == pytest.approx((turned[0, 0, 0] @ turned[0, 0, 1]).item() * header["scale"], abs=1e-4)
    [chart] = test.get("plotly_chart")
    waves = json.loads(chart.proto.spec)["data"][0]["y"]
    assert "bdata" in waves or waves == pytest.approx([2 * np.pi / pair["theta"] for pair in header["pairs"]])


@pytest.mark.parametrize("model", ["tiny-gpt", NAME])
def test_which_sites_change(model):
    table = app(model=model, positions="Where they enter", layer=0, later=7).dataframe[0].value.set_index("site")
    turning = table[next(name for name in table if name.startswith("RoPE"))]
    for site in ("embed", "blocks.0.resid_pre", "blocks.0.attn.q_pre", "blocks.0.attn.v"):
        assert turning[site] == "0"
    assert turning["blocks.0.attn.raw"].endswith("≈ 0")
    assert float(turning["blocks.0.attn.q"]) > 0.1
    added = table["sinusoidal"].drop(["embed.tokens", "blocks.0.attn.q_pre", "blocks.0.attn.k_pre"])
    assert all(float(text) > 1e-4 for text in added)
    assert set(table["none"]) == {"0", "–"}
    if model == "tiny-gpt":
        rows = vm.load("tiny-gpt").transformer.positions.weight
        expected = (rows[7 : 7 + T] - rows[:T]).abs().max().item()
        assert float(table["learned (its own)"]["embed.positions"]) == pytest.approx(expected, rel=1e-2)
    sites = list(table.index)
    assert sites.index("embed.positions") == sites.index("embed.tokens") + 1
    assert sites.index("blocks.0.attn.q_pre") < sites.index("blocks.0.attn.q") < sites.index("blocks.0.attn.raw")


def test_a_prompt_moved_past_the_last_row_has_none():
    test = app(positions="Where they enter", later=300)
    table = test.dataframe[0].value
    assert set(table["learned (its own)"]) == {"no row"}
    assert "Position 312 has no row" in words(test).replace("\\", "")


def test_a_longer_text_with_other_angles_against_transformers():
    """Two texts of the tales at 512 tokens, from the held-out file to the points of the curves and the sentence."""
    choices = {"positions": LONGER, "past_times": "512", "angles": "larger base", "past_factor": 2}
    test = app(model="tiny-gpt", **choices)
    said = words(test).replace("\\", "")
    assert (
        "This section shows tiny-llama. Position 256 has no row, because tiny-gpt learned only rows 0 to 255." in said
    )
    books = (TINY_GPT / "held-out.txt").read_text("utf-8").strip("\n").split("\n\n")
    tokenizer = vm.load("tiny-llama").tokenizer
    text = np.concatenate([[tokenizer.end_of_text, *tokenizer.encode(book)] for book in books])
    starts = np.linspace(0, len(text) - 513, 4).astype(int)
    rows = torch.tensor(text[starts[:, None] + np.arange(513)].astype(np.int64))
    curves = {}
    for name, base in {"as trained": 1e4, "larger base, s = 2": 1e4 * 2 ** (32 / 30)}.items():
        with torch.inference_mode():
            logits = llama(base)(rows[:, :-1]).logits
        curves[name] = torch.nn.functional.cross_entropy(logits.transpose(1, 2), rows[:, 1:], reduction="none")
    [loss, weights] = [json.loads(chart.proto.spec)["data"] for chart in test.get("plotly_chart")]
    assert [trace["name"] for trace in loss] == ["restarting", *curves]
    for trace in loss[1:]:
        np.testing.assert_allclose(
            numbers(trace["y"]), curves[trace["name"]].view(4, 8, 64).mean((0, 2)), atol=1e-3, err_msg=trace["name"]
        )
        np.testing.assert_allclose(numbers(trace["x"]), 31.5 + 64 * np.arange(8))
    np.testing.assert_allclose(numbers(loss[0]["y"])[:4], numbers(loss[1]["y"])[:4], atol=1e-3)  # the same up to there
    past = curves["as trained"][:, 256:].mean().item()
    shown = re.search(r"as trained: [\d.]+ → \*\*([\d.]+)\*\*", said)
    assert float(shown[1]) == pytest.approx(past, abs=6e-3)
    assert [len(numbers(trace["y"])) for trace in weights] == [8] * 4


def test_only_what_was_trained_on_short_texts_and_turns_is_read_on():
    said = words(app(model="tiny-seq2seq", positions=LONGER, past_times="512")).replace("\\", "")
    assert re.search(
        "This section shows tiny-llama, because tiny-seq2seq does not fit: the section needs a decoder with a "
        "tokenizer",
        said,
    )


def numbers(plotted):
    """The numbers of a Plotly trace, which travel as text where they are many."""
    if isinstance(plotted, dict):
        return np.frombuffer(base64.b64decode(plotted["bdata"]), plotted["dtype"])
    return np.array(plotted)


@pytest.mark.parametrize("section", SECTIONS)
def test_any_prompt_is_drawn(section):
    for prompt in (PROMPTS["one token"], PROMPTS["emoji"], PROMPTS["markdown"]):
        test = app(prompt=prompt, positions=section, query=0, key=0)
        assert not test.info, (prompt, [info.value for info in test.info])


@pytest.mark.parametrize(
    "nonsense",
    [
        {"positions": "Nowhere", "scheme": "alibi", "order": "0-0-0", "shuffle": "x"},
        {"order": "1-0", "shuffle": "99999999999"},
        {"positions": "Rotation", "shift": "-5", "apart": "inf", "pair": "1e3"},
        {"positions": "Rotation", "shift": "999999", "apart": "-99999", "pair": "77"},
        {"positions": "Where they enter", "later": "ten", "compared": ""},
        {"positions": "Tables", "table": "", "base": "0"},
        {"positions": LONGER, "past_times": "512", "past_texts": "many", "angles": "", "past_factor": "0"},
        {"positions": "", "scheme": "", "order": ""},
    ],
    ids=repr,
)
def test_nonsense_in_the_address_is_passed_over(nonsense):
    test = app(**nonsense)
    assert not test.info
    assert test.main.get("bidi_component") or test.dataframe or test.get("plotly_chart")
    if nonsense.get("order"):
        assert "belongs to another prompt" in words(test)


def test_only_what_is_drawn_is_saved_under_its_name():
    title, file_name, more = opened_large(app(), "shuffled")
    assert (title, file_name) == ("tiny-gpt, layer 1, head 2: Weights, new order", "tiny-gpt_layer1_head2_shuffled")
    assert more == ["NPZ of the whole head"]


def test_the_pair_that_is_opened_adds_or_takes_most(turning):
    """Of a cell where one pair takes more from the score than any other adds."""
    trace, head = turning.trace(PROMPT), 3
    query, key = trace["blocks.1.attn.q"][head], trace["blocks.1.attn.k"][turning.config.kv_head(head)]  # turned
    products = query[:, None] * key  # (T,S,6); halves: pair p is the numbers p and p + 3
    shares = products[..., :3] + products[..., 3:]
    most = shares.abs().argmax(-1)
    row, column = (shares.argmax(-1) != most).nonzero()[-1].tolist()
    [header] = headers(app(model=NAME, positions="Rotation", layer=1, head=head, query=row, key=column), "pairs")
    assert header["pair"] == most[row, column]
    assert header["trained"] == 255  # the longest distance within 256 tokens
    assert (header["least"], header["most"]) == (min(0, row - column), 512)
    assert (header["query"]["position"], header["key"]["position"]) == (row, column)
