"""The figures of a model that copies: random tokens that come again, how well they are known, and by which heads.

Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits"; Olsson et al. 2022, "In-context Learning and
Induction Heads".
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from viz_model.heads.measures import induction_share, previous_token_share
from viz_model.model import Model
from viz_model.training.data import LETTERS
from viz_model.training.figures.report import Report, best_heads, table
from viz_model.transformer import Transformer
from viz_model.transformer.hooks import capture

ROWS, SEED = 64, 20_000_000  # far from the seeds of any training step
LONGEST_HALF = 40


@dataclass(frozen=True, eq=False)
class Repeats:
    """What was measured on rows of random tokens that come once again.

    loss: mean over the second copy from its second token on, which the one before it gives away, in nats.
    right: the share of these tokens that are the first guess.
    previous, induction: the heads' weights (L,H) on the token before, and on the one after the earlier copy.
    """

    loss: float
    right: float
    previous: Tensor
    induction: Tensor


def repeated_rows(tokens: np.ndarray, rows: int, half: int, seed: int = SEED) -> Tensor:
    """Random ones of these tokens, each row repeated once: (rows, 2·half) ids."""
    segments = tokens[np.random.default_rng(seed).integers(0, len(tokens), (rows, half))]
    return torch.from_numpy(np.concatenate((segments, segments), axis=1))


@torch.inference_mode()
def measure_repeats(transformer: Transformer, ids: Tensor) -> Repeats:
    """Run (N, 2·half) ids, each row a segment and its copy."""
    half, layers = ids.shape[-1] // 2, range(transformer.config.n_layers)
    with capture("*.weights") as found:
        logits = transformer(ids, logits="all")[:, half:-1]  # (N, half − 1, V): nothing comes after the last
    targets = ids[:, half + 1 :]
    weights = torch.stack([found[f"blocks.{layer}.attn.weights"] for layer in layers])  # (L,N,H,T,T)
    return Repeats(
        loss=F.cross_entropy(logits.flatten(0, 1), targets.flatten()).item(),
        right=(logits.argmax(-1) == targets).float().mean().item(),
        previous=previous_token_share(weights).mean(1),
        induction=induction_share(weights, half).mean(1),
    )


def report(model: Model) -> Report:
    """The figures as the command prints them."""
    half = min(LONGEST_HALF, model.config.context_length // 2)
    measured = measure_repeats(model.transformer, repeated_rows(LETTERS, ROWS, half))
    heads = {"previous_random": table(measured.previous), "induction": table(measured.induction)}
    lines = [
        f"{ROWS} rows of {half} random characters and the same again",
        f"what comes again  {measured.right:.1%} right, {measured.loss:.3f} nats/token   "
        f"uniform guess {np.log(len(LETTERS)):.3f}",
        *best_heads(heads),
    ]
    return Report(lines, heads)
