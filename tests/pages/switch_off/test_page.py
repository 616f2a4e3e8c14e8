"""The page Switch off: the numbers of `vm.ablate`, for the head, the way and the part that are chosen."""

import pytest

import viz_model as vm
from tests.support.app import address_of, drawn_matrices, opened
from viz_ui.look.text import number

PROMPT = "The red fox met a grey goose by the old mill. The red fox met a grey goose by the"


def said(test):
    return "\n".join(element.value for element in (*test.markdown, *test.caption, *test.info, *test.subheader))


@pytest.mark.parametrize(("instead", "how"), [("zero", "zero"), ("its mean over the prompt", "mean")])
def test_the_effect_of_a_head_and_of_the_others_of_its_layer(instead, how):
    test = opened("switch_off", model="tiny-gpt", prompt=PROMPT, head="1.0", cell="20.9", instead=instead)
    found = vm.ablate(vm.load("tiny-gpt"), PROMPT, how=how)
    assert drawn_matrices(test)["effect"][0] == pytest.approx(found.kl.numpy(), abs=1e-4)
    low, high = found.control[1, 0].tolist()
    assert f"The prediction changes by **{number(float(found.kl[1, 0]))} bits**" in said(test)
    assert f"Each other head of layer 1 changes it by {number(low)} to {number(high)}." in said(test)
    assert "no longer **·old**" in said(test)
    assert address_of(test).get("instead", "zero") == instead


def test_another_mask_is_not_lost():
    test = opened("switch_off", model="tiny-gpt", prompt=PROMPT, head="1.0", cell="20.9", mask="bidirectional")
    trace = vm.load("tiny-gpt").trace(PROMPT, "bidirectional")
    found = vm.ablate(vm.load("tiny-gpt"), trace)
    assert f"The prediction changes by **{number(float(found.kl[1, 0]))} bits**" in said(test)


@pytest.mark.parametrize(
    ("model", "prompt", "more"),
    [
        ("tiny-llama", "a", {}),
        ("tiny-bert", "The king", {}),
        ("induction", "abab", {"head": "1.1"}),
        *(("tiny-seq2seq", "5/3/24 (US)", {"part": part}) for part in ("encoder", "decoder", "cross")),
    ],
)
def test_every_kind_of_model(model, prompt, more):
    assert "The prediction changes by **" in said(opened("switch_off", model=model, prompt=prompt, **more))


def test_what_is_only_rounding_gets_no_colour():
    """The mean over one token is what stands there: nothing changes."""
    test = opened("switch_off", model="tiny-gpt", prompt="ab", instead="its mean over the prompt")
    assert "No head changes the prediction by more than rounding can." in said(test)
    assert drawn_matrices(test)["effect"][0].max() < 1e-6


def test_the_token_that_is_looked_at_is_the_query():
    test = opened("switch_off", model="tiny-gpt", prompt=PROMPT, head="1.0", cell="5.3")
    found = vm.ablate(vm.load("tiny-gpt"), PROMPT, position=5)
    assert drawn_matrices(test)["effect"][0] == pytest.approx(found.kl.numpy(), abs=1e-4)
    assert "the likeliest token after token 5 is" in said(test)
