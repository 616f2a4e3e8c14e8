"""The diagram of shapes by itself, of the model that the address names: for what no bundled model has."""

import streamlit as st

from pages.shapes.layout import around, axes, letters, placed
from viz_model.shapes.contract import block_nodes, outer_nodes, sizes
from viz_model.transformer import TransformerConfig
from viz_ui.components.shape_diagram import Card, Diagram, shape_diagram

SMALL = {"n_heads": 8, "d_model": 64, "vocab_size": 1000, "context_length": 128}
MODELS = {
    "rotary": {
        "n_layers": 24,
        "position": "rotary",
        "activation": "swiglu",
        "n_kv_heads": 2,
        "norm": "rms",
        "bias": False,
    }
    | {"tied_unembedding": False},
    "post": {"n_layers": 12, "norm_place": "post", "layout": "encoder-only", "embedding_norm": True},
    "many": {"n_layers": 48},
    "decoder": {"n_layers": 12, "layout": "encoder-decoder", "position": "rotary", "activation": "swiglu"},
    "post decoder": {"n_layers": 12, "layout": "encoder-decoder", "norm_place": "post"},
}

st.set_page_config(layout="wide")
config = TransformerConfig(**SMALL | MODELS[st.query_params.get("model", "rotary")])
chosen = st.session_state.get("tensor", "attn.k")
block, length = st.session_state.get("block", 3), 9
of_stack = {"part": config.self_part, "source": 13 if config.self_part == "decoder" else 0}


def pick(kind, which):
    st.session_state[kind] = which


nodes = block_nodes(config, block, length, **of_stack)
tensors, adds, edges = placed(nodes)
outer = outer_nodes(config, length, **of_stack)
[node] = [node for node in (*outer, *nodes) if node.local == chosen]
rows = [(parameter.name, axes(parameter), parameter.count) for parameter in node.parameters]
shape_diagram(
    Diagram(
        letters(sizes(config, length, **of_stack), config.self_part),
        around(outer),
        config.n_layers,
        block,
        "words",
        tensors,
        adds,
        edges,
        chosen,
        Card(node.title, node.line, [("numbers", f"{node.count:,}")], rows),
    ),
    key="diagram",
    on_pick=pick,
)
st.text(f"block {block}, tensor {chosen}")
