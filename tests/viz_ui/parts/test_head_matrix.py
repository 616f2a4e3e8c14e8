"""Layers that do not fit below each other stand beside each other, and a click means the same head."""

from types import SimpleNamespace

import numpy as np
import pytest

from viz_ui.components.panels import Matrix
from viz_ui.parts import head_matrix
from viz_ui.parts.open_matrix import Named


@pytest.mark.parametrize(
    ("layers", "heads", "lies"),
    [(4, 8, False), (12, 12, False), (18, 4, False), (19, 9, True), (30, 9, True), (32, 32, False)],
)
def test_many_layers_lie(monkeypatch, layers, heads, lies):
    drawn, opened, chosen = {}, {}, []
    monkeypatch.setattr(head_matrix, "panels", lambda items, **options: drawn.update(items=items, **options))
    monkeypatch.setattr(head_matrix, "open_noted_matrix", lambda _, items, **options: opened.update(items))
    monkeypatch.setattr(head_matrix, "choose_head", lambda layer, head: chosen.append((layer, head)))
    values = np.arange(layers * heads, dtype=float).reshape(layers, heads)
    allowed = values % 2 == 0
    part = Matrix("wholes", "", values[:, :2], [f"layer {n}" for n in range(layers)], ["ffn", "layer"], "layer", "part")
    head_matrix.draw_head_matrix(
        SimpleNamespace(layer=3, head=2),
        "one",
        "",
        values,
        Named("", ""),
        beside={Named("b", "b"): part},
        allowed=allowed,
    )
    for one, expected in zip(drawn["items"], (values, values[:, :2]), strict=True):
        np.testing.assert_array_equal(one.values, expected.T if lies else expected)
        across, down = (one.row_labels, one.column_labels) if lies else (one.column_labels, one.row_labels)
        assert (len(down), len(across)) == expected.shape
        assert down[1] == "layer 1"
        assert (one.column_axis if lies else one.row_axis) == "layer"
        assert opened[one.name] is one
    np.testing.assert_array_equal(drawn["items"][0].allowed, allowed.T if lies else allowed)
    assert drawn["marked"] == {"layer": 3, "head": 2}
    drawn["on_pick"]({"panel": "one", "row": 1, "column": 3})
    assert chosen == [(3, 1) if lies else (1, 3)]
