"""What a KV cache, a fused kernel and quantization save, alone and together, in one and the same task.

The task: read a prompt of T tokens, then write tokens, each the likeliest of the plain way; every way is given these
same tokens, so that its logits can be compared. Bytes and operations are counted by formula over the passes that are
made; logits (of a model without an unembedding, the vectors at its end) and seconds are measured.
"""

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

from viz_model.cache import KVCache
from viz_model.errors import VizError
from viz_model.hooks import capture
from viz_model.model import Model
from viz_model.quantization import Quantized, block_weights, weight_bytes
from viz_model.traffic import tiled_bytes, written_out_bytes

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

    weight_bytes: of all parameters, as stored. cache_bytes: keys and values at the end, as the buffers say.
    score_bytes: the most that QKᵀ and A of one layer take at a time. weight_traffic, attention_traffic: bytes moved
    between slow and fast memory, by every pass all weights once, and by attention as `traffic` counts them. flops:
    matrix products. largest_difference: of any logit from the plain way; same_choices: how many of the `choices`, the
    likeliest token of every position that was looked at, are those of the plain way.
    """

    way: Way
    passes: int
    weight_bytes: int
    cache_bytes: int
    score_bytes: int
    weight_traffic: int
    attention_traffic: int
    flops: int
    largest_difference: float
    choices: int
    same_choices: int
    seconds: float

    @property
    def memory(self) -> int:
        return self.weight_bytes + self.cache_bytes + self.score_bytes

    @property
    def traffic(self) -> int:
        return self.weight_traffic + self.attention_traffic


def has_logits(model: Model) -> bool:
    """Whether it predicts tokens; some encoders end with a vector for each."""
    return getattr(model.config, "has_unembedding", True)


def ways_for(model: Model) -> tuple[Way, ...]:
    """The ways that this model can go: without tokens to come there is nothing to cache.

    Raises VizError for an encoder-decoder: its two texts would need two tasks.
    """
    layout = model.config.layout
    if layout == "encoder-decoder":
        raise VizError(f"{model.name} reads two texts. This comparison is made on models with one stack: choose one.")
    if layout == "encoder-only":
        return PLAIN, Way(fused=True), Way(quantized=True), Way(fused=True, quantized=True)
    return WAYS


def compare_ways(
    model: Model,
    quantized: Quantized,
    ids: tuple[int, ...],
    new_tokens: int,
    progress: Callable[[float], None] | None = None,
) -> list[Savings]:
    """All ways on one prompt and `new_tokens` more (of an encoder-only model, on the prompt alone), the plain first.

    As many tokens are written as the context holds. progress: called with the share that is done after each pass.
    """
    ways = ways_for(model)
    most = model.config.context_length - len(ids) + 1
    passes = 1 if model.config.layout == "encoder-only" else max(1, min(new_tokens, most))
    done, total = 0, len(ways) * passes

    def passed() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done / total)

    rows, plain = [], None
    for way in ways:
        runner = quantized.model if way.quantized else model
        logits, cache_bytes, seconds = _run(runner, list(ids), passes, way, plain, passed)
        plain = logits if plain is None else plain
        rows.append(_savings(model, quantized, len(ids), way, logits, plain, cache_bytes, seconds))
    return rows


@torch.inference_mode()
def _run(
    model: Model, ids: list[int], passes: int, way: Way, plain: Tensor | None, passed: Callable[[], None]
) -> tuple[Tensor, int, float]:
    """Logits of every pass (passes,V), bytes of the cache at the end, seconds; writes what `plain` finds likeliest."""
    cache = KVCache(model.config, len(ids) + passes - 1) if way.cache else None
    every = "all" if model.config.layout == "encoder-only" else "last"
    found, seconds = [], 0.0
    for number in range(passes):
        new = ids[cache.length :] if cache is not None else ids
        start = time.perf_counter()
        with nullcontext() if way.fused else capture("*.weights"):  # who looks at the weights has them written out
            logits = model.transformer(torch.tensor([new]), cache=cache, logits=every)
        seconds += time.perf_counter() - start
        found.append(logits.flatten(0, -2)[-1] if every == "last" else logits[0])
        chosen = found[-1] if plain is None or every == "all" else plain[number]
        if every == "last":
            ids = [*ids, int(chosen.argmax())]
        passed()
    kept = torch.cat(found) if every == "all" else torch.stack(found)
    return kept, 0 if cache is None else cache.view().nbytes, seconds


def _savings(model, quantized, length, way, logits, plain, cache_bytes, seconds) -> Savings:
    config = model.config
    encoder = config.layout == "encoder-only"
    passes = 1 if encoder else len(logits)
    sizes = [_pass_size(length, number, way.cache) for number in range(passes)]
    stored = weight_bytes(model.transformer)
    if way.quantized:
        stored += quantized.bytes_after - quantized.bytes_before
    count = tiled_bytes if way.fused else written_out_bytes
    fast = {"fast_bytes": FAST_BYTES} if way.fused else {}
    heads = config.n_layers * config.n_heads
    cells = max(queries * keys for queries, keys in sizes)
    return Savings(
        way=way,
        passes=passes,
        weight_bytes=stored,
        cache_bytes=cache_bytes,
        score_bytes=0 if way.fused else HELD_MATRICES * config.n_heads * cells * NUMBER_BYTES,
        weight_traffic=passes * stored,
        attention_traffic=heads * sum(count(queries, keys, config.d_head, **fast) for queries, keys in sizes),
        flops=sum(pass_flops(model, queries, keys, queries if encoder else 1) for queries, keys in sizes),
        largest_difference=(logits - plain).abs().max().item(),
        choices=len(logits),
        same_choices=int((logits.argmax(-1) == plain.argmax(-1)).sum()),
        seconds=seconds,
    )


def _pass_size(length: int, number: int, cache: bool) -> tuple[int, int]:
    """Queries and keys of a pass: the prompt, then one token at a time or everything again."""
    keys = length + number
    return (1 if cache and number else keys), keys


def pass_flops(model: Model, queries: int, keys: int, unembedded: int) -> int:
    """Matrix products of a pass: the linear layers of the blocks, QKᵀ and A·V, and the unembedding.

    As `costs.flops`, but counted on the layers that there are, whatever model it is.
    """
    config = model.config
    attention = 4 * config.n_layers * config.n_heads * config.d_head * queries * keys
    unembedding = 2 * config.d_model * config.vocab_size * unembedded * has_logits(model)
    return 2 * block_weights(model.transformer) * queries + attention + unembedding
