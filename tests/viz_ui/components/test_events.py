"""What a browser tells of a component that is not on the page any more."""

import ast

from streamlit.testing.v1 import AppTest

from tests.support.sources import ROOT
from viz_ui.components.shared.events import event_value

COMPONENTS = sorted((ROOT / "viz_ui" / "components").rglob("*.py"))


def test_a_component_that_is_gone_tells_nothing():
    def page():
        import streamlit as st

        from viz_ui.components.shared.events import event_value

        st.text(repr(event_value("head_grid", "pick")))
        st.session_state.head_grid = {"pick": [1, 2, 3]}
        st.text(repr(event_value("head_grid", "pick")))
        st.text(repr(event_value("head_grid", "open")))

    assert [text.value for text in AppTest.from_function(page, default_timeout=120).run().text] == [
        "None",
        "[1, 2, 3]",
        "None",
    ]


def test_every_component_asks_for_its_events_there():
    """`st.session_state[key]` raises for a component that is gone: no component reads it by itself."""

    def is_state(node: ast.AST) -> bool:
        return isinstance(node, ast.Subscript) and ast.unparse(node.value) == "st.session_state"

    callers, found = 0, []
    for path in COMPONENTS:
        for node in ast.walk(ast.parse(path.read_text())):
            if is_state(node) and isinstance(node.ctx, ast.Load):
                found.append(f"{path.relative_to(ROOT)}:{node.lineno}")
            callers += isinstance(node, ast.Call) and ast.unparse(node.func) == event_value.__name__
    assert not found, f"reads what may be gone: {found}"
    assert callers >= 13
