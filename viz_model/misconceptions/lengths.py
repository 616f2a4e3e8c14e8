"""Must every input have the same length? Prompts alone, and the same in one padded batch."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from viz_model.errors import PromptError
from viz_model.model import Model
from viz_model.model.prompts import empty_prompt

SIDES = ("right", "left")


@dataclass(frozen=True, eq=False)
class PaddedBatch:
    """Prompts as one batch of the longest one's length T.

    ids (B,T), padding (B,T): True where nothing was typed. difference: the largest |difference| at a real token of
    the end of the residual stream, from the same prompt run alone; size: the largest number that stands there.
    """

    ids: Tensor
    padding: Tensor
    difference: float
    size: float


@torch.inference_mode()
def padded_batch(model: Model, prompts: Sequence[str], side: str = "right") -> PaddedBatch:
    """Run prompts one by one, and together; the padding is masked and takes no position.

    Of an encoder-decoder the prompts are sources, and its decoder reads the start token.
    Raises PromptError where there are fewer than two prompts, or one cannot be read.
    """
    if len(prompts) < 2:
        raise PromptError("A batch needs two prompts. Type a second one.")
    for number, prompt in enumerate(prompts, 1):
        if not prompt:
            raise empty_prompt(f"Prompt {number} of the batch")
    rows = [model.encode(prompt) for prompt in prompts]
    longest = max(map(len, rows))
    ids = torch.full((len(rows), longest), model.end_token or 0)  # any token: nobody reads it
    padding = torch.ones_like(ids, dtype=torch.bool)
    for row, tokens in enumerate(rows):
        place = slice(0, len(tokens)) if side == "right" else slice(longest - len(tokens), longest)
        ids[row, place], padding[row, place] = torch.tensor(tokens), False
    together = _ends(model, ids, padding)
    difference = size = 0.0
    for row, tokens in enumerate(rows):
        alone = _ends(model, torch.tensor([tokens]), None)[0]
        real = together[row] if model.has_source else together[row, ~padding[row]]
        difference = max(difference, (real - alone).abs().max().item())
        size = max(size, alone.abs().max().item())
    return PaddedBatch(ids, padding, difference, size)


def _ends(model: Model, ids: Tensor, padding: Tensor | None) -> Tensor:
    """The end of the residual stream (B,T,C), before the unembedding."""
    if not model.has_source:
        return model.transformer.hidden(ids, padding=padding)
    start = torch.full((len(ids), 1), model.start_token)
    return model.transformer.hidden(start, source=ids, source_padding=padding)
