"""A word left out: what a model that reads both sides says stood there, beside one that reads the left side only.

Masked tokens: Devlin et al. 2019, "BERT", §3.1. A blank is a token replaced by the model's mask token.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from viz_model.errors import PromptError
from viz_model.heads.comparison import with_token
from viz_model.model import Model

ROWS = 8  # blanks of one pass


@dataclass(frozen=True, eq=False)
class Guesses:
    """Two distributions over one vocabulary: the likeliest tokens of either, and what both say of the right one.

    ids: by the larger of the two probabilities; first, second: the probabilities of these. place: of the right token
    in each order, counted from 1.
    """

    ids: list[int]
    first: Tensor
    second: Tensor
    right: int
    probability: tuple[float, float]
    place: tuple[int, int]


def compare_guesses(first: Tensor, second: Tensor, right: int, count: int = 6) -> Guesses:
    """Logits (V,) of both, where one may have a few tokens more at its end, for which the other has probability 0."""
    both = torch.zeros(2, max(len(first), len(second)), dtype=torch.float64)
    for row, logits in zip(both, (first, second), strict=True):
        row[: len(logits)] = logits.double().softmax(-1)
    likeliest = {int(token) for row in both for token in row.topk(min(count, len(row))).indices}
    ids = sorted(likeliest | {right}, key=lambda token: (-both[:, token].max().item(), token))
    return Guesses(
        ids=ids,
        first=both[0, ids],
        second=both[1, ids],
        right=right,
        probability=tuple(both[:, right].tolist()),
        place=tuple(int((row > row[right]).sum()) + 1 for row in both),
    )


def with_blank(model: Model, ids: Sequence[int], position: int) -> tuple[int, ...]:
    """The ids with the mask token at `position`. Raises PromptError for a model without one."""
    if model.mask_token is None:
        raise PromptError(f"{model.name} has no mask token, so no word can be left out. Choose a masked-token model.")
    return with_token(tuple(ids), position, model.mask_token)


@torch.inference_mode()
def blank_bits(model: Model, ids: Sequence[int], positions: Sequence[int]) -> Iterator[list[float]]:
    """−log₂ of the probability of the token at each of these positions, blanked one at a time.

    Gives a few numbers at a time, so that a long text can be stopped and its progress shown.
    """
    for first in range(0, len(positions), ROWS):
        places = list(positions[first : first + ROWS])
        rows = torch.tensor([with_blank(model, ids, place) for place in places])  # (B,T)
        hidden = model.transformer.hidden(rows)[torch.arange(len(places)), places]  # (B,C)
        shares = model.transformer.unembed(hidden).double().softmax(-1)
        right = shares[torch.arange(len(places)), [ids[place] for place in places]]
        yield (-right.log2()).tolist()
