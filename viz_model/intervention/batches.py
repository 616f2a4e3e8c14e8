"""The same prompt many times in one pass, each row with edits of its own.

Layers before the first edit of a batch are not computed again, if the model allows it: their stream is that of the
trace.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from viz_model.errors import EditError, VizError
from viz_model.model import Model
from viz_model.model.trace import Trace
from viz_model.transformer.hooks import Edit, capture, edit, follow, unwatched
from viz_model.transformer.host import Masks
from viz_model.transformer.skipping import skipping

BATCH_BYTES = 128 * 2**20  # of weights, hidden numbers, streams and logits that a batch may take, roughly
MOST_ROWS, FEWEST_ROWS = 64, 8  # with fewer, what a batch itself costs counts for more than layers that it could skip

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

    tokens: only their logits are kept, (N,K). done: see `edited_passes`.
    """

    def read(hidden: Tensor) -> Tensor:
        logits = model.transformer.unembed(hidden[:, position])  # (B,T,C) -> (B,V)
        return logits if tokens is None else logits[:, list(tokens)]

    return edited_passes(model, trace, edits, read, done)


def edited_passes(
    model: Model,
    trace: Trace,
    edits: Sequence[RowEdits],
    read: Callable[[Tensor], Tensor],
    done: Callable[[int], None],
) -> Tensor:
    """What `read` makes of the final hidden states of N such passes: (B,T,C) -> (B,…), all together (N,…).

    done: told how many passes are made, at every site, so that what it raises ends the work soon.
    """
    return _in_batches(lambda some, first: read(_hidden(model, trace, some, first)), trace, edits, done)


def edited_values(
    model: Model, trace: Trace, edits: Sequence[RowEdits], site: str, done: Callable[[int], None]
) -> Tensor:
    """What stands at a site, (N,…), in N such passes."""

    def read(some: Sequence[RowEdits], first: int) -> Tensor:
        with capture(site) as found:
            _hidden(model, trace, some, min(first, _block_of(trace, site)))
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


def refuse_other_edits(model: Model, trace: Trace) -> None:
    """Raise EditError where a trace was made under other edits than those of the model, whose passes it is compared
    with."""
    if trace.edits == model.edits:
        return

    def words(edits: Sequence) -> str:
        return f"the edits {', '.join(edit.written for edit in edits)}" if edits else "no edits"

    raise EditError(
        f"The trace was made under {words(trace.edits)}, and the model has {words(model.edits)}. Trace the prompt with "
        "this same model."
    )


def rows_at_once(trace: Trace) -> int:
    """How many passes over its prompt a batch has."""
    facts, length = trace.config, max(len(trace.read), len(trace.source or ()))
    of_token = 2 * facts.n_heads * length + 8 * facts.d_model + 3 * facts.d_ff
    return max(1, min(MOST_ROWS, BATCH_BYTES // (4 * (length * of_token + 2 * facts.vocab_size))))


def _in_batches(
    read: Callable[[Sequence[RowEdits], int], Tensor],
    trace: Trace,
    edits: Sequence[RowEdits],
    done: Callable[[int], None],
) -> Tensor:
    """read: is given the edits of a batch and the place of the first block that they change."""
    firsts = [min((_block_of(trace, site) for site in of_row), default=0) for of_row in edits]
    found: list[Tensor] = []
    order: list[int] = []

    def told(_: str) -> None:
        done(len(order))

    for rows in _batches(firsts, rows_at_once(trace)):
        with _alone(), follow(told):
            found.append(read([edits[row] for row in rows], firsts[rows[0]]))
        order += rows
        done(len(order))
    return torch.cat(found)[torch.tensor(order).argsort()]


def _batches(firsts: Sequence[int], size: int) -> Iterator[list[int]]:
    """Rows that are first changed in the same block together, at most `size`; few of them with those of the next."""
    rows: list[int] = []
    for row in sorted(range(len(firsts)), key=firsts.__getitem__):
        is_other = rows and firsts[row] != firsts[rows[-1]]
        if len(rows) == size or (is_other and len(rows) >= FEWEST_ROWS):
            yield rows
            rows = []
        rows.append(row)
    yield rows


@contextmanager
def _alone() -> Iterator[None]:
    """Without gradients, and without what others watch or change."""
    with torch.inference_mode(), unwatched():
        yield


def _block_of(trace: Trace, site: str) -> int:
    """The place of a site's block among all, those of an encoder first; 0 of what stands in none."""
    return next((place for place, name in enumerate(trace.config.block_names) if site.startswith(f"{name}.")), 0)


def _hidden(model: Model, trace: Trace, edits: Sequence[RowEdits], first: int = 0) -> Tensor:
    """The final hidden state of one batch, in which each row has edits of its own, in no block before `first`:
    (B,T,C)."""
    count = len(edits)
    ids = torch.tensor([trace.read.ids]).expand(count, -1)
    given = {} if trace.source is None else {"source": torch.tensor([trace.source.ids]).expand(count, -1)}
    given["mask"] = _chosen_masks(trace)
    skipped, known = _known(trace, first) if model.transformer.skips_blocks else ((), {})
    with skipping(skipped), edit(known), edit(_by_site(edits)):
        return model.transformer.hidden(ids, **given)


def _known(trace: Trace, first: int) -> tuple[list[str], dict[str, Edit]]:
    """The blocks before this one which can be skipped, and what of the trace stands in their place."""
    facts, names = trace.config, trace.config.block_names
    stack = next(part for part in facts.stacks or ("self",) if names[first].startswith(facts.block_name(part, "")))
    begin = names.index(facts.block_name(stack, 0))
    known = {}
    if begin:  # the encoder is known as a whole
        known["encoder.final_norm"] = _instead(trace["encoder.final_norm"])
    if first > begin:
        known[f"{names[first]}.resid_pre"] = _instead(trace[f"{names[first]}.resid_pre"])
    return [*names[1:begin], *names[begin + 1 : first]], known


def _instead(stream: Tensor) -> Edit:
    """The stream of the trace (T,C) in all rows of a batch."""
    return lambda batch: stream.expand_as(batch).clone()


def _chosen_masks(trace: Trace) -> Masks:
    """The masks under which the trace was made, where they are not the model's own."""
    chosen = {
        part: trace.of(part).mask(0) for part, name in trace.mask_names.items() if name != trace.config.mask_of(part)
    }
    return chosen if trace.source is not None else chosen.get(trace.config.self_part)


def _by_site(edits: Sequence[RowEdits]) -> dict[str, Edit]:
    rows: dict[str, list[tuple[int, RowEdit]]] = {}
    for row, changes in enumerate(edits):
        for site, change in changes.items():
            rows.setdefault(site, []).append((row, change))

    def changed(of_site: list[tuple[int, RowEdit]]) -> Edit:
        def of_batch(tensor: Tensor) -> Tensor:
            for row, change in of_site:
                tensor[row] = change(tensor[row])
            return tensor

        return of_batch

    return {site: changed(of_site) for site, of_site in rows.items()}
