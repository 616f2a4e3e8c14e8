"""Pairs of prompts that show what the page is about, for the models that they were tried with."""

from dataclasses import dataclass

import viz_model as vm


@dataclass(frozen=True)
class PromptPair:
    """A clean and a corrupted prompt, and the head and the cell to begin with."""

    words: str
    clean: str
    corrupted: str
    head: tuple[int, int] | None = None
    cell: tuple[int, int] | None = None


BLUE = "The blue bird saw a brave wolf by the mill. The blue"
OF_STORIES = (
    PromptPair("Which animal is blue?", BLUE, "The brave bird saw a blue wolf by the mill. The blue", (1, 0), (12, 2)),
    PromptPair(
        "A word that comes again",
        "The red fox met a grey goose by the old mill. The red fox met a grey goose by the",
        "The red fox met a grey goose by the new mill. The red fox met a grey goose by the",
        (1, 0),
        (20, 9),
    ),
    PromptPair("She or he?", "The old queen was so angry that", "The old king was so angry that", (3, 0), (6, 2)),
    PromptPair(
        "Prompts of unequal length",
        "The blue bird saw a wolf by the mill. The blue",
        "The old bird saw a big blue wolf by the mill. The blue",
        (1, 0),
        (11, 2),
    ),
)

EXAMPLES = {
    "tiny-gpt": OF_STORIES,
    "tiny-llama": OF_STORIES,
    "tiny-bert": (
        PromptPair(
            "She or he?", "The king loved his daughter, and he", "The queen loved her daughter, and he", (3, 0), (7, 1)
        ),
    ),
    "tiny-seq2seq": (PromptPair("Which month?", "Friday, 3 May 2024", "Friday, 3 Jun 2024", (1, 1), (6, 10)),),
    "induction": (PromptPair("What follows C?", "KIgCDZLTSVaEjC", "KIgSDZLTCVaEjC", (1, 1), (13, 4)),),
}


def examples(model: vm.Model) -> tuple[PromptPair, ...]:
    """Those of a model; of another decoder that reads text, those that were tried with the small ones."""
    if model.name in EXAMPLES:
        return EXAMPLES[model.name]
    reads_text = model.tokenizer is not None and model.config.layout == "decoder-only"
    return tuple(PromptPair(one.words, one.clean, one.corrupted) for one in OF_STORIES) if reads_text else ()
