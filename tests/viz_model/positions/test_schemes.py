"""The same weights under other position schemes, other orders and other positions, against `transformers` and numpy."""

import numpy as np
import pytest
import torch
from transformers import LlamaConfig
from transformers.models.llama import modeling_llama

import viz_model as vm
from tests.reference.written_out import rotated
from tests.support.small_models import CONTEXT, random_ids, small_model
from tests.support.transformers_tiny_gpt import gpt2, unmasked_attentions
from viz_model.positions.schemes import (
    change_order,
    moved_on,
    possible_schemes,
    put_back,
    shuffled_order,
    site_changes,
    under_scheme,
)

IDS = random_ids(9).tolist()


def model_of(**changes):
    return vm.Model("small", small_model(**changes))


@pytest.mark.parametrize("position", ["none", "sinusoidal", "learned", "rotary"])
def test_learned_rows_can_only_stay_where_they_were_learned(position):
    assert ("learned" in possible_schemes(small_model(position=position).config)) == (position == "learned")


def test_odd_widths_leave_out_what_needs_pairs():
    assert possible_schemes(small_model(d_model=20).config) == ("none", "sinusoidal", "learned")  # D = 5
    assert possible_schemes(small_model(n_heads=1, n_kv_heads=1, d_model=5).config) == ("none", "learned")


def test_weights_are_shared_and_the_model_stays_as_it_is():
    model = model_of()
    before = model.trace(IDS).logits
    variant = under_scheme(model, "rotary")
    weight = "blocks.0.attn.query.weight"
    shared = [one.transformer.state_dict()[weight].data_ptr() for one in (model, variant)]
    assert shared[0] == shared[1]
    assert (variant.config.position, model.config.position) == ("rotary", "learned")
    torch.testing.assert_close(model.trace(IDS).logits, before, atol=0, rtol=0)
    with pytest.raises(vm.VizError, match="cannot be run with learned positions"):
        under_scheme(model_of(position="rotary"), "learned")


def test_without_positions_and_with_sinusoids_against_transformers():
    """Positions left away are rows of zeros; sinusoids are the formula of Vaswani et al. 2017, §3.5."""
    model, ids = vm.load("tiny-gpt"), vm.load("tiny-gpt").encode("The queen gave the girl a ring.")
    length, width = gpt2().transformer.wpe.weight.shape
    angles = np.arange(length)[:, None] / 10000 ** (np.arange(0, width, 2) / width)
    sinusoids = np.stack([np.sin(angles), np.cos(angles)], -1).reshape(length, width)
    for scheme, rows in (("none", np.zeros((length, width))), ("sinusoidal", sinusoids)):
        trace = under_scheme(model, scheme).trace(ids, mask="bidirectional")
        expected = unmasked_attentions(ids, wpe=torch.tensor(rows, dtype=torch.float32))
        for layer, head in ((0, 0), (3, 7)):
            np.testing.assert_allclose(trace.weights(layer, head), expected[layer, head], atol=1e-5)


def test_permuting_a_position_free_unmasked_prompt_permutes_its_attention():
    """In another implementation, and as our number says it; with its rows tiny-gpt does see the order."""
    model = vm.load("tiny-gpt")
    ids = model.encode("The queen gave the girl a ring.")
    order = shuffled_order(len(ids), 3)
    moved = [ids[token] for token in order]
    zeros, own = torch.zeros_like(gpt2().transformer.wpe.weight), gpt2().transformer.wpe.weight.data
    for scheme, rows in (("none", zeros), ("learned", own)):
        typed, shuffled = unmasked_attentions(ids, wpe=rows), unmasked_attentions(moved, wpe=rows)
        back = np.zeros_like(typed)
        for p, token in enumerate(order):
            for q, other in enumerate(order):
                back[:, :, token, other] = shuffled[:, :, p, q]
        expected = np.abs(back - typed).max()
        found = change_order(under_scheme(model, scheme), ids, order)
        assert (expected < 1e-5) == (scheme == "none")
        assert found.weights_change == pytest.approx(expected, abs=1e-5)
        np.testing.assert_allclose(put_back(found.shuffled.weights(1, 2), order), back[1, 2], atol=1e-5)
        np.testing.assert_allclose(found.typed.weights(1, 2), typed[1, 2], atol=1e-5)


@pytest.mark.parametrize(
    "changes",
    [
        {"layout": "encoder-only", "norm_place": "post", "position": "sinusoidal"},
        {"layout": "encoder-decoder", "position": "sinusoidal", "n_encoder_layers": 3},
        {"position": "rotary", "norm": "rms", "activation": "swiglu"},
        {"d_ff": 0, "position": "none"},
    ],
    ids=repr,
)
def test_the_identity_holds_in_every_layout(changes):
    model, order = model_of(**changes), shuffled_order(len(IDS), 5)
    found = change_order(under_scheme(model, "none"), IDS, order)
    assert found.weights_change < 2e-6
    assert found.stream_change < 1e-5 * found.stream_size
    for scheme in ("sinusoidal", "rotary"):
        assert change_order(under_scheme(model, scheme), IDS, order).weights_change > 1e-3


@pytest.mark.parametrize("length", [1, 2, 3, 50])
def test_a_shuffled_order_is_an_order_of_all_tokens_and_another_one(length):
    orders = [shuffled_order(length, seed) for seed in range(20)]
    assert all(sorted(order) == list(range(length)) for order in orders)
    assert orders == [shuffled_order(length, seed) for seed in range(20)]
    assert all(order != tuple(range(length)) for order in orders if length > 1)
    assert len(set(orders)) > 1 or length < 3


@pytest.mark.parametrize("order", [(0, 1), (0, 0, 2), (0, 1, 3)])
def test_what_is_no_order_is_refused(order):
    with pytest.raises(vm.VizError, match="must name each place from 0 to 2 exactly once"):
        change_order(model_of(), IDS[:3], order)


def test_moved_on_learned_rows_are_those_of_transformers_position_ids():
    model = vm.load("tiny-gpt")
    ids = model.encode("The queen gave the girl a ring.")
    with vm.edit(moved_on(model, 200)):
        trace = model.trace(ids, mask="bidirectional")
    expected = unmasked_attentions(ids, positions=list(range(200, 200 + len(ids))))
    np.testing.assert_allclose(trace.weights(2, 5), expected[2, 5], atol=1e-5)
    with pytest.raises(vm.VizError, match="Position 256 has no row, because tiny-gpt learned only rows 0 to 255"):
        site_changes(model, ids, model, 257 - len(ids))


def test_moved_on_sinusoids_go_past_the_context():
    model = model_of(position="sinusoidal")
    with vm.edit(moved_on(model, 1000)), vm.capture("embed.positions") as found:
        model.transformer(torch.tensor([IDS]))
    width = model.config.d_model
    for i in range(0, width, 2):
        angles = np.arange(1000, 1000 + len(IDS)) / 10000 ** (i / width)
        np.testing.assert_allclose(found["embed.positions"][0, :, i], np.sin(angles), atol=1e-6)
        np.testing.assert_allclose(found["embed.positions"][0, :, i + 1], np.cos(angles), atol=1e-6)


@pytest.mark.parametrize("pairs", ["halves", "neighbours"])
def test_moved_on_rotations_are_those_of_the_later_positions(pairs):
    model = model_of(position="rotary", rotary_base=500.0, rotary_pairs=pairs)
    with vm.edit(moved_on(model, 300)), vm.capture("blocks.1.attn.*") as found:
        model.transformer(torch.tensor([IDS]))
    later = range(300, 300 + len(IDS))
    for name in ("q", "k"):
        expected = rotated(found[f"blocks.1.attn.{name}_pre"], later, 500.0, pairs)
        np.testing.assert_allclose(found[f"blocks.1.attn.{name}"], expected, atol=1e-5)
    if pairs == "halves":
        config = LlamaConfig(
            hidden_size=24,
            num_attention_heads=4,
            rope_parameters={"rope_type": "default", "rope_theta": 500.0},
        )
        query = found["blocks.1.attn.q_pre"]
        cos, sin = modeling_llama.LlamaRotaryEmbedding(config)(query, torch.tensor([list(later)]))
        theirs, _ = modeling_llama.apply_rotary_pos_emb(query, query, cos, sin)
        torch.testing.assert_close(found["blocks.1.attn.q"], theirs, atol=1e-4, rtol=0)  # float32 angles there


def captured(model, edits=None):
    with vm.capture("*") as found, vm.edit(edits) if edits else vm.edit({}):
        model.transformer(torch.tensor([IDS]))
    return {name: tensor for name, tensor in found.items() if not name.endswith(".mask")}


@pytest.mark.parametrize("position", ["sinusoidal", "learned", "rotary"])
def test_changes_are_the_largest_differences_of_two_passes(position):
    model = model_of(position=position)
    first, second = captured(model), captured(model, moved_on(model, 5))
    found = {change.site: change for change in site_changes(model, IDS, model, 5)}
    assert found.keys() == first.keys()
    for name, change in found.items():
        assert change.change == (second[name] - first[name]).abs().max().item(), name
        assert change.size == first[name].abs().max().item()


def test_rotary_moves_queries_and_keys_and_nothing_else():
    model = model_of(position="rotary")
    found = {change.site: change for change in site_changes(model, IDS, model, CONTEXT)}
    moved = {name for name, change in found.items() if change.change > 0.01}
    assert moved == {f"blocks.{layer}.attn.{name}" for layer in range(2) for name in "qk"}
    same = {name for name, change in found.items() if change.change == 0}
    assert {"embed", "blocks.0.resid_pre", "blocks.0.attn.q_pre", "blocks.0.attn.v"} <= same
    assert all(change.is_rounding for name, change in found.items() if name not in moved | same)


def test_added_positions_change_everything_after_the_embedding():
    model = model_of(position="learned")
    same = {change.site for change in site_changes(model, IDS, model, 5) if change.change == 0}
    assert same == {"embed.tokens"}


def test_against_no_positions_the_added_rows_are_the_change():
    model = model_of(position="learned")
    found = {change.site: change.change for change in site_changes(model, IDS, under_scheme(model, "none"))}
    assert found["embed.positions"] == model.transformer.positions.weight[: len(IDS)].abs().max().item()
    assert found["embed.tokens"] == 0
    turning = under_scheme(model, "rotary")
    found = {change.site: change.change for change in site_changes(turning, IDS, under_scheme(model, "none"))}
    assert found["embed"] == found["blocks.0.attn.q_pre"] == found["blocks.0.attn.v"] == 0
    pieces = captured(turning)
    expected = (pieces["blocks.0.attn.q"] - pieces["blocks.0.attn.q_pre"]).abs().max().item()
    assert found["blocks.0.attn.q"] == expected > 0.1
