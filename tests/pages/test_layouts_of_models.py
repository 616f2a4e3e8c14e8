"""The pages on models of other layouts: an encoder-decoder through each of its parts, an encoder, attention alone."""

import numpy as np
import pytest
import streamlit as st
import torch

import viz_model as vm
from tests.support.app import address_of, blobs_of, opened
from tests.support.blobs import received, received_generation
from tests.support.two_stack_models import (
    EXAMPLES,
    HEADS,
    LAYERS,
    SOURCE,
    START,
    TARGET,
    attentions,
    ids,
    make_checkpoints,
    marian,
)
from viz_model.masking.drawn_mask import encode_mask
from viz_ui.components.shared.packing import unpack
from viz_ui.frame import examples
from viz_ui.look.text import shown

PAGES = ("heads", "inside_a_head", "shapes", "masks", "generate", "circuits", "over_a_text", "compare")
PARTS = ("encoder", "decoder", "cross")
T, S = len(TARGET) + 1, len(SOURCE)


@pytest.fixture(autouse=True, scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoints")
    make_checkpoints(folder)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(vm.checkpoints, "FOLDER", folder)
        st.cache_resource.clear()
        yield
    st.cache_resource.clear()


def app(page, model="marian", **address):
    given = {"prompt": SOURCE, "target": TARGET} if model == "marian" else {"prompt": SOURCE}
    return opened(page, **({"model": model} | given | address))


def matrices(test):
    [blob] = [blob for blob in blobs_of(test) if "items" in unpack(blob)[0]]
    return received(blob)


def words(test):
    return "\n".join(element.value for element in (*test.markdown, *test.caption, *test.info))


def labels(part, axis):
    of_source = part == "encoder" or (part == "cross" and axis == "key")
    texts = [*SOURCE] if of_source else ["<|endoftext|>", *TARGET]
    return numbered(text.replace(" ", "·") for text in texts)


def numbered(texts):
    """A digit is quoted, so that no label reads as two numbers."""
    return [f"{n} ‘{text}’" if text in "0123456789" else f"{n} {text}" for n, text in enumerate(texts)]


@pytest.mark.parametrize("page", ["heads", "inside_a_head"])
@pytest.mark.parametrize("part", PARTS)
def test_a_head_of_each_part_is_that_of_transformers(page, part):
    layer, head = LAYERS[part] - 1, 3
    test = app(page, part=part, layer=layer, head=head, query=2, key=1)
    weights = attentions()[part][layer, head].numpy()
    [blob] = [blob for blob in blobs_of(test) if "items" in unpack(blob)[0]]
    np.testing.assert_allclose(received(blob)["weights"][0], weights, atol=2e-5)
    header = unpack(blob)[0]
    [drawn] = [item for item in header["items"] if item.get("name") == "weights"]
    assert header["labels"][drawn["rows"]["labels"]] == labels(part, "query")
    assert header["labels"][drawn["columns"]["labels"]] == labels(part, "key")
    place = "cross-attention" if part == "cross" else part
    assert f"{place}, layer {layer}, head {head}" in words(test)
    number = f"{weights[2, 1]:.4g}"
    assert number[:5] in words(test)  # the arithmetic ends in it
    if page == "heads":
        [grid] = [unpack(blob)[0] for blob in blobs_of(test) if "maskBytes" in unpack(blob)[0]]
        assert (grid["layers"], grid["heads"]) == (LAYERS[part], HEADS)
        columns = set(test.dataframe[0].value.columns)
        assert ("previous" in columns) == (part != "cross")


def test_without_a_target_the_decoder_reads_what_transformers_writes():
    source = torch.tensor([ids(SOURCE)])
    [written] = marian().generate(source, max_new_tokens=47, do_sample=False, num_beams=1).tolist()
    test = app("heads", target="")
    assert f"Query (0–{len(written) - 1})" == test.number_input(key="query").label
    assert "The decoder reads the model's own output" in words(test.sidebar)
    [header] = [unpack(blob)[0] for blob in blobs_of(test) if "items" in unpack(blob)[0]]
    [drawn] = [item for item in header["items"] if item.get("name") == "weights"]
    names = ["<|endoftext|>" if token == START else shown(bytes([token])) for token in written]
    assert header["labels"][drawn["rows"]["labels"]] == numbered(names)


def test_a_model_brings_its_own_examples():
    test = app("heads", "tiny-gpt", prompt=next(iter(examples.EXAMPLES.values())))
    test.selectbox(key="model").select("marian").run()
    assert not test.exception
    assert test.text_area(key="prompt").value == EXAMPLES["A date"]
    test.selectbox(key="model").select("tiny-gpt").run()
    assert test.text_area(key="prompt").value == next(iter(examples.EXAMPLES.values()))
    test.text_area(key="prompt").set_value("What I typed").run()
    test.selectbox(key="model").select("marian").run()  # it reads another kind of text
    assert test.text_area(key="prompt").value == EXAMPLES["A date"]
    test.selectbox(key="model").select("tiny-gpt").run()
    assert test.text_area(key="prompt").value == "What I typed"


def test_another_part_keeps_its_own_mask_and_its_own_range():
    test = app("heads", part="cross", key=S - 1, query=T - 1)
    assert test.button_group(key="mask").value == "bidirectional"
    test.button_group(key="part").set_value("decoder").run()
    assert not test.exception
    assert test.button_group(key="mask").value == "causal"
    assert test.number_input(key="key").value == T - 1
    assert "mask" not in address_of(test)


def test_a_foreign_mask_in_one_part_is_drawn_there():
    test = app("heads", part="encoder", mask="causal")
    weights, allowed = matrices(test)["weights"]
    np.testing.assert_array_equal(allowed, np.tri(S, dtype=bool))
    np.testing.assert_allclose(weights.sum(1), 1, atol=1e-5)
    assert "was trained with the bidirectional mask in its encoder" in words(test.sidebar)


@pytest.mark.parametrize("part", PARTS)
def test_two_masks_of_each_part(part):
    shape = (S, S) if part == "encoder" else (T, T) if part == "decoder" else (T, S)
    drawn = np.tri(*shape, dtype=bool)
    drawn[1, -1] = True
    own = "causal" if part == "decoder" else "bidirectional"
    test = app("masks", part=part, layer=1, head=2, mask_a=own, mask_b="drawn by hand", cells_b=encode_mask(drawn))
    found = matrices_of_masks(test)
    np.testing.assert_allclose(found["weights A"][0], attentions()[part][1, 2], atol=2e-5)
    np.testing.assert_array_equal(found["mask B"][1], drawn)
    assert found["weights B"][0][~drawn].max() == 0
    [editor] = [unpack(blob)[0] for blob in blobs_of(test) if "cursor" in unpack(blob)[0]]
    assert (editor["rows"], editor["columns"]) == (labels(part, "query"), labels(part, "key"))
    assert ("An encoder predicts no token" in words(test)) == (part == "encoder")
    assert ("where the mask is causal in both passes" in words(test)) == (part == "cross")
    past = [f"stream {side}" for side in "AB" if not found_change(test)[f"stream {side}"][0][:, : T // 2].any()]
    assert part != "cross" or past == ["stream A", "stream B"]


def matrices_of(test):
    return [received(blob) for blob in blobs_of(test) if "items" in unpack(blob)[0]]


def found_change(test):
    return next(
        received(blob) for blob in blobs_of(test) if "items" in unpack(blob)[0] and "stream A" in received(blob)
    )


def matrices_of_masks(test):
    return next(
        received(blob) for blob in blobs_of(test) if "items" in unpack(blob)[0] and "weights A" in received(blob)
    )


@pytest.mark.parametrize(
    ("part", "node", "axes"),
    [
        ("encoder", "attn.weights", ("encoder", "encoder")),
        ("decoder", "cross.weights", ("decoder", "encoder")),
        ("cross", "attn.weights", ("decoder", "decoder")),
        ("cross", "memory", ("encoder", None)),
        ("cross", "resid_self", ("decoder", None)),
    ],
)
def test_a_tensor_of_each_stack_is_opened_with_its_own_tokens(part, node, axes):
    test = app("shapes", part=part, node=node, layer=1, head=2, query=1, key=3)
    drawn, _ = matrices(test)[node]
    if node.endswith("weights"):
        shown = "cross" if node.startswith("cross") else axes[0]
        np.testing.assert_allclose(drawn, attentions()[shown][1, 2], atol=2e-5)
    [header] = [unpack(blob)[0] for blob in blobs_of(test) if "items" in unpack(blob)[0]]
    [item] = [item for item in header["items"] if item.get("name") == node]
    for axis, of in zip(("rows", "columns"), axes, strict=True):
        if of:
            assert header["labels"][item[axis]["labels"]] == labels(of, "query")
    [diagram] = [unpack(blob)[0] for blob in blobs_of(test) if "around" in unpack(blob)[0]]
    assert diagram["blocks"] == LAYERS[part]
    numbers = {letter["letter"]: letter["number"] for letter in diagram["letters"]}
    assert (numbers["T"], numbers["S"]) == ((S, S) if part == "encoder" else (T, S))
    assert {"cross.q", "memory", "logits"} <= {box["name"] for box in (*diagram["tensors"], *diagram["around"])} or (
        part == "encoder"
    )


@pytest.mark.parametrize("part", PARTS)
def test_a_generation_reads_a_cache_that_grows_and_one_that_stays(part):
    """Steps are forced through the address, so that what is read is not one and the same token."""
    branches = {0: ord("-"), 1: ord("7"), 2: ord("x"), 3: ord("-")}
    forced = ",".join(f"{step}:{token}" for step, token in branches.items())
    test = app("generate", part=part, layer=1, head=4, new=4, branches=forced)
    [blob] = [blob for blob in blobs_of(test) if "of_source" in unpack(blob)[0]]
    header, keys, _, weights = received_generation(blob)
    read = (START, *ids(TARGET), *list(branches.values())[:-1])
    assert (header["prompt_length"], len(header["steps"]), len(header["labels"])) == (T, 4, len(read) + 1)
    drawn = "decoder" if part == "decoder" else "cross"
    np.testing.assert_allclose(weights, attentions(read)[drawn][1, 4], atol=2e-5)
    assert len(keys) == (len(read) if part == "decoder" else S)
    assert header["source"] == labels("cross", "key")


@pytest.mark.parametrize("model", ["reader", "bare"])
@pytest.mark.parametrize("page", PAGES)
def test_an_encoder_and_attention_alone_on_every_page(page, model):
    test = app(page, model)
    assert test.main.get("bidi_component") or test.info
    if (page, model) == ("generate", "reader"):
        assert "no next token" in words(test)
