"""Any tensor of a pass, held by its trace or not, under any mask."""

import pytest
import torch

import viz_model as vm
from tests.support.small_models import small_model
from tests.support.transformers_tiny_gpt import gpt2
from viz_model.model import Model
from viz_model.model.site_tensor import site_tensor

PROMPT = "The queen gave the girl a ring."


def test_what_is_not_held_is_that_of_another_implementation():
    model, seen = vm.load("tiny-gpt"), []
    trace = model.trace(PROMPT)
    assert "blocks.1.ffn.out" not in trace.tensors
    hook = gpt2().transformer.h[1].mlp.register_forward_hook(lambda _module, _inputs, out: seen.append(out[0]))
    with torch.inference_mode():
        logits = gpt2()(torch.tensor([trace.ids])).logits[0]
    hook.remove()
    torch.testing.assert_close(site_tensor(model, trace, "blocks.1.ffn.out"), seen[0], atol=2e-4, rtol=1e-4)
    torch.testing.assert_close(site_tensor(model, trace, "logits"), logits, atol=2e-4, rtol=1e-4)


@pytest.mark.parametrize("mask", [None, "bidirectional", torch.ones(7, 7, dtype=torch.bool).tril().triu(-1)])
def test_the_second_pass_has_the_masks_of_the_first(mask):
    """In a pre-norm block the stream behind the feed-forward half is the one before it and what the half wrote."""
    model = Model("small", small_model())
    trace = model.trace([1, 2, 3, 4, 5, 6, 7], mask)
    written = site_tensor(model, trace, "blocks.1.ffn.out")
    torch.testing.assert_close(trace["blocks.1.resid_mid"] + written, trace["blocks.1.resid_post"])


@pytest.mark.parametrize("masks", [None, {"encoder": "causal", "cross": torch.ones(3, 5, dtype=torch.bool).tril()}])
def test_both_stacks_of_an_encoder_decoder(masks):
    model = Model("both", small_model(layout="encoder-decoder"))
    trace = model.trace([1, 2, 3, 4, 5], masks, target=[6, 7, 8])
    for stack, length in (("encoder", 5), ("decoder", 3)):
        written = site_tensor(model, trace, f"{stack}.blocks.0.ffn.out")
        assert written.shape == (length, model.config.d_model)
        middle, end = (trace[f"{stack}.blocks.0.resid_{place}"] for place in ("mid", "post"))
        torch.testing.assert_close(middle + written, end)


def test_a_name_that_is_none():
    model = Model("small", small_model())
    with pytest.raises(vm.SiteError, match=r"ffn\.in"):
        site_tensor(model, model.trace([1, 2]), "blocks.0.ffn.in")
