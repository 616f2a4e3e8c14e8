"""The bundled tiny-seq2seq computed by somebody else: its weights in modules of `torch.nn`, its input written out."""

from functools import cache
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F

FOLDER = Path(__file__).resolve().parents[2] / "checkpoints" / "tiny-seq2seq"
LAYERS, HEADS, WIDTH, END = 2, 4, 96, 256


@cache
def weights() -> dict[str, torch.Tensor]:
    return {name: tensor.float() for name, tensor in load_file(FOLDER / "model.safetensors").items()}


@cache
def attention(name: str) -> nn.MultiheadAttention:
    """`nn.MultiheadAttention` with the weights of one of ours."""
    theirs, ours = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True).eval(), weights()
    for kind in ("weight", "bias"):
        joined = torch.cat([ours[f"{name}.{part}.{kind}"] for part in ("query", "key", "value")])
        getattr(theirs, f"in_proj_{kind}").data = joined
        getattr(theirs.out_proj, kind).data = ours[f"{name}.output.{kind}"]
    return theirs


def sinusoids(length: int) -> torch.Tensor:
    """Vaswani et al. 2017, §3.5, written out."""
    place, pair = np.arange(length)[:, None], np.arange(WIDTH // 2)[None]
    angles = place / 10000 ** (2 * pair / WIDTH)
    table = np.empty((length, WIDTH))
    table[:, 0::2], table[:, 1::2] = np.sin(angles), np.cos(angles)
    return torch.from_numpy(table).float()


def embedded(ids: list[int]) -> torch.Tensor:
    return (weights()["tokens.weight"][ids] * WIDTH**0.5 + sinusoids(len(ids)))[None]


def norm(x: torch.Tensor, name: str) -> torch.Tensor:
    return F.layer_norm(x, (WIDTH,), weights()[f"{name}.weight"], weights()[f"{name}.bias"])


def feed_forward(x: torch.Tensor, name: str) -> torch.Tensor:
    ours = weights()
    hidden = F.linear(x, ours[f"{name}.up.weight"], ours[f"{name}.up.bias"]).relu()
    return F.linear(hidden, ours[f"{name}.down.weight"], ours[f"{name}.down.bias"])


@torch.inference_mode()
def translation(source: list[int], ids: list[int]) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Logits (T,V), weights of cross-attention (L,H,T,S), and the decoder's stream after each half, (T,C) each."""
    memory = embedded(source)
    for layer in range(LAYERS):
        block = f"encoder.blocks.{layer}"
        memory = norm(memory + attention(f"{block}.attn")(memory, memory, memory)[0], f"{block}.norm1")
        memory = norm(memory + feed_forward(memory, f"{block}.ffn"), f"{block}.norm2")
    x, later = embedded(ids), torch.ones(len(ids), len(ids), dtype=torch.bool).triu(1)
    crosses, streams = [], [x[0].numpy()]
    for layer in range(LAYERS):
        block = f"decoder.blocks.{layer}"
        x = norm(x + attention(f"{block}.attn")(x, x, x, attn_mask=later)[0], f"{block}.norm1")
        streams.append(x[0].numpy())
        read, cross = attention(f"{block}.cross")(x, memory, memory, average_attn_weights=False)
        crosses.append(cross[0].numpy())
        x = norm(x + read, f"{block}.norm_cross")
        streams.append(x[0].numpy())
        x = norm(x + feed_forward(x, f"{block}.ffn"), f"{block}.norm2")
        streams.append(x[0].numpy())
    return F.linear(x, weights()["tokens.weight"])[0].numpy(), np.stack(crosses), streams


def greedy(source: list[int], most: int = 20) -> list[int]:
    """What is written, token by token, without any cache: the ids that the decoder reads, the start token first."""
    ids = [END]
    for _ in range(most):
        token = int(translation(source, ids)[0][-1].argmax())
        if token == END:
            break
        ids.append(token)
    return ids
