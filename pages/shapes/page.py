"""Shapes: every tensor of the running model with its axes and numbers, and how a model grows with its sizes."""

import pandas as pd
import streamlit as st

from pages.shapes.any_model import draw_any_model
from pages.shapes.layout import around, letters, placed
from pages.shapes.opened_tensor import Opened, card, choose_columns, opened_matrix, opened_tensor
from viz_model.shapes.contract import block_nodes, outer_nodes, sizes
from viz_ui.components.panels import panels
from viz_ui.components.shape_diagram import Diagram, shape_diagram
from viz_ui.frame.address import bring_sidebar_along, linked
from viz_ui.frame.embedding import main_picture
from viz_ui.frame.view import View, choose_head, choose_picked_cell, current_view
from viz_ui.look.glossary import explained
from viz_ui.look.text import plain, shown
from viz_ui.parts.fitting_model import is_ours
from viz_ui.parts.open_matrix import head_arrays, note_opened, open_noted_matrix

RUNNING, ANY = "this model", "a model of any size"
SENTENCES = {
    RUNNING: "**Which tensors does a pass make?** Point at a **letter** to see where it is used. Click a **tensor** to "
    "open it, or a **block** to look inside.",
    ANY: "**How does a model grow?** Change its sizes and watch **T²**. All numbers are computed by formula.",
}
TERMS = {
    RUNNING: (
        *("parameter", "embedding", "residual stream", "norm", "score", "attention weight", "value", "grouped heads"),
        *("encoder output", "feed-forward", "final hidden state", "logit", "tied"),
    ),
    ANY: ("parameter", "FLOP", "score", "attention weight", "value"),
}
MEANT = {  # other names that a line may use
    "F.": "`F` is torch.nn.functional",
    "prompt_ids": "`prompt_ids` are the token ids of this prompt",
    "target_ids": "`target_ids` are the token ids that the decoder reads",
    "rotate": "`rotate` and `rotary_angles` come from viz\\_model.transformer.positions",
    "chosen_mask": "`chosen_mask` is the mask in the sidebar, as booleans",
}


def draw() -> None:
    st.title("Shapes")
    with st.container(horizontal=True, vertical_alignment="center"):
        shown = linked(
            st.segmented_control,
            "What is shown",
            list(SENTENCES),
            default=RUNNING,
            required=True,
            key="shapes",
            label_visibility="collapsed",
        )
        if shown == ANY or is_ours(current_view().trace.config):
            st.markdown(SENTENCES[shown], width="content", help=explained(*TERMS[shown]))
    if shown == ANY:
        with main_picture():
            draw_any_model()
    else:
        draw_running()


@st.fragment
def draw_running() -> None:
    """The diagram of the running model and the opened tensor: a fragment, so that a click answers at once."""
    view = current_view()
    if not is_ours(view.trace.config):
        main_picture().info(
            f"This section shows the PyTorch code of the bundled models, but {plain(view.model.name)} runs the code of "
            f"its library. Choose a bundled model, look at “{ANY}”, or find the tensors of {plain(view.model.name)} on "
            "the page “Shape reference”."
        )
        return
    diagram_place, heading_place = st.container(), st.container(horizontal=True, vertical_alignment="bottom")
    nodes = running_nodes(view)
    with heading_place:
        heading = st.container()
        opened = opened_tensor(view, nodes[chosen_node(view, nodes)])
        heading.subheader(plain(" · ".join(dict.fromkeys([opened.node.title, opened.node.name]))))
    with diagram_place, main_picture():
        draw_diagram(view, opened)
    draw_opened(view, opened)
    bring_sidebar_along()


def running_nodes(view: View) -> dict:
    """The nodes around the blocks and those of the chosen block, by their names in the address."""
    outer, inner = stack_nodes(view)
    return {node.local: node for node in (*outer[: -behind(view)], *inner, *outer[-behind(view) :])}


def stack_nodes(view: View) -> tuple[list, list]:
    """The nodes around the blocks, and those of the chosen block, of the stack that is looked at."""
    trace, of_stack = view.trace, {"part": view.part, "source": source_length(view)}
    outer = outer_nodes(trace.config, trace.length, **of_stack)
    return outer, block_nodes(trace.config, view.layer, trace.length, masks=trace.mask_names, **of_stack)


def source_length(view: View) -> int:
    """The tokens that a decoder reads across; 0 where there is no source, or the stack is the encoder."""
    return len(view.trace.source) if view.part in ("decoder", "cross") else 0


def behind(view: View) -> int:
    """How many nodes stand behind the blocks: an encoder has no logits."""
    return 1 if view.part == "encoder" else 2


def chosen_node(view: View, nodes: dict) -> str:
    """The name of the open tensor, chosen here or in the diagram."""
    first = "cross.q" if view.part == "cross" else "attn.q"
    chosen = linked(st.selectbox, "Tensor shown", list(nodes), index=None, placeholder=first, key="node", width=260)
    return chosen or first


def draw_diagram(view: View, opened: Opened) -> None:
    trace, (outer, inner) = view.trace, stack_nodes(view)
    tensors, adds, edges = placed(inner)
    numbers = sizes(trace.config, trace.length, part=view.part, source=source_length(view))
    diagram = Diagram(
        letters=letters(numbers, view.part),
        around=around(outer),
        blocks=trace.n_layers,
        block=view.layer,
        block_words=f"{sum(node.n_parameters for node in inner):,} parameters · each box shows the letters and sizes "
        "of its axes, its parameters θ and its bytes",
        tensors=tensors,
        adds=adds,
        edges=edges,
        chosen=opened.node.local,
        card=card(opened),
        behind=behind(view),
    )
    shape_diagram(diagram, key="shape_diagram", on_pick=pick)


def pick(kind: str, which: str | int) -> None:
    """A tensor or a block was clicked; the block is the layer of every page."""
    if kind == "tensor":
        st.session_state.node = which
    else:
        choose_head(layer=which)


def draw_opened(view: View, opened: Opened) -> None:
    """The chosen tensor as a matrix, and the line of PyTorch that makes it."""
    node = opened.node
    st.code(node.line, language="python", wrap_lines=True)
    where = [f"`{variable}` is the tensor {plain(name)}" for variable, name in node.inputs.items()]
    where += [words for name, words in MEANT.items() if name in node.line]
    needs = (
        f'To run this line, first set `model = vm.load("{view.model.name}").transformer` and replace each letter by '
        "its size"
    )
    st.caption(f"{'; '.join([needs, *where])}.")
    if node.local == "ids":
        draw_ids(view)
        return
    columns = choose_columns(view, opened)
    matrix = opened_matrix(view, opened, columns)
    panels(
        [matrix],
        key="shape_panels",
        selected=(view.query, view.key),
        matrix_width=700 if node.columns_are_keys else 900,
        feature_width=900,
        on_pick=choose_picked_cell,
        on_open=note_opened,
    )
    whole_head = None if opened.head is None else lambda: head_arrays(view)
    open_noted_matrix(view, {matrix.name: matrix}, whole_head, names={matrix.name: opened.names(view, columns)})
    st.caption(opened.words(columns))


def draw_ids(view: View) -> None:
    """The prompt as the model reads it: one number for each token."""
    trace = view.trace
    table = pd.DataFrame(
        {"position": range(trace.length), "token": [shown(piece) for piece in trace.token_bytes], "id": trace.ids}
    )
    st.dataframe(table, hide_index=True, height=280, width="content", key="ids_table")


draw()
