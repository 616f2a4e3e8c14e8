"""Encoder-only, decoder-only and encoder-decoder side by side, as they ran; every box opens its tensor."""

import numpy as np
import streamlit as st
import torch

import viz_model as vm
from pages.layouts.examples import BOTH, DECODER, ENCODER, Example, draw_source, example, say_edits
from viz_model.model.site_tensor import site_tensor
from viz_model.shapes.values import statistics
from viz_ui.components.layout_diagram import (
    Box,
    DiagramBlock,
    DiagramStack,
    Half,
    Layout,
    Picture,
    boxes,
    layout_diagram,
)
from viz_ui.components.panels import Matrix, panels
from viz_ui.frame.address import linked
from viz_ui.frame.view import current_view
from viz_ui.look.glossary import explained
from viz_ui.look.text import counted, label, labels, number, percent, plain, sentence, shown
from viz_ui.look.thumbnails import thumbnails
from viz_ui.parts.open_matrix import Named, note_opened, open_noted_matrix, pass_words

FIRST_BOX = f"{DECODER} blocks.0.attn.weights"
HIGHEST = 64  # of the logits so many are drawn

WORDS = {
    "encoder-only": "Every token reads every token. The model is trained to guess hidden tokens.",
    "decoder-only": "Each token reads itself and the tokens before it. The model is trained to guess the next token.",
    "encoder-decoder": "The encoder reads the source. The decoder reads the encoder output and its own text so far.",
}
POSITIONS = {
    "learned": "tokens + learned positions",
    "sinusoidal": "tokens + sinusoidal positions",
    "rotary": "tokens (positions rotate Q, K)",
    "none": "tokens, no positions",
}


def draw_side_by_side() -> None:
    problems, diagram = st.container(), st.container()
    heading = st.container(horizontal=True, vertical_alignment="bottom")
    chooser = heading.container()
    with heading:
        draw_source()
    examples, missing = {}, []
    for name in (ENCODER, DECODER, BOTH):
        try:
            examples[name] = example(name)
        except vm.VizError as error:
            missing.append(str(error))
    for words in missing:
        problems.info(plain(sentence(words)), icon=":material/edit:")
    if not examples:
        return
    with problems:
        say_edits(examples.values())
    layouts = [layout_of(one) for one in examples.values()]
    names = [box.name for box in boxes(layouts)]
    with chooser:
        chosen = choose_box(names)
    with diagram:
        layout_diagram(layouts, chosen=chosen, key="layout_diagram", on_pick=pick)
    name, _, site = chosen.partition(" ")
    sizes = [
        f"{one.model.name} {number(one.model.transformer.n_parameters() / 1e6, 2)} million" for one in examples.values()
    ]
    with diagram:
        st.caption(
            "The grey line is the residual stream. N is a norm. At each “+”, the result of a box is added to the "
            "stream. Each small picture shows the mean weights of all heads; the largest of these weights has the "
            f"brightest colour. Masked cells are hatched. Parameters: {', '.join(sizes)}.",
            help="A tensor is an array of numbers with one or more axes. Each position has a vector, which is added to "
            "the token. If positions are learned, training found these vectors; if positions are sinusoidal, the "
            "vectors are sines and cosines of the position. “blocks.0” in the name of a tensor is layer 0.\n\n"
            + explained("residual stream", "norm", "feed-forward"),
        )
    draw_opened(examples[name], site, heading)


def choose_box(names: list[str]) -> str:
    """The box that is open, chosen here or in the diagram."""
    first = FIRST_BOX if FIRST_BOX in names else names[0]
    return linked(st.selectbox, "Tensor shown", names, index=None, placeholder=first, key="box", width=340) or first


def pick(name: str) -> None:
    """A box was clicked."""
    st.session_state.box = name


def layout_of(one: Example) -> Layout:
    """What a model is made of, with pictures of the weights of this pass."""
    config = one.model.config
    stacks = ["encoder", "decoder"] if config.layout == "encoder-decoder" else ["self"]
    return Layout(config.layout, one.model.name, WORDS[config.layout], [_stack(one, part) for part in stacks])


def _stack(one: Example, part: str) -> DiagramStack:
    trace, config = one.trace.of(part), one.model.config
    pieces = [shown(piece) for piece in trace.token_bytes]
    blocks = [_block(one, trace, layer) for layer in range(trace.n_layers)]
    ends = []
    if config.norm_place == "pre" or part == "encoder":
        title = "encoder output" if part == "encoder" else "final norm"
        ends.append(_box(one, trace.site("final_norm"), title))
    if part != "encoder":
        ends.append(_box(one, "logits", "logits", _said(one)))
    return DiagramStack(
        "" if part == "self" else f"{part}, {counted(trace.length, 'byte')}",
        "".join(pieces),
        _box(one, trace.site("embed"), POSITIONS[config.position]),
        blocks,
        ends,
    )


def _block(one: Example, trace: vm.Trace, layer: int) -> DiagramBlock:
    first = one.model.config.norm_place == "pre"
    attention = [(trace.part, "norm1", "attn", "self-attention", trace.mask_name)]
    if trace.part == "decoder":
        attention.append(("cross", "norm_cross", "cross", "cross-attention", "reads the source"))
    halves = []
    for part, norm, branch, title, words in attention:
        box = _box(
            one, trace.site(f"{branch}.weights", layer), title, words, "weights", _picture(one.trace.of(part), layer)
        )
        halves.append(Half(box, _box(one, trace.site(norm, layer), "N"), first, part == "cross"))
    if one.model.config.d_ff:
        box = _box(one, trace.site("ffn.out", layer), "feed-forward")
        halves.append(Half(box, _box(one, trace.site("norm2", layer), "N"), first))
    return DiagramBlock(halves, _box(one, trace.site("resid_post", layer), f"layer {layer}"))


def _box(one: Example, site: str, title: str, words: str = "", role: str = "stream", picture=None) -> Box:
    spoken = "norm" if title == "N" else title
    return Box(f"{one.model.name} {site}", title, words, role, f"{one.model.name}: {spoken}, {site}", picture)


def _picture(trace: vm.Trace, layer: int) -> Picture:
    """The mean of the heads' weights, from 0 to its largest cell."""
    mean = torch.stack([trace.weights(layer, head) for head in range(trace.config.n_heads)]).mean(0).numpy()
    allowed = trace.mask(layer).numpy()
    steps, small = thumbnails(mean[None, None], 0, float(mean.max()), allowed)
    return Picture(steps[0, 0], small)


def _said(one: Example) -> str:
    """What the model makes of its logits."""
    trace = one.trace
    if one.model.config.layout == "encoder-only":
        return "for every token"
    if one.model.config.layout == "encoder-decoder":
        return "writes " + "".join(shown(piece) for piece in trace.read.pieces[1:])
    shares = trace.logits.double().softmax(-1)
    likeliest = int(shares.argmax())
    return f"next: {shown(one.model.token_bytes([likeliest])[0])} {percent(shares[likeliest], 2)}"


def draw_opened(one: Example, site: str, row) -> None:
    """The tensor of a box as a matrix; of weights, one head."""
    tensor = site_tensor(one.model, one.trace, site)
    trace = one.trace.of(_part(one, site))
    head = None
    if site.endswith(".weights"):
        head = _choose_head(row, trace.config.n_heads)
        matrix = _weights_matrix(one, trace, tensor[head].numpy(), head, site)
    elif site == "logits":
        matrix = _logits_matrix(one, trace, tensor.numpy())
    else:
        matrix = _stream_matrix(one, trace, tensor.numpy(), site)
    panels(
        [matrix],
        key="layout_panels",
        matrix_width=520 if head is not None else 900,
        feature_width=900,
        on_open=note_opened,
    )
    words = f"{one.model.name}, {site}" + ("" if head is None else f", head {head}")
    open_noted_matrix(
        current_view(),
        {matrix.name: matrix},
        names={matrix.name: Named(words, words.replace(", ", "_").replace(" ", ""), pass_words(trace))},
    )
    found = statistics([tensor])
    st.caption(
        f"The tensor has {found.count:,} numbers. Their mean is {number(found.mean)}, and their standard deviation is "
        f"{number(found.std)}. The numbers lie between {number(found.minimum)} and {number(found.maximum)}."
    )


def _part(one: Example, site: str) -> str:
    if one.model.config.layout != "encoder-decoder":
        return "self"
    return "cross" if ".cross." in site else "encoder" if site.startswith("encoder.") else "decoder"


def _choose_head(row, count: int) -> int:
    return (
        linked(
            row.number_input,
            f"Head (0–{count - 1})",
            0,
            count - 1,
            value=None,
            key="box_head",
            placeholder="0",
            width=110,
        )
        or 0
    )


def _weights_matrix(one: Example, trace: vm.Trace, values: np.ndarray, head: int, site: str) -> Matrix:
    layer = next(int(part) for part in site.split(".") if part.isdigit())
    return Matrix(
        "weights",
        f"{one.model.name} · {site}",
        values,
        labels(trace.token_bytes),
        labels(trace.key_token_bytes),
        caption=f"head {head} of {trace.config.n_heads}: (T, S) = {values.shape}",
        role="weights",
        allowed=trace.mask(layer).numpy(),
        rows_are_queries=True,
        columns_are_keys=True,
    )


def _stream_matrix(one: Example, trace: vm.Trace, values: np.ndarray, site: str) -> Matrix:
    return Matrix(
        site.rpartition(".")[2],
        f"{one.model.name} · {site}",
        values,
        labels(trace.token_bytes),
        [str(feature) for feature in range(values.shape[1])],
        row_axis="token",
        column_axis="feature",
        caption=f"(T, C) = {values.shape}",
        role="stream",
        scale="diverging",
        rows_are_queries=True,
    )


def _logits_matrix(one: Example, trace: vm.Trace, values: np.ndarray) -> Matrix:
    highest = np.argsort(-values[-1], kind="stable")[:HIGHEST]
    pieces = one.model.token_bytes(highest.tolist())
    return Matrix(
        "logits",
        f"{one.model.name} · logits",
        values[:, highest],
        labels(trace.token_bytes),
        [label(token, piece) for token, piece in zip(highest, pieces, strict=True)],
        row_axis="token",
        column_axis="vocabulary",
        caption=f"(T, V) = ({values.shape[0]}, {values.shape[1]:,}): the {len(highest)} highest of the last token",
        role="stream",
        scale="diverging",
        rows_are_queries=True,
    )
