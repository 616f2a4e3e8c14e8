"""Ablation: what a model predicts without a head, a feed-forward half or a whole layer, all of them in turn.

Michel et al. 2019, "Are Sixteen Heads Really Better than One?"; means in place of zeros: Wang et al. 2022,
"Interpretability in the Wild", §2.3; values of another prompt: Chan et al. 2022, "Causal Scrubbing". What an ablation
shows is what the rest of this model makes of the loss: another head may take over (McGrath et al. 2023, "The Hydra
Effect").
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from viz_model.arguments import of_type, said, switch, text, whole_number
from viz_model.errors import VizError
from viz_model.heads.comparison import divergences
from viz_model.intervention.batches import (
    RowEdits,
    edited_passes,
    refuse_other_edits,
    refuse_without_prediction,
    values_at,
)
from viz_model.intervention.replacement import ZERO, Replacement, Values, replacement, row_edit
from viz_model.jobs import Tell, untold
from viz_model.model import Model
from viz_model.model.prompts import Prompt
from viz_model.model.trace import Trace

HEAD, FEED_FORWARD, LAYER = "head", "feed-forward", "layer"
UNITS = (HEAD, FEED_FORWARD, LAYER)

LOGITS_BYTES = 64 * 2**20  # of all positions, which the loss needs: so many are held at once


@dataclass(frozen=True, eq=False)
class Ablation:
    """What became of a prediction when each unit was switched off, alone; NaN where that was not asked for.

    A table (L,K) has a column for each of the H heads, or one, where whole feed-forward halves or layers are switched
    off. kl (L,K): KL(P‖R) in bits of the prediction P from the edited one R. loss (L,K): the mean loss over the
    prompt's own tokens, in nats a token, and loss_before without an edit; None where it was not asked for. logits (V,):
    of the pass as it was; edited (N,V): of `heads`, pairs of a layer and a column. again (V,), loss_again: of a pass
    through the same batches with no edit at all: how it differs is rounding. replaced: what stands in their place.
    """

    part: str
    unit: str
    replaced: Replacement
    heads: tuple[tuple[int, int], ...]
    kl: Tensor
    logits: Tensor
    edited: Tensor
    again: Tensor
    loss: Tensor | None = None
    loss_before: float | None = None
    loss_again: float | None = None

    @property
    def how(self) -> str:
        return self.replaced.how

    def logit_change(self, token: int, than: int | None = None) -> Tensor:
        """How much the logit of a token changed, or its difference to the logit of another token: (L,K)."""
        return self._table(self._change(self.edited, token, than))

    @property
    def loss_change(self) -> Tensor:
        """How much the loss over the prompt grew, in nats a token: (L,K). Raises VizError if it was not measured."""
        if self.loss is None:
            raise VizError("The loss was not measured. Ask for it: ablate(…, with_loss=True).")
        return self.loss - self.loss_before

    @property
    def control(self) -> Tensor:
        """Of each head, the smallest and the largest KL of the same edit on the other heads of its layer: (L,K,2); NaN
        where there is no other. See `band`."""
        return band(self.kl, self.unit)

    @property
    def kl_rounding(self) -> float:
        """How much of a KL divergence may be rounding: that of a pass in which nothing was changed."""
        return max(float(divergences(self.logits, self.again[None])), self._spacing**2)

    def logit_rounding(self, token: int, than: int | None = None) -> float:
        """The same of `logit_change`, without its sign."""
        return max(abs(float(self._change(self.again[None], token, than))), self._spacing)

    @property
    def loss_rounding(self) -> float:
        """The same of `loss_change`, without its sign."""
        measured = 0.0 if self.loss is None else abs(self.loss_again - self.loss_before)
        return max(measured, self._spacing)

    @property
    def _spacing(self) -> float:
        """From the largest logit to the next number in 32 bits: less than that is rounding, whatever is measured."""
        return torch.finfo(torch.float32).eps * float(self.logits.abs().max())

    def _change(self, edited: Tensor, token: int, than: int | None) -> Tensor:
        change = self._logit(edited, token) - self._logit(self.logits, token)
        return change if than is None else change - self._change(edited, than, None)

    def _logit(self, logits: Tensor, token: int) -> Tensor:
        token = whole_number("The token", token)
        if not 0 <= token < len(self.logits):
            raise VizError(f"There is no token {token}: ids go from 0 to {len(self.logits) - 1}.")
        return logits[..., token].double()

    def _table(self, numbers: Tensor) -> Tensor:
        return _table(self.kl.shape, self.heads, numbers)


def band(table: Tensor, unit: str) -> Tensor:
    """The control of each effect (L,K): the smallest and the largest one of the same edit elsewhere, (L,K,2).

    Of a head, on the other heads of its layer; of a feed-forward half or a layer, on those of the other layers. NaN
    where there is none.
    """
    rows = table if unit == HEAD else table.T  # the others are in the same row
    others = rows[:, None, :].repeat(1, rows.shape[1], 1)
    own = torch.eye(rows.shape[1], dtype=torch.bool)
    known = ~(own | others.isnan())
    low = others.masked_fill(~known, torch.inf).amin(-1)
    high = others.masked_fill(~known, -torch.inf).amax(-1)
    found = torch.stack((low, high), -1).masked_fill(~known.any(-1)[..., None], torch.nan)
    return found if unit == HEAD else found.transpose(0, 1)


def ablate(
    model: Model,
    prompt: Prompt | Trace,
    heads: str | Sequence[tuple[int, int]] = "all",
    how: str = ZERO,
    *,
    unit: str = HEAD,
    values_of: Values | None = None,
    part: str | None = None,
    position: int = -1,
    with_loss: bool = False,
    tell: Tell = untold,
) -> Ablation:
    """Switch each head off, one at a time, and compare what is predicted at a position.

    heads: "all", or pairs of a layer and a head. how: what stands in the place of a head's mixed values, at every
    token: "zero"; "mean", their mean over the prompt; "mean of a text", their mean over the text, or list of texts,
    `values_of`; "another prompt", those of the prompt `values_of`, token by token. A text is a prompt of the model or a
    trace; one that is longer than the model reads is cut into pieces. Prompts of unequal length are aligned by the
    tokens that both begin and end with; others keep their values.
    unit: "head"; "feed-forward", or "layer", whose attention and feed-forward are switched off together: what they add
    to the stream is replaced. part: which attention (the stack it is in); that of the stack which predicts, if none is
    named. position: of the token after which the next one is predicted (of an encoder: whose own place is).
    with_loss: also measure the loss over the prompt, which takes the logits of all positions.
    tell: told at every site how many passes are made, of how many.
    Of an edited model all passes are under its edits, and what is switched off is so on top of them.

    Raises VizError for a head, a part, a position or a way that is not there, for a loss where there is none, for a
    model that predicts nothing, and for a trace that was made under other edits than those of the model.
    """
    if text("unit", unit) not in UNITS:
        raise VizError(f"What is switched off is a {', a '.join(UNITS)}, not {said(unit)}.")
    if unit != HEAD and not (isinstance(heads, str) and heads == "all"):
        raise VizError(f"Heads are named for the unit “{HEAD}” alone: of a {unit}, all are switched off in turn.")
    chosen = {"how": how, "values_of": values_of, "part": part, "position": position, "with_loss": with_loss}
    found = ablate_units(model, prompt, [unit], heads, **chosen, tell=tell)
    if unit not in found:
        raise VizError(f"{model.name} has no {unit} whose output can be replaced. Switch heads off instead.")
    return found[unit]


def ablate_units(
    model: Model,
    prompt: Prompt | Trace,
    units: Sequence[str] = UNITS,
    heads: str | Sequence[tuple[int, int]] = "all",
    how: str = ZERO,
    *,
    values_of: Values | None = None,
    part: str | None = None,
    position: int = -1,
    with_loss: bool = False,
    tell: Tell = untold,
) -> dict[str, Ablation]:
    """The same for several units, in the same batches, by their names: those that the model has; see `ablate`."""
    refuse_without_prediction(of_type("The model", model, Model, "a Model, such as vm.load gives"))
    of_type("tell", tell, Callable, "a function")
    trace = prompt if isinstance(prompt, Trace) else model.trace(prompt)
    refuse_other_edits(model, trace)
    trace = trace.of(model.config.self_part if part is None else part)
    reader = trace.of(trace.config.self_part)
    before = reader.logits_at(position)
    targets = _loss_targets(model, reader) if switch("with_loss", with_loss) else None
    chosen = _heads(trace, heads)
    sites = {unit: _sites(model, trace, unit) for unit in units}
    places = {
        unit: chosen if unit == HEAD else tuple((layer, 0) for layer, some in enumerate(sites[unit]) if some)
        for unit in units
    }
    total = 1 + sum(map(len, places.values()))
    tell(0, total)
    known = sorted({site for of_layers in sites.values() for some in of_layers for site in some})
    replaced = replacement(model, trace, how, values_of, known, lambda: tell(0, total))
    rows: list[RowEdits] = [{}]
    for unit in units:
        for layer, head in places[unit]:
            rows.append({s: row_edit(replaced, s, head if unit == HEAD else None) for s in sites[unit][layer]})

    def read(hidden: Tensor) -> Tensor:
        """(B,T,C) -> (B,V), and behind it the loss, if it is asked for."""
        logits = model.transformer.unembed(hidden[:, position])
        if targets is None:
            return logits
        return torch.cat((logits, _losses(model, hidden, targets)[:, None]), -1)

    found = edited_passes(model, trace, rows, read, lambda done: tell(done, total))
    losses = None if targets is None else found[:, -1].double()
    loss_before = None
    if targets is not None:
        found = found[:, :-1]
        loss_before = float(_losses(model, reader[reader.site("final_norm")][None], targets))
    ablations, start = {}, 1
    for unit in units:
        if not places[unit]:
            continue
        shape = (trace.n_layers, trace.config.n_heads if unit == HEAD else 1)
        own = slice(start, start := start + len(places[unit]))
        ablations[unit] = Ablation(
            part=trace.part,
            unit=unit,
            replaced=replaced,
            heads=places[unit],
            kl=_table(shape, places[unit], divergences(before, found[own])),
            logits=before,
            edited=found[own],
            again=found[0],
            loss=None if losses is None else _table(shape, places[unit], losses[own]),
            loss_before=loss_before,
            loss_again=None if losses is None else float(losses[0]),
        )
    return ablations


def _heads(trace: Trace, heads: str | Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    layers, count = trace.n_layers, trace.config.n_heads
    if isinstance(heads, str) and heads == "all":
        return tuple((layer, head) for layer in range(layers) for head in range(count))
    of_type("The heads", heads, list | tuple, "pairs of a layer and a head, such as [(1, 0), (2, 6)], or “all”")
    try:
        pairs = tuple((whole_number("A layer", layer), whole_number("A head", head)) for layer, head in heads)
    except (TypeError, ValueError, RuntimeError):
        raise VizError("Heads are pairs of a layer and a head, such as [(1, 0), (2, 6)], or “all”.") from None
    if not pairs:
        raise VizError("There is no head to switch off. Name at least one, such as [(1, 0)].")
    for layer, head in pairs:
        if not (0 <= layer < layers and 0 <= head < count):
            raise VizError(
                f"There is no head {head} in layer {layer}: layers 0 to {layers - 1}, heads 0 to {count - 1}."
            )
    return tuple(dict.fromkeys(pairs))


def _sites(model: Model, trace: Trace, unit: str) -> list[tuple[str, ...]]:
    """Where a unit is switched off in each layer; nothing in a layer whose own code has no such site."""
    config, part = trace.config, trace.part
    if unit == HEAD:
        return [(f"{config.attention_name(part, layer)}.mixed",) for layer in range(trace.n_layers)]
    halves = ["ffn"] if config.d_ff else []
    if unit == LAYER:
        halves += ["attn", "cross"] if "cross" in config.parts and part != "encoder" else ["attn"]
    blocks = [config.block_name(part, layer) for layer in range(trace.n_layers)]
    names = [f"{block}.{half}.{out}" for block in blocks for half in halves for out in ("out", "out_norm")]
    there = values_at(model, trace, names)
    found = []
    for block in blocks:
        ends = [next((f"{block}.{half}.{out}" for out in ("out_norm", "out") if f"{block}.{half}.{out}" in there), None)
                for half in halves]  # fmt: skip
        found.append(() if None in ends else tuple(ends))
    return found


def _loss_targets(model: Model, trace: Trace) -> Tensor:
    """The ids that the positions of the prompt but the last predict: (T−1,)."""
    if model.config.layout == "encoder-only":
        raise VizError(
            f"{model.name} sees every token that it would have to predict, so the prompt has no loss. Choose another "
            "effect, or a model that predicts the next token, such as tiny-gpt."
        )
    if trace.length < 2:
        raise VizError("A text of one token has no next token to predict, so it has no loss. Type a longer text.")
    return torch.tensor(trace.ids[1:])


@torch.inference_mode()
def _losses(model: Model, hidden: Tensor, targets: Tensor) -> Tensor:
    """Final hidden states (B,T,C) -> the mean loss of each row in nats a token (B,)."""
    rows, count = len(hidden), len(targets)
    total = torch.zeros(rows, dtype=torch.float64)
    at_once = max(1, LOGITS_BYTES // (4 * rows * model.config.vocab_size))
    for here, ids in zip(torch.arange(count).split(at_once), targets.split(at_once), strict=True):
        logits = model.transformer.unembed(hidden[:, here])  # (B,n,C) -> (B,n,V)
        losses = F.cross_entropy(logits.flatten(0, 1), ids.repeat(rows), reduction="none")
        total += losses.view(rows, -1).double().sum(-1)
    return (total / count).to(hidden.dtype)


def _table(shape: Sequence[int], places: Sequence[tuple[int, int]], numbers: Tensor) -> Tensor:
    table = torch.full(tuple(shape), torch.nan, dtype=torch.float64)
    for place, number in zip(places, numbers, strict=True):
        table[place] = number
    return table
