"""Prediction: what would come next if the model ended after each layer, and what adds to the logit of a token."""

import numpy as np
import pandas as pd
import streamlit as st

import viz_model as vm
from viz_model.attribution.components import HEAD
from viz_model.attribution.lens import Lens, read_lens
from viz_model.attribution.logits import LogitTerms
from viz_ui.frame.address import choose, linked
from viz_ui.frame.embedding import main_picture
from viz_ui.frame.jobs import Stopped, kept_result
from viz_ui.frame.passes import is_small
from viz_ui.frame.view import View, choose_cell, choose_head, current_view
from viz_ui.look.glossary import explained
from viz_ui.look.lens_figure import lens_figure
from viz_ui.look.text import number, plain, sentence, shown
from viz_ui.parts.head_matrix import draw_head_matrix
from viz_ui.parts.open_matrix import named, pass_words
from viz_ui.parts.term_bars import draw_terms, largest

MOST_COLUMNS = 10  # tokens whose words can be read side by side in a narrow window
COLOURS = ("probability", "entropy", "distance to the output")
THAN_MEAN, ALONE, TOKEN = "the mean of all tokens", "nothing", "another token"
LIKELIEST = 10


def draw() -> None:
    view = current_view()
    st.title("Prediction")
    st.markdown(
        "**What would the model say after each layer, and which parts made it say so?** A row is a layer. Each cell "
        f"shows the token that {comes(view)} if the model ended there. Click a cell to see its likeliest tokens. "
        "Below them stands what each part of the model adds to a token's logit in the output.",
        help=explained("logit lens", "unembedding", "residual stream", "logit", "KL divergence", "layer"),
    )
    try:
        if view.part == "encoder":
            raise vm.VizError("The encoder predicts no tokens. Choose the decoder in the sidebar.")
        draw_lens(view)
        draw_likeliest(view)
        draw_attribution(view)
    except Stopped:
        return
    except vm.VizError as error:
        main_picture("refused").info(plain(sentence(str(error))), icon=":material/edit:")


def lens(view: View, positions: range) -> Lens:
    """Kept for this visitor until another pass, or other tokens, are looked at."""
    return kept_result(
        lambda tell: read_lens(view.trace, positions, tell),
        words=f"Reading {view.model.config.n_layers} layers through the unembedding",
        name="lens",
        of=(*view.pass_key, positions),
        at_once=is_small(view.model),
    )


def draw_lens(view: View) -> None:
    """Layers × tokens. Of a long prompt, the tokens around the chosen query."""
    colour = linked(
        st.segmented_control,
        "What the colour shows",
        COLOURS,
        default=COLOURS[0],
        required=True,
        key="lens",
        help="- **probability**: of the token in the cell\n- **entropy**: how undecided the prediction is, in bits\n"
        "- **distance to the output**: the KL divergence of the model's own prediction from this one, in bits\n\n"
        + explained("entropy"),
    )
    first = max(0, min(view.query - MOST_COLUMNS // 2, view.trace.length - MOST_COLUMNS))
    positions = range(first, min(first + MOST_COLUMNS, view.trace.length))
    found = lens(view, positions)
    numbers = {COLOURS[0]: found.probability, COLOURS[1]: found.entropy, COLOURS[2]: found.divergence}[colour].numpy()
    ids = found.tokens.flatten().tolist()
    pieces = [shown(piece) or "∅" for piece in view.model.token_bytes(ids)]
    layers, count = found.tokens.shape
    words = [pieces[row * count : (row + 1) * count] for row in range(layers)]
    rows = [f"layer {layer}" for layer in range(layers - 1)] + [f"layer {layers - 1}: the output"]

    def picked() -> None:
        points = st.session_state.lens_picture.selection.points
        if points:
            layer, column = divmod(points[0]["point_index"], count)
            choose_cell(query=positions[column])
            choose_head(layer=layer)

    figure = lens_figure(
        words,
        numbers,
        rows,
        [view.labels[position] for position in positions],
        chosen=(view.layer, view.query - first),
        quantity=colour if colour == COLOURS[0] else f"{colour}, bits",
        high=1.0 if colour == COLOURS[0] else float(numbers.max()) or 1.0,
        theme=st.context.theme.type or "light",
    )
    cut = (
        f" Of {view.trace.length} tokens, {positions[0]} to {positions[-1]} are shown, around the chosen query."
        if len(positions) < view.trace.length
        else ""
    )
    with main_picture():
        st.plotly_chart(
            figure,
            key="lens_picture",
            theme=None,
            on_select=picked,
            selection_mode="points",
            config={"displayModeBar": False},
        )
        st.caption(
            "Each row is the residual stream after a layer, read through the model's own final norm and unembedding."
            f"{cut} This is a reading, not what the model computes there: later layers may read the stream in other "
            "ways. nostalgebraist 2020, “interpreting GPT: the logit lens”."
        )


def draw_likeliest(view: View) -> None:
    """The chosen cell: the tokens that would be likeliest there."""
    words = "the token named" if view.model.config.layout == "encoder-only" else "the next token"
    st.subheader(f"After layer {view.layer}: {words} at token {view.query}")
    shares = view.trace.lens(view.layer, view.query).double().softmax(-1)
    output = view.trace.logits_at(view.query).double().softmax(-1)
    top = shares.topk(min(LIKELIEST, len(shares))).indices.tolist()
    bar = {"min_value": 0.0, "max_value": 1.0, "format": "%.4g"}
    st.dataframe(
        pd.DataFrame(
            {
                "token": [shown(piece) for piece in view.model.token_bytes(top)],
                "after this layer": shares[top].numpy(),
                "in the output": output[top].numpy(),
            }
        ),
        hide_index=True,
        key="lens_tokens",
        height=388,
        column_config={
            "after this layer": st.column_config.ProgressColumn(help="Probability after this layer", **bar),
            "in the output": st.column_config.ProgressColumn(help="Probability in the model's output", **bar),
        },
    )


def draw_attribution(view: View) -> None:
    """What each component adds to the logit of one token at the chosen query."""
    trace = view.trace
    logits = trace.logits_at(view.query)
    top = logits.topk(min(LIKELIEST, len(logits))).indices.tolist()
    names = dict(zip(top, (shown(piece) or "∅" for piece in view.model.token_bytes(top)), strict=True))
    st.subheader(f"What adds to a token's logit in the output at token {view.query}")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        token = linked(st.selectbox, "Token", top, format_func=lambda t: names[t], key="token", width=220)
        than = linked(
            st.segmented_control,
            "Compared with",
            (THAN_MEAN, ALONE, TOKEN),
            default=THAN_MEAN,
            required=True,
            key="logit_than",
            help="Softmax looks only at differences between logits: a number added to all of them changes nothing.",
        )
        other = None
        if than == TOKEN:
            rest = [t for t in top if t != token]
            words = {"format_func": lambda t: names[t], "key": "than_token", "width": 220}
            other = linked(st.selectbox, "The other token", rest, **words)
    terms = trace.logit_terms(token, view.query, {THAN_MEAN: "mean", ALONE: None, TOKEN: other}[than])
    best = int(terms.terms.argmax())
    side = "above" if terms.logit >= 0 else "below"
    against = {THAN_MEAN: f" {side} the mean of all tokens", ALONE: ""}.get(than)
    against = f" {side} that of **{plain(names[other])}**" if against is None else against
    shown_logit = terms.logit if than == ALONE else abs(terms.logit)
    st.markdown(
        f"The logit of **{plain(names[token])}** is **{number(shown_logit)}**{against}. **{terms.names[best]}** raises "
        f"it most: {number(float(terms.terms[best]))}.",
        help=explained("logit", "component", "embedding", "feed-forward"),
    )
    draw_parts(view, terms)
    st.markdown(
        f"Sum of all {len(terms.terms)} terms: **{number(terms.terms.sum().item())}**. The model's own number, "
        f"compared in the same way: **{number(terms.logit)}**. Remainder: **{number(terms.remainder)}**."
        f"{own_steps(terms)}"
    )
    st.caption(
        "Each component goes through the final norm, frozen, and the unembedding (direct logit attribution). The terms "
        "say what the logit is made of. If a later layer reads a component "
        "and writes something from it, that counts as a term of the later layer. "
        "Elhage et al. 2021, “A Mathematical Framework for Transformer Circuits”.",
        help=explained("frozen norm", "norm"),
    )


def own_steps(terms: LogitTerms) -> str:
    """What some models do between the final hidden state and a logit, and what is made of it here."""
    words = ""
    if terms.activation is not None:
        words += (
            " Between the final hidden state and the unembedding, this model has one more matrix, the function "
            f"{terms.activation}, and a norm. They are frozen, too: the function counts as the factor by which it "
            "changed each number in this pass."
        )
    if terms.softcap is not None:
        cap = f"{terms.softcap:g}"
        words += (
            f" All these numbers are of logits x before the model caps them: it turns each x into {cap}·tanh(x/{cap})."
        )
    return words


def draw_parts(view: View, terms: LogitTerms) -> None:
    """The largest terms as bars, and those of the heads as layers × heads."""
    heads = np.zeros((view.trace.config.layers_of(view.trace.config.self_part), view.trace.config.n_heads))
    of_heads = [(at, c) for at, c in enumerate(terms.components) if c.kind == HEAD and c.part != "cross"]
    for at, component in of_heads:
        heads[component.layer, component.head] = terms.terms[at]
    left, right = st.columns(2)
    with left:
        draw_terms(
            largest(terms.names, terms.terms.numpy()),
            key="logit_terms",
            title="All components",
            reach=float(terms.terms.abs().max()) or 1.0,
            on_pick=lambda at: open_head(view, terms, at),
        )
    if not of_heads:
        return
    with right:
        draw_head_matrix(
            view,
            "head_terms",
            "What each head adds",
            heads,
            named(view, "what each head adds to a logit", "logit_terms", of=pass_words(view.trace)),
            matrix_width=420,
            role="scores",
            scale="diverging",
            caption=f"All heads together add {number(float(heads.sum()))}.",
        )


def comes(view: View) -> str:
    """What a prediction is of: the next token, or of an encoder the token that stands in that place."""
    return "would be named in that place" if view.model.config.layout == "encoder-only" else "would come next"


def open_head(view: View, terms: LogitTerms, at: int) -> None:
    """Choose the head whose bar was clicked."""
    component = terms.components[at]
    if component.kind == HEAD:
        part = {"part": component.part} if component.part != view.part else {}
        choose(head=(component.layer, component.head), **part)


draw()
