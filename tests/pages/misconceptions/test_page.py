"""The page Misconceptions: a guess first, then numbers that the test works out by itself."""

import re
from itertools import permutations
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from streamlit.testing.v1 import AppTest
from torch.nn import functional as F

import viz_model as vm
from pages.misconceptions.whole import WHOLE, answer
from tests.support.app import MAIN, address_of, opened, switch_page
from tests.support.blobs import received
from tests.support.transformers_tiny_gpt import attentions
from viz_model.training.loss import Loss
from viz_ui.components.shared.packing import unpack

PROMPT = "Once upon a time there was a king."
GUESS = {"Lengths": "lengths", "The whole": "the_whole", "Memory": "memory", "Equations": "equations"}
GUESS |= {"Approximate": "approximate", "Concept": "concept", "Weights": "weights", "Switching off": "switching_off"}


def page(claim: str, guess: str | None = "false", **address) -> AppTest:
    given = {"model": "tiny-gpt", "prompt": PROMPT, "claim": claim} | {k: str(v) for k, v in address.items()}
    if guess:
        given[f"guess_{GUESS[claim]}"] = guess
    return opened("misconceptions", **given)


def said(test: AppTest) -> str:
    return " ".join(element.value for element in test.main.markdown)


def numbers(text: str) -> list[float]:
    """Every number of a sentence: 1.7×10⁻⁶, 4.44."""
    plain = text.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹−", "-0123456789-")).replace(",", "")
    return [float(f"{number}e{power or 0}") for number, power in re.findall(r"(-?\d+(?:\.\d+)?)(?:×10(-?\d+))?", plain)]


def test_nothing_is_told_before_a_guess_and_a_guess_is_enough():
    test = page("Memory", guess=None)
    assert "Guess first" in test.info[0].value
    assert "cache" not in said(test)
    control = next(each for each in test.button_group if each.label == "Your guess")
    control.set_value("true").run()
    assert not test.exception
    assert "**No.**" in said(test)


def test_the_loss_without_each_part_is_shown():
    """The whole model's loss by torch; without attention, of a model whose output matrices are 0."""
    test = page("The whole", off="")
    model = vm.load("tiny-gpt")
    ids = torch.tensor([model.encode(PROMPT)])

    def loss():
        with torch.inference_mode():
            return F.cross_entropy(model.transformer(ids, logits="all")[0, :-1], ids[0, 1:]).item()

    whole = loss()
    for block in model.transformer.blocks:
        block.attn.output.weight.data.zero_()
        block.attn.output.bias.data.zero_()
    found = numbers(said(test))
    assert found[0] == pytest.approx(whole, rel=5e-3)
    assert found[1] == pytest.approx(loss(), rel=5e-3)
    [chart] = test.get("plotly_chart")
    assert "uniform guess" in chart.proto.spec


def test_a_text_that_is_guessed_worse_than_uniformly_proves_nothing():
    """Bytes of an emoji: tiny-gpt saw next to none."""
    prompt = "👩‍🚀 مرحبا שלום"
    told = said(page("The whole", prompt=prompt))
    model = vm.load("tiny-gpt")
    ids = torch.tensor([model.encode(prompt)])
    with torch.inference_mode():
        whole = F.cross_entropy(model.transformer(ids, logits="all")[0, :-1], ids[0, 1:]).item()
    assert whole > np.log(model.config.vocab_size)
    assert "gives no answer" in told


@pytest.mark.parametrize("parts", [*permutations(("attention", "feed-forward", "norms"))])
def test_a_part_without_which_the_numbers_overflow_is_needed_most(parts):
    """Thirty layers without norms end in NaN, which is neither less nor more than a number."""
    nats = {"attention": 9.0, "feed-forward": 26.0, "norms": float("nan")}
    losses = {WHOLE: Loss(3.92, 12, "")} | {part: Loss(nats[part], 12, "") for part in parts}
    view = SimpleNamespace(model=SimpleNamespace(config=SimpleNamespace(vocab_size=49_152)))
    told = answer(view, losses)
    assert told.startswith("**No.**")
    assert told.endswith("The loss grows most without **norms**.")
    assert "norms it overflows" in told


def test_kept_bytes_are_those_of_the_cache():
    test = page("Memory")
    length = len(vm.load("tiny-gpt").encode(PROMPT)) - 1
    metrics = {metric.label: metric.value for metric in test.metric}
    assert numbers(metrics["Kept: keys and values"])[0] == pytest.approx(2 * 4 * 8 * 32 * length * 4 / 1000, rel=1e-2)
    assert metrics["Kept: earlier attention weights"] == "0 B"


def test_the_twins_are_seen_under_both_masks():
    """tiny-gpt's causal weights are those of `transformers`; rows of all four sum to 1."""
    test = page("Equations", layer=1, head=0)
    [blob] = [each.proto.bytes for each in test.main.get("bidi_component") if "items" in unpack(each.proto.bytes)[0]]
    matrices = received(blob)
    masks = ("causal", "bidirectional")
    assert set(matrices) == {f"{name}_{mask}" for name in ("tiny-gpt", "tiny-bert") for mask in masks}
    theirs = attentions(vm.load("tiny-gpt").encode(PROMPT))[1, 0]
    np.testing.assert_allclose(matrices["tiny-gpt_causal"][0], theirs, atol=1e-4)
    for values, _ in matrices.values():
        np.testing.assert_allclose(values.sum(1), 1, atol=1e-5)


@pytest.mark.parametrize("claim", GUESS)
@pytest.mark.parametrize(
    ("model", "prompt"), [("tiny-bert", PROMPT), ("tiny-seq2seq", "3 May 2024"), ("tiny-gpt", "a")]
)
def test_every_claim_answers_or_says_why_not(claim, model, prompt):
    test = page(claim, model=model, prompt=prompt)
    assert "**" in said(test) or test.info


def test_texts_of_a_head_can_be_changed():
    test = page("Concept", layer=1, head=0, text_2="one two three one two three one two", text_3="", text_4="")
    [chart] = test.get("plotly_chart")
    model = vm.load("tiny-gpt")
    ids = model.encode("one two three one two three one two")
    weights = model.trace(ids).weights(1, 0).numpy()
    seen = [weights[q, [k + 1 for k in range(q - 1) if ids[k] == ids[q]]].sum() for q in range(len(ids))
            if any(ids[k] == ids[q] for k in range(q - 1))]  # fmt: skip
    assert f"{np.mean(seen):.2g}" in chart.proto.spec


def test_cross_attention_is_no_matter_of_previous_tokens():
    assert "Choose encoder or decoder" in page("Concept", model="tiny-seq2seq", prompt="May 3").info[0].value


@pytest.mark.parametrize("at_chance", ["tiny-bert"])
def test_a_head_that_does_none_of_the_patterns_is_not_given_one(at_chance):
    test = page("Concept", model=at_chance, layer=1, head=1)
    assert "None of these four" in said(test)


def test_a_head_that_looks_like_one_concept_is_answered_by_another_head():
    """From the previous-token head, which is one on every text, to a head whose strongest pattern differs."""
    test = page("Concept", layer=0, head=0, query=3, key=2)
    assert "the head always does the same" in said(test)
    test.button(key="other_head").click().run()
    assert not test.exception
    assert "It depends on the text" in said(test)
    texts = [PROMPT, *(test.text_input(key=f"text_{n}").value for n in (2, 3, 4))]
    layer, head = (test.number_input(key=name).value for name in ("layer", "head"))
    weights = [vm.load("tiny-gpt").trace(text).weights(layer, head) for text in texts]
    shares = [(each.diagonal(-1).mean(), each[:, 0].mean(), each.diagonal().mean()) for each in weights]
    assert max(max(column) - min(column) for column in zip(*shares, strict=True)) > 0.2


def test_concept_opens_on_a_head_that_shows_its_point_unless_the_reader_chose_one():
    test = page("Concept")
    assert "It depends on the text" in said(test)
    assert [button for button in test.button if button.key == "other_head"] == []
    moved = [test.number_input(key=name).value for name in ("layer", "head")]
    assert address_of(test)["head"] == ".".join(map(str, moved))
    chosen = page("Concept", head="0.0")
    assert "the head always does the same" in said(chosen)


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("drawn", "heads"),
        ("claim", "misconceptions"),
        ("shapes", "shapes"),
        ("scheme", "quantization"),
        ("loops", "flash_attention"),
    ],
)
def test_an_empty_choice_in_the_address_is_none(name, where):
    test = AppTest.from_file(MAIN, default_timeout=90)
    for key, value in {"model": "tiny-gpt", "prompt": PROMPT, name: ""}.items():
        test.query_params[key] = value
    test.run()
    if where != "heads":
        switch_page(test, where).run()
    assert not test.exception, test.exception
    assert not any("None" in info.value for info in test.info)


def test_a_heavy_weight_that_hardly_mattered_stands_beside_a_lighter_one_that_did():
    """The two effects again, each by a mask of its own in a single head."""
    prompt = "Once upon a time there was a king who had three daughters."
    test = page("Weights", prompt=prompt, head="1.0", cell="12.0")
    model, text = vm.load("tiny-gpt"), said(test)
    trace = model.trace(prompt)
    assert "**No.**" in text
    places = re.findall(r"Head (\d) of layer (\d) gives key (\d+)", text)
    assert len(places) == 2
    for head, layer, key in (map(int, place) for place in places):
        weights = trace.weights(layer, head)[12].clone()
        heavy = float(weights[key])
        weights[key] = 0

        def forbid(rows, head=head, row=weights / (1 - heavy)):
            rows[:, head, 12] = row
            return rows

        with vm.edit({f"blocks.{layer}.attn.weights": forbid}):
            edited = model.trace(prompt).logits
        effect = float(F.kl_div(edited.log_softmax(-1), trace.logits.softmax(-1), reduction="sum")) / np.log(2)
        assert f"{heavy:.3g}" in text
        shown = [value for value in numbers(text) if value == pytest.approx(effect, rel=0.02)]
        assert shown, (effect, text)
    assert "It would be 1 if a heavier cell always mattered more." in text


def test_a_second_head_takes_over():
    prompt = "The red fox met a grey goose by the old mill. The red fox met a grey goose by the"
    test = page("Switching off", prompt=prompt, head="2.4", cell="20.9")
    text = said(test)
    assert "**No.** A second head takes over for head 4 of layer 2" in text
    assert "Switching off head 4 of layer 2 costs this token **0.234 bits**" in text
    assert "switching off head 7 of layer 2 alone costs it **1.15 bits**" in text


def test_a_head_that_is_replaced_is_looked_for_where_the_chosen_one_is_not():
    prompt = "The red fox met a grey goose by the old mill. The red fox met a grey goose by the"
    test = page("Switching off", prompt=prompt, head="3.0", cell="20.9")
    assert "no other one takes over on this prompt" in said(test)
    test.button(key="replaced_head").click().run()
    assert not test.exception, test.exception
    assert "**No.** A second head takes over for head 4 of layer 2" in said(test)
    assert address_of(test)["head"] == "2.4"


@pytest.mark.parametrize("claim", ["Weights", "Switching off"])
@pytest.mark.parametrize(
    ("model", "prompt", "more"),
    [
        ("tiny-bert", "The king had a ring.", {}),
        ("tiny-llama", "The king had a ring.", {"cell": "0.0"}),
        ("induction", "abcabc", {"head": "1.3"}),
        *(("tiny-seq2seq", "5/3/24 (US)", {"part": part, "cell": "2.0"}) for part in ("encoder", "decoder", "cross")),
    ],
)
def test_what_weights_and_heads_do_in_every_kind_of_model(claim, model, prompt, more):
    test = page(claim, model=model, prompt=prompt, **more)
    told = said(test) + " ".join(info.value for info in test.info)
    assert re.search("rank correlation|The costs of the two alone|only one key|No other head comes after", told), told


@pytest.mark.parametrize("claim", ["Weights", "Switching off"])
def test_a_query_or_a_head_without_others_is_told_why(claim):
    test = page(claim, model="tiny-gpt", head="3.7", cell="0.0")
    if claim == "Weights":
        assert "This query can read only one key" in test.info[0].value
    else:
        assert not test.info, "other heads of the last layer are beside it"
