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

    Cuts to the `top_k` likeliest, then to the smallest set of likeliest tokens that holds `top_p`.
    """
    if temperature < 0 or not 0 < top_p <= 1 or (top_k is not None and top_k < 1):
        raise VizError("Choose a temperature of at least 0, top-p above 0 and up to 1, and top-k of at least 1.")
    if temperature == 0:
        return torch.nn.functional.one_hot(logits.argmax(), len(logits)).to(logits.dtype)
    ordered, order = (logits / temperature).sort(descending=True, stable=True)
    probabilities = ordered[:top_k].softmax(-1)
    before = probabilities.cumsum(-1) - probabilities
    probabilities = probabilities.masked_fill(before >= top_p, 0.0)
    full = torch.zeros_like(logits)
    full[order[:top_k]] = probabilities / probabilities.sum()
    return full


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

    Raises PromptError before the first step when prompt and new tokens do not fit the context together,
    and for a model that is not decoder-only.
    """
    if model.config.layout != "decoder-only":
        raise PromptError(f"{model.name} reads in both directions, so it has no next token to draw.")
    ids = model.encode(prompt)
    if len(ids) + max_new_tokens > model.config.context_length:
        raise PromptError(
            f"{len(ids)} tokens and {max_new_tokens} new ones are more than the {model.config.context_length} "
            f"that {model.name} can hold. Shorten the prompt, or ask for fewer."
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
