"""The page Quantization in every state that a reader can bring it to, its numbers against bitsandbytes and torch."""

import copy
import json
import re
import shutil

import bitsandbytes.functional as bitsandbytes
import numpy as np
import pytest
import streamlit as st
import torch
from scipy.special import log_softmax
from streamlit.testing.v1 import AppTest

import viz_model as vm
from tests.support.app import at, blobs_of, drawn_matrices, ids, opened
from tests.support.blobs import opened_large
from tests.support.small_models import VOCABULARY, small_model
from tests.support.transformers_tiny_gpt import FOLDER, attentions, gpt2
from viz_model import checkpoints
from viz_model.fetching import SOURCE_FILE, Source
from viz_model.model.tokenizer import Tokenizer
from viz_ui.components.shared.packing import unpack

PROMPT, LAYER, HEAD, QUERY = "The queen gave the girl a ring, and she thanked her.", 2, 6, 9
T = len(ids(PROMPT))
EFFECTS, THREE = "What they do", "Three things"


def app(**choices) -> AppTest:
    chosen = {"prompt": PROMPT, "layer": LAYER, "head": HEAD, "query": QUERY, "key": 4} | choices
    return opened("quantization", **at(**chosen))


def show(test, **choices):
    """As a click on a control does it."""
    for name, value in choices.items():
        if type(value) is int:
            test.number_input(key=name).set_value(value)
        else:
            test.session_state[name] = value
    test.run()
    assert not test.exception, test.exception


def words(test):
    return " ".join(markdown.value for markdown in test.main.markdown)


def weights(name):
    return vm.load("tiny-gpt").transformer.get_parameter(f"{name}.weight").detach()


def rounded_gpt2(rounded):
    """`transformers`' GPT-2 with tiny-gpt's weights, every matrix of its blocks gone through `rounded`, and back."""
    model = copy.deepcopy(gpt2())  # which other tests compare with
    with torch.no_grad():
        for block in model.transformer.h:
            query, key, value = block.attn.c_attn.weight.T.chunk(3)
            joined = torch.cat([rounded(part.contiguous()) for part in (query, key, value)])
            block.attn.c_attn.weight.copy_(joined.T)
            for layer in (block.attn.c_proj, block.mlp.c_fc, block.mlp.c_proj):
                layer.weight.copy_(rounded(layer.weight.T.contiguous()).T)
        tokens = torch.tensor([ids(PROMPT)])
        result = model(tokens, output_attentions=True)
    return torch.stack(result.attentions)[:, 0].numpy(), result.logits[0].double().numpy()


def nf4(matrix):
    return bitsandbytes.dequantize_4bit(*bitsandbytes.quantize_4bit(matrix, None, None, 64, True, "nf4"))


def test_a_matrix_its_codes_and_its_bytes_against_bitsandbytes():
    test = app(matrix="ffn.up", matrix_row=21, matrix_column=77)
    found, exact = drawn_matrices(test), weights("blocks.2.ffn.up")
    packed, state = bitsandbytes.quantize_4bit(exact, blocksize=64, compress_statistics=True, quant_type="nf4")
    codes = torch.stack((packed >> 4, packed & 15), -1).view(exact.shape)
    part = (slice(16, 24), slice(64, 128))
    np.testing.assert_array_equal(found["codes"][0], codes[part])
    np.testing.assert_allclose(found["before"][0], exact[part], rtol=1e-6)
    theirs = bitsandbytes.dequantize_4bit(packed, state)
    np.testing.assert_allclose(found["after"][0], theirs[part], atol=0.02 * exact[part].abs().max())
    np.testing.assert_allclose(found["error"][0], found["after"][0] - found["before"][0], atol=1e-6)
    said, weight = words(test), exact[21, 77].item()
    assert f"w_{{21,77}} = {weight:.5f}"[:-1] in said  # four significant digits
    assert f"code }} {codes[21, 77]}" in said
    assert "**3,145,728 weights** take **1.62 MB** instead of 12.6 MB" in said
    assert (
        "**4.127 bits per weight**: 4 for the code and 0.127 for the constants c (one per group of 64 weights; if each "
        "c " in said
    )
    table = test.dataframe[0].value.set_index("matrix")
    assert len(table) == 24
    row = table.loc["blocks.2.ffn.up"]
    assert (row["bytes before"], row["outputs"], row["inputs"]) == (exact.nbytes, 1024, 256)
    assert row["bytes after"] == packed.nbytes + state.absmax.nbytes + state.state2.absmax.nbytes + 4
    assert row["error"] == pytest.approx(((theirs - exact).norm() / exact.norm()).item(), rel=0.01)
    [levels] = test.get("plotly_chart")
    before, after = (trace["y"] for trace in json.loads(levels.proto.spec)["data"])
    counted = np.bincount(codes.flatten(), minlength=16)
    np.testing.assert_array_equal(numbers(after), counted)
    assert numbers(before).sum() == exact.numel()
    title, file_name, _ = opened_large(test, "codes")
    assert (title, file_name) == (
        "tiny-gpt: blocks.2.ffn.up, Codes, as stored, NF4",
        "tiny-gpt_blocks.2.ffn.up_codes_NF4",
    )


def numbers(column):
    """A column of a Plotly figure, which may travel in base 64."""
    if isinstance(column, dict):
        import base64

        return np.frombuffer(base64.b64decode(column["bdata"]), column["dtype"])
    return np.array(column)


def test_weights_that_were_rounded_before_are_said_to_be(tmp_path, monkeypatch):
    """SmolLM2 comes in 4 bits a weight: what this page does to it comes on top."""
    st.cache_resource.clear()
    put_fetched(tmp_path, monkeypatch, "Python package p 1: org/m, in 4 bits per weight (GGUF, Q4_1)")
    test = app(model="m", layer=0, head=0)
    assert "come from a Q4_1 file, so they had already been rounded" in " ".join(
        each.value for each in test.main.caption
    )
    [said] = [each.value for each in test.sidebar.caption if "parameters" in each.value]
    assert "stored as Q4_1 blocks, computed in 32 bits" in said.replace("\\", "")
    st.cache_resource.clear()


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("Hugging Face Hub: org/m-gguf/m-q8_0.gguf, revision abc1234", "Q8_0"),
        ("Hugging Face Hub: org/m-gguf/m-f16.gguf, revision abc1234", ""),
        ("Hugging Face Hub: Qwen/Qwen2.5-0.5B, revision abc1234", ""),
    ],
)
def test_where_a_model_came_from_tells_whether_it_was_rounded(source, kind, tmp_path, monkeypatch):
    put_fetched(tmp_path, monkeypatch, source)
    assert vm.load("m").rounded_to == kind
    assert vm.load("tiny-gpt").rounded_to == ""


def put_fetched(shelf, monkeypatch, source: str) -> None:
    """A copy of a small model as if it had been fetched from there."""
    monkeypatch.setenv("VIZ_FETCHED", str(shelf))
    shutil.copytree(FOLDER.parent / "induction", shelf / "m")
    (shelf / "m" / SOURCE_FILE).write_text(json.dumps(vars(Source("m", source, "MIT", "2026-01-02", 66_560, True))))


def test_every_head_and_the_prediction_against_transformers_with_rounded_weights():
    expected, logits = rounded_gpt2(nf4)
    before = attentions(ids(PROMPT))
    test = app(quantization=EFFECTS)
    found = drawn_matrices(test)
    np.testing.assert_allclose(found["before"][0], before[LAYER, HEAD], atol=2e-4)
    changed = np.abs(expected - before).max()
    np.testing.assert_allclose(found["after"][0], expected[LAYER, HEAD], atol=0.02 * changed)
    np.testing.assert_allclose(found["difference"][0], expected[LAYER, HEAD] - before[LAYER, HEAD], atol=0.02 * changed)
    largest = np.unravel_index(np.abs(expected - before).max((2, 3)).argmax(), (4, 8))
    captions = " ".join(caption.value for caption in test.main.caption)
    assert f"The attention weights change most in layer {largest[0]}, head {largest[1]}." in captions
    [table] = [frame.value for frame in test.dataframe if "token" in frame.value]
    with torch.no_grad():
        plain = gpt2()(torch.tensor([ids(PROMPT)])).logits[0].double().numpy()
    probabilities = [np.exp(log_softmax(each[QUERY])) for each in (plain, logits)]
    top = [np.sort(each)[::-1] for each in probabilities]
    np.testing.assert_allclose(table["original"].max(), top[0][0], atol=1e-4)
    np.testing.assert_allclose(table["rounded"].max(), top[1][0], atol=2e-3)
    divergence = (probabilities[0] * (np.log(probabilities[0]) - np.log(probabilities[1]))).sum() / np.log(2)
    said = float(words(test).split("KL(original‖rounded) = **")[1].split(" bits")[0])
    assert said == pytest.approx(divergence, rel=0.1)
    test.button(key="most_changed").click().run()
    assert tuple(test.number_input(key=name).value for name in ("layer", "head")) == largest
    np.testing.assert_allclose(drawn_matrices(test)["after"][0], expected[largest], atol=0.02 * changed)
    [metric] = test.metric
    assert metric.label == "Loss on held-out text, nats per token"
    assert float(metric.value.split(" → ")[0]) == pytest.approx(held_out_loss(), abs=1e-3)  # four digits are shown


def test_effects_open_on_the_head_that_changes_most_unless_the_reader_chose_one():
    section = {"model": "tiny-gpt", "prompt": PROMPT, "quantization": "What they do"}
    test = opened("quantization", **section)
    assert "most_changed" not in [button.key for button in test.button], "the chosen head is the one that changes most"
    shown = np.abs(drawn_matrices(test)["difference"][0]).max()
    other = opened("quantization", **section, head="1.0")
    assert tuple(other.number_input(key=name).value for name in ("layer", "head")) == (1, 0)
    other.button(key="most_changed").click().run()
    assert np.abs(drawn_matrices(other)["difference"][0]).max() == shown > 0


def held_out_loss():
    """The same four stretches of the held-out text by `transformers`."""
    tokenizer = vm.load("tiny-gpt").tokenizer
    stream = []
    for book in (FOLDER / "held-out.txt").read_text("utf-8").strip("\n").split("\n\n"):
        stream += [tokenizer.end_of_text, *tokenizer.encode(book)]
    starts = np.linspace(0, len(stream) - 256, 4).astype(int)
    rows = torch.tensor([stream[start : start + 256] for start in starts])
    with torch.no_grad():
        return gpt2()(rows, labels=rows).loss.item()


def test_outliers_of_this_prompt_are_counted_and_cost_16_bits():
    test = app(scheme="LLM.int8", threshold=2.5)
    first = words(test)
    table = test.dataframe[0].value.set_index("matrix")
    with torch.no_grad():
        model = gpt2()
        stream = model(torch.tensor([ids(PROMPT)]), output_hidden_states=True).hidden_states[0]
        entering = model.transformer.h[0].ln_1(stream)[0].abs().amax(0)
    assert table["outliers"]["blocks.0.attn.query"] == int((entering >= 2.5).sum()) > 0
    assert re.search(
        r"bits per weight\*\*: 8 for the code, \S+ for the constants c \(one per row\), and \S+ for a second "
        r"copy, in 16 bits, of the weights that are multiplied with outlier columns of x",
        first,
    )
    assert "**Outlier columns.**" in first
    test.number_input(key="threshold").set_value(900.0).run()
    assert not test.exception
    assert test.dataframe[0].value["outliers"].sum() == 0
    assert "outlier columns in 16 bits" not in words(test)


def test_the_table_of_three_things():
    test = app(quantization=THREE, written=3)
    [table] = [markdown.value for markdown in test.main.markdown if "\u200bAttention |" in markdown.value]
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    assert lines[0] == ["", "none of them", "KV cache", "Flash\u200bAttention", "quantization (NF4)", "all together"]
    rows = {name: cells for name, *cells in lines[2:]}
    assert rows["memory: weights"][:3] == ["17.4 MB"] * 3
    assert rows["memory: weights"][3] == "**6.4 MB** ×0.37"
    cache = 2 * 4 * 256 * (T + 2) * 4  # K and V, layers, C, tokens, bytes
    assert rows["memory: cache"] == ["0", f"**{cache / 1e3:.0f} kB**", "0", "0", f"**{cache / 1e3:.0f} kB**"]
    assert rows["memory: QKᵀ and A"][2] == rows["memory: QKᵀ and A"][4] == "**0**"
    flops = rows["arithmetic: FLOPs"]
    assert flops[0] == flops[2] == flops[3]
    assert flops[1] == flops[4] != flops[0]
    assert float(rows["result: largest change of any logit"][3].strip("*")) > 0.05
    assert [rows["result: same choice"][column] for column in (1, 2)] == ["3 of 3"] * 2
    test.number_input(key="written").set_value(1).run()
    assert "1 of 1" in words(test)


def test_a_click_on_a_weight_or_a_row_of_the_table_opens_it():
    test = app()
    # as the component and the table tell it
    show(test, matrix_row=130, matrix_column=200)
    assert "w_{130,200}" in words(test)
    assert marked(test) == {"output": 2, "input": 8}
    assert received_labels(test, "before") == ([str(row) for row in range(128, 136)], [str(c) for c in range(192, 256)])
    show(test, matrix="attn.output", layer=3)
    np.testing.assert_allclose(
        drawn_matrices(test)["before"][0], weights("blocks.3.attn.output")[128:136, 192:256], rtol=1e-6
    )


def marked(test):
    """What the component frames, within the part that is drawn."""
    headers = [unpack(blob)[0] for blob in blobs_of(test)]
    [found] = [header["marked"] for header in headers if header.get("marked")]
    return found


def received_labels(test, name):
    for blob in blobs_of(test):
        header, _ = unpack(blob)
        for item in header.get("items", []):
            if item.get("name") == name:
                return tuple(header["labels"][item[axis]["labels"]] for axis in ("rows", "columns"))
    raise AssertionError(f"no matrix {name}")


@pytest.mark.parametrize(
    ("choices", "stays"),
    [
        ({"quantized": "attention", "matrix": "ffn.up"}, "attn"),  # a matrix that is not quantized any more
        ({"quantized": "one layer", "matrix_row": 999_999}, "blocks.2."),
        ({"scheme": "int3", "threshold": "inf", "written": "-1", "quantization": "nothing"}, "blocks"),
        ({"prompt": "a"}, "blocks"),
    ],
    ids=["another part", "beyond the matrix", "nonsense", "one token"],
)
def test_what_a_link_may_hold(choices, stays):
    test = app(**choices)
    assert not test.info
    assert all(stays in name for name in test.dataframe[0].value["matrix"])
    for section in (EFFECTS, THREE):
        show(test, quantization=section)
        assert not test.info
        assert test.main.get("bidi_component") or "\u200bAttention |" in words(test)
        if section == EFFECTS:  # a token alone reads itself, with whatever weights
            said = " ".join(caption.value for caption in test.caption)
            assert ("No weight of any head changes" in said) == (choices.get("prompt") == "a")


LAYOUTS = {
    "encoder-only": {"layout": "encoder-only"},
    "attention-only": {"d_ff": 0},
    "encoder-decoder": {"layout": "encoder-decoder"},
}


@pytest.mark.parametrize("changes", LAYOUTS.values(), ids=LAYOUTS)
def test_models_of_any_layout(changes, tmp_path, monkeypatch):
    """A small model of each, with random weights; all three sections."""
    st.cache_resource.clear()
    monkeypatch.setattr(checkpoints, "FOLDER", tmp_path)
    tokenizer = Tokenizer.of_bytes()
    transformer = small_model(vocab_size=tokenizer.vocab_size, context_length=64, **changes)
    assert tokenizer.vocab_size > VOCABULARY
    checkpoints.save(tmp_path / "tiny-gpt", transformer, tokenizer)
    is_pair = changes.get("layout") == "encoder-decoder"
    test = app(prompt="abc abc", layer=1, head=1, query=0, key=0)
    for part in ("encoder", "decoder", "cross") if is_pair else ("self",):
        show(test, quantization="The weights", **({"part": part} if is_pair else {}))
        assert not test.info
        stack = "" if part == "self" else "encoder." if part == "encoder" else "decoder."
        exact = transformer.get_parameter(f"{stack}blocks.1.attn.query.weight")[:8]
        np.testing.assert_allclose(drawn_matrices(test)["before"][0], exact.half().float(), rtol=1e-6)
        show(test, quantization=EFFECTS)
        assert set(drawn_matrices(test)) == {"before", "after", "difference"}
    show(test, quantization=THREE)
    [table] = [markdown.value for markdown in test.main.markdown if "\u200bAttention |" in markdown.value]
    assert ("KV cache" in table) == (transformer.config.layout != "encoder-only")
    assert ("memory: cache, of the source" in table) == is_pair
    assert "memory: weights" in table
    if is_pair:  # K and V, layers, G·D = 12, bytes: of eight tokens that were written, and of a source of seven
        sizes = [line.split("|")[3].strip(" *") for line in table.splitlines() if "memory: cache" in line]
        assert sizes == ["1.54 kB", "1.34 kB"]
    st.cache_resource.clear()
