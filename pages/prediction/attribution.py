"""What adds to the logit of one token, or to the difference of two: every component; and of heads every token read."""

import numpy as np
import streamlit as st

import viz_model as vm
from pages.prediction.lens import LIKELIEST
from pages.prediction.sources import draw_sources
from pages.prediction.through_layers import place_words
from viz_model.attribution.components import BIASES, HEAD
from viz_model.attribution.logits import LogitTerms
from viz_ui.frame.address import linked
from viz_ui.frame.view import View
from viz_ui.look.glossary import explained
from viz_ui.look.text import number, plain, sentence
from viz_ui.parts.head_matrix import draw_head_matrix
from viz_ui.parts.open_matrix import named, pass_words
from viz_ui.parts.term_bars import MOST_BARS, draw_terms, largest, look_at_writer
from viz_ui.parts.token_choice import choose_token, token_words

THAN_MEAN, ALONE, TOKEN = "the mean of all tokens", "nothing", "another token"


def draw_attribution(view: View) -> None:
    """What each component adds to the logit of one token at the chosen query."""
    st.subheader(f"What adds to a token's logit, {place_words(view)}")
    token, than = chosen_tokens(view)
    try:
        terms = view.trace.logit_terms(token, view.query, than)
    except vm.VizError as error:
        st.info(plain(sentence(str(error))), icon=":material/edit:")
        return
    draw_answer(view, terms, token)
    draw_parts(view, terms)
    st.markdown(
        f"Sum of all {len(terms.terms)} terms: **{number(terms.terms.sum().item())}**. The same number from the "
        f"model's own logits: **{number(terms.logit)}**. Remainder: **{number(terms.remainder)}**."
        f"{own_steps(terms)}"
    )
    st.caption(
        "Each component goes alone through the frozen final norm and the unembedding. This is called direct logit "
        "attribution. The terms say what the logit is made of. A later layer may read a component and write something "
        "because of it. What it writes is a term of the later layer. "
        "Elhage et al. 2021, “A Mathematical Framework for Transformer Circuits”.",
        help=explained("frozen norm", "norm"),
    )
    draw_sources(view, terms, token)


def chosen_tokens(view: View) -> tuple[int, int | str | None]:
    """The token, and what it is compared with, as `Trace.logit_terms` takes them."""
    logits = view.trace.logits_at(view.query)
    likely = logits.topk(min(LIKELIEST + 1, len(logits))).indices.tolist()
    with st.container(horizontal=True, vertical_alignment="top"):
        token = choose_token(view.model, "Token", likely[:LIKELIEST], key="token")
        than = linked(
            st.segmented_control,
            "Compared with",
            (THAN_MEAN, ALONE, TOKEN),
            default=THAN_MEAN,
            required=True,
            key="logit_than",
            help="Softmax looks only at differences between logits: a number added to all of them changes nothing.",
        )
        others = [one for one in likely if one != token][:LIKELIEST]
        if than == TOKEN and others:
            return token, choose_token(
                view.model, "The other token", others, key="than_token", why="the likeliest other"
            )
    return token, "mean" if than == THAN_MEAN else None


def draw_answer(view: View, terms: LogitTerms, token: int) -> None:
    """The logit, and the component that raises it most."""
    best = int(terms.terms.argmax())
    side = "above" if terms.logit >= 0 else "below"
    against = {"mean": f" {side} the mean logit of all tokens", None: ""}.get(terms.than)
    if against is None:
        against = f" {side} that of “**{plain(token_words(view.model, terms.than))}**”"
    shown = terms.logit if terms.than is None else abs(terms.logit)
    raises = "raise" if terms.components[best].kind == BIASES else "raises"
    st.markdown(
        f"The logit of “**{plain(token_words(view.model, token))}**” is **{number(shown)}**{against}. "
        f"**{terms.names[best].capitalize()}** {raises} it most: {number(float(terms.terms[best]))}.",
        help=explained("logit", "component", "embedding", "feed-forward"),
    )


def draw_parts(view: View, terms: LogitTerms) -> None:
    """The largest terms as bars, and those of the heads as layers × heads."""
    heads = np.zeros((view.trace.config.layers_of(view.trace.config.self_part), view.trace.config.n_heads))
    part = "cross" if view.part == "cross" else view.trace.config.self_part
    of_heads = [(at, c) for at, c in enumerate(terms.components) if c.kind == HEAD and c.part == part]
    for at, component in of_heads:
        heads[component.layer, component.head] = terms.terms[at]
    left, right = st.columns(2)
    with left:
        is_whole = len(terms.terms) > MOST_BARS and linked(
            st.toggle, f"Show all {len(terms.terms)} bars", key="every_bar"
        )
        draw_terms(
            largest(terms.names, terms.terms.numpy(), len(terms.terms) if is_whole else MOST_BARS),
            key="logit_terms",
            title="All components",
            reach=float(terms.terms.abs().max()) or 1.0,
            on_pick=lambda at: look_at_writer(view, terms.components[at], view.query),
        )
    if not of_heads:
        return
    with right:
        of = " of cross-attention" if part == "cross" else ""
        draw_head_matrix(
            view,
            "head_terms",
            f"What each head{of} adds",
            heads,
            named(view, f"what each head{of} adds to a logit", "logit_terms", of=pass_words(view.trace)),
            matrix_width=420,
            role="scores",
            scale="diverging",
            caption=f"All heads{of} together add {number(float(heads.sum()))}.",
        )


def own_steps(terms: LogitTerms) -> str:
    """What some models do between the final hidden state and a logit, and what is made of it here."""
    words = ""
    if terms.activation is not None:
        words += (
            " Between the final hidden state and the unembedding, this model has one more matrix, the function "
            f"{terms.activation}, and a norm. They are frozen, too. In this pass, the function multiplied each number "
            "by some factor; for the terms, these factors stay as they are."
        )
    if terms.softcap is not None:
        cap = f"{terms.softcap:g}"
        words += (
            f" All logits here are taken before the model caps them. The cap turns a logit x into {cap}·tanh(x/{cap})."
        )
    return words
