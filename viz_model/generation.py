"""Sampling: logits -> scaled -> cut -> renormalised, one Step a token.

Top-k: Fan et al. 2018; top-p (nucleus): Holtzman et al. 2020, §3.1.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from viz_model.errors import PromptError, VizError

if TYPE_CHECKING:
    from viz_model.model import Model


@dataclass(frozen=True)
class Step:
    """One decoded token: its id and bytes, and the probability it was drawn with."""

    token_id: int
    token: bytes
    probability: float


def next_token_probabilities(
    logits: Tensor, temperature: float = 1.0, top_k: int | None = None, top_p: float = 1.0
) -> Tensor:
    """Logits (V,) -> probabilities (V,), zero for what was cut; temperature 0 is greedy.

    Cuts to the `top_k` likeliest, then to the smallest set of likeliest tokens that holds `top_p`; of equal
    ones the smaller id counts as likelier. Raises VizError for a choice that makes no sense.
    """
    _refuse_odd_choices(temperature, top_k, top_p)
    if temperature == 0:
        return torch.nn.functional.one_hot(logits.argmax(), len(logits)).to(logits.dtype)
    # The maximum cancels; without it, and in float32, a temperature near 0 makes infinity of every logit.
    scaled = (logits.double() - logits.max()) / temperature
    ordered, order = scaled.sort(descending=True, stable=True)
    probabilities = ordered[:top_k].softmax(-1)
    if top_p < 1:
        before = probabilities.cumsum(-1) - probabilities
        probabilities = probabilities.masked_fill(before >= top_p, 0.0)
    full = torch.zeros_like(logits)
    full[order[:top_k]] = (probabilities / probabilities.sum()).to(full.dtype)
    return full


def _refuse_odd_choices(temperature: float, top_k: int | None, top_p: float) -> None:
    if not temperature >= 0:
        raise VizError(f"The temperature is {temperature}; choose 0 (greedy) or more.")
    if not 0 < top_p <= 1:
        raise VizError(f"Top-p is {top_p}; choose more than 0 and at most 1.")
    if top_k is not None and top_k < 1:
        raise VizError(f"Top-k is {top_k}; choose at least 1.")


def generate(
    model: "Model",
    prompt: str | Sequence[int],
    max_new_tokens: int = 20,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float = 1.0,
    seed: int = 0,
) -> Iterator[Step]:
    """Continue the prompt, a Step a token, until the end-of-text token or `max_new_tokens`.

    Raises before the first step: PromptError when prompt and new tokens do not fit the context together, and
    for a model that is not decoder-only; VizError for a choice that makes no sense.
    """
    _refuse_odd_choices(temperature, top_k, top_p)
    if model.config.layout != "decoder-only":
        raise PromptError(f"{model.name} reads in both directions, so it has no next token to draw.")
    ids = model.encode(prompt)
    if len(ids) + max_new_tokens > model.config.context_length:
        raise PromptError(
            f"{len(ids):,} tokens and {max_new_tokens:,} new ones are more than the "
            f"{model.config.context_length:,} that {model.name} can hold. Shorten the prompt or "
            "ask for fewer."
        )
    return _steps(model, ids, max_new_tokens, (temperature, top_k, top_p), seed)


def _steps(model, ids: list[int], max_new_tokens: int, choices: tuple, seed: int) -> Iterator[Step]:
    random = torch.Generator().manual_seed(seed)
    for _ in range(max_new_tokens):
        with torch.inference_mode():
            logits = model.transformer(torch.tensor([ids]))[0]  # (V,)
            probabilities = next_token_probabilities(logits, *choices)
            token = int(torch.multinomial(probabilities, 1, generator=random))
        if model.tokenizer is not None and token == model.tokenizer.end_of_text:
            return
        ids = [*ids, token]
        yield Step(token, model.token_bytes([token])[0], float(probabilities[token]))
