"""The same prompt many times in one pass, each row with another edit."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from torch import Tensor

from viz_model.errors import VizError
from viz_model.model import Model
from viz_model.model.trace import Trace
from viz_model.transformer.hooks import edit, unwatched
from viz_model.transformer.host import Masks

BATCH_BYTES = 128 * 2**20  # of weights, logits and streams that a batch may take, roughly
MOST_ROWS = 64

RowEdit = Callable[[Tensor], Tensor]  # what stands at a site in one row, (…) without batch -> what shall stand there


def edited_logits(
    model: Model, trace: Trace, edits: Sequence[tuple[str, RowEdit]], done: Callable[[int], None], position: int = -1
) -> Tensor:
    """Logits at a position (N,V) for N passes over the trace's prompt, each with one edit at one site.

    done: told after each batch how many passes are made.
    """
    rows = []
    for start, some in _in_batches(edits, _rows_at_once(trace)):
        rows.append(_pass(model, trace, some, position))
        done(start + len(some))
    return torch.cat(rows)


def refuse_without_prediction(model: Model) -> None:
    """Raise VizError for a model whose next token cannot be asked for."""
    if not model.config.has_unembedding:
        raise VizError(f"{model.name} predicts no token, so nothing can be compared. Choose a model such as tiny-gpt.")


def _in_batches(edits: Sequence, size: int) -> Iterator[tuple[int, Sequence]]:
    for start in range(0, len(edits), size):
        yield start, edits[start : start + size]


def _rows_at_once(trace: Trace) -> int:
    facts, length, keys = trace.config, trace.length, trace.key_length
    a_row = 4 * (facts.n_heads * length * keys + 8 * length * facts.d_model + 2 * facts.vocab_size)
    return max(1, min(MOST_ROWS, BATCH_BYTES // a_row))


@torch.inference_mode()
def _pass(model: Model, trace: Trace, edits: Sequence[tuple[str, RowEdit]], position: int) -> Tensor:
    """One batch, in which each row has an edit of its own: (B,V)."""
    count = len(edits)
    ids = torch.tensor([trace.read.ids]).expand(count, -1)
    given = {} if trace.source is None else {"source": torch.tensor([trace.source.ids]).expand(count, -1)}
    given["mask"] = _chosen_masks(trace)
    with unwatched(), edit(_by_site(edits)):
        return model.transformer.unembed(model.transformer.hidden(ids, **given)[:, position])  # (B,T,C) -> (B,V)


def _chosen_masks(trace: Trace) -> Masks:
    """The masks under which the trace was made, where they are not the model's own."""
    chosen = {
        part: trace.of(part).mask(0) for part, name in trace.mask_names.items() if name != trace.config.mask_of(part)
    }
    return chosen if trace.source is not None else chosen.get(trace.config.self_part)


def _by_site(edits: Sequence[tuple[str, RowEdit]]) -> Mapping[str, Callable[[Tensor], Tensor]]:
    rows: dict[str, list[tuple[int, RowEdit]]] = {}
    for row, (site, change) in enumerate(edits):
        rows.setdefault(site, []).append((row, change))

    def changed(of_site: list[tuple[int, RowEdit]]) -> Callable[[Tensor], Tensor]:
        def of_batch(tensor: Tensor) -> Tensor:
            for row, change in of_site:
                tensor[row] = change(tensor[row])
            return tensor

        return of_batch

    return {site: changed(of_site) for site, of_site in rows.items()}
