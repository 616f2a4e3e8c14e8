"""Shapes: every tensor of the running model with its axes and numbers, and how a model of any size grows."""

import pandas as pd
import streamlit as st

from viz_model.shapes import block_nodes, outer_nodes, sizes
from viz_ui.components.panels import panels
from viz_ui.components.shape_diagram import Diagram, shape_diagram
from viz_ui.open_matrix import head_arrays, note_opened, open_noted_matrix
from viz_ui.opened_tensor import Opened, card, choose_columns, opened_matrix, opened_tensor
from viz_ui.shape_layout import around, letters, placed
from viz_ui.sizes_of_any_model import draw_any_model
from viz_ui.state import bring_sidebar_along, choose, choose_cell
from viz_ui.text import plain, shown
from viz_ui.view import View, current_view

RUNNING, ANY = "this model", "a model of any size"
SENTENCES = {
    RUNNING: "Point at a **letter** to light its axes; click a **tensor** to open it, a **block** to zoom in.",
    ANY: "By formula, nothing is run: change the sizes and watch **T²**.",
}
FIRST_NODE = "attn.q"

MEANT = {  # what else a line may read
    "F.": "`F` is torch.nn.functional",
    "prompt_ids": "`prompt_ids` are the tokenizer's numbers of this prompt",
    "rotate": "`rotate` and `rotary_angles` are those of viz\\_model.transformer.positions",
    "chosen_mask": "`chosen_mask` are the booleans of the mask in the sidebar",
}


def draw() -> None:
    st.title("Shapes")
    with st.container(horizontal=True, vertical_alignment="center"):
        shown = st.segmented_control(
            "What is shown",
            list(SENTENCES),
            default=RUNNING,
            required=True,
            key="shapes",
            bind="query-params",
            label_visibility="collapsed",
        )
        st.markdown(SENTENCES[shown], width="content")
    if shown == ANY:
        draw_any_model()
    else:
        draw_running()


@st.fragment
def draw_running() -> None:
    """The diagram of the running model and the opened tensor: a fragment, so that a click answers at once."""
    view = current_view()
    diagram_place, heading_place = st.container(), st.container(horizontal=True, vertical_alignment="bottom")
    nodes = running_nodes(view)
    with heading_place:
        heading = st.container()
        opened = opened_tensor(view, nodes[chosen_node(nodes)])
        heading.subheader(plain(" · ".join(dict.fromkeys([opened.node.title, opened.node.name]))))
    with diagram_place:
        draw_diagram(view, opened)
    draw_opened(view, opened)
    bring_sidebar_along()


def running_nodes(view: View) -> dict:
    """The nodes around the blocks and those of the chosen block, by their names in the address."""
    config, length = view.trace.config, view.trace.length
    outer, inner = outer_nodes(config, length), block_nodes(config, view.layer, length, mask=view.trace.mask_name)
    return {node.local: node for node in (*outer[:-2], *inner, *outer[-2:])}


def chosen_node(nodes: dict) -> str:
    """The tensor that is open, chosen here or in the diagram."""
    if st.session_state.get("node") not in nodes:  # another model may not have it
        st.session_state.pop("node", None)
    chosen = st.selectbox(
        "Opened tensor", list(nodes), index=None, placeholder=FIRST_NODE, key="node", bind="query-params", width=260
    )
    return chosen or FIRST_NODE


def draw_diagram(view: View, opened: Opened) -> None:
    config, length = view.trace.config, view.trace.length
    outer = outer_nodes(config, length)
    inner = block_nodes(config, view.layer, length, mask=view.trace.mask_name)
    tensors, adds, edges = placed(inner)
    diagram = Diagram(
        letters=letters(sizes(config, length)),
        around=around(outer),
        blocks=config.n_layers,
        block=view.layer,
        block_words=f"{sum(node.n_parameters for node in inner):,} parameters · in a box: letters of its axes, their "
        "numbers, θ parameters that make it, bytes it takes",
        tensors=tensors,
        adds=adds,
        edges=edges,
        chosen=opened.node.local,
        card=card(opened),
    )
    shape_diagram(diagram, key="shape_diagram", on_pick=pick)


def pick(kind: str, which: str | int) -> None:
    """A tensor or a block was clicked; the block is the layer of every page."""
    if kind == "tensor":
        st.session_state.node = which
    else:
        choose(layer=which)


def draw_opened(view: View, opened: Opened) -> None:
    """The chosen tensor as a matrix, and the line of PyTorch that makes it."""
    node = opened.node
    st.code(node.line, language="python", wrap_lines=True)
    where = [f"`{variable}` is {plain(name)}" for variable, name in node.inputs.items()]
    where += [words for name, words in MEANT.items() if name in node.line]
    st.caption(
        "; ".join([f'Runs with `model = vm.load("{view.model.name}").transformer` and the letters as numbers', *where])
        + "."
    )
    if node.name == "ids":
        draw_ids(view)
        return
    columns = choose_columns(view, opened)
    matrix = opened_matrix(view, opened, columns)
    panels(
        [matrix],
        key="shape_panels",
        selected=(view.query, view.key),
        matrix_width=700 if node.axes[-1] == "S" else 900,
        feature_width=900,
        on_pick=choose_cell,
        on_open=note_opened,
    )
    whole_head = None if opened.head is None else lambda: head_arrays(view)
    open_noted_matrix(view, {matrix.name: matrix}, whole_head, names={matrix.name: opened.names(view, columns)})
    st.caption(opened.words(columns))


def draw_ids(view: View) -> None:
    """The prompt as the model gets it: one number a token."""
    trace = view.trace
    table = pd.DataFrame(
        {"position": range(trace.length), "token": [shown(piece) for piece in trace.token_bytes], "id": trace.ids}
    )
    st.dataframe(table, hide_index=True, height=280, width="content", key="ids_table")


draw()
