"""Activation patching: how much of an answer returns when a value of one pass is put into another one.

Vig et al. 2020, "Investigating Gender Bias in Language Models Using Causal Mediation Analysis"; Meng et al. 2022,
"Locating and Editing Factual Associations in GPT", §2 (causal tracing); how to read it: Zhang and Nanda 2023, "Towards
Best Practices of Activation Patching"; both directions: Heimersheim and Nanda 2024, "How to Use and Interpret
Activation Patching".
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from viz_model.arguments import of_type, said, text, whole_number
from viz_model.errors import VizError
from viz_model.heads.alignment import Alignment
from viz_model.intervention.batches import RowEdit, RowEdits, values_at
from viz_model.intervention.runs import Runs, two_runs
from viz_model.jobs import Tell, untold
from viz_model.model import Model
from viz_model.model.prompts import Prompt
from viz_model.model.trace import Trace

STREAM, ATTENTION, FEED_FORWARD, HEADS, HEAD_POSITIONS = "resid_pre", "attn.out", "ffn.out", "heads", "head_positions"
SITES = {
    STREAM: "stream before a layer",
    ATTENTION: "attention output",
    FEED_FORWARD: "feed-forward output",
    HEADS: "mixed values",
    HEAD_POSITIONS: "mixed values",
}


@dataclass(frozen=True, eq=False)
class Patching:
    """What became of an answer when values of the origin were put into the base, each alone.

    Origin and base are the clean and the corrupted run, and the other way round where `reverse`.

    difference: logit(good) − logit(bad) after each patch, (L,T) or (L,H) or (L,H,T), where T are the positions of the
    base; NaN where nothing was put in: a layer that was not asked for, a position without counterpart, a head from
    which no path leads to the receiver. clean, corrupted: the same number in the two runs as they are. nothing, whole:
    the effect in a pass into which nothing was put, and in one into which the stream of every layer was, at all
    aligned positions; of paths, the receiver's whole query, key or value. Both are measured: they are 0 and 1 up to
    rounding, where they must be. alignment: of tokens of the origin and the base.
    """

    sites: str
    part: str
    reverse: bool
    difference: Tensor
    clean: float
    corrupted: float
    nothing: float
    whole: float
    good: int
    bad: int
    alignment: Alignment

    @property
    def effect(self) -> Tensor:
        """(d − d_base) / (d_origin − d_base), where d is `difference`: how much of the answer returns, or where
        `reverse`, is lost. 0 where the answer stays that of the base, 1 where it becomes that of the origin; other
        numbers, below 0 and beyond 1, are real."""
        base, origin = (self.clean, self.corrupted) if self.reverse else (self.corrupted, self.clean)
        return (self.difference - base) / (origin - base)


def patch(
    model: Model,
    clean: Prompt | Trace,
    corrupted: Prompt | Trace,
    sites: str = STREAM,
    answer: tuple[int | str, int | str] = (0, 1),
    *,
    reverse: bool = False,
    part: str | None = None,
    position: int = -1,
    layers: str | Sequence[int] = "all",
    tell: Tell = untold,
) -> Patching:
    """Put each value of the clean pass into the corrupted one, one at a time, and look at the answer.

    clean, corrupted: two prompts, or traces of them (for a mask or a target of their own). Prompts of equal length
    are aligned token by token. Of others, the tokens that both begin with and those that both end with belong
    together; what lies between is never put in.
    sites: "resid_pre" (the stream before each layer), "attn.out" or "ffn.out" (what a half gives), each a layer and a
    position at a time; "heads": the mixed values of a head, at all positions; "head_positions": at one position.
    answer: two tokens, the good one first, as ids or as texts of one token. reverse: put values of the corrupted pass
    into the clean one. part: of an encoder-decoder, whose values; those of the stack that predicts, if none is named.
    position: in the clean prompt, where the answer is read: after that token, or of an encoder in its place. layers:
    "all", or a list of those that are tried. tell: told after each batch how many values were put in, of how many.
    Of an edited model both runs are under its edits, and what is put in is put on top of them.

    Raises VizError for prompts whose answers have no aligned place, for sites that the model does not have or that
    cannot be replaced, where both prompts give the same answer, and for traces that were made under other edits than
    those of the model.
    """
    if text("sites", sites) not in SITES:
        raise VizError(f"There are no sites {said(sites)} to patch. Choose one of {', '.join(SITES)}.")
    runs = two_runs(model, clean, corrupted, answer, reverse=reverse, part=part, position=position, tell=tell)
    chosen = _layers(runs.base, layers)
    names = {layer: _site(runs, sites, layer) for layer in chosen}
    streams = _streams(runs)
    sought = [*names.values(), *streams]
    values, own = (values_at(model, run, sought) for run in (runs.origin, runs.base))
    if names[chosen[0]] not in values:
        raise VizError(f"{model.name} has no {SITES[sites]} that could be patched. Choose other values.")
    pairs = runs.alignment.pairs
    every_head = range(model.config.n_heads)
    cells: dict[tuple[int, ...], RowEdits] = {}
    for layer, name in names.items():

        def edit(pairs, head=None, name=name) -> RowEdits:
            """None where both runs have the same value there."""
            change = put(values[name], pairs, head)
            return {} if torch.equal(change(own[name].clone()), own[name]) else {name: change}

        if sites == HEADS:
            cells |= {(layer, head): edit(pairs, head) for head in every_head}
        elif sites == HEAD_POSITIONS:
            cells |= {(layer, head, pair[1]): edit([pair], head) for head in every_head for pair in pairs}
        else:
            cells |= {(layer, pair[1]): edit([pair]) for pair in pairs}
    everything = {name: put(values[name], aligned) for name, aligned in streams.items()}
    shape = (runs.base.n_layers,)
    shape += () if sites in (STREAM, ATTENTION, FEED_FORWARD) else (model.config.n_heads,)
    shape += () if sites == HEADS else (runs.base.length,)
    return patched(runs, sites, cells, shape, everything, tell)


def patched(
    runs: Runs, sites: str, cells: dict[tuple[int, ...], RowEdits], shape: tuple[int, ...], whole: RowEdits, tell: Tell
) -> Patching:
    """Run the base with the edits of each cell alone, with none of them, and with `whole`. A cell without an edit, for
    both runs have the same value there, is not run: it is as if nothing were put in."""
    edits = [*filter(None, cells.values()), {}, whole]
    tell(0, len(edits))
    *numbers, of_nothing, of_whole = runs.differences(edits, lambda done: tell(done, len(edits))).tolist()
    difference = torch.full(shape, torch.nan, dtype=torch.float64)
    measured = iter(numbers)
    for place, edit in cells.items():
        difference[place] = next(measured) if edit else of_nothing
    base, origin = runs.ends
    nothing, whole = ((number - base) / (origin - base) for number in (of_nothing, of_whole))
    return Patching(
        sites=sites,
        part=runs.part,
        reverse=runs.is_reverse,
        difference=difference,
        clean=base if runs.is_reverse else origin,
        corrupted=origin if runs.is_reverse else base,
        nothing=nothing,
        whole=whole,
        good=runs.good,
        bad=runs.bad,
        alignment=runs.alignment,
    )


def put(value: Tensor, pairs: Sequence[tuple[int, int]], head: int | None = None) -> RowEdit:
    """Aligned positions of (T,C), or of one head of (H,T,D), from the other pass."""
    origin, base = [first for first, _ in pairs], [second for _, second in pairs]

    def change(tensor: Tensor) -> Tensor:
        if head is None:
            tensor[base] = value[origin]
        else:
            tensor[head, base] = value[head, origin]
        return tensor

    return change


def _site(runs: Runs, sites: str, layer: int) -> str:
    config, part = runs.model.config, runs.part
    if sites in (STREAM, FEED_FORWARD):
        return f"{config.block_name(part, layer)}.{sites}"
    return f"{config.attention_name(part, layer)}.{'out' if sites == ATTENTION else 'mixed'}"


def _streams(runs: Runs) -> dict[str, Sequence[tuple[int, int]]]:
    """The stream before each layer of all stacks, and its aligned positions."""
    config = runs.model.config
    stacks = dict.fromkeys("decoder" if part == "cross" else part for part in config.parts)
    return {
        f"{config.block_name(part, layer)}.{STREAM}": runs.aligned(part).pairs
        for part in stacks
        for layer in range(config.layers_of(part))
    }


def _layers(trace: Trace, layers: str | Sequence[int]) -> list[int]:
    if isinstance(layers, str) and layers == "all":
        return [*range(trace.n_layers)]
    of_type("The layers", layers, list | tuple | range, "a list such as [0, 1], or “all”")
    chosen = [whole_number("A layer", layer) for layer in layers]
    if not chosen:
        raise VizError("No layer is named. Name at least one, such as [0].")
    for layer in chosen:
        if not 0 <= layer < trace.n_layers:
            raise VizError(f"There is no layer {layer}: choose layers from 0 to {trace.n_layers - 1}.")
    return [*dict.fromkeys(chosen)]
