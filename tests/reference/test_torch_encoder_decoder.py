"""Our encoder-decoder against `torch.nn.Transformer`: the norm in both places, every attention map, both paddings."""

import itertools

import pytest
import torch
from torch import nn

from tests.reference.name_maps import agree, loaded, torch_encoder_decoder_weights
from tests.support.small_models import randomise
from viz_model.transformer import TransformerConfig
from viz_model.transformer.hooks import capture

ENCODER_LAYERS, LAYERS, HEADS, WIDTH, HIDDEN, VOCABULARY, CONTEXT = 2, 3, 4, 24, 37, 31, 16


@pytest.fixture(params=itertools.product(("pre", "post"), ("relu", "gelu")))
def pair(request):
    """Theirs, ours with the same weights, and the embedding that both start from."""
    place, activation = request.param
    choices = {"activation": activation, "batch_first": True, "norm_first": place == "pre"}
    encoder, decoder = (
        make(WIDTH, HEADS, HIDDEN, **choices) for make in (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)
    )
    norms = [nn.LayerNorm(WIDTH) if place == "pre" else None for _ in range(2)]
    theirs = nn.Transformer(
        WIDTH,
        HEADS,
        custom_encoder=nn.TransformerEncoder(encoder, ENCODER_LAYERS, norms[0], enable_nested_tensor=False),
        custom_decoder=nn.TransformerDecoder(decoder, LAYERS, norms[1]),
        batch_first=True,
    )
    theirs = randomise(theirs, size=0.3)
    embedding = torch.randn(VOCABULARY, WIDTH, generator=torch.Generator().manual_seed(1))
    config = TransformerConfig(
        layout="encoder-decoder",
        n_layers=LAYERS,
        n_encoder_layers=ENCODER_LAYERS,
        n_heads=HEADS,
        d_model=WIDTH,
        d_ff=HIDDEN,
        vocab_size=VOCABULARY,
        context_length=CONTEXT,
        position="none",
        norm_place=place,
        activation=activation,
    )
    return theirs, loaded(config, torch_encoder_decoder_weights(theirs, embedding)), embedding


def ids_of(length, seed=0):
    return torch.randint(VOCABULARY, (2, length), generator=torch.Generator().manual_seed(length + seed))


def triangle(length):
    """What torch calls a mask: True where a query may not attend."""
    return torch.ones(length, length, dtype=torch.bool).triu(1)


@pytest.mark.parametrize(("sources", "targets"), [(1, 1), (7, 4), (5, CONTEXT)])
def test_outputs_and_attention_maps(pair, sources, targets):
    theirs, ours, embedding = pair
    source, ids, mask = ids_of(sources), ids_of(targets, 3), triangle(targets)
    agree(ours.hidden(ids, source=source), theirs(embedding[source], embedding[ids], tgt_mask=mask), 1e-5)
    agree(ours.encode(source), theirs.encoder(embedding[source]), 1e-5)
    with capture("*") as found:
        ours(ids, source=source)
    pre_norm, memory = ours.config.norm_place == "pre", found["encoder.final_norm"]
    for number, layer in enumerate(theirs.decoder.layers):
        block = f"decoder.blocks.{number}"
        entering = found[f"{block}.{'norm1' if pre_norm else 'resid_pre'}"]
        out, weights = layer.self_attn(entering, entering, entering, attn_mask=mask, average_attn_weights=False)
        agree(found[f"{block}.attn.weights"], weights, 1e-5)
        agree(found[f"{block}.attn.out"], out, 1e-5)
        entering = found[f"{block}.{'norm_cross' if pre_norm else 'resid_self'}"]
        out, weights = layer.multihead_attn(entering, memory, memory, average_attn_weights=False)
        agree(found[f"{block}.cross.weights"], weights, 1e-5)
        agree(found[f"{block}.cross.out"], out, 1e-5)
        agree(found[f"{block}.resid_post"], layer(found[f"{block}.resid_pre"], memory, tgt_mask=mask), 1e-5)
    for number, layer in enumerate(theirs.encoder.layers):
        block = f"encoder.blocks.{number}"
        agree(found[f"{block}.resid_post"], layer(found[f"{block}.resid_pre"]), 1e-5)


def test_padding_of_both_texts_and_a_mask_of_each_part(pair):
    theirs, ours, embedding = pair
    source, ids = ids_of(7), ids_of(5, 3)
    source_padding, padding = torch.zeros(2, 7, dtype=torch.bool), torch.zeros(2, 5, dtype=torch.bool)
    source_padding[1, 4:], padding[0, 3:] = True, True
    closed = torch.rand(5, 7, generator=torch.Generator().manual_seed(2)) < 0.3
    closed[:, 0] = False
    expected = theirs(
        embedding[source],
        embedding[ids],
        src_mask=triangle(7),
        tgt_mask=triangle(5),
        memory_mask=closed,
        src_key_padding_mask=source_padding,
        tgt_key_padding_mask=padding,
        memory_key_padding_mask=source_padding,
    )
    masks = {"encoder": ~triangle(7), "cross": ~closed}
    found = ours.hidden(ids, source=source, mask=masks, padding=padding, source_padding=source_padding)
    agree(found[~padding], expected[~padding], 1e-5)
