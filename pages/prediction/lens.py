"""The logit lens: layers × tokens, and the likeliest tokens of the chosen cell beside it."""

import numpy as np
import streamlit as st
import torch

from viz_model.attribution.lens import Lens, read_lens
from viz_ui.components.panels import Matrix
from viz_ui.components.word_matrix import WordMatrix, word_matrix
from viz_ui.frame.address import linked
from viz_ui.frame.embedding import main_picture
from viz_ui.frame.jobs import kept_result
from viz_ui.frame.passes import is_small
from viz_ui.frame.view import View, choose_cell, choose_head
from viz_ui.look.glossary import explained
from viz_ui.look.text import counted, number, plain, shown
from viz_ui.parts.open_matrix import named, note_opened, open_noted_matrix, pass_words
from viz_ui.parts.token_table import draw_token_table

PROBABILITY, ENTROPY, DISTANCE = "probability", "entropy", "distance to the output"
UNITS = {PROBABILITY: PROBABILITY, ENTROPY: "entropy, bits", DISTANCE: "KL(output‖layer), bits"}
LIKELIEST = 10
FEWEST_COLUMNS = 8
MOST_CELLS = 2048  # words that a browser lays out at once
MOST_LOGITS = 2**25  # that are worked out at once: a second or two


def draw_lens(view: View) -> None:
    """Of a long prompt, the columns around the chosen query: as many as a browser and a second bear."""
    colour = linked(
        st.segmented_control,
        "What the colour shows",
        list(UNITS),
        default=PROBABILITY,
        required=True,
        key="lens",
        help="- **probability**: of the token in the cell\n- **entropy**: how undecided the prediction is, in bits\n"
        "- **distance to the output**: KL(output‖layer), the KL divergence of the layer's prediction from the "
        "output's, in bits. It is Σ p·log₂(p/r), where p is a token's probability in the output, and r is its "
        "probability after the layer.\n\n" + explained("entropy", "KL divergence"),
    )
    positions = columns(view)
    found = lens(view, positions)
    with main_picture():
        with st.container(horizontal=True, gap="medium"):
            with st.container(key="lens_side"):
                draw_words(view, found, positions, colour)
            with st.container(width=370):
                draw_likeliest(view)
        st.caption(
            "Each row is the residual stream after a layer, read through the model's own final norm and unembedding. "
            f"{cut_words(view, positions)}{why_repeated(view, found, positions)}"
            "The model itself predicts nothing between its layers: later layers may read the stream in other ways. "
            "nostalgebraist 2020, “interpreting GPT: the logit lens”."
        )


def columns(view: View) -> range:
    """The tokens of the lens: all, or the stretch of them in which the chosen query is."""
    layers = view.model.config.layers_of(view.model.config.self_part)
    most = min(MOST_CELLS // layers, MOST_LOGITS // (layers * view.model.config.vocab_size))
    count = max(most, FEWEST_COLUMNS)
    first = view.query // count * count
    return range(first, min(first + count, view.trace.length))


def lens(view: View, positions: range) -> Lens:
    """Kept for this visitor until another pass, or other tokens, are looked at."""
    return kept_result(
        lambda tell: read_lens(view.trace, positions, tell),
        words=f"Reading {view.model.config.n_layers} layers through the unembedding",
        name="lens",
        of=(*view.pass_key, positions),
        at_once=is_small(view.model),
    )


def draw_words(view: View, found: Lens, positions: range, colour: str) -> None:
    layers, count = found.tokens.shape
    pieces = [shown(piece) or "∅" for piece in view.model.token_bytes(found.tokens.flatten().tolist())]
    numbers = {PROBABILITY: found.probability, ENTROPY: found.entropy, DISTANCE: found.divergence}
    values = {UNITS[kind]: numbers[kind].numpy() for kind in sorted(numbers, key=lambda kind: kind != colour)}
    shades = numbers[colour].numpy()
    high = 1.0 if colour == PROBABILITY else float(shades[np.isfinite(shades)].max(initial=0.0)) or 1.0
    rows = [f"layer {layer}" for layer in range(layers - 1)] + [f"layer {layers - 1} = output"]
    labels = [view.labels[position] for position in positions]
    title = "The likeliest token after each layer"
    words = WordMatrix(
        title,
        [pieces[row * count : (row + 1) * count] for row in range(layers)],
        values,
        rows,
        labels,
        high=high,
        before=positions.start,
        after=view.trace.length - positions.stop,
    )

    def picked(row: int, column: int) -> None:
        choose_cell(query=positions[column])
        choose_head(layer=row)

    def turned(step: int) -> None:
        choose_cell(query=positions.start - 1 if step < 0 else positions.stop)

    word_matrix(
        words,
        key="lens_words",
        chosen=(view.layer, view.query - positions.start),
        on_pick=picked,
        on_turn=turned,
        on_open=lambda: note_opened({"panel": "lens"}),
    )
    finite = np.nan_to_num(shades, posinf=high)
    large = Matrix("lens", UNITS[colour], finite, rows, labels, row_axis="layer", column_axis="token", role="weights",
                   low=0.0, high=high)  # fmt: skip
    names = {"lens": named(view, f"logit lens, {UNITS[colour]}", f"lens_{colour}", of=pass_words(view.trace))}
    open_noted_matrix(view, {"lens": large}, names=names)


def draw_likeliest(view: View) -> None:
    """The chosen cell: the tokens that would be likeliest there."""
    trace, layer = view.trace, view.layer
    shares = trace.lens(layer, view.query).double().softmax(-1)
    output = trace.logits_at(view.query).double().softmax(-1)
    top = shares.topk(min(LIKELIEST, len(shares))).indices.tolist()
    words = [shown(piece) or "∅" for piece in view.model.token_bytes(top)]
    is_last = layer == trace.config.layers_of(trace.config.self_part) - 1
    place = "In the output" if is_last else f"After layer {layer}"
    where = "in the place of" if view.model.config.layout == "encoder-only" else "after"
    st.markdown(
        f"**{place}**, the likeliest token {where} {plain(view.labels[view.query])} is “**{plain(words[0])}**” "
        f"with probability {number(float(shares[top[0]]))}."
        + ("" if is_last else f" In the output, its probability is {number(float(output[top[0]]))}."),
        width="stretch",
    )
    columns = {} if is_last else {f"after layer {layer}": shares[top].numpy()}
    draw_token_table(words, columns | {"output": output[top].numpy()}, key="lens_tokens")


def cut_words(view: View, positions: range) -> str:
    if len(positions) == view.trace.length:
        return ""
    return f"Of {view.trace.length:,} tokens, {positions[0]:,} to {positions[-1]:,} are shown. "


def why_repeated(view: View, found: Lens, positions: range) -> str:
    """Why the first row repeats the tokens of the prompt, where it does."""
    read = torch.tensor([view.trace.ids[position] for position in positions])
    same = int((found.tokens[0] == read).sum())
    is_encoder = view.model.config.layout == "encoder-only"
    # A few columns say nothing of the stream: of 300 tokens, a model with random weights hits the right one by chance.
    if not same or found.tokens.shape[0] == 1 or (not is_encoder and 2 * same < len(positions)):
        return ""
    said = f"After layer 0, the lens repeats the token of its column in {same} of {counted(len(positions), 'column')}"
    if is_encoder:
        return (
            f"{said}: this model names the token that stands in the column, not the next one, and it sees every token "
            "that is not hidden. "
        )
    if view.model.config.tied_unembedding:
        return (
            f"{said}: the stream there is still close to the token's embedding, and the unembedding of this model has "
            "the same numbers as its embedding. "
        )
    return (
        f"{said}: the stream there is still close to the token's embedding. The unembedding of this model has numbers "
        "of its own, which give that token a large logit all the same. "
    )
