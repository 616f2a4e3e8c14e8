"""Circuits: what each head is built to do, read from the weights alone."""

import numpy as np
import streamlit as st

import viz_model as vm
from pages.circuits.figures import eigenvalue_figure
from pages.circuits.lines import draw_composition
from pages.circuits.measured import copying, depends_on_distance, raises_itself
from pages.circuits.positions import draw_positions
from pages.circuits.tokens import draw_token_box, draw_tokens
from viz_model.circuit.circuits import Circuits, CopyingScores
from viz_ui.frame.address import linked
from viz_ui.frame.embedding import main_picture
from viz_ui.frame.jobs import Stopped
from viz_ui.frame.view import View, begin_with_head, current_view
from viz_ui.look.glossary import explained
from viz_ui.look.text import number, percent, plain, sentence
from viz_ui.parts.head_matrix import draw_head_matrix
from viz_ui.parts.open_matrix import named


def draw() -> None:
    view = current_view()
    st.title("Circuits")
    st.markdown(
        "**What is a head built to do, before any text is read?** All numbers of this page come from the model's "
        "parameters alone; the prompt only offers a token to look at. The first question: if a head reads a token, "
        "does it raise the logit of that token? A cell is one head. Click it to see what the head does.",
        help=explained("parameter", "OV circuit", "copying score", "head", "layer"),
    )
    circuits = vm.circuits(view.model, view.part)
    try:
        found = copying(view, circuits)
    except Stopped:  # where the work was shown, it is said
        return
    except vm.VizError as error:
        main_picture("refused").info(plain(sentence(str(error))), icon=":material/edit:")
    else:
        begin_with_head(lambda: most_copying(found))
        with main_picture():
            draw_copying(view, circuits, found)
        draw_what_is_left_out(view)
    distance = draw_head(view, circuits)
    draw_composition(view, circuits, distance)


def most_copying(found: CopyingScores) -> tuple[int, int]:
    layer, head = np.unravel_index(int(found.scores.argmax()), found.scores.shape)
    return int(layer), int(head)


def draw_copying(view: View, circuits: Circuits, found: CopyingScores) -> None:
    """All heads in one picture, and the chosen one in a sentence with its eigenvalues."""
    layer, head = most_copying(found)
    with st.container(horizontal=True, gap="medium"):
        with st.container(key="effect_side"):
            draw_head_matrix(
                view,
                "copying",
                "Copying score of each head",
                found.scores.numpy(),
                named(view, "copying score of each head", "copying_scores"),
                role="value",
                scale="diverging",
                low=-1.0,
                high=1.0,
                caption="1: raises what it reads. −1: lowers it. The highest is that of "
                f"layer {layer}, head {head}: {number(float(found.scores[layer, head]))}.",
            )
        with st.container(width=420):
            draw_answer(view, circuits, found)


def draw_answer(view: View, circuits: Circuits, found: CopyingScores) -> None:
    """The chosen head in a sentence, beside heads with random weights; and its eigenvalues."""
    own, random = float(found.scores[view.layer, view.head]), found.random[view.layer]
    low, high = float(random.min()), float(random.max())
    theirs = f"from {number(low, 3)} to {number(high, 3)}"
    if own > high:
        words = (
            f"It **raises** the tokens that it reads, more than any of {len(random)} random heads (scores {theirs})."
        )
    elif own < low:
        words = (
            f"It **lowers** the tokens that it reads, more than any of {len(random)} random heads (scores {theirs})."
        )
    else:
        words = (
            f"This says little, because random heads get such scores, too: those of {len(random)} random heads go "
            f"{theirs}."
        )
    st.markdown(
        f"**{view.where.capitalize()}** has the copying score **{number(own)}**. {words}",
        help=explained("copying score", "eigenvalue"),
    )
    st.markdown(
        f"For **{percent(raises_itself(view, circuits))}** of all tokens, this is true: when the head reads the "
        "token, it adds more to the token's own logit than to the average logit.",
        help=explained("logit"),
    )
    values = found.eigenvalues[view.layer, view.head].numpy()
    st.caption(
        f"Its {len(values)} eigenvalues. The score is the sum of their real parts, divided by the sum of their lengths."
    )
    st.plotly_chart(
        eigenvalue_figure(values, theme=st.context.theme.type or "light"),
        key="eigenvalues",
        theme=None,
        config={"displayModeBar": False},
    )


def draw_what_is_left_out(view: View) -> None:
    facts, width = view.model.config, view.model.transformer.value_width
    norms = ", the norms on the way" if facts.norm_place == "post" or view.part == "cross" else ""
    cap = " Logits are taken before the model caps them." if facts.unembedding_softcap is not None else ""
    st.caption(
        f"The eigenvalues are those of W_E·W_V·W_O·W_U: the embedding{norms}, the head, and the unembedding. This "
        f"product is a matrix of {facts.vocab_size:,} × {facts.vocab_size:,} tokens. A matrix of {width} × {width} has "
        "the same eigenvalues, apart from zeros, so they are computed from that one, and no token is left out. The "
        "learned factors of each norm are part of the matrices. Three things are left out: what a norm divides by, all "
        f"biases, and what later layers do with the vector.{cap} Random heads have random W_V and W_O. "
        "Elhage et al. 2021, “A Mathematical Framework for Transformer Circuits”.",
        help=explained("embedding", "norm", "unembedding"),
    )


def draw_head(view: View, circuits: Circuits) -> int:
    """What the chosen head does with a token, and with positions. Gives the distance that is chosen."""
    st.subheader(f"What {view.where} does with one token")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        token = draw_token_box(view)
        distance = draw_distance_box(view)
    if token is not None:
        draw_tokens(view, circuits, token, distance)
        draw_positions(view, circuits, token, distance)
    return distance


def draw_distance_box(view: View) -> int:
    """How many tokens the key stands before the query, where that matters."""
    if not depends_on_distance(view):
        return 0
    return linked(
        st.number_input,
        "Distance from query to key",
        0,
        view.model.config.context_length - 1,
        0,
        key="circuit_distance",
        width=220,
        help="This model turns queries and keys by their position. With 0 they are turned by the same angle, "
        "as if the token read itself.\n\n" + explained("RoPE"),
    )


draw()
