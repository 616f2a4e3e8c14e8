"""The logit lens: what the stream behind each layer would predict if the model ended there.

nostalgebraist 2020, "interpreting GPT: the logit lens". A linear reading of a pass, no cause: later layers may read the
stream in other ways.

Symbols: L layers, T positions, n tokens, C model width, V vocabulary.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from viz_model.attribution.components import Pass
from viz_model.attribution.logits import final_maps
from viz_model.jobs import Tell, untold
from viz_model.transformer.linear_maps import as_in_the_pass


def lens(run: Pass, layer: int, positions: Sequence[int]) -> Tensor:
    """Logits (T,V) read from the stream behind a layer, through the model's own final norm and unembedding."""
    stream = run.tensors[f"{run.config.block_name(run.config.self_part, layer)}.resid_post"][list(positions)]
    return run.host.unembed(as_in_the_pass(final_maps(run), stream))


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
    layers = run.config.layers_of(run.config.self_part)
    rows: list[tuple[Tensor, ...]] = []
    output = None
    for done, layer in enumerate(reversed(range(layers))):  # the output first: the others are compared with it
        tell(done, layers)
        logits = lens(run, layer, positions)
        logs = logits.double().log_softmax(-1)  # (T,V)
        output = logs if output is None else output
        shares = logs.exp()
        entropy = torch.special.entr(shares).sum(-1) / math.log(2)
        apart = (output.exp() * (output - logs)).masked_fill(output == -torch.inf, 0.0)  # a model may forbid tokens
        rows.append((logits.argmax(-1), shares.amax(-1), entropy, apart.sum(-1).clamp_min(0) / math.log(2)))
    return Lens(*(torch.stack(column) for column in zip(*reversed(rows), strict=True)))


@dataclass(frozen=True, eq=False)
class TokenLens:
    """What the stream behind each layer says of some tokens at one position, (L,n) each; the last row is the output.

    rank: 1 for the likeliest token of the vocabulary; equally likely ones share the better rank. logit: float64, as
    the model's own unembedding gives it. probability: float64, after the softmax over the vocabulary.
    """

    tokens: tuple[int, ...]
    rank: Tensor
    logit: Tensor
    probability: Tensor


def read_tokens(run: Pass, tokens: Sequence[int], position: int) -> TokenLens:
    """The logit lens of these tokens at a position."""
    rows = []
    for layer in range(run.config.layers_of(run.config.self_part)):
        logits = lens(run, layer, [position])[0].double()  # (V,)
        own = logits[list(tokens)]
        rank = 1 + (logits > own[:, None]).sum(-1)
        rows.append((rank, own, (own - logits.logsumexp(-1)).exp()))
    return TokenLens(tuple(tokens), *(torch.stack(column) for column in zip(*rows, strict=True)))
