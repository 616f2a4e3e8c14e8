"""The figures of a model that translates dates: exact matches on held-out days, and which letters its heads read."""

from collections.abc import Sequence
from datetime import date

import numpy as np
import torch
from torch import Tensor

from viz_model.model import Model
from viz_model.training.data import IGNORED
from viz_model.training.dates import (
    FIELD_OF_DIGIT,
    FIELDS,
    FORMS,
    Pairs,
    forms_of,
    in_turn,
    pairs_of_texts,
    split_days,
    written,
)
from viz_model.training.figures.report import Report, best_heads, table
from viz_model.transformer.hooks import capture

ROWS = 256  # texts of one pass


@torch.inference_mode()
def is_exact(model: Model, pairs: Pairs) -> np.ndarray:
    """Which sources (B,) the model translates without a fault when it writes greedily: booleans.

    One pass over the right translation tells: the first token that greedy writing gets wrong is written after right
    ones alone, and there this pass has the same logits.
    """
    source, padding = torch.from_numpy(pairs.source), torch.from_numpy(pairs.padding)
    logits = model.transformer(torch.from_numpy(pairs.ids), source=source, source_padding=padding, logits="all")
    said = logits.argmax(-1).numpy()  # (B,T)
    return ((said == pairs.targets) | (pairs.targets == IGNORED)).all(-1)


def exact_by_form(model: Model, days: Sequence[date]) -> dict[str, tuple[int, int]]:
    """Of every form how many days are translated exactly, and how many can be written in it."""
    found = {}
    for form in FORMS:
        pairs = [(written(form, day).text, day.isoformat()) for day in days if form in forms_of(day)]
        exact = [is_exact(model, _pairs(model, pairs[n : n + ROWS])) for n in range(0, len(pairs), ROWS)]
        found[form] = int(np.concatenate(exact).sum()), len(pairs)
    return found


@torch.inference_mode()
def letters_read(model: Model, days: Sequence[date]) -> dict[str, Tensor]:
    """Mean weight that each head of cross-attention puts on the letters of the year when a digit of the year is next.

    Likewise of the month and of the day: {field: (L,H)}, over every day in one form, the forms in turn.
    """
    sums = dict.fromkeys(FIELDS, 0.0)
    texts = in_turn(days)
    for first in range(0, len(texts), ROWS):
        some = texts[first : first + ROWS]
        pairs = _pairs(model, [(source.text, day.isoformat()) for day, source in some])
        with capture("decoder.blocks.*.cross.weights") as found:
            source, padding = torch.from_numpy(pairs.source), torch.from_numpy(pairs.padding)
            model.transformer(torch.from_numpy(pairs.ids), source=source, source_padding=padding)
        weights = torch.stack([found[name] for name in sorted(found)], 1)  # (B,L,H,T,S)
        for field in FIELDS:
            queries = [place for place, its in FIELD_OF_DIGIT.items() if its == field]  # query n names digit n
            for row, (_, written_day) in zip(weights[..., queries, :], some, strict=True):
                sums[field] += row[..., written_day.letters[field]].sum(-1).mean(-1)  # (L,H)
    return {field: total / len(days) for field, total in sums.items()}


def letters_share(days: Sequence[date]) -> dict[str, float]:
    """What a head that reads every letter alike would put on the letters of each field."""
    shares = [(source.letters, len(source.text)) for _, source in in_turn(days)]
    return {
        field: float(np.mean([(letters[field].stop - letters[field].start) / length for letters, length in shares]))
        for field in FIELDS
    }


def report(model: Model) -> Report:
    """All figures of the checkpoint, over every held-out day."""
    days = split_days()[1]
    by_form = exact_by_form(model, days)
    exact, count = map(sum, zip(*by_form.values(), strict=True))
    lines = [f"exact on {len(days):,} held-out days  {exact:,} of {count:,} = {exact / count:.2%}"]
    lines += [f"  {form:<34} {right:>5} of {of:>5} = {right / of:.2%}" for form, (right, of) in by_form.items()]
    heads = {f"{field}_letters": table(shares) for field, shares in letters_read(model, days).items()}
    lines += best_heads(heads)
    shares = ", ".join(f"{field} {share:.3f}" for field, share in letters_share(days).items())
    lines.append(f"a head that reads all letters alike: {shares}")
    return Report(lines, heads)


def _pairs(model: Model, pairs: list[tuple[str, str]]) -> Pairs:
    return pairs_of_texts(pairs, model.tokenizer.end_of_text)
