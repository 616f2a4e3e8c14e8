"""What the page Shapes says of one tensor: its facts, each under its own name, and which part of it is drawn."""

from types import SimpleNamespace

import numpy as np
import pytest

import viz_model as vm
from pages.shapes import opened_tensor
from pages.shapes.opened_tensor import Columns, Opened
from tests.support.page_parts import page_module, view_of
from tests.support.small_models import small_model
from viz_model.shapes.nodes import Node, Parameter

STATISTICS = {"mean": 0.25, "std": 0.5, "minimum": -3.0, "maximum": 7.0, "norm": 11.0, "count": 60}


def node(name="blocks.1.attn.k", axes="BGSD", shape=(1, 2, 5, 6), **more):
    return Node(name, "a title", tuple(axes), shape, "k = split(x)", {"x": "norm1"}, **more)


def opened(one, head=None, heads=2, **more):
    statistics = SimpleNamespace(**STATISTICS)
    return Opened(one, SimpleNamespace(statistics=statistics, heads=heads, derived=False, **more), head)


def test_the_facts_of_a_tensor_stand_each_under_its_own_name():
    parameter = Parameter("W_K", ("C", "D"), (24, 12))
    found = opened_tensor.card(opened(node(parameters=(parameter,))))
    assert found.title == "a title (B, G, S, D) = (1, 2, 5, 6)"
    assert found.facts == [
        ("mean", "0.2500"), ("std", "0.5000"), ("min", "−3.000"), ("max", "7.000"), ("length √Σx²", "11.00"),
        ("numbers", "60 × 4 B (float32) = 240 B"), ("parameters θ", "288 × 4 B = 1,152 B"),
    ]  # fmt: skip
    ids = dict(opened_tensor.card(opened(node("ids", "BT", (1, 60), number_bytes=8))).facts)
    assert ids == {"smallest": "-3", "largest": "7", "numbers": "60 × 8 B (int64) = 480 B"}
    mask = dict(opened_tensor.card(opened(node("blocks.1.attn.mask", "BHTS", (1, 1, 6, 10), number_bytes=1))).facts)
    assert mask == {"allowed": "15 of 60 cells", "numbers": "60 × 1 B (booleans) = 60 B"}


def test_which_head_and_which_columns_are_drawn_is_said():
    columns = Columns(np.arange(3), "0–2")
    for axes, head in (("BHTD", "head 3"), ("BGSD", "key/value head 3")):
        one = opened(node(axes=axes), head=3, heads=4)
        assert one.words(columns).startswith(
            f"The picture shows {head} of 4 ({axes[1]}) and 3 of 6 columns (D), 0–2. Choose the head in the sidebar. "
            "The statistics are for all 60 numbers of the tensor. "
        )
    assert (
        opened(node("embed", "BTC", (1, 5, 24))).words(Columns(np.arange(24))).startswith("The numbers were recorded")
    )


@pytest.mark.parametrize(("part", "layer"), [("encoder", 2), ("decoder", 1), ("cross", 1)])
def test_a_tensor_is_of_its_own_stack_and_its_head_that_of_its_axis(part, layer, monkeypatch):
    """Three encoder layers, two of the decoder; four heads read two key/value heads."""
    view = view_of(vm.Model("pair", small_model(layout="encoder-decoder", n_encoder_layers=3)), (5, 9, 11, 9, 4),
                   target=(3, 7, 2), part=part, layer=layer, head=3, query=1, key=2)  # fmt: skip
    page, values = page_module("shapes"), opened_tensor.NodeValues
    monkeypatch.setattr(opened_tensor, "_node_values", lambda view, one, *_: values(view.model, view.trace, one))
    outer, inner = page.stack_nodes(view)
    nodes = {one.name: one for one in (*outer, *inner)}
    branch = f"{view.trace.config.attention_name(part, layer)}"
    of = "cross" if part == "cross" else "attn"
    queries, keys = (5, 5) if part == "encoder" else (3, 3) if part == "decoder" else (3, 5)
    for local, head, rows in (("q", 3, queries), ("k", 1, keys), ("weights", 3, queries)):
        one = nodes[f"{branch}.{local}"]
        found = opened_tensor.opened_tensor(view, one)
        tensor = {"q": view.trace.q(layer)[3], "k": view.trace.k(layer)[1], "weights": view.trace.weights(layer, 3)}[
            local
        ]
        width = tensor.shape[1]
        matrix = opened_tensor.opened_matrix(view, found, Columns(np.arange(width)))
        assert (found.head, matrix.name) == (head, f"{of}.{local}")
        np.testing.assert_allclose(matrix.values, tensor, atol=1e-6)
        assert len(matrix.row_labels) == rows
        assert matrix.caption.endswith(f"= ({rows}, {width})")
    named = found.names(view, Columns(np.arange(keys)))
    stack = "decoder" if part == "cross" else part
    assert named.file_name == f"pair_{stack}_layer{layer}_head3_{of}.weights"
