"""Texts longer than the trained length, against `transformers`' Llama and GPT-2 and numpy."""

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

import viz_model as vm
from tests.reference.name_maps import llama_config, llama_weights, loaded
from tests.support.small_models import CONTEXT, random_ids, randomise, small_model
from viz_model.positions.beyond_trained_length import (
    DIVIDED,
    LARGER_BASE,
    Stretch,
    binned,
    longer,
    previous_token_head,
    read,
    read_restarting,
    stretched,
)

LENGTH, FACTOR, BASE, WIDTH = 3 * CONTEXT, 4.0, 100.0, 6
ROWS = random_ids(2, LENGTH + 1)
ROPE = {
    None: {"rope_type": "default"},
    DIVIDED: {"rope_type": "linear", "factor": FACTOR},
    LARGER_BASE: {"rope_type": "default", "rope_theta": BASE * FACTOR ** (WIDTH / (WIDTH - 2))},
}


def theirs(way=None) -> LlamaForCausalLM:
    """A small Llama of the library with random weights; `way` is its own name for other angles."""
    config = LlamaConfig(
        vocab_size=29,
        hidden_size=24,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        rope_parameters={"rope_theta": BASE} | ROPE[way],
        attn_implementation="eager",
    )
    return randomise(LlamaForCausalLM(config))


def ours() -> vm.Model:
    model = theirs()
    return vm.Model("small", loaded(llama_config(model.config), llama_weights(model)))


@pytest.mark.parametrize("way", ROPE)
def test_losses_and_weights_past_the_trained_length_are_those_of_transformers(way):
    """Divided positions are its rope_type "linear"; the larger base is its rope_theta."""
    found = read(ours(), ROWS, (1, 2), None if way is None else Stretch(way, FACTOR))
    with torch.inference_mode():
        expected = theirs(way)(ROWS[:, :-1], output_attentions=True)
    logits = expected.logits.double().numpy()
    chances = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    losses = -np.log(np.take_along_axis(chances, ROWS[:, 1:, None].numpy(), -1))[..., 0]
    np.testing.assert_allclose(found.losses, losses, atol=2e-4)
    weights = torch.stack(expected.attentions)[:, 0].numpy()  # (L,H,T,T)
    np.testing.assert_allclose(found.previous[1:], np.diagonal(weights[1, 2], -1), atol=1e-5)
    assert found.previous[0].isnan()
    far = [weights[:, :, i, : max(0, i - CONTEXT + 1)].sum(-1).mean() for i in range(LENGTH)]
    np.testing.assert_allclose(found.far, far, atol=1e-5)
    assert found.far[:CONTEXT].max() == 0 < found.far[CONTEXT:].min()


def test_the_larger_base_divides_the_slowest_pair_and_leaves_the_fastest():
    rotation = ours().transformer.equation("blocks.0.attn").rotation
    own, larger = rotation.theta, Stretch(LARGER_BASE, FACTOR).of(rotation)
    np.testing.assert_allclose(own, [BASE ** (-2 * pair / WIDTH) for pair in range(3)])
    assert larger[0] == own[0]
    assert larger[-1].item() == pytest.approx(own[-1].item() / FACTOR)
    assert own[1] > larger[1] > own[1] / FACTOR


@pytest.mark.parametrize("length", [CONTEXT, CONTEXT + 1, 2 * CONTEXT + 5, LENGTH])
def test_restarted_pieces_are_read_by_themselves_and_every_token_is_predicted_once(length):
    rows, half = ROWS[:, : length + 1], CONTEXT // 2
    found = read_restarting(ours(), rows)
    model = theirs()
    for position in range(length):
        start = 0 if position < CONTEXT else min(half * ((position - CONTEXT) // half + 1), length - CONTEXT)
        with torch.inference_mode():
            logits = model(rows[:, start : position + 1]).logits[:, -1]
        expected = torch.nn.functional.cross_entropy(logits, rows[:, position + 1], reduction="none")
        np.testing.assert_allclose(found[:, position], expected, atol=2e-4, err_msg=str(position))


def test_sinusoids_go_on_and_learned_rows_do_not():
    model = vm.Model("small", small_model(position="sinusoidal"))
    with vm.capture("embed.positions") as found:
        longer(model, LENGTH).transformer(ROWS[:1, :-1])
    angles = np.arange(LENGTH)[:, None] / 10000 ** (np.arange(0, 24, 2) / 24)
    np.testing.assert_allclose(found["embed.positions"][0, :, 0::2], np.sin(angles), atol=1e-6)
    assert model.config.context_length == CONTEXT
    with pytest.raises(
        vm.VizError, match=f"Position {CONTEXT} has no row, because small learned only rows 0 to {CONTEXT - 1}"
    ):
        longer(vm.Model("small", small_model()), LENGTH)
    with pytest.raises(vm.VizError, match="rotary pairs are known"):
        stretched(model, LENGTH, Stretch(DIVIDED, FACTOR))


def test_a_model_of_the_library_reads_on_too(tmp_path):
    theirs().save_pretrained(tmp_path)
    model = vm.load(tmp_path)
    for stretch in (None, Stretch(DIVIDED, FACTOR)):
        found, expected = read(model, ROWS, (0, 3), stretch), read(ours(), ROWS, (0, 3), stretch)
        torch.testing.assert_close(found.losses, expected.losses, atol=2e-4, rtol=0)
        torch.testing.assert_close(found.far, expected.far, atol=1e-5, rtol=0)
    assert model.config.context_length == CONTEXT


def test_the_head_that_looks_back_is_found_by_its_weights_in_transformers():
    with torch.inference_mode():
        attentions = theirs()(ROWS[:1, :CONTEXT], output_attentions=True).attentions
    shares = torch.stack(attentions)[:, 0].diagonal(-1, -2, -1).mean(-1)
    assert previous_token_head(ours(), ROWS[0]) == divmod(shares.argmax().item(), 4)


def test_progress_goes_from_nothing_to_all():
    seen = []
    read(ours(), ROWS, (0, 0), tell=lambda *told: seen.append(told))
    read_restarting(ours(), ROWS, lambda *told: seen.append(told))
    assert seen == [(0, 2), (1, 2), (2, 2)] * 2


def test_bins_are_means_over_positions_and_windows():
    values = np.arange(20.0).reshape(2, 10)
    means, middles = binned(torch.tensor(values), 4)
    np.testing.assert_allclose(means, [values[:, :4].mean(), values[:, 4:8].mean(), values[:, 8:].mean()])
    assert middles.tolist() == [1.5, 5.5, 8.5]
    means, _ = binned(torch.tensor([torch.nan, 1.0, 2.0, 3.0]), 2)
    assert means.tolist() == [1.0, 2.5]
