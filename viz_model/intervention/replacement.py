"""What stands in the place of what is switched off: zero, a mean, or what another prompt has there."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from viz_model.arguments import said, text
from viz_model.errors import VizError
from viz_model.heads.alignment import Alignment, align
from viz_model.intervention.batches import RowEdit, values_at
from viz_model.model import Model
from viz_model.model.prompts import Prompt, Tokens
from viz_model.model.trace import Trace
from viz_model.transformer.hooks import capture, follow, unwatched

ZERO, MEAN, TEXT_MEAN, OTHER = "zero", "mean", "mean of a text", "another prompt"
HOW = (ZERO, MEAN, TEXT_MEAN, OTHER)
MOST_TOKENS = 16_384  # that a mean is taken over
NEEDS = {
    TEXT_MEAN: "the text, or a list of texts, whose mean is taken",
    OTHER: "the other prompt",
}

Values = Prompt | Trace | Sequence[Prompt | Trace]


@dataclass(frozen=True, eq=False)
class Replacement:
    """values: by site; of a mean one for all positions, (H,D) or (C,), of another prompt (H,T,D) or (T,C).

    tokens: over how many a mean is taken. alignment: of the other prompt's tokens and those of this one.
    """

    how: str
    values: dict[str, Tensor]
    tokens: int = 0
    alignment: Alignment | None = None


def row_edit(replaced: Replacement, site: str, head: int | None = None) -> RowEdit:
    """What becomes of a row at a site: of one head in (H,T,D), or of all of (T,C)."""
    value = replaced.values.get(site)
    value = value if head is None or value is None else value[head]
    pairs = () if replaced.alignment is None else replaced.alignment.pairs

    def change(tensor: Tensor) -> Tensor:
        own = tensor if head is None else tensor[head]  # (T,·)
        if replaced.how == ZERO:
            own.zero_()
        elif replaced.how == OTHER:
            for theirs, ours in pairs:
                own[ours] = value[theirs]
        else:
            own.copy_(value)
        return tensor

    return change


def replacement(
    model: Model, trace: Trace, how: str, values_of: Values | None, sites: Sequence[str], tell: Callable[[], None]
) -> Replacement:
    """values_of: whose values stand there, see `NEEDS`; None where none are needed. sites: where they are taken.

    tell: called again and again meanwhile; what it raises ends the work. Raises VizError for what is no way, and for
    values that cannot stand there.
    """
    if text("how", how) not in HOW:
        raise VizError(f"What is switched off can be replaced by {', '.join(HOW)}, not by {said(how)}.")
    if (values_of is None) == (how in NEEDS):
        if how in NEEDS:
            raise VizError(f"For “{how}”, values_of must be {NEEDS[how]}.")
        raise VizError(f"For “{how}”, the prompt itself is enough: leave values_of out.")
    if how == TEXT_MEAN:
        return _mean_of_texts(model, trace, values_of, sites, tell)
    if how == OTHER:
        return _of_another(model, trace, values_of, sites)
    if how == MEAN:
        means = {site: tensor.mean(-2) for site, tensor in values_at(model, trace, sites).items()}
        return Replacement(how, means, trace.length)
    return Replacement(how, {})


def _mean_of_texts(
    model: Model, trace: Trace, texts: Values, sites: Sequence[str], tell: Callable[[], None]
) -> Replacement:
    sums: dict[str, Tensor] = {}
    tokens = 0
    for ids, source in _rows(model, trace, texts):
        given = {} if source is None else {"source": torch.tensor([source])}
        with torch.inference_mode(), unwatched(), follow(lambda _: tell()), capture(optional=sites) as found:
            model.transformer.hidden(torch.tensor([ids]), **given)
        for site, tensor in found.items():
            sums[site] = sums.get(site, 0) + tensor[0].double().sum(-2)  # over positions: (H,T,D) -> (H,D)
        tokens += len(source if trace.part == "encoder" else ids)
    return Replacement(TEXT_MEAN, {site: (total / tokens).float() for site, total in sums.items()}, tokens)


def _rows(model: Model, trace: Trace, texts: Values) -> list[tuple[list[int], list[int] | None]]:
    """What is read in each pass, and of an encoder-decoder its source. A text longer than the model reads is cut into
    pieces of that length."""
    is_list = isinstance(texts, list | tuple)
    several = is_list and any(isinstance(one, str | list | tuple | Tokens | Trace) for one in texts)
    rows: list[tuple[list[int], list[int] | None]] = []
    for one in texts if several else (texts,):
        if isinstance(one, Trace):
            rows.append((list(one.read.ids), None if one.source is None else list(one.source.ids)))
        elif model.has_source:
            rows.append((model.written(one), model.encode(one)))
        else:
            ids, longest = model.ids(one), model.config.context_length
            rows += [(ids[start : start + longest], None) for start in range(0, len(ids), longest)]
        if sum(len(ids) for ids, _ in rows) > MOST_TOKENS:
            raise VizError(f"A mean is taken over at most {MOST_TOKENS:,} tokens, and this text has more. Shorten it.")
    if not rows:
        raise VizError("The text of the mean is empty. Give at least one token.")
    return rows


def _of_another(model: Model, trace: Trace, other: Prompt | Trace, sites: Sequence[str]) -> Replacement:
    if not isinstance(other, Trace):
        target = {"target": trace.read} if model.has_source else {}
        other = model.trace(other, **target)
    theirs = other.of(trace.part).ids
    alignment = align(theirs, trace.ids)
    if not alignment.pairs:
        raise VizError(
            f"The other prompt has {len(theirs)} tokens, and this one has {trace.length}; they neither begin nor end "
            "with the same token. Choose one of equal length, so that each token has its counterpart."
        )
    return Replacement(OTHER, values_at(model, other, sites), alignment=alignment)
