"""The figures of a checkpoint: held-out loss, what each head does, a continued story.

python -m viz_model.training.figures checkpoints/tiny-gpt [--text FILE] [--write]
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F

import viz_model as vm
from viz_model.checkpoints import HEADS_FILE
from viz_model.errors import TrainingError, VizError
from viz_model.hooks import capture
from viz_model.measures import induction_share, previous_token_share
from viz_model.training.data import split_books

HELD_OUT_FILE = "held-out.txt"
HALF, SEQUENCES, SEED = 40, 64, 20_000_000  # far from the seeds of any training step
STORY = "Once upon a time there was a king who had three daughters."
HEAD_FIGURES = ("previous_text", "previous_random", "induction")


def text_loss(model: vm.Model, books: list[str]) -> float:
    """Mean cross-entropy of the next token over the books, nats a token.

    Windows of the context length, each half a window on from the last; of each only what the last did not
    predict counts, so that every token is predicted once, most with half a window before it.
    """
    total, count = 0.0, 0
    window = model.config.context_length
    half = (window + 1) // 2
    for book in books:
        ids = torch.tensor([model.tokenizer.end_of_text, *model.tokenizer.encode(book)])
        for start in range(0, max(1, len(ids) - 1 - (window - half)), half):
            piece = ids[start : start + window + 1]
            first = window - half if start else 0
            with torch.inference_mode():
                logits = model.transformer(piece[None, :-1], logits="all")[0, first:]
            total += F.cross_entropy(logits, piece[first + 1 :], reduction="sum").item()
            count += len(piece) - 1 - first
    return total / count


def random_repeats(vocab_size: int) -> torch.Tensor:
    """Random tokens, each row repeated once: (SEQUENCES, 2·HALF)."""
    segments = np.random.default_rng(SEED).integers(0, vocab_size - 1, (SEQUENCES, HALF))
    return torch.from_numpy(np.concatenate((segments, segments), axis=1))


def head_figures(model: vm.Model, books: list[str]) -> dict[str, torch.Tensor]:
    """Mean weights of every head, each (L,H): on the previous token, and induction (random repeats)."""
    ids = [i for book in books for i in model.tokenizer.encode(book)]
    length = model.config.context_length
    if len(ids) < length:
        raise TrainingError(f"The held-out text has {len(ids)} tokens; a row of it takes {length}.")
    text = torch.tensor(ids[: len(ids) // length * length]).reshape(-1, length)[:SEQUENCES]
    on_text = _all_weights(model, text)
    on_random = _all_weights(model, random_repeats(model.config.vocab_size))
    return {
        "previous_text": previous_token_share(on_text).mean(1),
        "previous_random": previous_token_share(on_random).mean(1),
        "induction": induction_share(on_random, HALF).mean(1),
    }


def random_loss(model: vm.Model) -> float:
    """Cross-entropy of the second copies, from their second token on, nats a token."""
    ids = random_repeats(model.config.vocab_size)
    with torch.inference_mode():
        logits = model.transformer(ids, logits="all")[:, HALF:-1]
    return F.cross_entropy(logits.flatten(0, 1), ids[:, HALF + 1 :].flatten()).item()


def continued(model: vm.Model, prompt: str = STORY, **choices) -> str:
    """The prompt and what the model makes of it, as text."""
    choices = {"max_new_tokens": 80, "temperature": 0.7, "top_k": 40, "seed": 0} | choices
    pieces = [step.token for step in model.generate(prompt, **choices) if not step.is_end]
    return prompt + b"".join(pieces).decode(errors="replace")


def figures(model: vm.Model, books: list[str]) -> dict:
    """All figures of a checkpoint as plain values."""
    heads = head_figures(model, books)
    return {
        "held_out_loss": text_loss(model, books),
        "random_repeat_loss": random_loss(model),
        "heads": {name: np.round(values.numpy().astype(float), 4).tolist() for name, values in heads.items()},
        "story": continued(model),
    }


def books_of(folder: Path, text: Path | None) -> list[str]:
    """The held-out ends of a text's books, or those that lie beside the checkpoint."""
    if text is not None:
        return split_books(text.read_text("utf-8"))[1]
    return (folder / HELD_OUT_FILE).read_text("utf-8").strip("\n").split("\n\n")


def _all_weights(model: vm.Model, ids: torch.Tensor) -> torch.Tensor:
    """(N,T) ids -> weights of every layer and head (L,N,H,T,T)."""
    with torch.inference_mode(), capture("*.weights") as found:
        model.transformer(ids)
    return torch.stack([found[f"blocks.{layer}.attn.weights"] for layer in range(model.config.n_layers)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--text", type=Path, help="the whole text: its held-out part, as training cuts it")
    parser.add_argument("--write", action="store_true", help=f"write the heads' figures to {HEADS_FILE}")
    arguments = parser.parse_args()
    result = figures(vm.load(arguments.folder), books_of(arguments.folder, arguments.text))
    print(f"held-out loss            {result['held_out_loss']:.3f} nats/token")
    print(f"loss of repeated tokens  {result['random_repeat_loss']:.3f} nats/token")
    for name, table in result["heads"].items():
        values = np.array(table)
        layer, head = np.unravel_index(values.argmax(), values.shape)
        print(f"{name:<24} best {values.max():.3f}, layer {layer}, head {head}")
        print(values.round(2))
    print(result["story"])
    if arguments.write:
        (arguments.folder / HEADS_FILE).write_text(json.dumps(result["heads"], indent=1) + "\n")


if __name__ == "__main__":
    try:
        main()
    except VizError as error:
        sys.exit(str(error))
