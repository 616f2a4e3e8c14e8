"""Where a logit comes from, and what a stream would predict if the model ended there.

Direct logit attribution: Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits"; the logit lens:
nostalgebraist 2020, "interpreting GPT: the logit lens". Both are linear readings of a pass, no causes: what a later
layer makes of a component is not in its term.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from viz_model.attribution.components import Component, Pass, components
from viz_model.errors import VizError
from viz_model.jobs import Tell, untold
from viz_model.transformer.linear_maps import carried, through

MEAN = "mean"


@dataclass(frozen=True, eq=False)
class LogitTerms:
    """What each component of the final stream adds to a logit, through the frozen final norm and the unembedding: (A,)
    float64; the biases hold that of the unembedding, too.

    logit: what the pass computed; where the model caps its logits (Gemma 2), before that, for what a cap makes of a sum
    is no sum. than: another token, or "mean" for the mean over all tokens, whose logit is taken away from terms and
    logit; None where none is. remainder: logit − the sum of all terms. softcap: c of the cap, or None. activation: φ
    between the stream and the unembedding (BERT), which is frozen, too; or None.
    """

    components: tuple[Component, ...]
    terms: Tensor
    logit: float
    than: int | str | None = None
    softcap: float | None = None
    activation: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(component.name for component in self.components)

    @property
    def remainder(self) -> float:
        return self.logit - self.terms.sum().item()


def logit_terms(run: Pass, token: int, position: int, logits: Tensor, than: int | str | None) -> LogitTerms:
    """The terms of a token's logit at a position. logits (V,): those of the pass there."""
    facts, behind = run.config, run.host.stack_maps(run.config.self_part).unembedding
    made = components(run, [position])
    parts = carried((*_final(run), *behind), made.parts)[:, 0]  # (A,C)
    rows, bias = run.host.unembedding_rows()
    if facts.unembedding_softcap is not None:
        read = through(behind, run.tensors[f"{facts.stack_name(facts.self_part)}final_norm"][[position]].double())[0]
        logits = rows.double() @ read + (0.0 if bias is None else bias.double())
    direction = rows[token].double() - _less(rows, than)
    terms = parts @ direction
    if bias is not None:
        terms[-1] += bias[token].double() - _less(bias, than)
    logit = logits[token].double() - _less(logits, than)
    return LogitTerms(made.components, terms, logit.item(), than, facts.unembedding_softcap, facts.unembedding_hidden)


def lens(run: Pass, layer: int, position: int) -> Tensor:
    """Logits (V,) read from the stream behind a layer, through the model's own final norm and unembedding."""
    stream = run.tensors[f"{run.config.block_name(run.config.self_part, layer)}.resid_post"][position]
    return run.host.unembed(through(_final(run), stream.double()[None])[0].float())


@dataclass(frozen=True, eq=False)
class Lens:
    """What the stream behind each layer would predict at each position (L,T); the last row is the output.

    tokens: the likeliest next token; probability: what it gets. entropy: of the prediction, in bits. divergence: of the
    output from it, KL(output‖lens) in bits.
    """

    tokens: Tensor
    probability: Tensor
    entropy: Tensor
    divergence: Tensor


@torch.inference_mode()
def read_lens(run: Pass, positions: Sequence[int], tell: Tell = untold) -> Lens:
    """The logit lens at these positions, a layer at a time. tell: told how many layers are read, of how many."""
    layers, final = run.config.layers_of(run.config.self_part), _final(run)
    rows: list[tuple[Tensor, ...]] = []
    output = None
    for done, layer in enumerate(reversed(range(layers))):  # the output first: the others are compared with it
        tell(done, layers)
        site = f"{run.config.block_name(run.config.self_part, layer)}.resid_post"
        logits = run.host.unembed(through(final, run.tensors[site][list(positions)].double()).float())
        logs = logits.double().log_softmax(-1)  # (T,V)
        output = logs if output is None else output
        shares = logs.exp()
        entropy = -(shares * logs).sum(-1) / math.log(2)
        divergence = (output.exp() * (output - logs)).sum(-1).clamp_min(0) / math.log(2)
        rows.append((logits.argmax(-1), shares.amax(-1), entropy, divergence))
    return Lens(*(torch.stack(column) for column in zip(*reversed(rows), strict=True)))


def _final(run: Pass):
    final = run.host.stack_maps(run.config.self_part).final
    if final is None:
        raise VizError(
            f"What stands between the last layer and the logits of this model ({run.config.family}) is no norm, so its "
            "logits cannot be taken apart. Choose another model, such as tiny-gpt."
        )
    return final


def _less(numbers: Tensor, than: int | str | None) -> Tensor:
    """What is taken away: nothing, that of another token, or the mean over all."""
    if than is None:
        return torch.zeros((), dtype=torch.float64)
    return numbers.double().mean(0) if than == MEAN else numbers[than].double()
