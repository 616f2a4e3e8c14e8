"""Cache, fused kernel and quantization on one task: bytes and operations against torch's own counts."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from tests.viz_model.models import random_ids, small_model
from viz_model import costs
from viz_model.errors import VizError
from viz_model.hooks import capture
from viz_model.model import Model
from viz_model.quantization import NF4, Choice, quantize
from viz_model.savings import PLAIN, Way, compare_ways
from viz_model.traffic import tiled_bytes, written_out_bytes

IDS, NEW = tuple(random_ids(7, seed=2).tolist()), 4


@pytest.fixture(scope="module")
def rows():
    model = Model("small", small_model())
    quantized = quantize(model, Choice(NF4))
    return model, quantized, {row.way: row for row in compare_ways(model, quantized, IDS, NEW)}


def test_operations_are_those_that_torch_counts(rows):
    model, _, by_way = rows
    total, cached = 0, costs.flops(model.config, len(IDS), len(IDS))
    with FlopCounterMode(display=False) as counter:
        for number in range(NEW):
            with capture("*.weights"):
                model.transformer(random_ids(1, len(IDS) + number))
            cached += costs.flops(model.config, 1, len(IDS) + number) if number else 0
    total = counter.get_total_flops()
    assert by_way[PLAIN].flops == by_way[Way(fused=True)].flops == by_way[Way(quantized=True)].flops == total
    assert by_way[Way(cache=True)].flops == by_way[Way(True, True, True)].flops == cached < total


def test_each_changes_what_it_is_said_to_change(rows):
    model, quantized, by_way = rows
    config, plain = model.config, by_way[PLAIN]
    cache, fused, fewer_bits = by_way[Way(cache=True)], by_way[Way(fused=True)], by_way[Way(quantized=True)]
    assert plain.weight_bytes == sum(parameter.nbytes for parameter in model.transformer.parameters())
    assert fewer_bits.weight_bytes == plain.weight_bytes - quantized.bytes_before + quantized.bytes_after
    assert cache.cache_bytes == costs.cache_bytes(config, len(IDS) + NEW - 1)
    assert plain.cache_bytes == fused.cache_bytes == fewer_bits.cache_bytes == 0
    last = len(IDS) + NEW - 1
    assert plain.score_bytes == 2 * config.n_heads * last**2 * 4  # of one layer
    assert cache.score_bytes == 2 * config.n_heads * len(IDS) ** 2 * 4
    assert fused.score_bytes == 0
    heads = config.n_layers * config.n_heads
    assert plain.attention_traffic == heads * sum(written_out_bytes(n, n, config.d_head) for n in range(7, 11))
    assert fused.attention_traffic == heads * sum(tiled_bytes(n, n, config.d_head, 192 * 1024) for n in range(7, 11))
    once = written_out_bytes(7, 7, config.d_head)
    assert cache.attention_traffic == heads * (once + sum(written_out_bytes(1, n, config.d_head) for n in range(8, 11)))
    assert plain.weight_traffic == NEW * plain.weight_bytes
    assert plain.memory == plain.weight_bytes + plain.score_bytes
    assert plain.traffic == plain.weight_traffic + plain.attention_traffic


def test_only_quantization_changes_the_result(rows):
    model, quantized, by_way = rows
    for way in (Way(cache=True), Way(fused=True)):
        assert by_way[way].largest_difference < 1e-4
        assert by_way[way].same_choices == by_way[way].choices == NEW
    ids, expected = list(IDS), 0.0
    for _ in range(NEW):  # both models on the same texts, without any cache
        with torch.inference_mode():
            logits = model.transformer(torch.tensor([ids]))[0]
            rounded = quantized.model.transformer(torch.tensor([ids]))[0]
        expected = max(expected, (rounded - logits).abs().max().item())
        ids.append(int(logits.argmax()))
    assert by_way[Way(quantized=True)].largest_difference == pytest.approx(expected, rel=1e-3)
    assert by_way[Way(True, True, True)].largest_difference == pytest.approx(expected, rel=1e-3)


def test_as_many_tokens_as_the_context_holds(rows):
    model, quantized, _ = rows
    shares = []
    full = tuple(random_ids(model.config.context_length - 1).tolist())
    made = compare_ways(model, quantized, full, NEW, shares.append)
    assert {row.passes for row in made} == {2}
    assert (len(shares), shares[-1]) == (10, 1.0)


def test_a_model_that_writes_nothing_has_no_cache_and_two_texts_no_table():
    encoder = Model("small", small_model(layout="encoder-only"))
    quantized = quantize(encoder, Choice(NF4))
    made = compare_ways(encoder, quantized, IDS, NEW)
    assert [row.way for row in made] == [PLAIN, Way(fused=True), Way(quantized=True), Way(False, True, True)]
    with FlopCounterMode(display=False) as counter, capture("*.weights"):
        encoder.transformer(torch.tensor([IDS]), logits="all")
    assert {row.flops for row in made} == {counter.get_total_flops()}
    assert {row.choices for row in made} == {len(IDS)}
    assert made[1].largest_difference < 1e-4 < made[2].largest_difference
    pair = Model("pair", small_model(layout="encoder-decoder"))
    with pytest.raises(VizError, match="two texts"):
        compare_ways(pair, quantize(pair, Choice(NF4)), IDS, NEW)
