"""Prediction: what would come next if the model ended after each layer, and what adds to the logit of a token."""

from dataclasses import replace

import streamlit as st

import viz_model as vm
from pages.prediction.attribution import draw_attribution
from pages.prediction.lens import draw_lens
from pages.prediction.through_layers import draw_through_layers
from viz_model.layouts.blanks import with_blank
from viz_model.model.prompts import Tokens
from viz_ui.frame.address import linked
from viz_ui.frame.embedding import main_picture
from viz_ui.frame.jobs import Stopped
from viz_ui.frame.view import View, current_view, traced
from viz_ui.look.glossary import explained
from viz_ui.look.text import plain, sentence


def draw() -> None:
    view = current_view()
    st.title("Prediction")
    names_in_place = view.model.config.layout == "encoder-only"
    comes = "would be named in that place" if names_in_place else "would come next"
    st.markdown(
        "**What would the model say after each layer, and which parts made it say so?** A row is a layer. Each cell "
        f"shows the token that {comes} if the model ended there.",
        help=explained("logit lens", "unembedding", "residual stream", "logit", "KL divergence", "layer"),
    )
    try:
        if view.part == "encoder":
            raise vm.VizError("The encoder predicts no tokens. Choose the decoder in the sidebar.")
        view.trace.logits_at(view.query)  # else it says why there are none
        view = with_hidden_token(view)
        draw_lens(view)
        draw_through_layers(view)
    except Stopped:
        return
    except vm.VizError as error:
        main_picture("refused").info(plain(sentence(str(error))), icon=":material/edit:")
        return
    draw_attribution(view)


def with_hidden_token(view: View) -> View:
    """Of a model that was trained to name hidden tokens, the view of a pass in which the chosen token is one.

    Where the prompt has a mask token of its own, nothing else is hidden.
    """
    model, trace = view.model, view.trace
    if model.config.layout != "encoder-only" or model.mask_token is None or model.mask_token in trace.ids:
        return view
    is_hidden = linked(
        st.toggle,
        "Hide the chosen token from the model",
        True,
        key="hide",
        help=f"{plain(model.name)} was trained to name tokens that it cannot see. It mostly repeats a token that "
        "it sees. If this is on, the model reads its mask token in the place of the chosen token. On the other pages "
        "the model sees the whole prompt.",
    )
    if not is_hidden:
        return view
    [sign] = model.token_bytes([model.mask_token])
    pieces = (*trace.read.pieces[: view.query], sign, *trace.read.pieces[view.query + 1 :])
    prompt = Tokens(with_blank(model, trace.ids, view.query), pieces)
    shown = traced(view.name, prompt, trace.mask_name, view.part, edits=view.edits, kind="hidden_token", can_stop=True)
    return replace(view, trace=shown)


draw()
