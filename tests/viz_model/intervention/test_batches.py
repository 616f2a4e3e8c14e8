"""Rows with edits of their own, in batches that skip what is known: as each edit in a whole pass by itself."""

import numpy as np
import pytest
import torch

from tests.support.small_models import small_model
from viz_model.intervention.batches import edited_logits, edited_passes
from viz_model.model import Model
from viz_model.transformer.hooks import edit, follow
from viz_model.transformer.skipping import skipping

IDS, TARGET = [5, 9, 11, 9, 4], [3, 7, 2]


def halved(tensor):
    return tensor / 2


def alone(model, trace, edits):
    """Logits of a whole pass over one row."""
    given = {} if trace.source is None else {"source": torch.tensor([trace.source.ids])}
    with torch.inference_mode(), edit({site: lambda x, change=change: change(x[0])[None] for site, change in edits}):
        return model.transformer(torch.tensor([trace.read.ids]), **given)[0]


SHAPES = {
    "pre-norm": {"n_layers": 5},
    "post-norm": {"n_layers": 4, "norm_place": "post"},
    "rotary": {"n_layers": 4, "position": "rotary"},
    "encoder-only": {"n_layers": 4, "layout": "encoder-only"},
    "encoder-decoder": {"n_layers": 3, "layout": "encoder-decoder", "n_encoder_layers": 4},
}


@pytest.mark.parametrize("shape", SHAPES)
def test_rows_are_what_each_edit_does_alone(shape):
    model = Model("small", small_model(**SHAPES[shape]))
    trace = model.trace(IDS, target=TARGET) if model.has_source else model.trace(IDS)
    sites = [f"{name}.{local}" for name in reversed(model.config.block_names) for local in ("attn.mixed", "ffn.out")]
    sites += [f"{model.config.block_names[0]}.resid_pre", "decoder.final_norm" if model.has_source else "final_norm"]
    rows = [{site: halved} for site in sites]
    rows.append({sites[0]: halved, sites[4]: torch.zeros_like})
    rows.append({})
    found = edited_logits(model, trace, rows, lambda _: None)
    assert len(found) == len(rows)
    for edits, logits in zip(rows, found, strict=True):
        np.testing.assert_allclose(logits, alone(model, trace, edits.items()), atol=2e-5)


def test_what_comes_before_the_first_edit_is_not_computed_again():
    model = Model("small", small_model(n_layers=6))
    trace, visited = model.trace(IDS), set()

    def change(tensor):
        with follow(visited.add):
            return tensor * 2

    def read(hidden):
        return hidden[:, -1]

    edited_passes(model, trace, [{"blocks.4.attn.mixed": change}] * 3, read, lambda _: None)
    with skipping(["blocks.1", "blocks.2"]), follow(visited.add), torch.inference_mode():
        model.transformer(torch.tensor([IDS]))
    blocks = {name.split(".")[1] for name in visited if name.startswith("blocks")}
    assert blocks == {"0", "3", "4", "5"}


def test_batches_hold_rows_of_one_depth_and_few_of_them_go_with_the_next(monkeypatch):
    model = Model("small", small_model(n_layers=4))
    trace, sizes = model.trace(IDS), []

    def read(hidden):
        sizes.append(len(hidden))
        return hidden[:, -1]

    def run(counts):
        sizes.clear()
        rows = [{f"blocks.{layer}.attn.mixed": halved} for layer, count in enumerate(counts) for _ in range(count)]
        edited_passes(model, trace, rows[::-1], read, lambda _: None)
        return sizes

    assert run([9, 9, 2, 3]) == [9, 9, 5]
    assert run([3, 3, 3, 3]) == [9, 3]
    monkeypatch.setattr("viz_model.intervention.batches.MOST_ROWS", 4)
    assert run([9, 1, 0, 1]) == [4, 4, 3]


def test_it_is_told_at_every_site_so_that_a_stop_ends_it_soon():
    model = Model("small", small_model(n_layers=4))
    trace, told = model.trace(IDS), []

    class Stop(Exception):
        pass

    def done(count):
        told.append(count)
        if len(told) == 3:
            raise Stop

    with pytest.raises(Stop):
        edited_passes(model, trace, [{"blocks.0.ffn.out": halved}], lambda hidden: hidden, done)
    assert told == [0, 0, 0]
