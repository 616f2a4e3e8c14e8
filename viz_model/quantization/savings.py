"""What a KV cache, a fused kernel and quantization save, alone and together, in one and the same task.

The task: read a prompt of T tokens, then write tokens, each the likeliest of the plain way; every way is given these
same tokens, so that its logits can be compared. An encoder-decoder reads the prompt as its source and writes after its
start token; a cache keeps keys and values of both texts, those of the source from the first pass on. Bytes and
operations are counted by formula over the passes that are made; logits (of a model without an unembedding, the vectors
at its end) and seconds are measured.
"""

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

from viz_model.flash.traffic import tiled_bytes, written_out_bytes
from viz_model.jobs import Tell, untold
from viz_model.model import Model
from viz_model.quantization.twin import Quantized, source_weight_bytes, weight_bytes
from viz_model.shapes.costs import PassSize, pass_flops
from viz_model.transformer.cache import KVCache
from viz_model.transformer.hooks import capture

FAST_BYTES = 192 * 1024  # of each of an A100's processors: Dao et al. 2022, §2.1
NUMBER_BYTES = 4
HELD_MATRICES = 2  # QKᵀ and A of every head of one layer, as Algorithm 0 of Dao et al. 2022 writes them


@dataclass(frozen=True)
class Way:
    """One way to do the task."""

    cache: bool = False
    fused: bool = False
    quantized: bool = False


PLAIN = Way()
WAYS = (PLAIN, Way(cache=True), Way(fused=True), Way(quantized=True), Way(True, True, True))


@dataclass(frozen=True)
class Savings:
    """What one way took.

    weight_bytes: of all parameters, as stored. cache_bytes: keys and values at the end, as the buffers say;
    source_cache_bytes: those of them that belong to the source of an encoder-decoder, and do not grow. score_bytes:
    the most that QKᵀ and A of one layer take at a time. weight_traffic, attention_traffic: bytes moved between slow and
    fast memory, by every pass all weights that it uses once, and by attention as `traffic` counts them. flops: matrix
    products. largest_difference: of any logit from the plain way; same_choices: how many of the `choices`, the
    likeliest token of every position that was looked at, are those of the plain way.
    """

    way: Way
    passes: int
    weight_bytes: int
    cache_bytes: int
    source_cache_bytes: int
    score_bytes: int
    weight_traffic: int
    attention_traffic: int
    flops: int
    largest_difference: float
    choices: int
    same_choices: int
    seconds: float

    @property
    def target_cache_bytes(self) -> int:
        """Those that grow with every token."""
        return self.cache_bytes - self.source_cache_bytes

    @property
    def memory(self) -> int:
        return self.weight_bytes + self.cache_bytes + self.score_bytes

    @property
    def traffic(self) -> int:
        return self.weight_traffic + self.attention_traffic


def ways_for(model: Model) -> tuple[Way, ...]:
    """The ways that this model can go: without tokens to come there is nothing to cache."""
    if model.config.layout == "encoder-only":
        return PLAIN, Way(fused=True), Way(quantized=True), Way(fused=True, quantized=True)
    return WAYS


def compare_ways(
    model: Model,
    quantized: Quantized,
    ids: tuple[int, ...],
    new_tokens: int,
    tell: Tell = untold,
) -> list[Savings]:
    """All ways on one prompt and `new_tokens` more (of an encoder-only model, on the prompt alone), the plain first.

    As many tokens are written as the context holds. Every way is gone twice; its time is the shorter one.
    tell: told after each pass how many are made, of how many.
    """
    ways = ways_for(model)
    read, source = ([model.start_token], list(ids)) if model.has_source else (list(ids), [])
    most = model.config.context_length - len(read) + 1
    passes = 1 if model.config.layout == "encoder-only" else max(1, min(new_tokens, most))
    done, total = 0, (1 + 2 * len(ways)) * passes

    def passed() -> None:
        nonlocal done
        done += 1
        tell(done, total)

    def run(way: Way, plain: Tensor | None) -> tuple[Tensor, KVCache | None, float]:
        return _run(quantized.model if way.quantized else model, read, source, passes, way, plain, passed)

    # The first round warms up; what else runs on the processor for a while disturbs one round of a way, not both.
    plain = run(PLAIN, None)[0]
    first = [run(way, plain)[2] for way in ways]
    rows = []
    for way, before in zip(ways, first, strict=True):
        logits, cache, seconds = run(way, plain)
        made = [_pass(len(read), len(source), number, way.cache) for number in range(passes)]
        rows.append(_savings(model, quantized, way, made, logits, plain, cache, min(before, seconds)))
    return rows


def _pass(read: int, source: int, number: int, cache: bool) -> PassSize:
    """The pass of this number: what is given, then one token at a time or everything again."""
    keys, later = read + number, cache and number > 0
    return PassSize(1 if later else keys, keys, source, encodes=source > 0 and not later)


@torch.inference_mode()
def _run(
    model: Model,
    ids: list[int],
    source: list[int],
    passes: int,
    way: Way,
    plain: Tensor | None,
    passed: Callable[[], None],
) -> tuple[Tensor, KVCache | None, float]:
    """Logits of every pass (passes,V), the cache at the end, seconds; writes what `plain` finds likeliest."""
    cache = KVCache(model.config, len(ids) + passes - 1, source=len(source)) if way.cache else None
    every = "all" if model.config.layout == "encoder-only" else "last"
    given = {"source": torch.tensor([source])} if source else {}
    found, seconds = [], 0.0
    for number in range(passes):
        new = ids[cache.length :] if cache is not None else ids
        start = time.perf_counter()
        with nullcontext() if way.fused else capture("*.weights"):  # who looks at the weights has them written out
            logits = model.transformer(torch.tensor([new]), cache=cache, logits=every, **given)
        seconds += time.perf_counter() - start
        found.append(logits.flatten(0, -2)[-1] if every == "last" else logits[0])
        chosen = found[-1] if plain is None or every == "all" else plain[number]
        if every == "last":
            ids = [*ids, int(chosen.argmax())]
        passed()
    kept = torch.cat(found) if every == "all" else torch.stack(found)
    return kept, cache, seconds


def _savings(model, quantized, way, made: list[PassSize], logits, plain, cache: KVCache | None, seconds) -> Savings:
    config, held = model.config, None if cache is None else cache.view()
    reads_all = config.layout == "encoder-only"  # and so says something of every position
    attentions = [attention for one in made for attention in one.attentions(config)]
    stored, of_source = weight_bytes(model.transformer), source_weight_bytes(model.transformer)
    if way.quantized:
        stored += quantized.bytes_after - quantized.bytes_before
        of_source += sum(t.bytes_after - t.bytes_before for t in quantized.stored if t.place.reads_source)
    count = tiled_bytes if way.fused else written_out_bytes
    fast = {"fast_bytes": FAST_BYTES} if way.fused else {}
    cells = max(queries * keys for _, queries, keys in attentions)
    return Savings(
        way=way,
        passes=len(made),
        weight_bytes=stored,
        cache_bytes=0 if held is None else held.nbytes,
        source_cache_bytes=0 if held is None else held.source_nbytes,
        score_bytes=0 if way.fused else HELD_MATRICES * config.n_heads * cells * NUMBER_BYTES,
        weight_traffic=sum(stored if one.encodes or not one.source else stored - of_source for one in made),
        attention_traffic=config.n_heads
        * sum(layers * count(queries, keys, config.d_head, **fast) for layers, queries, keys in attentions),
        flops=sum(pass_flops(model.transformer, one, one.queries if reads_all else 1) for one in made),
        largest_difference=(logits - plain).abs().max().item(),
        choices=len(logits),
        same_choices=int((logits.argmax(-1) == plain.argmax(-1)).sum()),
        seconds=seconds,
    )
