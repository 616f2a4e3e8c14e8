"""Activation patching: how much of an answer returns when a value of one pass is put into another one.

Vig et al. 2020, "Investigating Gender Bias in Language Models Using Causal Mediation Analysis"; Meng et al. 2022,
"Locating and Editing Factual Associations in GPT", §2 (causal tracing); how to read it: Zhang and Nanda 2023, "Towards
Best Practices of Activation Patching".
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from viz_model.arguments import of_type, said, text
from viz_model.errors import VizError
from viz_model.heads.comparison import single_token
from viz_model.intervention.batches import RowEdit, edited_logits, refuse_without_prediction
from viz_model.jobs import Tell, untold
from viz_model.model import Model
from viz_model.model.prompts import Prompt
from viz_model.model.trace import Trace
from viz_model.transformer.hooks import capture

BY_POSITION = ("resid_pre", "attn.out", "ffn.out")
BY_HEAD = "heads"
SITES = (*BY_POSITION, BY_HEAD)


@dataclass(frozen=True, eq=False)
class Patching:
    """`effect` (L,T), or (L,H) of heads: 0 where the answer stays that of the corrupted prompt, 1 where it becomes that
    of the clean one; other numbers, below 0 and beyond 1, are real.

    effect = (d − d_corrupted) / (d_clean − d_corrupted), where d is the logit of the good answer minus that of the bad
    one, at the last position.
    """

    sites: str
    effect: Tensor
    clean: float
    corrupted: float
    good: int
    bad: int


def patch(
    model: Model,
    clean: Prompt,
    corrupted: Prompt,
    sites: str = "resid_pre",
    answer: tuple[int | str, int | str] = (0, 1),
    *,
    tell: Tell = untold,
) -> Patching:
    """Put each value of the clean pass into the corrupted one, one at a time, and look at the answer.

    sites: "resid_pre" (the stream before each layer), "attn.out" or "ffn.out" (what a half gives), each a layer and a
    position at a time; or "heads": the mixed values of a head, at all positions. answer: two tokens, the good one
    first, as ids or as texts of one token. tell: told after each batch how many values were put in, of how many.

    Raises VizError for prompts of unequal length, for sites that the model does not have or that cannot be replaced,
    and where both prompts give the same answer.
    """
    refuse_without_prediction(of_type("The model", model, Model, "a Model, such as vm.load gives"))
    of_type("tell", tell, Callable, "a function")
    if model.has_source:
        raise VizError("Patching needs a model of one stack, such as tiny-gpt. This one reads a source, too.")
    if text("sites", sites) not in SITES:
        raise VizError(f"There are no sites {said(sites)} to patch. Choose one of {', '.join(SITES)}.")
    good, bad = _answer(model, answer)
    original, base = model.trace(clean), model.trace(corrupted)
    if original.length != base.length:
        raise VizError(
            f"The two prompts have {original.length} and {base.length} tokens. Choose prompts of equal length, so that "
            "each token has its counterpart."
        )
    ends = [(trace.logits[good] - trace.logits[bad]).double().item() for trace in (original, base)]
    if ends[0] == ends[1]:
        raise VizError("Both prompts give the same difference between the two answers, so there is nothing to return.")
    local = "attn.mixed" if sites == BY_HEAD else sites
    names = [f"{model.config.block_name('self', layer)}.{local}" for layer in range(model.config.n_layers)]
    values = _captured(model, original, names)
    count = model.config.n_heads if sites == BY_HEAD else original.length
    edits = [(name, _put(values[name], place)) for name in names for place in range(count)]
    tell(0, len(edits))
    logits = edited_logits(model, base, edits, lambda done: tell(done, len(edits))).double()
    effect = (logits[:, good] - logits[:, bad] - ends[1]) / (ends[0] - ends[1])
    return Patching(sites, effect.reshape(len(names), count), *ends, good, bad)


def _answer(model: Model, answer: Sequence[int | str]) -> tuple[int, int]:
    if isinstance(answer, str) or not isinstance(answer, Sequence) or len(answer) != 2:
        raise VizError("An answer is two tokens, the good one and the bad one, such as (' old', ' hand').")
    good, bad = (single_token(model, token) if isinstance(token, str) else model.ids([token])[0] for token in answer)
    if good == bad:
        raise VizError("The good and the bad answer are the same token. Choose two.")
    return good, bad


@torch.inference_mode()
def _captured(model: Model, trace: Trace, names: Sequence[str]) -> dict[str, Tensor]:
    """What stands at these sites in the pass, without batch."""
    with capture(*names) as found:
        model.transformer(torch.tensor([trace.read.ids]))
    return {name: tensor[0] for name, tensor in found.items()}


def _put(value: Tensor, place: int) -> RowEdit:
    """One position of (T,C), or one head of (H,T,D), from the other pass."""

    def change(tensor: Tensor) -> Tensor:
        tensor[place] = value[place]
        return tensor

    return change
