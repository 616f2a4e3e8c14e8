"""Where models compute, and in which precision: said above each page where it is not float32 on the processor, and
chosen for the whole server."""

import os

import streamlit as st

from viz_model.checkpoints import DEVICE
from viz_model.errors import VizError
from viz_model.transformer.placed import ComputePlace, places_here
from viz_ui.frame.embedding import main_picture
from viz_ui.frame.loaded_models import fetcher
from viz_ui.frame.passes import kept_pass
from viz_ui.frame.view import View
from viz_ui.look.glossary import explained
from viz_ui.look.text import number
from viz_ui.sharing.settings import sharing


def draw_place(view: View) -> None:
    """Above the page: where its numbers come from, and how far that is from float32 on the processor."""
    if view.model.place.is_plain:
        return
    difference = kept_pass(
        "difference", view.pass_key, view.model, view.prompt, lambda: view.model.difference(view.trace), most=4
    )
    what = "Logits of the next token" if view.model.config.has_unembedding else "Numbers of the last final hidden state"
    with main_picture("place"):
        st.markdown(
            f":violet-badge[{view.model.place}] The passes are computed {view.model.place.words}. {what} "
            f"differ from float32 by at most {number(difference, 2)}.",
            help="Scores and weights are computed from the Q and K of this pass. Numbers that need no pass are "
            "computed from the parameters in float32.\n\n" + explained("logit", "bit"),
        )


def draw_choice_of_place() -> None:
    """Where models compute, for whoever started the server and shares it with nobody."""
    if sharing().is_on:
        return
    places = [str(place) for place in places_here()]
    try:
        here = str(ComputePlace.of(os.environ.get(DEVICE, "")))
    except VizError:  # the sidebar says what is wrong with it
        here = ""
    st.selectbox(
        "Where models compute",
        places,
        index=places.index(here) if here in places else None,
        key="place",
        on_change=_compute_there,
        disabled=bool(fetcher().coming),
        help="bfloat16 keeps 8 bits of each number instead of 24, so attention weights and logits differ. Each page "
        "then says by how much. The float32 parameters are kept as well, so a model takes more memory. Graphics cards "
        "are offered where torch finds them. All loaded models are loaded again. The environment variable VIZ_DEVICE "
        "chooses this when the server starts.",
    )


def _compute_there() -> None:
    """Everything that was computed elsewhere is let go."""
    if st.session_state.place is not None:
        os.environ[DEVICE] = st.session_state.place
        st.session_state.pop("passes", None)
        st.cache_data.clear()
        st.cache_resource.clear()
