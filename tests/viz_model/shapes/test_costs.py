"""Operations by formula against those that torch counts in a real pass, and against published ones."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from tests.support.properties import examples
from tests.support.small_models import configs, make_model, random_ids, small_model
from viz_model.model import Model
from viz_model.shapes import costs
from viz_model.shapes.costs import PassSize
from viz_model.transformer import TransformerConfig
from viz_model.transformer.cache import KVCache
from viz_model.transformer.hooks import capture


def counted(run):
    with FlopCounterMode(display=False) as counter, capture("*.weights"):  # written out: every product is counted
        run()
    return counter.get_total_flops()


@examples(40)
@given(config=configs(), length=st.integers(1, 12))
def test_a_whole_pass_has_the_operations_that_torch_counts(config, length):
    model, ids = make_model(config), random_ids(1, length)
    assert costs.pass_flops(model, PassSize(length, length)) == counted(lambda: model(ids))
    assert costs.pass_flops(model, PassSize(length, length), length) == counted(lambda: model(ids, logits="all"))


@examples(20)
@given(config=configs(layout="decoder-only"), length=st.integers(2, 12))
def test_a_step_with_a_cache_has_the_operations_that_torch_counts(config, length):
    model, ids, cache = make_model(config), random_ids(1, length), KVCache(config, length)
    model(ids[:, :-1], cache=cache)
    assert costs.pass_flops(model, PassSize(1, length)) == counted(lambda: model(ids[:, -1:], cache=cache))


def test_attention_grows_with_the_square_of_the_prompt():
    config = TransformerConfig(n_layers=12, n_heads=12, d_model=768, vocab_size=50257, context_length=1024)
    assert costs.attention_flops(config, 512, 512) == 4 * costs.attention_flops(config, 256, 256)
    # Kaplan et al. 2020, Table 1: 2 N multiplications and additions a token, N = 12 L C² without embeddings
    assert 2 * costs.block_matrices(config) * config.n_layers == pytest.approx(2 * 12 * 12 * 768**2)


def test_bytes_of_the_cache_of_a_known_model():
    # Llama-2-7B in float16 takes 512 KiB a token: 2 · 32 layers · 4096 numbers · 2 bytes
    llama = TransformerConfig(n_layers=32, n_heads=32, d_model=4096, vocab_size=32000, context_length=4096)
    assert costs.cache_bytes(llama, 1, number_bytes=torch.float16.itemsize) == 512 * 1024


@pytest.mark.parametrize("layers", [(1, 2), (3, 1)])
def test_the_steps_of_a_translator_have_the_operations_that_torch_counts(layers):
    """Stacks of unequal height: the source is read once, in step 0, or again and again without a cache."""
    encoder, decoder = layers
    transformer = small_model(layout="encoder-decoder", n_encoder_layers=encoder, n_layers=decoder)
    model, source = Model("pair", transformer), random_ids(1, 7)
    cache = KVCache(transformer.config, 4, source=7)
    for step in model.generate(source[0].tolist(), target=[3], max_new_tokens=3):
        read = torch.tensor([step.ids[:-1]])
        with_cache = counted(lambda new=read[:, -1:]: transformer(new, source=source, cache=cache))
        assert costs.flops_cached(step) == with_cache
        assert costs.flops_uncached(step) == counted(lambda read=read: transformer(read, source=source))
        assert costs.step_cache_bytes(step) == step.cache.nbytes
