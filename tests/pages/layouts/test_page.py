"""The page Layouts in every state that a reader can bring it to, its numbers against other implementations."""

import base64
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.special import softmax
from streamlit.testing.v1 import AppTest

import viz_model as vm
from tests.support import torch_tiny_seq2seq as translated
from tests.support.app import at, blobs_of, framed_head, opened
from tests.support.blobs import opened_large, received
from tests.support.transformers_tiny_gpt import attentions, gpt2
from viz_model.layouts.blanks import blank_bits
from viz_model.layouts.depth import next_token_bits
from viz_model.training.dates import split_days
from viz_ui.components.shared.packing import unpack

PROMPT = "The queen gave the girl a ring, and she thanked her."
SECTIONS = ("Side by side", "Norms through depth", "Cross-attention", "Fill in the blank")
LONG = "king " * 200


def layouts(section=SECTIONS[0], **address) -> AppTest:
    return opened("layouts", **at(**({"prompt": PROMPT, "layouts": section} | address)))


def blob(test, field):
    """What the component was given whose header has this field."""
    [found] = [blob for blob in blobs_of(test) if field in unpack(blob)[0]]
    return found


def chart(test, number):
    return json.loads(test.get("plotly_chart")[number].proto.spec)["data"]


def numbers(values):
    """Numbers of a Plotly trace, however they travelled."""
    if isinstance(values, dict):
        return np.frombuffer(base64.b64decode(values["bdata"]), values["dtype"])
    return np.array(values, dtype=float)


def ids():
    return vm.load("tiny-gpt").tokenizer.encode(PROMPT)


def test_the_three_layouts_stand_side_by_side_with_their_own_weights():
    header, body = unpack(blob(layouts(), "layouts"))
    assert [layout["title"] for layout in header["layouts"]] == ["encoder-only", "decoder-only", "encoder-decoder"]
    assert [len(layout["stacks"]) for layout in header["layouts"]] == [1, 1, 2]
    at_byte, pictures = 768, {}
    for name, rows, columns in header["pictures"]:
        steps = np.frombuffer(body, np.uint8, rows * columns, at_byte).reshape(rows, columns)
        bits = np.frombuffer(body, np.uint8, -(-rows * columns // 8), at_byte + rows * columns)
        pictures[name] = steps, np.unpackbits(bits)[: rows * columns].reshape(rows, columns).astype(bool)
        at_byte += rows * columns + len(bits)
    mean = attentions(ids())[2].mean(0)  # of the heads of layer 2, by `transformers`
    steps, allowed = pictures["tiny-gpt blocks.2.attn.weights"]
    np.testing.assert_array_equal(allowed, np.tri(len(ids()), dtype=bool))
    np.testing.assert_allclose(steps, 255 * mean / mean.max(), atol=0.6)
    _, allowed = pictures["tiny-bert blocks.0.attn.weights"]
    assert allowed.all()
    source, target = list(b"Friday, 3 May 2024"), [256, *b"2024-05-03"]
    cross = translated.translation(source, target)[1][1].mean(0)
    steps, allowed = pictures["tiny-seq2seq decoder.blocks.1.cross.weights"]
    assert allowed.all()
    np.testing.assert_allclose(steps, 255 * cross / cross.max(), atol=0.6)
    said = header["layouts"][2]["stacks"][1]["ends"][-1]["words"]
    assert said == "writes 2024-05-03"


def test_every_box_opens_its_tensor():
    test = layouts()
    names = test.selectbox(key="box").options
    assert len(names) > 60
    for name in names[::7]:  # every kind of every model
        test.selectbox(key="box").set_value(name).run()
        assert not test.exception, (name, test.exception)
        [item] = unpack(blob(test, "items"))[0]["items"]
        assert item["title"] == name.replace(" ", " · ")
        assert received(blob(test, "items"))


def test_an_opened_tensor_is_that_of_another_implementation():
    test = layouts(box="tiny-gpt blocks.3.attn.weights", box_head="5")
    drawn, allowed = received(blob(test, "items"))["weights"]
    np.testing.assert_allclose(drawn, attentions(ids())[3, 5], atol=2e-4)
    np.testing.assert_array_equal(allowed, np.tri(len(ids()), dtype=bool))
    _, _, streams = translated.translation(list(b"5/3/24 (US)"), translated.greedy(list(b"5/3/24 (US)")))
    test = layouts(box="tiny-seq2seq decoder.blocks.1.resid_post", source="5/3/24 (US)")
    drawn, _ = received(blob(test, "items"))["resid_post"]
    np.testing.assert_allclose(drawn, streams[-1], atol=2e-4, rtol=1e-3)
    title, file_name, _ = opened_large(test, "resid_post")
    assert title == "tiny-seq2seq, decoder.blocks.1.resid_post"
    assert file_name == "tiny-seq2seq_decoder.blocks.1.resid_post"


def test_lengths_of_the_stream_of_both_norm_places():
    test = layouts("Norms through depth")
    with torch.inference_mode():
        states = gpt2()(torch.tensor([ids()]), output_hidden_states=True).hidden_states
    mean = numbers(chart(test, 0)[1]["y"])
    assert mean[0] == pytest.approx(float(states[0][0].double().norm(dim=-1).mean()), rel=1e-4)
    assert mean[2] == pytest.approx(float(states[1][0].double().norm(dim=-1).mean()), rel=1e-4)
    source = list(b"Friday, 3 May 2024")
    _, _, streams = translated.translation(source, translated.greedy(source))
    expected = [np.linalg.norm(stream.astype(float), axis=-1).mean() for stream in streams]
    np.testing.assert_allclose(numbers(chart(test, 2)[1]["y"]), expected, rtol=1e-4)
    with torch.inference_mode():
        nats = gpt2()(torch.tensor([ids()]), labels=torch.tensor([ids()])).loss.item()
    assert any(f"{nats / np.log(2):.2f} bits" in words.value for words in test.markdown)
    encoder = layouts("Norms through depth", stack="encoder", axis="linear axis")
    assert len(numbers(chart(encoder, 2)[1]["y"])) == 1 + 2 * translated.LAYERS


def test_cross_attention_is_drawn_target_by_source():
    text = "the twenty-first of December 1999"
    test = layouts("Cross-attention", source=text, cross_layer="0", cross_head="3")
    target = translated.greedy(list(text.encode()))
    drawn, allowed = received(blob(test, "items"))["weights"]
    np.testing.assert_allclose(drawn, translated.translation(list(text.encode()), target)[1][0, 3], atol=1e-4)
    assert drawn.shape == (11, len(text))
    assert allowed is None
    assert test.subheader[0].value.replace("\\", "") == "→ 1999-12-21"
    grid = unpack(blob(test, "heads"))[0]
    assert (grid["layers"], grid["heads"], *framed_head(test)) == (2, 4, 0, 3)
    header = unpack(blob(test, "items"))[0]
    assert header["labels"][0][:5] == ["0 → 1", "1 → 9", "2 → 9", "3 → 9", "4 → -"]


def test_the_first_head_of_cross_attention_is_the_one_that_reads_best():
    framed = framed_head(layouts("Cross-attention"))
    tables = json.loads((translated.FOLDER / "heads.json").read_text()).values()
    assert framed == np.unravel_index(np.sum(list(tables), axis=0).argmax(), (2, 4))


def test_another_date_is_one_that_training_never_saw_and_is_translated():
    test = layouts("Cross-attention")
    held_out = {day.isoformat() for day in split_days()[1]}
    [button] = [button for button in test.button if button.label == "Another date"]
    button.click().run()
    assert not test.exception, test.exception
    assert test.text_input(key="source").value
    written = test.subheader[0].value.replace("\\", "").removeprefix("→ ")
    assert written in held_out


def test_the_blank_and_the_next_token_are_on_one_axis():
    test = layouts("Fill in the blank", blank="5")
    right = ids()[5]
    with torch.inference_mode():
        shares = softmax(gpt2()(torch.tensor([ids()])).logits[0, 4].double().numpy())
    bert, gpt = chart(test, 0)
    assert (bert["name"], gpt["name"]) == ("tiny-bert", "tiny-gpt")
    np.testing.assert_allclose(np.sort(numbers(gpt["x"]))[::-1][:6], np.sort(shares)[::-1][:6], rtol=1e-3)
    model = vm.load("tiny-bert")
    blanked = [*ids()[:5], model.tokenizer.mask, *ids()[6:]]
    theirs = softmax(model.trace(blanked).logits_at(5).double().numpy())
    np.testing.assert_allclose(np.sort(numbers(bert["x"]))[::-1][:6], np.sort(theirs)[::-1][:6], rtol=1e-3)
    bits = numbers(chart(test, 1)[1]["y"])
    assert np.isnan(bits[0])
    assert bits[5] == pytest.approx(-np.log2(shares[right]), rel=1e-3)
    assert numbers(chart(test, 1)[0]["y"])[5] == pytest.approx(-np.log2(theirs[right]), rel=1e-3)
    rows = unpack(blob(test, "tokens"))[0]["rows"]
    assert [(row["blank"], row["seen_until"]) for row in rows] == [(5, len(ids())), (5, 5)]


def test_where_the_model_that_sees_both_sides_is_behind_the_page_says_why():
    bert, gpt = vm.load("tiny-bert"), vm.load("tiny-gpt").trace(PROMPT)
    bits = np.concatenate(list(blank_bits(bert, gpt.ids, range(gpt.length))))
    behind = bits[1:] > next_token_bits(gpt).numpy()
    assert behind.any()
    assert not behind.all()
    for is_behind in (True, False):
        place = 1 + int(np.flatnonzero(behind == is_behind)[0])
        said = [text.value for text in layouts("Fill in the blank", blank=str(place)).markdown]
        assert any("Here tiny-gpt gives the hidden token more probability" in text for text in said) == is_behind


def test_before_the_first_token_only_one_of_them_answers():
    test = layouts("Fill in the blank", blank="0")
    assert "cannot guess it" in test.info[0].value


SIGNS = "👩‍🚀 <b>*x*</b> $x$"
STATES = [(section, prompt) for section in SECTIONS for prompt in ("a", LONG)] + [
    (SECTIONS[0], SIGNS),
    (SECTIONS[3], SIGNS),
]


@pytest.mark.parametrize(("section", "prompt"), STATES, ids=[f"{section} {prompt[:6]}" for section, prompt in STATES])
def test_any_prompt(section, prompt):
    layouts(section, prompt=prompt)


@pytest.mark.parametrize(
    "address",
    [
        {"layouts": "nothing"},
        {"box": "tiny-gpt nothing", "box_head": "99"},
        {"layouts": "Cross-attention", "cross_layer": "7", "cross_head": "x", "digit": "99", "letter": "1e9"},
        {"layouts": "Cross-attention", "source": "no date at all"},
        {"layouts": "Fill in the blank", "blank": "4000"},
        {"layouts": "Norms through depth", "stack": "middle", "axis": "round"},
    ],
    ids=repr,
)
def test_nonsense_in_the_address_is_passed_over(address):
    test = layouts(address.get("layouts", SECTIONS[0]), **address)
    assert test.title[0].value == "Layouts"
    assert test.main.get("bidi_component") or test.get("plotly_chart")


@pytest.mark.parametrize("section", SECTIONS)
def test_a_chosen_model_that_this_page_does_not_draw_is_told_so(section):
    def told(model):
        captions = [caption.value.replace("\\", "") for caption in layouts(section, model=model).caption]
        return [words for words in captions if "always shows" in words]

    [words] = told("tiny-llama")
    assert words.startswith("This page always shows tiny-bert, tiny-gpt and tiny-seq2seq.")
    assert not told("tiny-gpt")


def test_models_that_are_not_here_are_said_so_and_the_others_drawn(tmp_path, monkeypatch):
    shutil.copytree(Path(translated.FOLDER).parent / "tiny-gpt", tmp_path / "tiny-gpt")
    monkeypatch.setattr("viz_model.checkpoints.FOLDER", tmp_path)
    test = layouts()
    words = [info.value.replace("\\", "") for info in test.info]
    assert ["tiny-bert is not here" in words[0], "tiny-seq2seq is not here" in words[1]] == [True, True]
    assert "python -m viz_model.training tiny-seq2seq" in words[1]
    assert [layout["title"] for layout in unpack(blob(test, "layouts"))[0]["layouts"]] == ["decoder-only"]
    for section in SECTIONS[1:]:
        assert "is not here" in layouts(section).info[0].value
