"""What rounded weights do: to the attention of every head, to the next token, and to the loss on a text."""

import numpy as np
import streamlit as st
import torch

import viz_model as vm
from pages.quantization.choice import quantized_trace
from viz_model.heads.comparison import weight_changes
from viz_model.quantization.twin import Choice, Quantized
from viz_model.training.held_out import held_out_rows
from viz_model.training.loss import Loss, loss
from viz_ui.components.head_grid import head_grid
from viz_ui.components.panels import Matrix, panels
from viz_ui.frame.address import linked
from viz_ui.frame.view import View, begin_with_head, choose_head, choose_picked_cell
from viz_ui.look.colours import diverging_lut, sequential_lut
from viz_ui.look.text import counted, labels, number, plain
from viz_ui.look.thumbnails import of_all_layers, pooling_words, thumbnails
from viz_ui.parts.next_tokens import draw_next_tokens
from viz_ui.parts.open_matrix import named, note_opened, open_noted_matrix, pass_words

BEFORE, AFTER, DIFFERENCE = "before", "after", "difference"


def draw_effects(view: View, quantized: Quantized) -> None:
    """The section: every head, the chosen one large, the next token, the loss."""
    trace, _ = quantized_trace(view, quantized)
    begin_with_head(lambda: most_changed(_pictures_of(view, trace, quantized)[0]))
    with st.container(horizontal=True, gap="medium"):
        heads_place, head_place = st.container(width=340), st.container(key="head_side")
    with head_place:  # first, so that it is on screen while the rest is under way
        draw_head(view, trace, quantized)
    with heads_place:
        draw_grid(view, trace, quantized)
        draw_loss(view, quantized)
    if view.model.config.has_unembedding:  # else draw_loss has said so
        draw_prediction(view, trace)


def draw_grid(view: View, trace: vm.Trace, quantized: Quantized) -> None:
    """All heads: before, after, or what changed."""
    what = linked(
        st.segmented_control,
        "Every head",
        (DIFFERENCE, BEFORE, AFTER),
        default=DIFFERENCE,
        required=True,
        key="grid_of",
    )
    changes, pictures = _pictures_of(view, trace, quantized)
    small, seen = pictures[what]
    head_grid(
        small,
        seen,
        diverging_lut() if what == DIFFERENCE else sequential_lut(),
        layer=view.layer,
        head=view.head,
        labels=[[f"largest change {number(change, 2)}" for change in row] for row in changes.tolist()],
        key="quantized_grid",
        on_pick=choose_head,
    )
    largest = changes.max()
    layer, head = most_changed(changes)
    scale = f"±{number(largest or 1, 2)}" if what == DIFFERENCE else "0 to 1"
    pooled = pooling_words((view.trace.length, view.trace.key_length), small.shape[-2:])
    st.caption(f"All thumbnails share one scale, {scale}. {pooled}")
    if not largest:
        st.caption("No weight of any head changes.")
        return
    st.caption(f"The attention weights change most in layer {layer}, head {head}.")
    if (layer, head) != (view.layer, view.head):
        st.button("Show this head", key="most_changed", on_click=choose_head, args=(layer, head))


def most_changed(changes: np.ndarray) -> tuple[int, int]:
    """The head of the largest change (L,H)."""
    layer, head = np.unravel_index(changes.argmax(), changes.shape)
    return int(layer), int(head)


def _pictures_of(view: View, trace: vm.Trace, quantized: Quantized):
    return _pictures(view.trace, trace, *view.pass_key, view.trace.part, quantized.choice)


# Keyed on plain values, like the traces themselves.
@st.cache_resource(scope="session", max_entries=2, show_spinner="Comparing every head …")
def _pictures(
    _before,
    _after,
    model: str,
    read: tuple,
    source: tuple | None,
    masks: tuple,
    edits: tuple,
    part: str,
    choice: Choice,
):
    """The largest change of each head (L,H), and thumbnails of all heads, head by head to bound memory."""
    changes = weight_changes(_before, _after).numpy()
    ends = float(changes.max()) or 1.0
    found = {name: ([], low, high) for name, low, high in ((BEFORE, 0, 1), (AFTER, 0, 1), (DIFFERENCE, -ends, ends))}
    seen = []
    for layer in range(_before.n_layers):
        mask = _before.mask(layer).numpy()
        for head in range(_before.config.n_heads):
            before, after = (trace.weights(layer, head).numpy() for trace in (_before, _after))
            for name, matrix in ((BEFORE, before), (AFTER, after), (DIFFERENCE, after - before)):
                pictures, low, high = found[name]
                small, allowed = thumbnails(matrix, low, high, mask)
                pictures.append(small)
        seen.append(allowed)
    shape, allowed = (*changes.shape, *found[BEFORE][0][0].shape), of_all_layers(seen, _before.config.n_heads)
    return changes, {name: (np.stack(pictures).reshape(shape), allowed) for name, (pictures, _, _) in found.items()}


def draw_head(view: View, trace: vm.Trace, quantized: Quantized) -> None:
    """The chosen head before, after, and their difference."""
    before, after = (each.weights(view.layer, view.head).numpy() for each in (view.trace, trace))
    shared = {
        "row_labels": view.labels,
        "column_labels": view.key_labels,
        "allowed": view.trace.mask(view.layer).numpy(),
        "rows_are_queries": True,
        "columns_are_keys": True,
    }
    items = [
        Matrix(BEFORE, "Weights A, before", before, role="weights", caption=view.where, **shared),
        Matrix(
            DIFFERENCE,
            "Difference",
            after - before,
            role="stream",
            scale="diverging",
            caption=f"after − before; largest {number(np.abs(after - before).max())}",
            mark_zeros=True,
            **shared,
        ),
        Matrix(AFTER, f"Weights A, {quantized.choice.scheme}", after, role="weights", caption=view.where, **shared),
    ]
    panels(
        items,
        key="quantized_head",
        selected=(view.query, view.key),
        matrix_width=330 if max(before.shape) <= 40 else 560,
        on_pick=choose_picked_cell,
        on_open=note_opened,
    )
    scheme = quantized.choice.scheme
    places, of = view.where.split(", "), pass_words(view.trace)
    names = {item.name: named(view, item.title, f"{item.name}_{scheme}", *places, of=of) for item in items}
    open_noted_matrix(view, {item.name: item for item in items}, names=names)


def draw_prediction(view: View, trace: vm.Trace) -> None:
    """The prediction after the chosen query, by the model and by its quantized copy."""
    reads = view.trace.of(view.trace.config.self_part)
    query = view.query if view.trace.part != "encoder" else reads.length - 1
    label = plain(labels(reads.token_bytes)[query])
    if view.trace.config.layout == "encoder-only":
        st.subheader("The token at the query")
        place = f"For the token at **{label}**"
    else:
        st.subheader("The next token")
        place = f"For the token that follows **{label}**"
    try:
        logits = [each.of(reads.part).logits_at(query) for each in (reads, trace)]
    except vm.VizError as error:
        st.info(plain(str(error)))
        return
    draw_next_tokens(view, *logits, ("original", "rounded"), place)


def draw_loss(view: View, quantized: Quantized) -> None:
    """One number for all: how well a text is predicted."""
    try:
        name, read, source, _, edits = view.pass_key
        text, before, after = _losses(view.model, quantized, name, read, source, edits, quantized.choice)
    except vm.VizError as error:
        st.info(plain(str(error)))
        return
    st.metric(
        f"Loss on {text}, nats per token",
        f"{number(before.nats)} → {number(after.nats)}",
        f"{after.nats - before.nats:+.4f}".replace("-", "−"),
        delta_color="inverse",
    )
    perplexities = f"{number(np.exp(before.nats))} → {number(np.exp(after.nats))}"
    st.caption(
        f"The loss is the cross-entropy {before.words}, averaged over {counted(before.tokens, 'token')}, under the "
        f"model's own mask. The perplexity is e^loss: {perplexities}."
    )


@st.cache_resource(scope="session", max_entries=4, show_spinner="Loss of both models …")
def _losses(
    _model: vm.Model,
    _quantized: Quantized,
    model: str,
    read: tuple,
    source: tuple | None,
    edits: tuple,
    choice: Choice,
) -> tuple[str, Loss, Loss]:
    """On what was held out from training, where that lies beside the model; else on what the reader typed."""
    rows, given = held_out_rows(_model, model), None
    if rows is not None:
        text = "held-out text"
    else:
        text, rows = "this prompt", torch.tensor([read])
        given = None if source is None else torch.tensor(source)
    return text, *(loss(each, rows, given) for each in (_model, _quantized.model))
