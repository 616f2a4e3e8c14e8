"""Exact matches against writing token by token, for a model that is right now and then."""

import numpy as np
import torch

from tests.support.small_models import small_model
from viz_model.model import Model
from viz_model.model.tokenizer import Tokenizer
from viz_model.training.dates import pairs_of_texts, split_days, written
from viz_model.training.figures import dates

MODEL = Model(
    "dates", small_model(layout="encoder-decoder", vocab_size=257, context_length=64, seed=3), Tokenizer.of_bytes()
)


def greedy(source: str, most=12) -> list[int]:
    """The bytes that the model writes, one pass a byte."""
    ids = [256]
    while len(ids) <= most:
        logits = MODEL.transformer(torch.tensor([ids]), source=torch.tensor([list(source.encode())]))[0]
        ids.append(int(logits.argmax()))
        if ids[-1] == 256:
            break
    return ids[1:]


def test_one_pass_over_the_right_text_tells_whether_greedy_writing_is_right():
    """Of texts that the model does write (without an end, so that none is exact), and of changed ones."""
    sources = ["3 May 2024", "May 3, 2024", "20240503", "3.5.24"]
    said = [greedy(source) for source in sources]
    pairs = pairs_of_texts([(source, "x" * 10) for source in sources], 256)
    pairs.ids[:, 1:] = [row[:10] for row in said]
    pairs.targets[:] = [row[:11] for row in said]
    assert dates.is_exact(MODEL, pairs).tolist() == [True] * 4
    pairs.targets[1, 4] += 1
    pairs.targets[2, 10] -= 1
    assert dates.is_exact(MODEL, pairs).tolist() == [True, False, False, True]


def test_letters_read_in_batches_are_those_of_a_pass_each():
    days = split_days()[1][40:45]
    found = dates.letters_read(MODEL, days)
    sums = dict.fromkeys(found, 0.0)
    for n, day in enumerate(days):
        forms = dates.forms_of(day)
        source = written(forms[n % len(forms)], day)
        trace = MODEL.trace(source.text, target=day.isoformat()).of("cross")
        for field, queries in (("year", range(4)), ("month", (5, 6)), ("day", (8, 9))):
            for layer, head in np.ndindex(2, 4):
                rows = trace.weights(layer, head)[list(queries), source.letters[field]]
                sums[field] = sums[field] + np.eye(8)[4 * layer + head] * rows.sum(-1).mean().item() / len(days)
    for field, table in found.items():
        np.testing.assert_allclose(table.flatten(), sums[field], atol=1e-5)


def test_a_head_that_reads_all_letters_alike():
    day = split_days()[1][0]
    source = written(dates.forms_of(day)[0], day)
    shares = dates.letters_share([day])
    assert shares["year"] == len(str(day.year)) / len(source.text)
    assert shares["day"] == len(source.text[source.letters["day"]]) / len(source.text)
