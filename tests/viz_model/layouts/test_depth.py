"""Lengths of the residual stream against `transformers` and `torch.nn`, with norms before and behind each half."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import viz_model as vm
from tests.support.small_models import small_model
from tests.support.transformers_tiny_gpt import HEADS, LAYERS, WIDTH, gpt2
from viz_model.layouts.depth import next_token_bits, stream_lengths, with_norms_placed
from viz_model.model import Model

PROMPT = "The queen gave the girl a ring, and she thanked her."


def test_lengths_are_those_of_the_stream_in_another_implementation():
    model = vm.load("tiny-gpt")
    trace, middles = model.trace(PROMPT), []
    hooks = [
        block.ln_2.register_forward_hook(lambda _module, inputs, _out: middles.append(inputs[0][0]))
        for block in gpt2().transformer.h
    ]
    ends = []
    hooks += [
        block.register_forward_hook(lambda _module, _inputs, out: ends.append(out[0] if out.dim() == 3 else out))
        for block in gpt2().transformer.h
    ]
    with torch.inference_mode():
        first = gpt2()(torch.tensor([trace.ids]), output_hidden_states=True).hidden_states[0][0]
    for hook in hooks:
        hook.remove()
    found = stream_lengths(trace)
    expected = {"embedding": first}
    for layer in range(LAYERS):
        expected[f"block {layer}, attention"] = middles[layer]
        expected[f"block {layer}, feed-forward"] = ends[layer].reshape(len(trace.ids), WIDTH)
    assert list(found) == list(expected)
    for place, stream in expected.items():
        np.testing.assert_allclose(found[place], np.linalg.norm(stream.double(), axis=-1), rtol=1e-4, err_msg=place)


def post_norm_layer(block, config) -> nn.TransformerEncoderLayer:
    """torch's own post-norm layer with the weights of one of our blocks."""
    layer = nn.TransformerEncoderLayer(
        WIDTH,
        HEADS,
        config.d_ff,
        0.0,
        activation=lambda x: F.gelu(x, approximate="tanh"),
        batch_first=True,
        norm_first=False,
    ).eval()
    parts = [getattr(block.attn, part) for part in ("query", "key", "value")]
    state = {f"self_attn.in_proj_{kind}": torch.cat([getattr(part, kind) for part in parts]) for kind in KINDS}
    pairs = {"self_attn.out_proj": block.attn.output, "linear1": block.ffn.up, "linear2": block.ffn.down}
    pairs |= {"norm1": block.norm1, "norm2": block.norm2}
    state |= {f"{name}.{kind}": getattr(module, kind) for name, module in pairs.items() for kind in KINDS}
    layer.load_state_dict(state)
    return layer


KINDS = ("weight", "bias")


def test_the_same_weights_with_norms_behind_are_torchs_post_norm_layers():
    model = vm.load("tiny-gpt")
    trace = with_norms_placed(model, "post").trace(PROMPT)
    stream, later = model.trace(PROMPT)["embed"][None], torch.ones(trace.length, trace.length, dtype=torch.bool).triu(1)
    lengths = stream_lengths(trace)
    with torch.inference_mode():
        for layer, block in enumerate(model.transformer.blocks):
            stream = post_norm_layer(block, model.config)(stream, src_mask=later)
            found = lengths[f"block {layer}, feed-forward"]
            np.testing.assert_allclose(found, stream[0].double().norm(dim=-1), rtol=1e-4)
        logits = stream[0] @ model.transformer.tokens.weight.T
        torch.testing.assert_close(trace.logits_at(-1), logits[-1], atol=2e-4, rtol=1e-4)


def test_places_of_every_kind_of_block():
    """With cross-attention the half before it is named so; without a feed-forward half attention is the last."""
    both = Model("both", small_model(layout="encoder-decoder", norm_place="post"))
    trace = both.trace([1, 2, 3], target=[4, 5])
    found = stream_lengths(trace)
    halves = [f"block {n}, {half}" for n in range(2) for half in ("self-attention", "cross-attention", "feed-forward")]
    assert list(found) == ["embedding", *halves]
    assert {len(values) for values in found.values()} == {2}
    assert list(stream_lengths(trace.of("encoder")))[1] == "block 0, attention"
    only = stream_lengths(Model("only", small_model(d_ff=0)).trace([1, 2, 3]))
    assert list(only) == ["embedding", "block 0, attention", "block 1, attention"]


def test_norms_are_not_moved_where_weights_are_missing():
    with pytest.raises(vm.VizError, match="no weights for that"):
        with_norms_placed(Model("post", small_model(norm_place="post")), "pre")


def test_surprise_is_the_cross_entropy_of_another_implementation():
    trace = vm.load("tiny-gpt").trace(PROMPT)
    with torch.inference_mode():
        nats = gpt2()(torch.tensor([trace.ids]), labels=torch.tensor([trace.ids])).loss.item()
    bits = next_token_bits(trace)
    assert bits.shape == (trace.length - 1,)
    assert bits.mean().item() == pytest.approx(nats / np.log(2), rel=1e-4)
