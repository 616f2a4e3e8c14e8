"""The page Switch off: the numbers of `ablate`, for the unit, the way, the effect and the part that are chosen."""

import json

import numpy as np
import pytest

import viz_model as vm
from tests.support.app import address_of, drawn_matrices, opened
from viz_model.intervention.ablation import ablate_units
from viz_model.training.held_out import long_rows
from viz_ui.look.text import number

PROMPT = "The red fox met a grey goose by the old mill. The red fox met a grey goose by the"
OTHER = PROMPT.replace(" old", " new", 1)


def said(test):
    return "\n".join(element.value for element in (*test.markdown, *test.caption, *test.info, *test.subheader))


def page(**choices):
    return opened("switch_off", **({"model": "tiny-gpt", "prompt": PROMPT, "head": "1.0", "cell": "20.9"} | choices))


@pytest.mark.parametrize(("instead", "how"), [("zero", "zero"), ("its mean over the prompt", "mean")])
def test_the_effect_of_a_head_and_of_the_others_of_its_layer(instead, how):
    test = page(instead=instead)
    found = vm.ablate(vm.load("tiny-gpt"), PROMPT, how=how)
    assert drawn_matrices(test)["effect"][0] == pytest.approx(found.kl.numpy(), abs=1e-4)
    low, high = found.control[1, 0].tolist()
    assert f"The prediction changes by **{number(float(found.kl[1, 0]))} bits**" in said(test)
    assert f"Each other head of layer 1 changes the prediction by {number(low)} to {number(high)} bits." in said(test)
    assert "no longer “**·old**”" in said(test)
    assert address_of(test).get("instead", "zero") == instead


def test_the_mean_over_a_text_says_which_text_and_how_many_tokens():
    model = vm.load("tiny-gpt")
    rows = long_rows(model, "tiny-gpt", 256, 4)[0].tolist()
    held_out = vm.ablate(model, PROMPT, how="mean of a text", values_of=rows)
    test = page(instead="its mean over a text")
    assert drawn_matrices(test)["effect"][0] == pytest.approx(held_out.kl.numpy(), rel=1e-3)
    assert "The mean is taken over 1,024 tokens: 4 stretches of text that was held out from training." in said(test)
    test.text_input(key="mean_text").set_value("The king had a ring.").run()
    typed = vm.ablate(model, PROMPT, how="mean of a text", values_of="The king had a ring.")
    assert drawn_matrices(test)["effect"][0] == pytest.approx(typed.kl.numpy(), rel=1e-3)
    tokens = len(model.encode("The king had a ring."))
    assert f"The mean is taken over {tokens} tokens: the text that you typed." in said(test)
    assert address_of(test)["mean_text"] == "The king had a ring."


def test_values_of_another_prompt_stand_where_both_have_a_token():
    test = page(instead="another prompt", other_prompt=OTHER)
    found = vm.ablate(vm.load("tiny-gpt"), PROMPT, how="another prompt", values_of=OTHER)
    assert drawn_matrices(test)["effect"][0] == pytest.approx(found.kl.numpy(), abs=1e-4)
    assert "All 21 tokens have a counterpart" in said(test)
    test.text_input(key="other_prompt").set_value(PROMPT.replace(" grey", "", 1)).run()
    assert "Of 21 tokens, 20 have a counterpart in the other prompt" in said(test)
    test.text_input(key="other_prompt").set_value("xyz").run()
    assert "Choose one of equal length" in said(test)
    test.text_input(key="other_prompt").set_value("").run()
    assert "The other prompt is yours with one token replaced: “The red fox met" in said(test)
    assert "All 21 tokens have a counterpart" in said(test)


@pytest.mark.parametrize("off", ["head", "feed-forward", "layer"])
def test_every_effect_of_every_unit(off):
    model = vm.load("tiny-gpt")
    found = ablate_units(model, PROMPT, with_loss=True)
    one, place = found[off], (1, 0)
    old, second = one.logits.topk(2).indices.tolist()
    test = page(off=off)
    what = {"head": "head 0 of layer 1", "feed-forward": "the feed-forward of layer 1", "layer": "layer 1"}[off]
    assert f"Without {what}, " in said(test)
    assert f"The prediction without {what}" in said(test)
    assert f"The prediction changes by **{number(float(one.kl[place]))} bits**" in said(test)
    tables = {
        "logit": one.logit_change(old),
        "two logits": one.logit_change(old, second),
        "loss": one.loss_change,
    }
    for effect, table in tables.items():
        table = table.numpy()
        test.segmented_control(key="effect").set_value(effect).run()
        assert not test.exception, test.exception
        matrices = drawn_matrices(test)
        drawn = matrices["effect"][0] if off == "head" else matrices["wholes"][0][:, [int(off == "layer")]]
        np.testing.assert_allclose(drawn, table, rtol=1e-3, atol=1e-5)
        change = float(table[place])
        unit = " nats" if effect == "loss" else ""
        assert f"{'rises' if change > 0 else 'falls'} by **{number(abs(change))}{unit}**" in said(test)
        others = np.delete(table[1] if off == "head" else table[:, 0], 0 if off == "head" else 1)
        ends = [f"{'+' if end > 0 else ''}{number(end)}" for end in (float(others.min()), float(others.max()))]
        assert f" by {ends[0]} to {ends[1]}{unit}." in said(test)
    assert f"from {number(one.loss_before)} to {number(float(one.loss[place]))}" in said(test)


def test_the_band_shows_every_other_head_and_the_chosen_one():
    test = page()
    found = vm.ablate(vm.load("tiny-gpt"), PROMPT)
    [chart] = test.get("plotly_chart")
    others, own = json.loads(chart.proto.spec)["data"]
    kl = [number(float(value)) for value in found.kl[1]]
    assert others["customdata"] == [[f"layer 1, head {head}", kl[head]] for head in range(1, 8)]
    assert own["customdata"] == [["layer 1, head 0", kl[0]]]


def test_any_token_can_be_looked_at():
    model = vm.load("tiny-gpt")
    found = vm.ablate(model, PROMPT)
    test = page(effect="two logits", token="·fox", than_token="·goose")
    fox, goose = (model.encode(word)[0] for word in (" fox", " goose"))
    assert drawn_matrices(test)["effect"][0] == pytest.approx(found.logit_change(fox, goose).numpy(), abs=1e-4)
    assert "The logit of “**·fox**” minus that of “**·goose**”" in said(test)


def test_another_mask_is_not_lost():
    test = page(mask="bidirectional")
    trace = vm.load("tiny-gpt").trace(PROMPT, "bidirectional")
    found = vm.ablate(vm.load("tiny-gpt"), trace)
    assert f"The prediction changes by **{number(float(found.kl[1, 0]))} bits**" in said(test)


@pytest.mark.parametrize("instead", ["zero", "its mean over a text"])
@pytest.mark.parametrize(
    ("model", "prompt", "more"),
    [
        ("tiny-llama", "a", {"effect": "logit"}),
        ("tiny-bert", "The king", {"off": "layer"}),
        ("induction", "abab", {"head": "1.1", "off": "feed-forward"}),
        *(("tiny-seq2seq", "5/3/24 (US)", {"part": part, "off": "layer"}) for part in ("encoder", "decoder", "cross")),
    ],
)
def test_every_kind_of_model(model, prompt, more, instead):
    test = opened("switch_off", model=model, prompt=prompt, instead=instead, **more)
    assert "Without " in said(test)
    assert ("The logit of" if "effect" in more else "The prediction changes by") in said(test)
    if model == "induction":
        assert "Without head 1 of layer 1, " in said(test), "it has no feed-forward that could be switched off"
    if more.get("part") == "cross":
        assert "Without layer 1 (decoder), " in said(test)


def test_an_effect_that_there_is_not_is_refused_with_its_reason():
    test = opened("switch_off", model="tiny-bert", prompt="The king", effect="loss")
    assert "sees every token that it would have to predict" in said(test)
    test = opened("switch_off", model="tiny-gpt", prompt="a", effect="loss")
    assert "A text of one token has no next token" in said(test)


def test_what_is_only_rounding_is_called_so():
    """The mean over one token is what stands there: nothing changes."""
    test = opened("switch_off", model="tiny-gpt", prompt="ab", instead="its mean over the prompt")
    assert "No head changes the prediction by more than rounding can." in said(test)
    assert "That is no more than rounding" in said(test)
    assert drawn_matrices(test)["effect"][0].max() < 1e-6


def test_the_token_that_is_looked_at_is_the_query():
    test = page(cell="5.3")
    found = vm.ablate(vm.load("tiny-gpt"), PROMPT, position=5)
    assert drawn_matrices(test)["effect"][0] == pytest.approx(found.kl.numpy(), abs=1e-4)
    assert "the likeliest token after token 5 is" in said(test)


def test_an_address_that_says_nonsense_is_passed_over():
    test = page(off="neuron", effect="all", token="99999999", instead="twice")
    assert "Without head 0 of layer 1" in said(test)
    assert "The prediction changes by **" in said(test)


def test_the_logit_of_any_token_can_be_asked_for():
    address = {"effect": "logit", "token": "·queen"}
    test = opened("switch_off", model="tiny-gpt", prompt=PROMPT, head="1.0", cell="20.9", **address)
    model = vm.load("tiny-gpt")
    [queen] = model.ids(" queen")
    change = vm.ablate(model, PROMPT).logit_change(queen)
    assert drawn_matrices(test)["effect"][0] == pytest.approx(change.numpy(), abs=1e-4)
    assert {name: address_of(test)[name] for name in address} == address
