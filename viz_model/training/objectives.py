"""The loss of one batch for each objective of a recipe; mean over the targets that count, in nats."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from viz_model.training.data import (
    IGNORED,
    LETTERS,
    Batch,
    joined,
    masked_batch,
    passage_batch,
    recurring_batch,
    repeated_batch,
    text_batch,
)
from viz_model.training.dates import Pairs, date_batch
from viz_model.training.recipes import Stage
from viz_model.transformer import Transformer
from viz_model.transformer.hooks import edit

ECHO_ROWS, ECHO_LENGTH = 2, 64  # of the reminder that goes with every induction batch
TINY = 1e-9  # keeps log(0) finite


def stage_loss(model: Transformer, stage: Stage, stream: np.ndarray, random: np.random.Generator) -> Tensor:
    """The loss of a fresh batch of this stage; `stream` holds the training text as ids (N,)."""
    ordinary = model.config.vocab_size - 1  # without the control token
    if stage.objective == "echo":
        return echo_loss(model, random.integers(0, ordinary, (stage.rows, stage.length)), stage.echo_heads)
    if stage.objective == "induction":
        reminder = random.integers(0, ordinary, (ECHO_ROWS, ECHO_LENGTH))
        batch = repeated_batch(ordinary, stage.rows, stage.length, random)
        return induction_loss(model, batch, stage.heads) + echo_loss(model, reminder, stage.echo_heads)
    if stage.objective == "target":
        return target_loss(model, date_batch(stage.rows, ordinary, random))
    if stage.objective == "recurring":
        return next_token_loss(model, recurring_batch(LETTERS, stage.rows, stage.length, random))
    if stage.objective == "copy":
        return next_token_loss(model, repeated_batch(ordinary, stage.rows, stage.length, random))
    if stage.objective == "masked":
        share, shortest = stage.masked_share, stage.shortest
        batch = masked_batch(
            stream, stage.rows, stage.length, ordinary, random, share, shortest
        )  # last token: the mask
    else:
        batch = text_batch(stream, stage.rows, stage.length, random)
    if stage.passage_rows:
        batch = joined(batch, passage_batch(stream, stage.passage_rows, stage.length, random))
    if stage.copy_rows:
        batch = joined(batch, repeated_batch(ordinary, stage.copy_rows, stage.length, random))
    with dropped_out(stage.dropout, seed=int(random.integers(2**31))):
        loss = next_token_loss(model, batch)
    if stage.echo_share:
        drawn = random.integers(0, ordinary, (ECHO_ROWS, ECHO_LENGTH))
        reminder = np.concatenate((drawn, text_batch(stream, ECHO_ROWS, ECHO_LENGTH, random).ids))
        loss = loss + stage.echo_share * echo_loss(model, reminder, stage.echo_heads)
    return loss


@contextmanager
def dropped_out(share: float, seed: int) -> Iterator[None]:
    """Dropout (Srivastava et al. 2014) of what each half of a block writes to the residual stream.

    That share of its numbers is set to zero and the rest divided by 1 - share, so that the mean stays.
    """
    if not share:
        yield
        return
    generator = torch.Generator().manual_seed(seed)

    def drop(written: Tensor) -> Tensor:
        kept = torch.empty_like(written).bernoulli_(1 - share, generator=generator)
        return written * (kept / (1 - share))

    with edit({"blocks.*.attn.out": drop, "blocks.*.ffn.out": drop}):
        yield


def next_token_loss(model: Transformer, batch: Batch) -> Tensor:
    """Cross-entropy of the targets that count: the next tokens, or those that were masked."""
    ids, targets = torch.from_numpy(batch.ids), torch.from_numpy(batch.targets)
    counted = targets != IGNORED
    hidden = model.hidden(ids)[counted]  # (B,T,C) -> (N,C): logits are dear, so only where they count
    return F.cross_entropy(model.unembed(hidden), targets[counted])


def target_loss(model: Transformer, pairs: Pairs) -> Tensor:
    """Cross-entropy of each token of the translation, given the source and the right tokens before it.

    Teacher forcing: Williams and Zipser 1989.
    """
    ids, targets = torch.from_numpy(pairs.ids), torch.from_numpy(pairs.targets)
    source, padding = torch.from_numpy(pairs.source), torch.from_numpy(pairs.padding)
    counted = targets != IGNORED
    hidden = model.hidden(ids, source=source, source_padding=padding)[counted]  # (B,T,C) -> (N,C)
    return F.cross_entropy(model.unembed(hidden), targets[counted])


def echo_loss(model: Transformer, ids: np.ndarray, heads: int) -> Tensor:
    """How badly the first heads of block 0, by what they alone write, name the token before the last one."""
    ids = torch.from_numpy(ids)
    written, _ = _written_by(model, ids, 0, heads)
    logits = model.unembed(model.final_norm(written[:, 1:]))
    return F.cross_entropy(logits.flatten(0, 1), ids[:, :-1].flatten())


def induction_loss(model: Transformer, batch: Batch, heads: int) -> Tensor:
    """How badly the first heads of block 1 look at the token after the earlier copy, and name it.

    −log of the weight on that token, plus the cross-entropy of what the heads alone write.
    """
    ids, targets = torch.from_numpy(batch.ids), torch.from_numpy(batch.targets)
    counted = targets != IGNORED
    written, weights = _written_by(model, ids, 1, heads)
    row, query = counted.nonzero(as_tuple=True)
    key = query - counted.sum(-1)[row]  # a second copy of n + 1 tokens has n targets: n back is one after the copy
    looked = -(weights[row, :heads, query, key] + TINY).log().mean()
    return looked + F.cross_entropy(model.unembed(model.final_norm(written[counted])), targets[counted])


def _written_by(model: Transformer, ids: Tensor, block: int, heads: int) -> tuple[Tensor, Tensor]:
    """What the first `heads` heads of a block write to the stream (B,T,C), and all weights (B,H,T,T)."""
    kept = (torch.arange(model.config.n_heads) < heads).float()[:, None, None]
    found = {}

    def keep(name: str):
        return lambda tensor: found.setdefault(name, tensor)  # with its gradient, unlike a capture

    site = f"blocks.{block}.attn"
    edits = {f"{site}.mixed": lambda mixed: mixed * kept.to(mixed.dtype)} | {
        f"{site}.{n}": keep(n) for n in ("weights", "out")
    }
    with edit(edits):
        model.hidden(ids, n_blocks=block + 1)
    return found["out"], found["weights"]
