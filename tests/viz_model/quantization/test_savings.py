"""Cache, fused kernel and quantization on one task: bytes and operations against torch's own counts."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from tests.reference.name_maps import loaded, marian_config, marian_weights
from tests.support import two_stack_models as two_stacks
from tests.support.small_models import random_ids, small_model
from tests.support.two_stack_models import START, ids, marian
from viz_model.flash.traffic import tiled_bytes, written_out_bytes
from viz_model.model import Model
from viz_model.model.tokenizer import Tokenizer
from viz_model.quantization import savings
from viz_model.quantization.savings import PLAIN, Way, compare_ways
from viz_model.quantization.twin import NF4, Choice, quantize
from viz_model.shapes import costs
from viz_model.shapes.costs import PassSize
from viz_model.transformer.cache import KVCache
from viz_model.transformer.hooks import capture

IDS, NEW = tuple(random_ids(7, seed=2).tolist()), 4


@pytest.fixture(scope="module")
def rows():
    model = Model("small", small_model())
    quantized = quantize(model, Choice(NF4))
    return model, quantized, {row.way: row for row in compare_ways(model, quantized, IDS, NEW)}


def test_operations_are_those_that_torch_counts(rows):
    model, _, by_way = rows
    total, cached = 0, costs.pass_flops(model.transformer, PassSize(len(IDS), len(IDS)))
    with FlopCounterMode(display=False) as counter:
        for number in range(NEW):
            with capture("*.weights"):
                model.transformer(random_ids(1, len(IDS) + number))
            cached += costs.pass_flops(model.transformer, PassSize(1, len(IDS) + number)) if number else 0
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
    read, expected = list(IDS), 0.0
    for _ in range(NEW):  # both models on the same texts, without any cache
        with torch.inference_mode():
            logits = model.transformer(torch.tensor([read]))[0]
            rounded = quantized.model.transformer(torch.tensor([read]))[0]
        expected = max(expected, (rounded - logits).abs().max().item())
        read.append(int(logits.argmax()))
    assert by_way[Way(quantized=True)].largest_difference == pytest.approx(expected, rel=1e-3)
    assert by_way[Way(True, True, True)].largest_difference == pytest.approx(expected, rel=1e-3)


def test_as_many_tokens_as_the_context_holds(rows):
    model, quantized, _ = rows
    told = []
    full = tuple(random_ids(model.config.context_length - 1).tolist())
    made = compare_ways(model, quantized, full, NEW, lambda *progress: told.append(progress))
    assert {row.passes for row in made} == {2}
    assert told == [(done, 22) for done in range(1, 23)]  # two passes of the plain way, then twice of each of the five


def test_a_model_that_writes_nothing_has_no_cache():
    encoder = Model("small", small_model(layout="encoder-only"))
    quantized = quantize(encoder, Choice(NF4))
    made = compare_ways(encoder, quantized, IDS, NEW)
    assert [row.way for row in made] == [PLAIN, Way(fused=True), Way(quantized=True), Way(False, True, True)]
    with FlopCounterMode(display=False) as counter, capture("*.weights"):
        encoder.transformer(torch.tensor([IDS]), logits="all")
    assert {row.flops for row in made} == {counter.get_total_flops()}
    assert {row.choices for row in made} == {len(IDS)}
    assert made[1].largest_difference < 1e-4 < made[2].largest_difference


SOURCE = tuple(ids(two_stacks.SOURCE))


@pytest.fixture(scope="module")
def pair_rows():
    """Marian's random weights, H = 5 heads of D = 4, an encoder of 2 layers and a decoder of 3."""
    model = Model("marian", loaded(marian_config(marian().config), marian_weights(marian())), Tokenizer.of_bytes())
    quantized = quantize(model, Choice(NF4))
    return model, quantized, {row.way: row for row in compare_ways(model, quantized, SOURCE, NEW)}


@torch.inference_mode()
def test_the_cache_of_two_stacks_is_that_of_transformers(pair_rows):
    """Its bytes, and operations counted by torch in passes that the test makes, with and without it."""
    model, _, by_way = pair_rows
    theirs, source = marian(), torch.tensor([SOURCE])
    read, held, logits = [START], None, []
    encoded = theirs.get_encoder()(source)
    for _ in range(NEW):
        found = theirs(encoder_outputs=encoded, decoder_input_ids=torch.tensor([read[-1:]]), cache=held)
        held = found.cache
        logits.append(found.logits[0, -1])
        read.append(int(logits[-1].argmax()))
    own, cross = (
        sum(layer.keys.nbytes + layer.values.nbytes for layer in cache.layers)
        for cache in (held.self_attention_cache, held.cross_attention_cache)
    )
    assert own == 2 * 3 * 20 * NEW * 4
    assert cross == 2 * 3 * 20 * len(SOURCE) * 4
    for way in (Way(cache=True), Way(True, True, True)):
        assert (by_way[way].cache_bytes, by_way[way].source_cache_bytes) == (own + cross, cross)
    assert by_way[PLAIN].cache_bytes == by_way[Way(fused=True)].source_cache_bytes == 0

    def counted(passes, **cache):
        with FlopCounterMode(display=False) as counter:
            for new in passes:
                with capture("*.weights"):  # written out
                    model.transformer(torch.tensor([new]), source=source, **cache)
        return counter.get_total_flops()

    everything = counted([read[: n + 1] for n in range(NEW)])
    one_at_a_time = counted([[token] for token in read[:NEW]], cache=KVCache(model.config, NEW, source=len(SOURCE)))
    assert by_way[PLAIN].flops == by_way[Way(fused=True)].flops == by_way[Way(quantized=True)].flops == everything
    assert by_way[Way(cache=True)].flops == by_way[Way(True, True, True)].flops == one_at_a_time < everything / 2


def test_what_each_saves_of_two_stacks(pair_rows):
    """Written out: E = 2 encoder layers of S² cells, L = 3 decoder layers of T·K and T·S; once where it is cached."""
    model, quantized, by_way = pair_rows
    length, heads, width = len(SOURCE), 5, 4
    plain, cache, fused = by_way[PLAIN], by_way[Way(cache=True)], by_way[Way(fused=True)]
    encoder = 2 * written_out_bytes(length, length, width)
    again = sum(3 * (written_out_bytes(n, n, width) + written_out_bytes(n, length, width)) for n in range(1, NEW + 1))
    once = sum(3 * (written_out_bytes(1, n, width) + written_out_bytes(1, length, width)) for n in range(1, NEW + 1))
    assert plain.attention_traffic == heads * (NEW * encoder + again)
    assert cache.attention_traffic == heads * (encoder + once)
    assert plain.score_bytes == cache.score_bytes == 2 * heads * length**2 * 4  # the encoder's are the largest
    assert (fused.score_bytes, fused.weight_traffic) == (0, NEW * plain.weight_bytes)
    parameters = dict(model.transformer.named_parameters())
    of_source = [
        parameter.nbytes for name, parameter in parameters.items()
        if name.startswith("encoder.") or ".cross.key" in name or ".cross.value" in name
    ]  # fmt: skip
    assert cache.weight_traffic == NEW * plain.weight_bytes - (NEW - 1) * sum(of_source)
    small = sum(tensor.bytes_before - tensor.bytes_after for name, tensor in quantized.tensors.items()
                if name.startswith("encoder.") or name.endswith(("cross.key", "cross.value")))  # fmt: skip
    every, together = by_way[Way(quantized=True)], by_way[Way(True, True, True)]
    assert together.weight_traffic == NEW * every.weight_bytes - (NEW - 1) * (sum(of_source) - small)
    for way in (Way(cache=True), Way(fused=True)):
        assert by_way[way].largest_difference < 1e-4
        assert by_way[way].same_choices == by_way[way].choices == NEW
    assert every.largest_difference > 1e-3


def test_the_time_of_a_way_is_the_shorter_of_two(rows, monkeypatch):
    model, quantized, _ = rows
    clock = iter([0.0, 5.0, 1.0, 4.0, 2.0, 3.0, *(3.0, 3.0, 1.0, 9.0, 2.5)])  # a warm-up, then twice each of five ways
    run = savings._run
    monkeypatch.setattr(savings, "_run", lambda *given: (*run(*given)[:2], next(clock)))
    assert [row.seconds for row in compare_ways(model, quantized, IDS, NEW)] == [3.0, 1.0, 1.0, 2.0, 2.5]
