"""Two passes side by side: what another mask, or another token, did to weights, stream and prediction."""

import math
from collections.abc import Collection
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from viz_model.errors import PromptError, VizError
from viz_model.heads.measures import entropy
from viz_model.model import Model
from viz_model.model.trace import Trace

LOGITS_BYTES = 64 * 2**20  # of several positions: so many are held at once
ROUNDING = 1e-5  # a change by a smaller share is one that the rounding of float32 makes


@dataclass(frozen=True, eq=False)
class NextTokens:
    """Two predictions of the next token, P (first) and R (second), over V tokens.

    ids: the likeliest tokens of either, by the larger of their two probabilities; first, second: these
    probabilities. divergence: KL(P‖R) = Σ p·log₂(p/r) in bits, 0 where both agree (Kullback and Leibler 1951).
    logit_change: the largest |change| of a logit, at token `logit_change_id`, with its sign.
    """

    ids: list[int]
    first: Tensor
    second: Tensor
    divergence: float
    logit_change: float
    logit_change_id: int


def compare_next_tokens(first: Tensor, second: Tensor, count: int = 10) -> NextTokens:
    """Logits (V,) of two passes -> their `count` likeliest tokens each, and how far the predictions are apart."""
    logs = [logits.double().log_softmax(-1) for logits in (first, second)]  # (V,) each
    likeliest = {int(token) for log in logs for token in log.topk(min(count, len(log))).indices}
    ids = sorted(likeliest, key=lambda token: (-max(log[token].item() for log in logs), token))
    change = second.double() - first.double()
    largest = int(change.abs().argmax())
    return NextTokens(
        ids=ids,
        first=logs[0][ids].exp(),
        second=logs[1][ids].exp(),
        divergence=float(divergences(first, second[None])),
        logit_change=change[largest].item(),
        logit_change_id=largest,
    )


def divergences(before: Tensor, edited: Tensor) -> Tensor:
    """Logits (V,) of a prediction and (N,V) of others -> the KL divergence of each from it in bits (N,), in float64.

    A token that a model forbids, whose logit is −∞, adds nothing.
    """
    logs, found = before.double().log_softmax(-1), []
    for some in edited.split(32):  # a vocabulary may be large
        terms = logs.exp() * (logs - some.double().log_softmax(-1))
        found.append(terms.where(logs > -torch.inf, 0.0).sum(-1).clamp_min(0) / math.log(2))
    return torch.cat(found)


def token_losses(trace: Trace) -> Tensor:
    """What each token of a text but the first costs in nats, −ln of its probability by the prediction that stands
    before it: (T−1,), in float64.

    Raises VizError where nothing is predicted, or nothing that the model does not see.
    """
    if trace.part == "encoder":
        raise VizError("The encoder predicts no tokens. Choose the decoder in the sidebar.")
    if trace.config.layout == "encoder-only":
        raise VizError("An encoder sees every token that it would have to predict, so the prompt has no loss.")
    if not trace.config.has_unembedding:
        raise VizError("This model has no unembedding. It gives a vector for each token and predicts no token.")
    if trace.length < 2:
        raise VizError("A text of one token has no next token to predict, so it has no loss. Type a longer text.")
    return surprise(trace)


@torch.inference_mode()
def surprise(trace: Trace) -> Tensor:
    """−ln of the probability of each token but the first, by the logits at the token before: (T−1,), in float64."""
    hidden, targets = trace[trace.site("final_norm")][:-1], torch.tensor(trace.ids[1:], dtype=torch.long)
    rows = max(1, LOGITS_BYTES // (8 * trace.config.vocab_size))
    parts = zip(hidden.split(rows), targets.split(rows), strict=True)
    return torch.cat([F.cross_entropy(trace.host.unembed(x).double(), ids, reduction="none") for x, ids in parts])


def query_entropy(weights: Tensor, allowed: Tensor) -> Tensor:
    """Entropy in bits of each query's weights: (T,S), booleans (T,S) -> (T,); NaN where all is masked."""
    return entropy(weights).masked_fill(~allowed.any(-1), torch.nan)


@torch.inference_mode()
def weight_changes(before: Trace, after: Trace) -> Tensor:
    """The largest |A′ − A| of every head of a part, for passes over texts of the same lengths: (L,H)."""
    heads = range(before.config.n_heads)
    return torch.tensor(
        [
            [(after.weights(layer, head) - before.weights(layer, head)).abs().max().item() for head in heads]
            for layer in range(before.n_layers)
        ]
    )


@torch.inference_mode()
def stream_change(before: Trace, after: Trace) -> Tensor:
    """‖x′ − x‖ / ‖x‖ of the residual stream: (L+1, T); row 0 is after the embedding, row l after block l − 1.

    A share of what stood there, for lengths differ by orders of magnitude between places. It is 0 only where all
    C numbers are bit for bit the same. Raises VizError for prompts of unequal length.
    """
    if before.length != after.length:
        raise VizError(
            f"Prompts of {before.length} and {after.length} tokens cannot be compared cell by cell. Use prompts "
            "of equal length."
        )
    sites = [before.site("embed"), *(before.site("resid_post", layer) for layer in range(before.n_layers))]
    old, new = (torch.stack([trace[site].double() for site in sites]) for trace in (before, after))  # (L+1,T,C)
    return (new - old).norm(dim=-1) / old.norm(dim=-1).clamp(min=torch.finfo(torch.float64).tiny)


def with_token(ids: tuple[int, ...], position: int, token: int) -> tuple[int, ...]:
    """The ids with another token at `position`. Raises PromptError when there is no such position."""
    if not 0 <= position < len(ids):
        raise PromptError(f"There is no position {position}: the prompt has positions 0 to {len(ids) - 1}.")
    return (*ids[:position], token, *ids[position + 1 :])


def single_token(model: Model, text: str) -> int:
    """The id of a text that is exactly one token. Raises PromptError, which says what it splits into."""
    if not text:
        raise PromptError("Type the token that should stand there.")
    model.encode(text)  # says what is wrong with a text that cannot be read
    ids = model.ids(text, special=False)
    if len(ids) > 1:
        pieces = " | ".join(piece.decode(errors="backslashreplace") for piece in model.token_bytes(ids))
        raise PromptError(f"“{text}” is {len(ids)} tokens: {pieces}. Type a text that is one token.")
    return ids[0]


@torch.inference_mode()
def likeliest_next(trace: Trace) -> list[int]:
    """The token that each query finds likeliest to come next: T ids."""
    return trace.host.unembed(trace[trace.site("final_norm")]).argmax(-1).tolist()


def predicts(trace: Trace) -> bool:
    """Whether the pass says what tokens are likely: not of a source, and not without an unembedding."""
    return trace.part != "encoder" and "logits" in trace.tensors


@torch.inference_mode()
def likely_tokens(trace: Trace, position: int, count: int, signs: Collection[int] = ()) -> list[int]:
    """Tokens that the model itself finds likely at `position`, the one that stands there left out.

    By the prediction of the token before; at position 0, where there is none, by the token's own prediction. Where
    nothing is predicted, the other tokens of the text, but for `signs`, which stand for no text ([CLS]).
    """
    if not predicts(trace):
        left_out = {trace.ids[position], *signs}
        return [token for token in dict.fromkeys(trace.ids) if token not in left_out][:count]
    likeliest = trace.logits_at(max(0, position - 1)).topk(count + 1).indices.tolist()
    return [token for token in likeliest if token != trace.ids[position]][:count]
