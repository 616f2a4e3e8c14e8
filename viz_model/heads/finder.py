"""Finding heads: those whose weights lie on given cells of a prompt, and those that read what another head reads.

Symbols: L layers, H heads, B windows at once, T queries, S keys.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from viz_model.arguments import of_type, whole_number
from viz_model.errors import VizError
from viz_model.heads.reading import pass_through
from viz_model.heads.windows import Window
from viz_model.jobs import Tell
from viz_model.model import Model
from viz_model.model.trace import Trace


def weight_on(trace: Trace, cells: np.ndarray) -> np.ndarray:
    """Of every head, the weight on these cells: (L,H), a mean over the queries that have such a cell.

    cells: booleans (T,S). Of a layer whose mask forbids all cells of a query, this query counts with 0. Raises VizError
    where there is no cell, or another number of queries and keys.
    """
    of_type("The trace", trace, Trace, "a Trace, such as model.trace gives")
    cells = np.asarray(cells)
    if cells.dtype != bool or cells.shape != (trace.length, trace.key_length) or not cells.any():
        raise VizError(f"Cells are booleans of {trace.length} × {trace.key_length} tokens, with at least one True.")
    queries = np.flatnonzero(cells.any(1))
    here = torch.from_numpy(cells[queries])  # (n,S)
    found = [(trace.weights_of(layer, queries.tolist()) * here).sum(-1).mean(-1) for layer in range(trace.n_layers)]
    return torch.stack(found).numpy()


def alike(trace: Trace, layer: int, head: int) -> np.ndarray:
    """Of every head, how much of its attention goes where a given head's goes: (L,H); 1 is the same weights.

    It is the mean over queries of Σ min(a, b), the part that two rows of weights share (1 − their total variation
    distance); queries that may read one key alone are left out. Raises VizError for a head that is not there.
    """
    of_type("The trace", trace, Trace, "a Trace, such as model.trace gives")
    layer = whole_number("The layer", layer, 0, trace.n_layers - 1)
    head = whole_number("The head", head, 0, trace.config.n_heads - 1)
    given, tells = trace.weights(layer, head), trace.mask(layer).sum(-1) > 1
    found = torch.zeros(trace.n_layers, trace.config.n_heads)
    for other in range(trace.n_layers):
        for heads in trace.heads_at_once:
            weights = torch.stack([trace.weights(other, number) for number in heads])
            found[other, heads.start : heads.stop] = _shared(weights, given, tells) / max(int(tells.sum()), 1)
    return found.numpy()


def alike_over(
    model: Model, batches: Sequence[Sequence[Window]], part: str, mask: str, layer: int, head: int, tell: Tell
) -> np.ndarray:
    """The same over windows: (L,H). batches: windows of equal sizes, each read twice."""
    shared, queries, done = torch.zeros(model.config.layers_of(part), model.config.n_heads), 0, 0
    planned = sum(map(len, batches))
    for batch in batches:
        given: list[Tensor] = []

        def keep(_: int, weights: Tensor, allowed: Tensor, given=given) -> None:
            allowed = allowed.expand(len(weights), 1, *weights.shape[2:])[:, 0]
            given[:] = [weights[:, head].clone(), allowed.sum(-1) > 1]

        def compare(other: int, weights: Tensor, _: Tensor, given=given) -> None:
            shared[other] += _shared(weights, given[0][:, None], given[1][:, None]).sum(0)

        def told(_: str, done: int = done) -> None:
            tell(done, planned)

        pass_through(model, batch, part, mask, keep, told, only=layer)
        pass_through(model, batch, part, mask, compare, told)
        queries += int(given[1].sum())
        done += len(batch)
        tell(done, planned)
    return (shared / max(queries, 1)).numpy()


def _shared(weights: Tensor, given: Tensor, tells: Tensor) -> Tensor:
    """Sums over the queries that tell something: (…,H,T,S), (…,T,S), (…,T) -> (…,H). What goes to a learned sink is
    shared as what goes to a key."""
    both = torch.minimum(weights, given).sum(-1)
    both = both + torch.minimum((1 - weights.sum(-1)).clamp(min=0), (1 - given.sum(-1)).clamp(min=0))
    return (both * tells).sum(-1)
