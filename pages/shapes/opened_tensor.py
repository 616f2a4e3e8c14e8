"""One tensor of the pass, opened: its facts, and the part of it that is drawn."""

import hashlib
from dataclasses import dataclass

import numpy as np
import streamlit as st

from pages.shapes.layout import ROLE_OF, axes
from viz_model.shapes.nodes import Node
from viz_model.shapes.values import NodeValues
from viz_ui.components.panels import Matrix
from viz_ui.components.shape_diagram import Card
from viz_ui.frame.address import linked
from viz_ui.frame.view import View
from viz_ui.look.text import label, labels, number
from viz_ui.parts.open_matrix import Named, named, pass_words

WIDEST, WINDOW = 256, 128  # a tensor with more columns than the first is drawn so many columns at a time
HIGHEST, IN_ORDER = "the highest of the query", "in order"
SOURCE = "Vaswani et al. 2017, “Attention Is All You Need”, §3"


ALLOWED = "allowed, booleans"
MEANS = "M is 0 where True, −∞ where False"


@dataclass(frozen=True)
class Columns:
    """The columns that are drawn, and in words which they are: "" where they are all."""

    indices: np.ndarray
    words: str = ""

    def cut(self, node: Node) -> str:
        """ "128 of 4,353 columns (V), the highest of query 5"; "" for a whole tensor."""
        count = f"{len(self.indices)} of {node.shape[-1]:,} columns ({node.axes[-1]})"
        return f"{count}, {self.words}" if self.words else ""


@dataclass(frozen=True)
class Opened:
    """A node, its values in this pass, and which of its heads is drawn (None where it has no head axis)."""

    node: Node
    values: NodeValues
    head: int | None

    @property
    def head_words(self) -> str:
        """ "head 5" or "key/value head 1"; "" where it has none."""
        if self.head is None:
            return ""
        return f"{'head' if self.node.axes[1] == 'H' else 'key/value head'} {self.head}"

    def words(self, columns: Columns) -> str:
        """Which part of the tensor is drawn, and where its numbers come from."""
        node, parts = self.node, []
        if self.head is not None:
            parts.append(f"{self.head_words} of {self.values.heads} ({node.axes[1]})")
        if columns.words:
            parts.append(columns.cut(node))
        drawn = f"The picture shows {' and '.join(parts)}. " if parts else ""
        if self.head is not None:
            drawn += "Choose the head in the sidebar. "
        if parts:
            drawn += f"The statistics are for all {node.count:,} numbers of the tensor. "
        if self.values.derived:
            made = "The numbers are computed again from the Q, K and mask of the pass. "
        elif node.local.endswith(".joined"):
            made = "The numbers are the mixed values of all heads, side by side. "
        else:
            made = "The numbers were recorded in a pass of this prompt. "
        return f"{drawn}{made}{SOURCE}."

    def names(self, view: View, columns: Columns) -> Named:
        """The names of the drawn part where it is opened large, and of its file."""
        node = self.node
        places = [] if node.part == "self" else ["decoder" if node.part == "cross" else node.part]
        places += [] if node.layer is None else [f"layer {node.layer}"]
        places += [self.head_words] if self.head is not None else []
        words = f"{ALLOWED}; {MEANS}" if is_mask(node) else node.title
        file_words = node.local
        if columns.words:
            words += f", {columns.cut(node)}"
            file_words += f"_{len(columns.indices)} columns {columns.words}"
        return named(view, words, file_words, *places, of=pass_words(view.trace))


def is_mask(node: Node) -> bool:
    return node.local.endswith(".mask")


def opened_tensor(view: View, node: Node) -> Opened:
    """The node with its values, kept for this visitor."""
    masks = [view.trace.of(part).mask(0).numpy() for part in view.trace.config.parts]
    masked = hashlib.sha256(b"".join(np.packbits(mask).tobytes() for mask in masks)).hexdigest()
    values = _node_values(view, node, view.name, view.prompt, view.trace.read.ids, masked, view.pass_key[-1], node.name)
    head = None
    if values.heads > 1 or len(node.shape) == 4:
        head = view.head if node.axes[1] == "H" else view.trace.config.kv_head(view.head)
    return Opened(node, values, head)


@st.cache_resource(scope="session", max_entries=4, show_spinner="One more pass for this tensor …")
def _node_values(
    _view: View, _node: Node, model: str, prompt: str, read: tuple[int, ...], masks: str, edits: tuple, name: str
) -> NodeValues:
    return NodeValues(_view.model, _view.trace, _node)


def card(opened: Opened) -> Card:
    """What the diagram says about the tensor: its line, statistics and parameters."""
    node, found = opened.node, opened.values.statistics
    shape = f"({', '.join(node.axes)}) = ({', '.join(f'{size:,}' for size in node.shape)})"
    facts = [("mean", number(found.mean)), ("std", number(found.std)), ("min", number(found.minimum))]
    facts += [("max", number(found.maximum)), ("length √Σx²", number(found.norm))]
    if node.local == "ids":
        facts = [("smallest", f"{found.minimum:,.0f}"), ("largest", f"{found.maximum:,.0f}")]
    if is_mask(node):
        facts = [("allowed", f"{round(found.mean * found.count):,} of {found.count:,} cells")]
    kind = {8: "int64", 1: "booleans"}.get(node.number_bytes, "float32")
    facts.append(("numbers", f"{node.count:,} × {node.number_bytes} B ({kind}) = {node.nbytes:,} B"))
    if node.parameters:
        facts.append(("parameters θ", f"{node.n_parameters:,} × 4 B = {4 * node.n_parameters:,} B"))
    if node.tied:
        facts.append(("parameters θ", f"tied to {node.tied.name}, counted there"))
    if (other := node.inputs.get(node.line.partition(" = ")[2])) is not None:  # a second name
        facts.append(("same tensor as", other))
    rows = [(parameter.name, axes(parameter), parameter.count) for parameter in node.parameters]
    return Card(f"{node.title} {shape}", node.line, facts, rows)


def choose_columns(view: View, opened: Opened) -> Columns:
    """Which columns are drawn: all, or the part of a wide tensor that the reader chose."""
    width = opened.node.shape[-1]
    if width <= WIDEST:
        return Columns(np.arange(width))
    with st.container(horizontal=True, vertical_alignment="bottom"):
        order = IN_ORDER
        if opened.node.name == "logits":
            order = linked(
                st.segmented_control, "Columns", (HIGHEST, IN_ORDER), default=HIGHEST, required=True, key="columns"
            )
        if order == HIGHEST:
            row = opened.values.matrix()[view.query].numpy()
            return Columns(np.argsort(-row, kind="stable")[:WINDOW], f"the highest of query {view.query}")
        first = linked(
            st.number_input,
            f"First column (0–{width - WINDOW:,})",
            0,
            width - WINDOW,
            value=None,
            step=WINDOW,
            key=f"first_of_{opened.node.axes[-1]}",
            placeholder="0",
            width=220,
        )
    indices = np.arange(first or 0, (first or 0) + WINDOW)
    return Columns(indices, f"{indices[0]}–{indices[-1]}")


def opened_matrix(view: View, opened: Opened, columns: Columns) -> Matrix:
    """The drawn part as a matrix of tokens × columns; the chosen query and key are framed where they belong to it."""
    node, values, seen = opened.node, opened.values.matrix(opened.head or 0).numpy(), opened.values.trace
    weights = node.local.endswith(".weights")
    queries, keys = labels(seen.token_bytes), labels(seen.key_token_bytes)
    here = seen.queries == view.trace.queries, seen.keys == view.trace.keys  # whether query, key mean these tokens
    caption = f"({', '.join(node.axes[-2:])}) = ({node.shape[-2]:,}, {node.shape[-1]:,})"
    if is_mask(node):  # drawn as it is: a closed cell is a 0 here, not a hole
        caption = f"True is 1, False is 0; {MEANS} · {caption}"
    return Matrix(
        node.local,
        ALLOWED if is_mask(node) else node.title,
        values[:, columns.indices].astype(np.float32),
        keys if node.rows_are_keys else queries,
        keys if node.columns_are_keys else _column_names(view, node, columns.indices),
        row_axis="key" if node.rows_are_keys else "query",
        column_axis="key" if node.columns_are_keys else "next token" if node.name == "logits" else "feature",
        caption=f"{caption}, columns: {columns.words}" if columns.words else caption,
        role=ROLE_OF.get(node.local, "stream"),
        scale="sequential" if is_mask(node) or weights else "diverging",
        allowed=seen.mask(node.layer).numpy() if weights else None,
        rows_are_queries=here[0] and not node.rows_are_keys,
        rows_are_keys=here[1] and node.rows_are_keys,
        columns_are_keys=here[1] and node.columns_are_keys,
    )


def _column_names(view: View, node: Node, columns: np.ndarray) -> list[str]:
    if node.name != "logits":
        return [str(column) for column in columns]
    pieces = view.model.token_bytes(columns.tolist())
    return [label(column, piece) for column, piece in zip(columns, pieces, strict=True)]
