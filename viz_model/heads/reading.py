"""Windows of a text sent through a model, and what its heads do there, layer after layer.

Symbols: B windows at once, H heads, T queries, S keys.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress

import torch
from torch import Tensor

from viz_model.heads.patterns import Cells, CellSets
from viz_model.heads.windows import Window
from viz_model.model import Model
from viz_model.transformer import masks
from viz_model.transformer.hooks import capture, follow

BATCH_BYTES = 16 * 2**20  # of one layer's weights that are worked on at once, roughly


class _Enough(Exception):
    """Raised within a pass whose later layers nobody asked for."""


def at_once(model: Model, windows: Sequence[Window]) -> int:
    """How many windows are read at once."""
    longest = max(max(window.sizes) for window in windows)
    return max(1, BATCH_BYTES // (4 * model.config.n_heads * longest**2))


def pass_through(
    model: Model,
    batch: Sequence[Window],
    part: str,
    mask: str,
    measure: Callable[[int, Tensor, Tensor], None],
    told: Callable[[str], None],
    only: int | None = None,
) -> bool:
    """Send windows of equal sizes through the model; gives whether the attention has sinks.

    measure: called with each layer, its weights (B,H,T,S) and its mask, which are let go at once. told: each site.
    only: the one layer that is measured, behind which the pass ends; None for all.
    """
    config = model.config
    measured = range(config.layers_of(part)) if only is None else [only]
    layers = {config.attention_name(part, layer): layer for layer in measured}
    given = {} if batch[0].source is None else {"source": torch.tensor([window.source.ids for window in batch])}
    if mask != config.mask_of(part):
        read, source = batch[0].sizes
        queries, keys = source if part == "encoder" else read, source if part in ("encoder", "cross") else read
        allowed = masks.between(mask, torch.arange(queries), torch.arange(keys))
        given["mask"] = {part: allowed} if model.has_source else allowed
    wanted = [f"{name}.{what}" for name in layers for what in ("weights", "mask")]
    sinks = [f"{name}.sinks" for name in layers]

    def next_site(site: str) -> None:
        told(site)
        name, _, what = site.rpartition(".")
        if what == "mixed" and name in layers:
            measure(layers[name], found.pop(f"{name}.weights"), found.pop(f"{name}.mask"))
            if only is not None:
                raise _Enough

    with suppress(_Enough), torch.inference_mode(), capture(*wanted, optional=sinks) as found, follow(next_site):
        model.transformer.hidden(torch.tensor([window.read.ids for window in batch]), **given)
    return any(site in found for site in sinks)


def cells_of(model: Model, sets: CellSets, batch: Sequence[Window], part: str) -> Cells:
    """What the cells of windows of equal sizes are."""
    return Cells.of(sets, batch, part, model.signs, has_text=model.tokenizer is not None)
