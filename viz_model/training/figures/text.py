"""The figures of a model of text: held-out loss, what each head does, a continued story."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional as F

import viz_model as vm
from viz_model.errors import TrainingError
from viz_model.heads.comparison import single_token
from viz_model.heads.measures import previous_token_share
from viz_model.training.figures.repeats import Repeats, measure_repeats
from viz_model.training.figures.report import Report, best_heads, table
from viz_model.transformer.hooks import capture

HALF, SEQUENCES, SEED = 40, 64, 20_000_000  # far from the seeds of any training step
BATCH = 8  # windows
SOME = slice(None, None, 8)  # of the books: enough to see within seconds that a loss is what it was
EXAMPLE = ("The red fox met a grey goose by the old mill. The red fox met a grey goose by the", " old")
STORY = "Once upon a time there was a king who had three daughters."
HEAD_FIGURES = ("previous_text", "previous_random", "induction", "induction_text")


def text_loss(model: vm.Model, books: list[str]) -> float:
    """Mean cross-entropy of the next token over the books, nats a token.

    Windows of the context length, each half a window on from the last; of each only what the last did not
    predict counts, so that every token is predicted once, most with half a window before it.
    """
    total, count = 0.0, 0
    for pieces, first in _batches(model, books):
        with torch.inference_mode():
            stream = model.transformer.hidden(pieces[:, :-1])[:, first:]
            logits = model.transformer.unembed(stream).flatten(0, 1)
        targets = pieces[:, first + 1 :].flatten()
        total += F.cross_entropy(logits, targets, reduction="sum").item()
        count += len(targets)
    return total / count


def _batches(model: vm.Model, books: list[str]) -> Iterator[tuple[torch.Tensor, int]]:
    """The windows of `text_loss`, up to BATCH that are equally long at once (n,T+1), and from where on they count."""
    window = model.config.context_length
    half = (window + 1) // 2
    alike: dict[tuple[int, int], list[list[int]]] = {}
    for book in books:
        ids = [model.tokenizer.end_of_text, *model.tokenizer.encode(book)]
        if len(ids) == 1:  # an empty book holds nothing to predict
            continue
        for start in range(0, max(1, len(ids) - 1 - (window - half)), half):
            piece = ids[start : start + window + 1]
            alike.setdefault((window - half if start else 0, len(piece)), []).append(piece)
    for (first, _), pieces in alike.items():
        for at in range(0, len(pieces), BATCH):
            yield torch.tensor(pieces[at : at + BATCH]), first


def random_repeats(vocab_size: int) -> torch.Tensor:
    """Random tokens, each row repeated once: (SEQUENCES, 2·HALF)."""
    segments = np.random.default_rng(SEED).integers(0, vocab_size - 1, (SEQUENCES, HALF))
    return torch.from_numpy(np.concatenate((segments, segments), axis=1))


def repeated_passages(model: vm.Model, books: list[str]) -> torch.Tensor:
    """Passages of the books from random places, each row repeated once: (SEQUENCES, 2·HALF)."""
    ids = np.array(_tokens(model, books))
    starts = np.random.default_rng(SEED).integers(0, len(ids) - HALF, SEQUENCES)
    passages = ids[starts[:, None] + np.arange(HALF)]
    return torch.from_numpy(np.concatenate((passages, passages), axis=1))


def _tokens(model: vm.Model, books: list[str]) -> list[int]:
    """All tokens of the books; TrainingError where they are less than a row of the model."""
    ids = [i for book in books for i in model.tokenizer.encode(book)]
    length = model.config.context_length
    if len(ids) < length:
        raise TrainingError(f"The held-out text has {len(ids)} tokens, but one row needs {length}. Give a longer text.")
    return ids


@dataclass(frozen=True)
class Copying:
    """What a model knows of 40 tokens when they come again: random ones, and passages of the books."""

    random: Repeats
    passages: Repeats


def copying(model: vm.Model, books: list[str]) -> Copying:
    """Both kinds of repeats, in rows of a passage and its copy."""
    return Copying(
        measure_repeats(model.transformer, random_repeats(model.config.vocab_size)),
        measure_repeats(model.transformer, repeated_passages(model, books)),
    )


def head_figures(model: vm.Model, books: list[str], copied: Copying | None = None) -> dict[str, torch.Tensor]:
    """Mean weights of every head, each (L,H): on the previous token, and induction, on random tokens and on text.

    copied: what `copying` gave, where it is there already.
    """
    ids, length = _tokens(model, books), model.config.context_length
    rows = torch.tensor(ids[: len(ids) // length * length]).reshape(-1, length)[:SEQUENCES]
    copied = copied or copying(model, books)
    [previous] = mean_shares(model, rows, previous_token_share)
    return {
        "previous_text": previous,
        "previous_random": copied.random.previous,
        "induction": copied.random.induction,
        "induction_text": copied.passages.induction,
    }


def example_share(model: vm.Model) -> float:
    """The probability of the word that comes again in the example."""
    prompt, word = EXAMPLE
    return model.trace(prompt).logits.softmax(-1)[single_token(model, word)].item()


def continued(model: vm.Model, prompt: str = STORY, **choices) -> str:
    """The prompt and what the model makes of it, as text."""
    choices = {"max_new_tokens": 80, "temperature": 0.7, "top_k": 40, "seed": 0} | choices
    pieces = [step.token for step in model.generate(prompt, **choices) if not step.is_end]
    return prompt + b"".join(pieces).decode(errors="replace")


def report(model: vm.Model, books: list[str]) -> Report:
    """The figures as the command prints them."""
    copied = copying(model, books)
    heads = {name: table(values) for name, values in head_figures(model, books, copied).items()}
    prompt, word = EXAMPLE
    lines = [
        f"held-out loss             {text_loss(model, books):.3f} nats/token",
        f"of every eighth book      {text_loss(model, books[SOME]):.3f} nats/token",
        f"random tokens, once more  {copied.random.right:.1%} right, {copied.random.loss:.3f} nats/token",
        f"held-out text, once more  {copied.passages.right:.1%} right, {copied.passages.loss:.3f} nats/token",
        f"{prompt} …{word}: {example_share(model):.2f}",
        *best_heads(heads),
        continued(model),
    ]
    return Report(lines, heads)


def all_weights(model: vm.Model, ids: torch.Tensor) -> torch.Tensor:
    """(N,T) ids -> weights of every layer and head (L,N,H,T,T)."""
    with torch.inference_mode(), capture("*.weights") as found:
        model.transformer.hidden(ids)
    return torch.stack([found[f"blocks.{layer}.attn.weights"] for layer in range(model.config.n_layers)])


def mean_shares(
    model: vm.Model, ids: torch.Tensor, *shares: Callable[[torch.Tensor], torch.Tensor]
) -> list[torch.Tensor]:
    """(N,T) ids -> of each share, which makes one number of weights (T,T), the mean over the rows for every head (L,H).

    BATCH rows at once: the weights of more do not fit into a processor's cache.
    """
    batches = [
        [share(weights) for share in shares] for weights in (all_weights(model, some) for some in ids.split(BATCH))
    ]
    return [torch.cat(of_one, dim=1).mean(1) for of_one in zip(*batches, strict=True)]
