"""The same prompt many times in one pass, each row with edits of its own."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from viz_model.errors import VizError
from viz_model.model import Model
from viz_model.model.trace import Trace
from viz_model.transformer.hooks import capture, edit, unwatched
from viz_model.transformer.host import Masks

BATCH_BYTES = 128 * 2**20  # of weights, logits and streams that a batch may take, roughly
MOST_ROWS = 64

RowEdit = Callable[[Tensor], Tensor]  # what stands at a site in one row, (…) without batch -> what shall stand there
RowEdits = Mapping[str, RowEdit]  # all that is changed in one row, by site


def edited_logits(
    model: Model,
    trace: Trace,
    edits: Sequence[RowEdits],
    done: Callable[[int], None],
    position: int = -1,
    tokens: Sequence[int] | None = None,
) -> Tensor:
    """Logits at a position (N,V) for N passes over the trace's prompt, each with edits of its own.

    tokens: only their logits are kept, (N,K). done: told after each batch how many passes are made.
    """

    def read(some: Sequence[RowEdits]) -> Tensor:
        logits = model.transformer.unembed(_hidden(model, trace, some)[:, position])  # (B,T,C) -> (B,V)
        return logits if tokens is None else logits[:, list(tokens)]

    return _in_batches(read, trace, edits, done)


def edited_values(
    model: Model, trace: Trace, edits: Sequence[RowEdits], site: str, done: Callable[[int], None]
) -> Tensor:
    """What stands at a site, (N,…), in N such passes."""

    def read(some: Sequence[RowEdits]) -> Tensor:
        with capture(site) as found:
            _hidden(model, trace, some)
        return found[site]

    return _in_batches(read, trace, edits, done)


def values_at(model: Model, trace: Trace, sites: Sequence[str]) -> dict[str, Tensor]:
    """What stands at these sites, without batch, in a pass over the trace's prompt, where there are such."""
    with _alone(), capture(optional=sites) as found:
        _hidden(model, trace, [{}])
    return {name: tensor[0] for name, tensor in found.items()}


def refuse_without_prediction(model: Model) -> None:
    """Raise VizError for a model whose next token cannot be asked for."""
    if not model.config.has_unembedding:
        raise VizError(f"{model.name} predicts no token, so nothing can be compared. Choose a model such as tiny-gpt.")


def _in_batches(
    read: Callable[[Sequence[RowEdits]], Tensor], trace: Trace, edits: Sequence, done: Callable[[int], None]
) -> Tensor:
    rows, size = [], _rows_at_once(trace)
    for start in range(0, len(edits), size):
        with _alone():
            rows.append(read(edits[start : start + size]))
        done(min(start + size, len(edits)))
    return torch.cat(rows)


def _rows_at_once(trace: Trace) -> int:
    facts, length, keys = trace.config, trace.length, trace.key_length
    a_row = 4 * (facts.n_heads * length * keys + 8 * length * facts.d_model + 2 * facts.vocab_size)
    return max(1, min(MOST_ROWS, BATCH_BYTES // a_row))


@contextmanager
def _alone() -> Iterator[None]:
    """Without gradients, and without what others watch or change."""
    with torch.inference_mode(), unwatched():
        yield


def _hidden(model: Model, trace: Trace, edits: Sequence[RowEdits]) -> Tensor:
    """The final hidden state of one batch, in which each row has edits of its own: (B,T,C)."""
    count = len(edits)
    ids = torch.tensor([trace.read.ids]).expand(count, -1)
    given = {} if trace.source is None else {"source": torch.tensor([trace.source.ids]).expand(count, -1)}
    given["mask"] = _chosen_masks(trace)
    with edit(_by_site(edits)):
        return model.transformer.hidden(ids, **given)


def _chosen_masks(trace: Trace) -> Masks:
    """The masks under which the trace was made, where they are not the model's own."""
    chosen = {
        part: trace.of(part).mask(0) for part, name in trace.mask_names.items() if name != trace.config.mask_of(part)
    }
    return chosen if trace.source is not None else chosen.get(trace.config.self_part)


def _by_site(edits: Sequence[RowEdits]) -> Mapping[str, Callable[[Tensor], Tensor]]:
    rows: dict[str, list[tuple[int, RowEdit]]] = {}
    for row, changes in enumerate(edits):
        for site, change in changes.items():
            rows.setdefault(site, []).append((row, change))

    def changed(of_site: list[tuple[int, RowEdit]]) -> Callable[[Tensor], Tensor]:
        def of_batch(tensor: Tensor) -> Tensor:
            for row, change in of_site:
                tensor[row] = change(tensor[row])
            return tensor

        return of_batch

    return {site: changed(of_site) for site, of_site in rows.items()}
