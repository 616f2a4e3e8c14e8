"""Where the contribution of a head to a logit came from: its row of A·V, token by token, to the logit.

mixed(q) = Σₛ A[q,s]·V[s], and all that follows is linear with the norms frozen: the output projection, what is done to
the stream behind it, the final norm, the unembedding. So a head's term of a logit is a sum over the tokens that it read
(Kobayashi et al. 2020, "Attention is Not Only a Weight", §2.2; Elhage et al. 2021, "A Mathematical Framework for
Transformer Circuits", "Attention Heads are Independent and Additive").

Symbols: A heads of all layers, H heads of a layer, S keys, C model width, D head width, n = 1 position.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from viz_model.attribution.components import HEAD, Component, Pass, components
from viz_model.attribution.logits import reader_of_logit
from viz_model.errors import VizError


@dataclass(frozen=True, eq=False)
class LogitSources:
    """What each head of an attention adds to a logit, split by the token whose value it read: terms (A,S) float64.

    of_no_token (A,): what it adds besides A·V: rounding, and what an edit of the pass put in the place of its mixed
    values. With it, a row adds up to the head's term in `LogitTerms`. The bias of the values is in the share of every
    token. The bias of the output projection is of no head: it is among the biases of `LogitTerms`. A sink takes weight,
    and adds nothing. What is frozen, and that it is before a cap, is as there.
    """

    components: tuple[Component, ...]
    terms: Tensor
    of_no_token: Tensor
    than: int | str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(component.name for component in self.components)

    @property
    def of_heads(self) -> Tensor:
        """What each head adds in all: (A,)."""
        return self.terms.sum(1) + self.of_no_token

    @property
    def of_tokens(self) -> Tensor:
        """What all heads add that they read at each token: (S,)."""
        return self.terms.sum(0)


def logit_sources(run: Pass, token: int, position: int, than: int | str | None) -> LogitSources:
    """Of the heads of the run's part, for a token's logit at a position."""
    stack = run.of(run.config.self_part)
    found: list[Tensor] = []
    rest: list[Tensor] = []
    heads: list[Component] = []
    for added, reader in components(stack, [position]).readers(reader_of_logit(stack, token, position, than)):
        first = added.components[0]
        if first.kind == HEAD and first.part == run.part:
            of_mixed = (reader.factor[..., None] * reader.directions)[0, 0].unflatten(0, (len(added.numbers), -1))
            found.insert(0, _by_key(run, first.layer, position, of_mixed))
            rest.insert(0, (of_mixed * added.numbers[:, 0]).sum(1) - found[0].sum(1))
            heads = [*added.components, *heads]
    if not found:
        raise VizError(
            f"After A·V, this model ({run.config.family}) computes in its own way, so what its heads add cannot "
            "be told apart. Choose another model, such as tiny-gpt."
        )
    return LogitSources(tuple(heads), torch.cat(found), torch.cat(rest), than)


def _by_key(run: Pass, layer: int, position: int, of_mixed: Tensor) -> Tensor:
    """A[q,s] times the reading of V[s], of each head: (H,S). of_mixed (H,D): a reading of the mixed values."""
    weights = run.weights_of(layer, [position])[:, 0].double()  # (H,S)
    site = f"{run.config.attention_name(run.part, layer)}.mixed"
    for change in (change for change in run.host.changes if change.site == site):
        weights[change.head] *= change.factor or 0.0  # None: other values stand there, which are of no token here
    values = run.v(layer).double()  # (G,S,D)
    readings = of_mixed.unflatten(0, (len(values), -1))  # (G,H/G,D)
    return weights * (readings @ values.transpose(-1, -2)).flatten(0, 1)
