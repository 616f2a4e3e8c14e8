"""Ablation: what a model predicts without a head, all heads in turn.

Michel et al. 2019, "Are Sixteen Heads Really Better than One?"; means in place of zeros: Wang et al. 2022,
"Interpretability in the Wild", §2.3. What an ablation shows is what the rest of this model makes of the loss: another
head may take over (McGrath et al. 2023, "The Hydra Effect").
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from viz_model.arguments import of_type, said, text, whole_number
from viz_model.errors import VizError
from viz_model.intervention.batches import RowEdit, edited_logits, refuse_without_prediction
from viz_model.jobs import Tell, untold
from viz_model.model import Model
from viz_model.model.prompts import Prompt
from viz_model.model.trace import Trace

ZERO, MEAN = "zero", "mean"
HOW = (ZERO, MEAN)


@dataclass(frozen=True, eq=False)
class Ablation:
    """What became of a prediction when each head was switched off, alone; NaN where it was not asked for.

    kl (L,H): KL(P‖R) in bits of the prediction P from the edited one R. logits (V,): of the pass as it was;
    edited (N,V): of `heads`, pairs of a layer and a head.
    """

    part: str
    how: str
    heads: tuple[tuple[int, int], ...]
    kl: Tensor
    logits: Tensor
    edited: Tensor

    def logit_change(self, token: int) -> Tensor:
        """How much the logit of a token changed: (L,H)."""
        token = whole_number("The token", token)
        if not 0 <= token < len(self.logits):
            raise VizError(f"There is no token {token}: ids go from 0 to {len(self.logits) - 1}.")
        return self._by_head(self.edited[:, token] - self.logits[token])

    @property
    def control(self) -> Tensor:
        """Of each head, the smallest and the largest KL of the same edit on the other heads of its layer: (L,H,2); NaN
        in a layer of one head."""
        others = self.kl[:, None, :].repeat(1, self.kl.shape[1], 1)
        own = torch.eye(self.kl.shape[1], dtype=torch.bool)
        known = ~(own | others.isnan())
        low = others.masked_fill(~known, torch.inf).amin(-1)
        high = others.masked_fill(~known, -torch.inf).amax(-1)
        return torch.stack((low, high), -1).masked_fill(~known.any(-1)[..., None], torch.nan)

    def _by_head(self, numbers: Tensor) -> Tensor:
        table = torch.full_like(self.kl, torch.nan)
        for (layer, head), number in zip(self.heads, numbers, strict=True):
            table[layer, head] = number
        return table


def ablate(
    model: Model,
    prompt: Prompt | Trace,
    heads: str | Sequence[tuple[int, int]] = "all",
    how: str = ZERO,
    *,
    part: str | None = None,
    position: int = -1,
    tell: Tell = untold,
) -> Ablation:
    """Switch each head off, one at a time, and compare what is predicted at a position.

    heads: "all", or pairs of a layer and a head. how: what stands in the place of a head's mixed values, "zero", or
    "mean": their mean over the prompt. part: which attention; that of the stack which predicts, if none is named.
    position: of the token after which the next one is predicted (of an encoder: whose own place is).
    tell: told after each batch how many heads are done, of how many.

    Raises VizError for a head, a part, a position or a way that is not there, and for a model that predicts nothing.
    """
    refuse_without_prediction(of_type("The model", model, Model, "a Model, such as vm.load gives"))
    of_type("tell", tell, Callable, "a function")
    trace = prompt if isinstance(prompt, Trace) else model.trace(prompt)
    trace = trace.of(model.config.self_part if part is None else part)
    if text("how", how) not in HOW:
        raise VizError(f"A head can be switched off by {' or by '.join(HOW)}, not by {said(how)}.")
    chosen = _heads(trace, heads)
    site = trace.config.attention_name
    edits = [{f"{site(trace.part, layer)}.mixed": _without(head, how)} for layer, head in chosen]
    before = trace.of(trace.config.self_part).logits_at(position).double()
    tell(0, len(edits))
    edited = edited_logits(model, trace, edits, lambda done: tell(done, len(edits)), position).double()
    logs, changed = before.log_softmax(-1), edited.log_softmax(-1)
    kl = (logs.exp() * (logs - changed)).sum(-1).clamp_min(0) / math.log(2)
    empty = torch.full((trace.n_layers, trace.config.n_heads), torch.nan, dtype=torch.float64)
    found = Ablation(trace.part, how, chosen, empty, before, edited)
    found.kl.copy_(found._by_head(kl))
    return found


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


def _without(head: int, how: str) -> RowEdit:
    def change(mixed: Tensor) -> Tensor:  # (H,T,D)
        mixed[head] = 0.0 if how == ZERO else mixed[head].mean(0)
        return mixed

    return change
