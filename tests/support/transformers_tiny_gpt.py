"""The bundled tiny-gpt computed by somebody else: its weights in `transformers`' GPT-2, its ids by `tokenizers`."""

import copy
from functools import cache
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from transformers import GPT2Config, GPT2LMHeadModel

FOLDER = Path(__file__).resolve().parents[2] / "checkpoints" / "tiny-gpt"
LAYERS, HEADS, WIDTH, CONTEXT = 4, 8, 256, 256


@cache
def gpt2() -> GPT2LMHeadModel:
    """tiny-gpt's weights as a `transformers` model that gives its attentions."""
    ours = {name: tensor.float() for name, tensor in load_file(FOLDER / "model.safetensors").items()}
    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=len(ours["tokens.weight"]),
            n_positions=CONTEXT,
            n_embd=WIDTH,
            n_layer=LAYERS,
            n_head=HEADS,
            attn_implementation="eager",
        )
    ).eval()
    theirs = {"wte.weight": ours["tokens.weight"], "wpe.weight": ours["positions.weight"]}
    theirs |= {f"ln_f.{kind}": ours[f"final_norm.{kind}"] for kind in ("weight", "bias")}
    for layer in range(LAYERS):
        block = f"blocks.{layer}"
        for kind in ("weight", "bias"):
            theirs[f"h.{layer}.ln_1.{kind}"] = ours[f"{block}.norm1.{kind}"]
            theirs[f"h.{layer}.ln_2.{kind}"] = ours[f"{block}.norm2.{kind}"]
            parts = [ours[f"{block}.attn.{part}.{kind}"] for part in ("query", "key", "value")]
            theirs[f"h.{layer}.attn.c_attn.{kind}"] = torch.cat(parts).t()
            for part, name in (
                ("attn.output", "attn.c_proj"),
                ("ffn.up", "mlp.c_fc"),
                ("ffn.down", "mlp.c_proj"),
            ):
                theirs[f"h.{layer}.{name}.{kind}"] = ours[f"{block}.{part}.{kind}"].t()
    model.transformer.load_state_dict(theirs)
    model.tie_weights()
    return model


def attentions(ids: list[int]) -> np.ndarray:
    """The weights of every layer and head by `transformers`: (L,H,T,T)."""
    with torch.inference_mode():
        found = gpt2()(torch.tensor([ids]), output_attentions=True).attentions
    return torch.stack(found)[:, 0].numpy()


def queries_keys_values(
    ids: list[int], layer: int, head: int, mask: str | np.ndarray = "causal"
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """q, k and v of one head, each (T,D), in float64: the stream by `transformers`, the rest written out.

    mask: "causal", "bidirectional", or booleans (T,T), True where a query may attend.
    """
    with torch.inference_mode():
        given = {}
        if not isinstance(mask, str) or mask == "bidirectional":
            allowed = np.broadcast_to(True if isinstance(mask, str) else mask, (len(ids), len(ids)))
            added = torch.zeros(1, 1, len(ids), len(ids))  # to the scores, in place of the causal mask
            given = {"attention_mask": added.masked_fill(~torch.tensor(allowed), torch.finfo(torch.float32).min)}
        states = gpt2()(torch.tensor([ids]), output_hidden_states=True, **given).hidden_states
    stream = states[layer][0].double().numpy()
    weights = {name: tensor.double().numpy() for name, tensor in load_file(FOLDER / "model.safetensors").items()}
    block = f"blocks.{layer}"
    centred = stream - stream.mean(-1, keepdims=True)
    normed = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    normed = normed * weights[f"{block}.norm1.weight"] + weights[f"{block}.norm1.bias"]
    width = WIDTH // HEADS
    own = slice(head * width, (head + 1) * width)
    return tuple(
        normed @ weights[f"{block}.attn.{part}.weight"][own].T + weights[f"{block}.attn.{part}.bias"][own]
        for part in ("query", "key", "value")
    )


def unmasked_attentions(ids, *, wpe=None, positions=None):
    """The weights (L,H,T,T) of tiny-gpt in `transformers`, nothing masked, with these position rows or positions."""
    theirs = gpt2()
    if wpe is not None:
        theirs = copy.deepcopy(theirs)
        theirs.transformer.wpe.weight.data = wpe
    given = {} if positions is None else {"position_ids": torch.tensor([positions])}
    open_mask = torch.zeros(1, 1, len(ids), len(ids))
    with torch.inference_mode():
        found = theirs(torch.tensor([ids]), attention_mask=open_mask, output_attentions=True, **given).attentions
    return torch.stack(found)[:, 0].numpy()
