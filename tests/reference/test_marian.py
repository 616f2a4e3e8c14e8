"""Our encoder-decoder against `transformers`' Marian: logits, all attention maps, generation with a cache."""

import pytest
import torch
from transformers import MarianConfig, MarianMTModel

from tests.reference.name_maps import agree, loaded, marian_config, marian_weights
from tests.support.small_models import randomise
from viz_model.model import Model
from viz_model.transformer.hooks import capture

VOCABULARY, CONTEXT, START = 41, 24, 40


@pytest.fixture(params=["relu", "gelu"], scope="module")
def pair(request):
    theirs = MarianMTModel(
        MarianConfig(
            vocab_size=VOCABULARY,
            d_model=20,
            encoder_layers=2,
            decoder_layers=3,
            encoder_attention_heads=5,
            decoder_attention_heads=5,
            encoder_ffn_dim=27,
            decoder_ffn_dim=27,
            activation_function=request.param,
            max_position_embeddings=CONTEXT,
            scale_embedding=True,
            decoder_start_token_id=START,
            pad_token_id=0,
            eos_token_id=None,
            forced_eos_token_id=None,
            attn_implementation="eager",
        )
    )
    positions = {name: table.clone() for name, table in theirs.state_dict().items() if "embed_positions" in name}
    theirs = randomise(theirs, size=0.3)
    theirs.load_state_dict(positions, strict=False)  # they are sinusoids, which nothing learns
    return theirs, loaded(marian_config(theirs.config), marian_weights(theirs))


def ids_of(length, seed=0):
    return torch.randint(1, VOCABULARY, (2, length), generator=torch.Generator().manual_seed(length + seed))


@pytest.mark.parametrize(("sources", "targets"), [(1, 1), (9, 6), (CONTEXT, CONTEXT)])
def test_logits_and_attention_maps(pair, sources, targets):
    theirs, ours = pair
    source, ids = ids_of(sources), ids_of(targets, 3)
    expected = theirs(source, decoder_input_ids=ids, output_attentions=True)
    with capture("*.weights") as found:
        agree(ours(ids, source=source, logits="all"), expected.logits)
    maps = {"encoder": expected.encoder_attentions, "decoder": expected.decoder_attentions}
    for part, layers in (maps | {"cross": expected.cross_attentions}).items():
        assert len(layers) == ours.config.layers_of(part)
        for layer, weights in enumerate(layers):
            agree(found[f"{ours.config.attention_name(part, layer)}.weights"], weights, 1e-5)


def test_padding_of_the_source(pair):
    theirs, ours = pair
    source, ids, padding = ids_of(8), ids_of(5, 3), torch.zeros(2, 8, dtype=torch.bool)
    padding[1, 5:] = True
    expected = theirs(source, attention_mask=~padding, decoder_input_ids=ids).logits
    agree(ours(ids, source=source, source_padding=padding, logits="all"), expected)
    agree(ours(ids[1:], source=source[1:, :5], logits="all")[0], expected[1])


def test_logits_of_every_step_of_a_generation_with_a_cache(pair):
    theirs, ours = pair
    source, ids = ids_of(9)[0].tolist(), [START, *ids_of(14, 3)[0].tolist()]
    forced = dict(enumerate(ids[1:]))
    steps = list(Model("ours", ours).generate(source, max_new_tokens=14, forced=forced))
    expected = theirs(torch.tensor([source]), decoder_input_ids=torch.tensor([ids]), output_attentions=True)
    for step in steps:
        agree(step.sampled.logits, expected.logits[0, step.read - 1])
        for part, maps in (("decoder", expected.decoder_attentions), ("cross", expected.cross_attentions)):
            row = step.weights(2, 3, part)
            agree(row[0], maps[2][0, 3, step.read - 1, : row.shape[-1]], 1e-5)
