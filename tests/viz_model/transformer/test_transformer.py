"""The Transformer's identities, for any valid configuration."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.reference.written_out import attention, rotated
from tests.support.properties import examples
from tests.support.small_models import (
    CONTEXT,
    VOCABULARY,
    configs,
    make_model,
    random_ids,
    small_config,
    small_model,
)
from viz_model.errors import MaskError
from viz_model.transformer.hooks import capture
from viz_model.transformer.masks import named

lengths = st.integers(1, CONTEXT)


def close(one, other):
    torch.testing.assert_close(one, other, atol=2e-5, rtol=2e-5)


@examples(40)
@given(configs(), lengths)
def test_any_valid_config_gives_logits_of_the_last_or_of_every_position(config, length):
    model, ids = make_model(config), random_ids(2, length)
    every = model(ids, logits="all")
    assert every.shape == (2, length, VOCABULARY)
    assert torch.isfinite(every).all()
    close(model(ids), every[:, -1])
    close(model.unembed(model.hidden(ids)), every)
    close(model(ids[1:], logits="all")[0], every[1])  # rows of a batch do not touch each other


@examples(40)
@given(configs(), st.integers(2, 9))
def test_weights_are_the_softmax_of_scores_and_mask_and_mix_the_values(config, length):
    """No hook called scores that holds weights, in any configuration; each piece follows from the others."""
    with capture("*.attn.*") as found:
        make_model(config)(random_ids(2, length))
    for layer in range(config.n_layers):
        held = {name: found[f"blocks.{layer}.attn.{name}"] for name in
                ("q", "k", "v", "raw", "scores", "mask", "weights", "mixed")}  # fmt: skip
        known = attention(held["q"], held["k"], held["v"], held["mask"])
        for name, expected in zip(("raw", "scores", "weights", "mixed"), known, strict=True):
            np.testing.assert_allclose(held[name], expected, atol=2e-5, rtol=2e-5)
        softmax = held["scores"].masked_fill(~held["mask"], -torch.inf).softmax(-1)
        close(held["weights"], softmax)
        close(held["weights"].sum(-1), torch.ones(2, config.n_heads, length))
        assert torch.equal(held["mask"].expand(length, length), named(config.mask, length))


@pytest.mark.parametrize("path", ["fused", "written out"])
@examples(30)
@given(config=configs(layout="decoder-only"), length=st.integers(2, 12), data=st.data())
def test_a_later_token_changes_no_earlier_logit(path, config, length, data):
    model, ids, changed = make_model(config), random_ids(1, length), data.draw(st.integers(1, length - 1))
    others = ids.clone()
    others[0, changed] = (ids[0, changed] + 1) % VOCABULARY
    watched = ["*.weights"] if path == "written out" else []
    with capture(*watched):
        before = model(ids, logits="all")
    with capture(*watched):
        after = model(others, logits="all")
    close(after[:, :changed], before[:, :changed])
    assert (after[:, changed] - before[:, changed]).abs().max() > 1e-4


@examples(20)
@given(configs(layout="encoder-only"), st.integers(2, 8))
def test_without_a_causal_mask_the_last_token_reaches_the_first(config, length):
    model, ids = make_model(config), random_ids(1, length)
    others = ids.clone()
    others[0, -1] = (ids[0, -1] + 1) % VOCABULARY
    assert (model.hidden(others)[:, 0] - model.hidden(ids)[:, 0]).abs().max() > 1e-7


@examples(30)
@given(configs(layout="encoder-only", position="none"), st.permutations(range(7)))
def test_permuting_the_input_of_a_position_free_encoder_permutes_its_output(config, order):
    model, ids = make_model(config), random_ids(2, 7)
    close(model(ids[:, list(order)], logits="all"), model(ids, logits="all")[:, list(order)])


@pytest.mark.parametrize("position", ["learned", "sinusoidal", "rotary"])
def test_positions_break_that_symmetry(position):
    model, ids = small_model(layout="encoder-only", position=position), random_ids(1, 7)
    assert not torch.allclose(model.hidden(ids.flip(1)), model.hidden(ids).flip(1), atol=1e-2)


@pytest.mark.parametrize("pairs", ["halves", "neighbours"])
def test_rotary_scores_of_equal_tokens_depend_on_the_distance_alone(pairs):
    model = small_model(position="rotary", rotary_pairs=pairs)
    with capture("blocks.0.attn.scores") as found:
        model(torch.full((1, CONTEXT), 5))
    scores = found["blocks.0.attn.scores"][0]
    for distance in range(-CONTEXT + 1, CONTEXT):
        diagonal = scores.diagonal(distance, -2, -1)
        close(diagonal, diagonal[:, :1].expand_as(diagonal))
    assert scores[:, 0].std(-1).min() > 1e-3


@pytest.mark.parametrize("pairs", ["halves", "neighbours"])
def test_rotary_queries_and_keys_are_captured_before_and_after_their_rotation(pairs):
    """TransformerLens 4.3 showed only those before: not what enters the product."""
    model, ids = small_model(position="rotary", rotary_pairs=pairs, rotary_base=50.0), random_ids(2, 9)
    with capture("*.attn.*") as found:
        model(ids)
    for name in ("blocks.0.attn.", "blocks.1.attn."):
        for letter in "qk":
            before, after = found[f"{name}{letter}_pre"], found[f"{name}{letter}"]
            np.testing.assert_allclose(after, rotated(before, range(9), 50.0, pairs), atol=1e-5)
        known = attention(found[f"{name}q"], found[f"{name}k"], found[f"{name}v"], named("causal", 9))
        np.testing.assert_allclose(found[f"{name}raw"], known[0], atol=1e-5)


# --- padding ---


@examples(40)
@given(configs(), st.integers(1, 8), st.integers(1, 6), st.booleans(), st.booleans())
def test_padding_on_either_side_changes_no_result(config, length, extra, on_the_left, captured):
    model, ids, filler = make_model(config), random_ids(1, length), random_ids(1, extra, seed=9)
    padded = torch.cat((filler, ids) if on_the_left else (ids, filler), 1)
    real = slice(extra, None) if on_the_left else slice(0, length)
    padding = torch.ones_like(padded, dtype=torch.bool)
    padding[:, real] = False
    with capture("*.attn.weights") as expected:
        model(ids)
    with capture(*["*.attn.weights"] if captured else []) as found:
        logits = model(padded, padding=padding, logits="all")
    close(logits[:, real], model(ids, logits="all"))
    assert torch.isfinite(logits).all()
    close(model(padded, padding=padding), model(ids))
    for name, weights in found.items():
        close(weights[:, :, real, real], expected[name])
        assert weights[..., padding[0]].eq(0).all()


@pytest.mark.parametrize("position", ["none", "learned", "sinusoidal", "rotary"])
@pytest.mark.parametrize("layout", ["decoder-only", "encoder-only"])
def test_prompts_of_different_lengths_share_a_batch(layout, position):
    model = small_model(layout=layout, position=position)
    prompts = [random_ids(length, seed=length) for length in (2, 7, 4)]
    ids, padding = torch.zeros(3, 7, dtype=torch.long), torch.ones(3, 7, dtype=torch.bool)
    for row, prompt in enumerate(prompts):
        ids[row, -len(prompt) :], padding[row, -len(prompt) :] = prompt, False
    together = model(ids, padding=padding)
    for row, prompt in enumerate(prompts):
        close(together[row], model(prompt[None])[0])


def test_a_padding_row_before_the_text_attends_to_nothing():
    padding = torch.tensor([[True, True, False, False]])
    with capture("*.weights", "*.mixed") as found:
        small_model()(random_ids(1, 4), padding=padding)
    for tensor in found.values():
        assert tensor[:, :, :2].eq(0).all()
        assert tensor[:, :, 2:].ne(0).any()


# --- masks that a person chooses ---


@examples(20)
@given(configs(), st.integers(2, 9))
def test_a_named_mask_makes_one_layout_the_other(config, length):
    model, ids = make_model(config), random_ids(1, length)
    other = small_config().mask if config.layout == "encoder-only" else "bidirectional"
    fields = {name: getattr(config, name) for name in config.__dataclass_fields__}
    layout = "decoder-only" if other == "causal" else "encoder-only"
    twin = make_model(type(config)(**fields | {"layout": layout}))
    twin.load_state_dict(model.state_dict())
    close(model(ids, mask=named(other, length), logits="all"), twin(ids, logits="all"))
    close(model(ids, mask=named(config.mask, length), logits="all"), model(ids, logits="all"))


def test_a_mask_of_its_own_for_each_head():
    model, ids = small_model(n_heads=4, n_kv_heads=2), random_ids(2, 5)
    heads = torch.stack([named(name, 5) for name in ("causal", "bidirectional") * 2])
    with capture("*.weights") as found:
        model(ids, mask=heads)
    for weights in found.values():
        assert torch.equal(weights.gt(0), heads.expand_as(weights))


def test_a_window_keeps_far_tokens_out_of_one_layer():
    model, ids = small_model(n_layers=1), random_ids(1, 8)
    near = named("causal", 8).triu(-2)
    others = ids.clone()
    others[0, 0] = (ids[0, 0] + 1) % VOCABULARY
    one, other = (model(x, mask=near, logits="all") for x in (ids, others))
    close(one[:, 3:], other[:, 3:])
    assert (one[:, :3] - other[:, :3]).abs().amax((0, 2)).min() > 1e-4


def test_a_mask_of_another_length_is_refused():
    with pytest.raises(MaskError, match=r"\(4, 4\).*\(1, 4, 5, 5\)"):
        small_model()(random_ids(1, 5), mask=named("causal", 4))


# --- structure ---


def test_training_mode_and_evaluation_mode_are_the_same_pass():
    """Weights after dropout have rows that do not sum to 1 (transformers#31468); there is no dropout here."""
    model, ids = small_model(), random_ids(1, 6)
    expected = model.eval()(ids)
    assert torch.equal(model.train()(ids), expected)


@examples(20)
@given(configs())
def test_training_reaches_every_parameter(config):
    model = make_model(config).requires_grad_(True)
    ids = torch.arange(CONTEXT)[None] % VOCABULARY
    model(ids, logits="all").square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name
        # A bias of the keys adds the same number to a whole row of scores, which softmax takes out again.
        if not name.endswith("key.bias"):
            assert parameter.grad.abs().max() > 0, name


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("position", ["learned", "sinusoidal", "rotary"])
def test_a_half_precision_model_is_near_the_whole_one(dtype, position):
    model, ids = small_model(position=position, bias=False), random_ids(1, 9)
    expected = model(ids, logits="all")
    logits = model.to(dtype)(ids, logits="all")
    assert logits.dtype == dtype
    error = (logits.float() - expected).abs().max() / expected.abs().max()
    assert error < {torch.float16: 0.01, torch.bfloat16: 0.08}[dtype]


def test_tied_matrices_are_counted_once():
    tied, untied = small_model(tied_unembedding=True), small_model(tied_unembedding=False)
    assert untied.n_parameters() - tied.n_parameters() == VOCABULARY * tied.config.d_model
