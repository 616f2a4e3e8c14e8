"""The learned matrices of one head, and what they make of positions alone.

Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits": a head asks with W_QᵀW_K (its QK circuit).
"""

from collections.abc import Mapping

import numpy as np

from viz_model.transformer import TransformerConfig
from viz_model.transformer.positions import sinusoidal_table

QUERY, KEY, VALUE, OUTPUT, POSITIONS = "W_Q", "W_K", "W_V", "W_O", "positions"


def head_matrices(
    weights: Mapping[str, np.ndarray], config: TransformerConfig, layer: int, head: int, length: int
) -> dict[str, np.ndarray]:
    """W_Q, W_K, W_V (D,C) and W_O (C,D) of a head, from all parameters by name.

    Where positions are added to the tokens also the scores (length, length) that they alone would have in this head:
    P·W_Qᵀ·W_K·Pᵀ/√D, without the norm before it and without biases.
    """
    name, width, group = f"blocks.{layer}.attn", config.d_head, config.kv_head(head)
    own, shared = slice(head * width, (head + 1) * width), slice(group * width, (group + 1) * width)
    found = {
        QUERY: weights[f"{name}.query.weight"][own],
        KEY: weights[f"{name}.key.weight"][shared],
        VALUE: weights[f"{name}.value.weight"][shared],
        OUTPUT: weights[f"{name}.output.weight"][:, own],
    }
    table = _position_table(weights, config)
    if table is not None:
        asking, asked = table[:length] @ found[QUERY].T, table[:length] @ found[KEY].T  # (length,C) -> (length,D)
        found[POSITIONS] = asking @ asked.T / np.sqrt(width)
    return found


def _position_table(weights: Mapping[str, np.ndarray], config: TransformerConfig) -> np.ndarray | None:
    if config.position == "learned":
        return weights["positions.weight"]
    if config.position == "sinusoidal":
        return sinusoidal_table(config.context_length, config.d_model).numpy()
    return None
