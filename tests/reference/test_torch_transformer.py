"""Our Transformer against `torch.nn.TransformerEncoder`: both directions, the norm in both places."""

import itertools

import pytest
import torch
from torch import nn

from tests.reference.name_maps import agree, loaded, torch_weights
from tests.support.small_models import randomise
from viz_model.transformer import TransformerConfig
from viz_model.transformer.hooks import capture

LAYERS, HEADS, WIDTH, HIDDEN, VOCABULARY, CONTEXT = 3, 4, 24, 37, 31, 16


@pytest.fixture(params=itertools.product(("pre", "post"), ("relu", "gelu"), ("decoder-only", "encoder-only")))
def pair(request):
    """Their encoder, ours with the same weights, and the embedding that both start from."""
    place, activation, layout = request.param
    layer = nn.TransformerEncoderLayer(
        WIDTH, HEADS, HIDDEN, activation=activation, batch_first=True, norm_first=place == "pre"
    )
    norm = nn.LayerNorm(WIDTH) if place == "pre" else None
    theirs = randomise(nn.TransformerEncoder(layer, LAYERS, norm, enable_nested_tensor=False), size=0.3)
    embedding = torch.randn(VOCABULARY, WIDTH, generator=torch.Generator().manual_seed(1))
    config = TransformerConfig(
        n_layers=LAYERS,
        n_heads=HEADS,
        d_model=WIDTH,
        d_ff=HIDDEN,
        vocab_size=VOCABULARY,
        context_length=CONTEXT,
        layout=layout,
        position="none",
        norm_place=place,
        activation=activation,
    )
    return theirs, loaded(config, torch_weights(theirs, embedding)), embedding


def ids_of(length):
    return torch.randint(VOCABULARY, (2, length), generator=torch.Generator().manual_seed(length))


def forbidden(model, length):
    """What torch calls a mask: True where a query may not attend."""
    triangle = torch.ones(length, length, dtype=torch.bool).triu(1)
    return triangle if model.config.layout == "decoder-only" else torch.zeros_like(triangle)


@pytest.mark.parametrize("length", [1, 5, CONTEXT])
def test_outputs_and_attention_maps(pair, length):
    theirs, ours, embedding = pair
    ids, mask = ids_of(length), forbidden(pair[1], length)
    agree(ours.hidden(ids), theirs(embedding[ids], mask=mask), 1e-5)
    with capture("*") as found:
        ours(ids)
    pre_norm = ours.config.norm_place == "pre"
    for number, layer in enumerate(theirs.layers):
        entering = found[f"blocks.{number}.{'norm1' if pre_norm else 'resid_pre'}"]
        out, weights = layer.self_attn(entering, entering, entering, attn_mask=mask, average_attn_weights=False)
        agree(found[f"blocks.{number}.attn.weights"], weights, 1e-5)
        agree(found[f"blocks.{number}.attn.out"], out, 1e-5)
        agree(found[f"blocks.{number}.resid_post"], layer(found[f"blocks.{number}.resid_pre"], mask), 1e-5)


@pytest.mark.parametrize("place", ["pre", "post"])
def test_attention_alone(place):
    """Blocks without a feed-forward half, of `nn.MultiheadAttention` and `nn.LayerNorm`."""
    layers = [nn.ModuleList((nn.MultiheadAttention(WIDTH, HEADS, batch_first=True), nn.LayerNorm(WIDTH))) for _ in "ab"]
    last = nn.LayerNorm(WIDTH)
    randomise(nn.ModuleList([*layers, last]), size=0.3)
    ids, mask = ids_of(7), torch.ones(7, 7, dtype=torch.bool).triu(1)
    embedding = torch.randn(VOCABULARY, WIDTH, generator=torch.Generator().manual_seed(1))
    config = TransformerConfig(
        2, HEADS, WIDTH, VOCABULARY, CONTEXT, d_ff=0, position="none", norm_place=place, layout="decoder-only"
    )
    weights = {"tokens.weight": embedding}
    if place == "pre":
        weights |= {f"final_norm.{name}": tensor for name, tensor in last.state_dict().items()}
    x = embedding[ids]
    for number, (attention, norm) in enumerate(layers):
        state = attention.state_dict()
        for kind in ("weight", "bias"):
            for name, part in zip(("query", "key", "value"), state[f"in_proj_{kind}"].chunk(3), strict=True):
                weights[f"blocks.{number}.attn.{name}.{kind}"] = part
            weights[f"blocks.{number}.attn.output.{kind}"] = state[f"out_proj.{kind}"]
            weights[f"blocks.{number}.norm1.{kind}"] = norm.state_dict()[kind]
        read = norm(x) if place == "pre" else x
        added = x + attention(read, read, read, attn_mask=mask)[0]
        x = added if place == "pre" else norm(added)
    agree(loaded(config, weights).hidden(ids), last(x) if place == "pre" else x, 1e-5)


def test_padding(pair):
    theirs, ours, embedding = pair
    ids, padding = ids_of(7), torch.zeros(2, 7, dtype=torch.bool)
    padding[1, 4:] = True
    expected = theirs(embedding[ids], mask=forbidden(ours, 7), src_key_padding_mask=padding)
    found = ours.hidden(ids, padding=padding)
    agree(found[~padding], expected[~padding], 1e-5)
