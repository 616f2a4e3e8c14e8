"""Where a logit comes from: what each component of the final stream adds to it.

Direct logit attribution: Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits". It is a linear
reading of a pass, no cause: what a later layer makes of a component is not in its term.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from viz_model.attribution.components import Component, Pass, components
from viz_model.errors import VizError
from viz_model.transformer.linear_maps import Maps, Reader, read_through, through

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
    made, (_, bias) = components(run, [position]), run.host.unembedding_rows()
    terms = made.read(reader_of_logit(run, token, position, than))[:, 0, 0]
    added = 0.0 if bias is None else bias[token].double() - _less(bias, than)
    terms[-1] += added
    if facts.unembedding_softcap is None:
        logit = logits[token].double() - _less(logits, than)
    else:
        end = run.tensors[f"{facts.stack_name(facts.self_part)}final_norm"][[position]].double()
        logit = through(behind, end)[0] @ _direction(run, token, than) + added
    return LogitTerms(made.components, terms, logit.item(), than, facts.unembedding_softcap, facts.unembedding_hidden)


def reader_of_logit(run: Pass, token: int, position: int, than: int | str | None) -> Reader:
    """Who reads a token's logit, less that of another one, of the stream behind the last layer at a position."""
    last = run.config.block_name(run.config.self_part, run.config.layers_of(run.config.self_part) - 1)
    maps = (*final_maps(run), *run.host.stack_maps(run.config.self_part).unembedding)
    reader = Reader.along(_direction(run, token, than)[None])
    return read_through(maps, run.tensors[f"{last}.resid_post"][[position]].double(), reader)


def _direction(run: Pass, token: int, than: int | str | None) -> Tensor:
    """What is multiplied with what the unembedding reads for a token's logit, less that of another one: (C,)."""
    rows, _ = run.host.unembedding_rows()
    return rows[token].double() - _less(rows, than)


def final_maps(run: Pass) -> Maps:
    """From the stream behind the last block to the final hidden state. Raises VizError where these are no such maps."""
    final = run.host.stack_maps(run.config.self_part).final
    if final is None:
        raise VizError(
            f"Between its last layer and its logits, this model ({run.config.family}) has something other than a norm "
            "and a matrix, so its logits cannot be taken apart. Choose another model, such as tiny-gpt."
        )
    return final


def _less(numbers: Tensor, than: int | str | None) -> Tensor:
    """What is taken away: nothing, that of another token, or the mean over all."""
    if than is None:
        return torch.zeros((), dtype=torch.float64)
    return numbers.mean(0, dtype=torch.float64) if than == MEAN else numbers[than].double()
