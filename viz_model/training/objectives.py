"""The loss of one batch for each objective of a recipe; mean over the targets that count, in nats."""

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from viz_model.hooks import edit
from viz_model.training.data import IGNORED, Batch, joined, repeated_batch, text_batch
from viz_model.training.recipe import Stage
from viz_model.transformer import Transformer


def stage_loss(model: Transformer, stage: Stage, stream: np.ndarray, random: np.random.Generator) -> Tensor:
    """The loss of a fresh batch of this stage; `stream` holds the training text as ids (N,)."""
    ordinary = model.config.vocab_size - 1  # without the control token
    if stage.objective == "echo":
        ids = random.integers(0, ordinary, (stage.rows, stage.length))
        return echo_loss(model, torch.from_numpy(ids), stage.heads)
    if stage.objective == "copy":
        return next_token_loss(model, repeated_batch(ordinary, stage.rows, stage.length, random))
    batch = text_batch(stream, stage.rows, stage.length, random)
    if stage.copy_rows:
        batch = joined(batch, repeated_batch(ordinary, stage.copy_rows, stage.length, random))
    return next_token_loss(model, batch)


def next_token_loss(model: Transformer, batch: Batch) -> Tensor:
    """Cross-entropy of the next token over all targets but the ignored."""
    ids, targets = torch.from_numpy(batch.ids), torch.from_numpy(batch.targets)
    counted = targets != IGNORED
    hidden = model.hidden(ids)[counted]  # (B,T,C) -> (N,C): logits are dear, so only where they count
    return F.cross_entropy(model.unembed(hidden), targets[counted])


def echo_loss(model: Transformer, ids: Tensor, heads: int) -> Tensor:
    """Cross-entropy of the token before the last one, said by the first block through its first heads."""
    kept = (torch.arange(model.config.n_heads) < heads).float()[:, None, None]
    with edit({"blocks.0.attn.mixed": lambda mixed: mixed * kept}):
        hidden = model.hidden(ids, n_blocks=1)
    logits = model.unembed(hidden[:, 1:])
    return F.cross_entropy(logits.flatten(0, 1), ids[:, :-1].flatten())
