"""Generation: the prompt in one pass, then one token a pass, each a Step that can be looked at.

With a cache a step reads one token; without one it reads everything again.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from viz_model.arguments import real_number, switch, text, whole_number
from viz_model.errors import PromptError, VizError
from viz_model.model.overflow import refuse_overflow
from viz_model.model.prompts import Prompt, PromptReader, Tokens
from viz_model.model.sampling import Sampled, Sampling
from viz_model.transformer.attention import attention_weights, raw_scores
from viz_model.transformer.cache import CacheView, KVCache
from viz_model.transformer.changes import changed
from viz_model.transformer.hooks import capture
from viz_model.transformer.host import Host

ROUNDING = 1e-3  # of the largest logit: far above what rounding makes of it, far below what another equation does


@dataclass(frozen=True)
class Candidate:
    """A token that might be next: its logit, its probability before the cut, whether it stayed, and after it.

    allowed: whether the model's files let it be written here.
    """

    token_id: int
    token: bytes
    logit: float
    full_probability: float
    kept: bool
    probability: float
    allowed: bool


@dataclass(frozen=True, eq=False)
class Step:
    """One pass and the token that it chose. Step 0 is the prefill: it reads the whole prompt.

    number, ids (all, with the chosen one at the end), token_id and token (its bytes); forced: whether the reader
    took it instead of what was drawn; fixed: whether the model always writes it there; sampled: every stage of the
    drawing. source: what the encoder read, if there is one; then ids are the decoder's. pieces, source_pieces: what
    each of the ids stands for, of a text that was typed the part of it.
    seconds: of the pass. seconds_uncached, largest_difference: of a second pass that reads everything again, and
    of the logits of both; None unless compared.
    cache: keys and values of the S tokens that were read so far, and those of the source; None without a cache.
    found: q (H,queries,D), mask, bias and sinks of every attention in this pass, by their hook sites.
    """

    number: int
    ids: tuple[int, ...]
    source: tuple[int, ...]
    pieces: tuple[bytes, ...]
    source_pieces: tuple[bytes, ...]
    forced: bool
    fixed: bool
    sampled: Sampled
    queries: int
    seconds: float
    seconds_uncached: float | None
    largest_difference: float | None
    cache: CacheView | None = field(repr=False)
    model: PromptReader = field(repr=False)
    found: Mapping[str, Tensor] = field(repr=False)

    @property
    def token_id(self) -> int:
        return self.ids[-1]

    @property
    def token(self) -> bytes:
        return self.pieces[-1]

    @property
    def read(self) -> int:
        """S, the tokens that had been read when this one was chosen."""
        return len(self.ids) - 1

    @property
    def probability(self) -> float:
        """The probability that it was drawn with; 0 for a forced token that was cut."""
        return float(self.sampled.probabilities[self.token_id])

    @property
    def differs(self) -> bool:
        """Whether the logits with and without the cache differ by more than rounding; False unless compared."""
        largest = float(self.sampled.logits.abs().max())
        return self.largest_difference is not None and self.largest_difference > ROUNDING * max(1.0, largest)

    @property
    def is_end(self) -> bool:
        """Whether the model says here that the text is at its end."""
        return self.token_id in self.model.end_tokens

    def top(self, count: int = 10) -> list[Candidate]:
        """The likeliest tokens, and the chosen one where it is not among them."""
        ids = self.sampled.order[: whole_number("The number of tokens", count, 0)].tolist()
        ids += [] if self.token_id in ids else [self.token_id]
        sampled, texts = self.sampled, self.model.token_bytes(ids)
        return [
            Candidate(
                token,
                text,
                float(sampled.logits[token]),
                float(sampled.full_probabilities[token]),
                bool(sampled.kept[token]),
                float(sampled.probabilities[token]),
                bool(sampled.allowed[token]),
            )
            for token, text in zip(ids, texts, strict=True)
        ]

    @torch.inference_mode()
    def scores(self, layer: int, head: int, part: str | None = None) -> Tensor:
        """QKᵀ/√D of the tokens that this pass read, over all S: (queries, S). Derived from query and cache.

        part: "cross" for the source's S; None is self-attention, of the decoder where there are two stacks.
        Raises VizError for a layer or a head that is not there, and for a step without a cache.
        """
        if self.cache is None:
            raise VizError("This step was made without a cache, so there are no keys to look at.")
        config, attention, head = self.model.config, self._attention(layer, part), self._head(head)
        key = self.cache.key(layer, "self" if part is None else part)[config.kv_head(head)]
        scale = self.model.transformer.equation(attention).scale
        return raw_scores(self.found[f"{attention}.q"][head][None], key[None])[0] * scale

    @torch.inference_mode()
    def weights(self, layer: int, head: int, part: str | None = None) -> Tensor:
        """Softmax of the permitted scores: (queries, S). Errors as `scores`."""
        scores, attention, head = self.scores(layer, head, part), self._attention(layer, part), self._head(head)
        whole = (1, self.model.config.n_heads, *scores.shape)
        mask = self.found[f"{attention}.mask"].expand(whole)[0, head]
        bias, sinks = (self.found.get(f"{attention}.{name}") for name in ("bias", "sinks"))
        weights = attention_weights(
            scores,
            mask,
            None if bias is None else bias.expand(whole)[0, head],
            softcap=self.model.transformer.equation(attention).softcap,
            sinks=None if sinks is None else sinks[head],
        )
        changes, start = self.model.transformer.changes, self.read - self.queries
        return changed(changes, f"{attention}.weights", weights, head, start)

    def _attention(self, layer: int, part: str | None) -> str:
        config = self.model.config
        own = "cross" if part is not None and text("The part", part) == "cross" else config.self_part
        if own not in config.parts:
            raise VizError("This model reads one text only, so it has no cross-attention.")
        return config.attention_name(own, whole_number("The layer", layer, 0, config.n_layers - 1))

    def _head(self, head: int) -> int:
        return whole_number("The head", head, 0, self.model.config.n_heads - 1)


def generate(
    model: PromptReader,
    prompt: Prompt,
    max_new_tokens: int = 20,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float = 1.0,
    seed: int = 0,
    *,
    target: Prompt | None = None,
    cache: bool = True,
    compare: bool = False,
    forced: Mapping[int, int] | None = None,
    kept: Sequence[Step] = (),
) -> Iterator[Step]:
    """Continue the prompt, a Step a token, to `max_new_tokens` of them or the end-of-text token.

    An encoder-decoder reads the prompt as its source, once, and begins after the start token, or continues `target`.
    cache: whether what was read stays, so that a step reads one token; where a model turns longer texts by other
    angles (`Host.angles_switch_at`), the first longer step reads everything again. compare: also make every pass
    without a cache, and measure both. forced: ids that are taken at steps of these numbers, instead of what was drawn;
    where there is none, a step takes what the model always writes there, and nothing that it never writes there
    (`PromptReader.writing_rules`).
    kept: the first steps of an earlier run on the same prompt, to go on after them; they are not yielded again.

    Raises, before the first step, PromptError for a prompt that cannot be read and for an encoder-only model,
    VizError for a choice that makes no sense; and PromptError in place of the step that would read
    more than the context holds, when the steps before it have been given.
    """
    max_new_tokens = whole_number("The number of new tokens", max_new_tokens, least=0)
    cache, compare = switch("cache", cache), switch("compare", compare)
    sampling = Sampling(
        real_number("The temperature", temperature),
        None if top_k is None else whole_number("Top-k", top_k),
        real_number("Top-p", top_p),
        whole_number("The seed", seed),
    )
    if model.config.layout == "encoder-only":
        raise PromptError(
            f"{model.name} reads in both directions, so it has no next token to write: when it predicts a "
            "token, it also sees the tokens after it. Choose a model with a decoder."
        )
    ids, source, pieces, source_pieces = model.encode(prompt), [], model.pieces(prompt), []
    if model.has_source:
        ids, source = [model.start_token] if target is None else model.encode_target(target), ids
        pieces, source_pieces = model.target_pieces(target, ids), pieces
    if forced is not None and not isinstance(forced, Mapping):
        raise VizError("Forced tokens are ids by the numbers of their steps, such as {0: 5}.")
    if not isinstance(kept, Sequence) or not all(isinstance(step, Step) for step in kept):
        raise VizError("Kept steps are a list of the steps that an earlier run gave.")
    for token in (forced or {}).values():
        model.encode([token])  # refuses what is no token
    if kept and (list(kept[0].ids[: kept[0].read]) != ids or list(kept[0].source) != source):
        raise VizError("These steps belong to another prompt, so they cannot be continued. Start again.")
    if kept and cache and kept[-1].cache is None:
        raise VizError("These steps were made without a cache, so they cannot be continued. Start again.")
    if model.edits:
        model = model.settled(source, ids) if model.has_source else model.settled(ids)
    read, source = Tokens(tuple(ids), tuple(pieces)), Tokens(tuple(source), tuple(source_pieces))
    return _steps(model, read, source, max_new_tokens, sampling, cache, compare, dict(forced or {}), kept)


def _steps(
    model, read: Tokens, source: Tokens, max_new_tokens, sampling, cached, compare, forced, kept
) -> Iterator[Step]:
    prompt_length = len(read)
    capacity = min(prompt_length + max_new_tokens, model.config.context_length)
    cache = None
    if cached:
        cache = KVCache(model.config, capacity, source=len(source))
        if kept:
            cache = KVCache.from_view(model.config, kept[-1].cache, max(capacity, kept[-1].cache.length))
    if kept:
        read = Tokens(kept[-1].ids, kept[-1].pieces)
    if kept and kept[-1].is_end:
        return
    rules = model.writing_rules
    for number in range(len(kept), max_new_tokens):
        _refuse_full_context(model, read.ids, number, max_new_tokens)
        if cache is not None and _is_of_other_angles(model.transformer, cache, len(read)):
            cache = KVCache(model.config, capacity, source=len(source))  # and so all is read again
        forbidden = rules.forbidden(read.ids, prompt_length, model.end_tokens)
        taken, fixed = forced.get(number), rules.fixed(read.ids)
        step = _step(model, read, source, number, sampling, cache, compare, taken, fixed, forbidden)
        yield step
        if step.is_end:
            return
        read = Tokens(step.ids, step.pieces)


def _is_of_other_angles(host: Host, cache: KVCache, length: int) -> bool:
    """Whether the keys that are held were turned by other angles than a text of this length is (Phi-3's longrope)."""
    return host.angles_switch_at is not None and 0 < cache.length <= host.angles_switch_at < length


def _step(
    model, read: Tokens, source: Tokens, number, sampling, cache: KVCache | None, compare: bool, taken, fixed, forbidden
) -> Step:
    new = read.ids if cache is None else read.ids[cache.length :]
    given = {"source": torch.tensor([source.ids])} if source else {}
    with torch.inference_mode(), capture("*.q", "*.mask", optional=("*.bias", "*.sinks")) as found:
        start = time.perf_counter()
        logits = model.transformer(torch.tensor([new]), cache=cache, **given)[0]  # (V,)
        seconds = time.perf_counter() - start
    refuse_overflow(model.name, {**found, "logits": logits}, bool(model.edits))
    seconds_uncached = largest_difference = None
    if compare:
        with torch.inference_mode():
            start = time.perf_counter()
            uncached = model.transformer(torch.tensor([read.ids]), **given)[0]
            seconds_uncached = time.perf_counter() - start
        largest_difference = float((logits - uncached).abs().max())
    sampled = Sampled(logits, sampling, sampling.draw(number), forbidden)
    fixed = fixed if taken is None else None
    token = next(one for one in (taken, fixed, sampled.token_id) if one is not None)
    return Step(
        number=number,
        ids=(*read.ids, token),
        source=source.ids,
        pieces=(*read.pieces, *model.token_bytes([token])),
        source_pieces=source.pieces,
        forced=taken is not None,
        fixed=fixed is not None,
        sampled=sampled,
        queries=len(new),
        seconds=seconds,
        seconds_uncached=seconds_uncached,
        largest_difference=largest_difference,
        cache=None if cache is None else cache.view(),
        model=model,
        found={name: tensor[0] if name.endswith(".q") else tensor for name, tensor in found.items()},
    )


def _refuse_full_context(model, ids: list[int], made: int, wanted: int) -> None:
    longest = model.config.context_length
    if len(ids) > longest:
        raise PromptError(
            f"The context is full: {model.name} reads at most {longest:,} tokens, so it stops after {made:,} of the "
            f"{wanted:,} new ones. Shorten the prompt to go on."
        )
