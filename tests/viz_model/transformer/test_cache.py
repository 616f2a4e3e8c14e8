"""The cache against passes without it, for every kind of model, and against `transformers`."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import GPT2Config, GPT2LMHeadModel

from tests.support.properties import examples
from tests.support.small_models import CONTEXT, configs, make_model, random_ids, small_config, small_model
from viz_model.errors import VizError
from viz_model.shapes import costs
from viz_model.transformer import masks
from viz_model.transformer.cache import KVCache
from viz_model.transformer.hooks import capture


@examples(100)
@given(config=configs(layout="decoder-only"), cuts=st.sets(st.integers(1, 11)), batch=st.integers(1, 2))
def test_any_way_of_cutting_a_prompt_gives_the_logits_of_one_pass(config, cuts, batch):
    model, ids = make_model(config), random_ids(batch, 12)
    expected = model(ids, logits="all")
    cache, found = KVCache(config, 12, batch), []
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), 12], strict=True):
        found.append(model(ids[:, start:end], cache=cache, logits="all"))
        assert cache.length == end
    torch.testing.assert_close(torch.cat(found, 1), expected, atol=1e-4, rtol=1e-4)


@examples(30)
@given(config=configs(layout="decoder-only"))
def test_what_it_holds_is_what_attention_read(config):
    model, ids = make_model(config), random_ids(1, 9)
    with capture("*.attn.k", "*.attn.v") as whole:
        model(ids)
    cache = KVCache(config, 9)
    model(ids[:, :5], cache=cache)
    early = cache.view()
    for token in ids[0, 5:]:
        model(token.view(1, 1), cache=cache)
    view = cache.view()
    assert (early.length, view.length) == (5, 9)
    for layer in range(config.n_layers):
        for held, name in ((view.key(layer), "k"), (view.value(layer), "v")):
            expected = whole[f"blocks.{layer}.attn.{name}"][0]
            torch.testing.assert_close(held, expected, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(early.key(layer), view.key(layer)[:, :5], atol=0, rtol=0)


@examples(30)
@given(config=configs(layout="decoder-only"), length=st.integers(1, CONTEXT))
def test_bytes_are_two_l_g_d_t_bytes(config, length):
    cache = KVCache(config, CONTEXT)
    make_model(config)(random_ids(1, length), cache=cache)
    expected = 2 * config.n_layers * config.n_kv_heads * config.d_head * length * 4
    assert cache.view().nbytes == expected == costs.cache_bytes(config, length)
    assert cache.allocated_bytes == cache.view().allocated_bytes == costs.cache_bytes(config, CONTEXT)


def test_it_grows_in_place():
    config = small_config()
    cache, model = KVCache(config, 10), small_model()
    places = set()
    for token in random_ids(1, 10)[0]:
        model(token.view(1, 1), cache=cache)
        places.add(cache.view().keys.data_ptr())
    assert len(places) == 1


def test_a_copy_goes_its_own_way():
    config, model, ids = small_config(), small_model(), random_ids(1, 8)
    cache = KVCache(config, 8)
    model(ids[:, :6], cache=cache)
    before = cache.view().keys.clone()
    branch = KVCache.from_view(config, cache.view(), capacity=12)
    model(ids[:, :1], cache=branch)
    assert (cache.length, branch.length) == (6, 7)
    torch.testing.assert_close(cache.view().keys, before, atol=0, rtol=0)
    expected = model(torch.cat((ids[:, :6], ids[:, :1], ids[:, 7:]), 1))
    torch.testing.assert_close(model(ids[:, 7:], cache=branch), expected, atol=1e-4, rtol=1e-4)


def test_another_mask_over_queries_and_all_keys():
    model, ids = small_model(), random_ids(1, 8)
    positions = torch.arange(8)
    window = masks.causal(positions, positions) & (positions[:, None] - positions[None] < 3)
    expected = model(ids, mask=window, logits="all")[:, 5:]
    cache = KVCache(model.config, 8)
    model(ids[:, :5], mask=window[:5, :5], cache=cache)
    found = model(ids[:, 5:], mask=window[5:], cache=cache, logits="all")
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


def test_a_pass_that_fails_leaves_it_as_it_was(monkeypatch):
    model, ids = small_model(), random_ids(1, 6)
    cache = KVCache(model.config, 6)
    model(ids[:, :3], cache=cache)
    with monkeypatch.context() as patched:
        patched.setattr(model.blocks[1], "forward", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            model(ids[:, :3], cache=cache)
    assert cache.length == 3
    torch.testing.assert_close(model(ids[:, 3:], cache=cache), model(ids), atol=1e-4, rtol=1e-4)


def test_what_cannot_be_is_refused():
    model = small_model()
    cache = KVCache(model.config, 4)
    with pytest.raises(VizError, match="made for 4 tokens and holds 0: 5 more do not fit"):
        model(random_ids(1, 5), cache=cache)
    with pytest.raises(VizError, match="without padding"):
        model(random_ids(1, 4), cache=cache, padding=torch.zeros(1, 4, dtype=torch.bool))
    with pytest.raises(VizError, match="through all blocks"):
        model.hidden(random_ids(1, 4), cache=cache, n_blocks=1)
    encoder = small_model(layout="encoder-only")
    with pytest.raises(VizError, match="Only causal models"):
        encoder(random_ids(1, 4), cache=KVCache(encoder.config, 4))


def test_its_bytes_are_those_of_the_cache_of_transformers():
    config = small_config(n_kv_heads=4, vocab_size=29)
    theirs = GPT2LMHeadModel(
        GPT2Config(vocab_size=29, n_positions=24, n_embd=24, n_layer=2, n_head=4, attn_implementation="eager")
    ).eval()
    held = theirs(random_ids(1, 11), use_cache=True).past_key_values
    measured = sum(layer.keys.nbytes + layer.values.nbytes for layer in held.layers)
    assert measured == costs.cache_bytes(config, 11)
    np.testing.assert_array_equal(held.layers[1].keys.shape, (1, 4, 11, 6))
