"""How well a model predicts a text: one number, for any layout."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from viz_model.errors import VizError
from viz_model.model import Model

HIDDEN_EVERY = 7  # of a model that names hidden tokens: about the 15% that BERT was trained on


@dataclass(frozen=True)
class Loss:
    """Mean cross-entropy in nats a token, over how many tokens, and which these are."""

    nats: float
    tokens: int
    words: str


def windows(ids: np.ndarray, length: int, count: int) -> Tensor:
    """`count` stretches of `length` ids, evenly spread over a text (n,): (count,length); fewer where it is short."""
    length, count = min(length, len(ids)), max(1, min(count, len(ids) // max(1, length)))
    starts = np.linspace(0, len(ids) - length, count).astype(int)
    return torch.from_numpy(ids[starts[:, None] + np.arange(length)].astype(np.int64))


@torch.inference_mode()
def loss(model: Model, rows: Tensor, source: Tensor | None = None) -> Loss:
    """The loss on rows of ids (n,T), each read by itself.

    A model with a causal mask predicts every token but the first of a row; source: (S,), what an encoder-decoder reads
    beside it. An encoder-only model names every seventh token, hidden behind its mask token (Devlin et al. 2019,
    "BERT", §3.1; there by chance).

    Raises VizError where the model has no way to be asked, or the rows hold nothing to predict.
    """
    if model.config.layout == "encoder-only":
        return _hidden_token_loss(model, rows)
    if rows.shape[-1] < 2:
        raise VizError("A text of one token has no next token to predict. Type a longer text.")
    given = {} if source is None else {"source": source[None]}
    total = 0.0
    for row in rows:
        hidden = model.transformer.hidden(row[None, :-1], **given)[0]  # (T−1,C)
        total += _summed(model, hidden, row[1:])
    return Loss(total / rows[:, 1:].numel(), rows[:, 1:].numel(), "of the next token")


def _hidden_token_loss(model: Model, rows: Tensor) -> Loss:
    if model.mask_token is None:
        raise VizError(
            f"{model.name} reads in both directions and has no mask token, so it has nothing to predict. Choose "
            "another model."
        )
    hidden_places = torch.arange(min(HIDDEN_EVERY // 2, rows.shape[-1] // 2), rows.shape[-1], HIDDEN_EVERY)
    total = 0.0
    for row in rows:
        shown = row.clone()
        shown[hidden_places] = model.mask_token
        total += _summed(model, model.transformer.hidden(shown[None])[0, hidden_places], row[hidden_places])
    count = len(rows) * len(hidden_places)
    return Loss(total / count, count, "of every seventh token, which is hidden")


def _summed(model: Model, hidden: Tensor, targets: Tensor) -> float:
    """Cross-entropy of (n,C) against ids (n,), in float64."""
    return F.cross_entropy(model.transformer.unembed(hidden).double(), targets, reduction="sum").item()
