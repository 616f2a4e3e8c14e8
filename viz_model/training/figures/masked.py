"""The figures of a model that names hidden tokens: on held-out text, beside the unigram and a model that reads on.

Devlin et al. 2019, "BERT", §3.1: what is hidden and how is `data.masked_batch`'s.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional as F

import viz_model as vm
from viz_model.errors import TrainingError
from viz_model.heads.measures import next_token_share, previous_token_share
from viz_model.training.data import IGNORED, encode_books, hide
from viz_model.training.figures.report import Report, best_heads, table
from viz_model.training.figures.text import BATCH, SEED, SEQUENCES, SOME, mean_shares

WINDOW, ONE_HIDDEN = 128, 1024  # tokens of a window in which one is hidden, and how many windows


@dataclass(frozen=True)
class Masked:
    """How well hidden tokens are named: mean cross-entropy in nats and share of right first guesses.

    The unigram knows how often each token of the held-out text occurs in it, and nothing of its neighbours: no
    guess that does not look at the text around can be better.
    """

    loss: float
    accuracy: float
    unigram_loss: float
    unigram_accuracy: float
    count: int


def held_out_rows(model: vm.Model, books: list[str]) -> np.ndarray:
    """The held-out text in rows of the context length (N,T), the rest of the last one left out."""
    length = model.config.context_length
    ids = encode_books(books, model.tokenizer).astype(np.int64)
    if len(ids) < length:
        raise TrainingError(f"The held-out text has {len(ids)} tokens, but one row needs {length}. Give a longer text.")
    return ids[: len(ids) // length * length].reshape(-1, length)


def masked_figures(model: vm.Model, books: list[str]) -> Masked:
    """Loss and accuracy on tokens hidden by chance (the same ones each time)."""
    if model.tokenizer is None or model.tokenizer.mask is None:
        raise TrainingError(f"{model.name} has no mask token, so it cannot be asked for hidden tokens.")
    whole = held_out_rows(model, books)
    hidden = hide(whole, model.tokenizer.mask, np.random.default_rng(SEED))
    total, right = 0.0, 0
    for at in range(0, len(whole), BATCH):
        ids, targets = (torch.from_numpy(rows[at : at + BATCH]) for rows in (hidden.ids, hidden.targets))
        counted = targets != IGNORED
        with torch.inference_mode():
            logits = model.transformer.unembed(model.transformer.hidden(ids)[counted])
        total += F.cross_entropy(logits, targets[counted], reduction="sum").item()
        right += int((logits.argmax(-1) == targets[counted]).sum())
    asked = hidden.targets[hidden.targets != IGNORED]
    shares = np.bincount(whole.ravel(), minlength=model.config.vocab_size) / whole.size
    return Masked(
        loss=total / len(asked),
        accuracy=right / len(asked),
        unigram_loss=float(-np.log(shares[asked]).mean()),
        unigram_accuracy=float((asked == shares.argmax()).mean()),
        count=len(asked),
    )


@dataclass(frozen=True)
class BothSides:
    """The same tokens named by who sees both sides of each, and guessed by who sees what stands before it.

    loss, left_loss: mean cross-entropy in nats. ahead: the share of the tokens to which the first gives more.
    """

    loss: float
    left_loss: float
    ahead: float
    count: int


@torch.inference_mode()
def both_sides(model: vm.Model, twin: vm.Model, books: list[str], count: int = ONE_HIDDEN) -> BothSides:
    """Hide one token in the middle of each of `count` windows, evenly over the books; `twin` reads what is before."""
    ids = encode_books(books, model.tokenizer).astype(np.int64)
    length = min(WINDOW, model.config.context_length)
    starts = np.linspace(0, len(ids) - length, count).astype(int)
    windows, middle = torch.from_numpy(ids[starts[:, None] + np.arange(length)]), length // 2
    right = windows[:, middle].clone()
    windows[:, middle] = model.tokenizer.mask
    seen = _surprise(model, windows, middle, right)
    guessed = _surprise(twin, windows[:, :middle], middle - 1, right)
    return BothSides(seen.mean().item(), guessed.mean().item(), (seen < guessed).float().mean().item(), count)


def _surprise(model: vm.Model, rows: torch.Tensor, place: int, right: torch.Tensor) -> torch.Tensor:
    """−log p of the right tokens (N,), by the logits at one place of the rows (N,T)."""
    hidden = torch.cat([model.transformer.hidden(some)[:, place] for some in rows.split(2 * BATCH)])
    return F.cross_entropy(model.transformer.unembed(hidden), right, reduction="none")


def head_figures(model: vm.Model, books: list[str]) -> dict[str, torch.Tensor]:
    """Mean weights of every head (L,H) on the token before and on the token after, on held-out text."""
    rows = torch.from_numpy(held_out_rows(model, books)[:SEQUENCES])
    shares = mean_shares(model, rows, previous_token_share, next_token_share)
    return dict(zip(("previous_text", "next_text"), shares, strict=True))


def report(model: vm.Model, books: list[str], twin: vm.Model | None) -> Report:
    """The figures as the command prints them; beside those of its twin that reads on, if it has one."""
    result = masked_figures(model, books)
    heads = {name: table(values) for name, values in head_figures(model, books).items()}
    lines = [
        f"{result.count:,} hidden tokens of the held-out text, 15 % of each row",
        f"loss      {result.loss:.3f} nats/token   unigram {result.unigram_loss:.3f}",
        f"accuracy  {result.accuracy:.3f}              unigram {result.unigram_accuracy:.3f}",
        f"of every eighth book: loss {masked_figures(model, books[SOME]).loss:.3f}",
        *(_beside(model, twin, books) if twin else ()),
        *best_heads(heads),
    ]
    return Report(lines, heads)


def _beside(model: vm.Model, twin: vm.Model, books: list[str]) -> list[str]:
    found = both_sides(model, twin, books)
    return [
        f"{found.count:,} held-out tokens, each hidden by itself, and guessed from what stands before it",
        f"loss      {model.name} {found.loss:.3f} nats/token   {twin.name} {found.left_loss:.3f}",
        f"{model.name} gives the right token more than {twin.name} at {found.ahead:.1%} of them",
    ]
