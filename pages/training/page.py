"""Training: what the model has to predict at every position, and a small model that is trained while people watch."""

import streamlit as st

from pages.training.live import draw_choices
from pages.training.targets import draw_asked
from pages.training.watched import draw_training
from viz_ui.frame.address import linked
from viz_ui.frame.embedding import main_picture
from viz_ui.frame.view import current_view
from viz_ui.look.glossary import explained

ASKED, LIVE = "What is asked", "Train one, live"


def draw() -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="medium", key="training_head"):
        st.title("Training", width="content")
        lesson = linked(
            st.segmented_control,
            "Lesson",
            (ASKED, LIVE),
            default=ASKED,
            required=True,
            key="lesson",
            label_visibility="collapsed",
        )
    if lesson == ASKED:
        st.markdown(
            "**What does a model have to predict?** The loss of a token is "
            r"$-\ln p(\mathrm{target})$, in nats. Training makes the mean loss smaller.",
            help=explained("nat", "logit"),
        )
        with main_picture():
            draw_asked(current_view())
        st.caption(
            "Next tokens: Radford et al. 2018, “Improving Language Understanding by Generative Pre-Training”, eq. 1. "
            "Hidden tokens: Devlin et al. 2019, “BERT”, §3.1. Teacher forcing (in training, the decoder reads the "
            "correct target, not its own output): Williams and Zipser 1989. Losses are computed in float64 from the "
            "logits of the pass."
        )
        return
    st.markdown(
        "**How do heads learn?** Train a small model here, and watch its heads while it learns.",
        help=explained("attention weight", "feed-forward", "previous-token head", "induction"),
    )
    draw_choices()
    with main_picture():
        draw_training()
    st.caption(
        "Elhage et al. 2021, “A Mathematical Framework for Transformer Circuits”; Olsson et al. 2022, “In-context "
        "Learning and Induction Heads”. Random repeats: each row has 48 random characters, and one segment of the row "
        "appears twice. Only the second copy of the segment counts in the loss. “Previous token” is the mean weight of "
        "a head on the token right before the query. “Induction” is the mean weight of a head on the token right after "
        "an earlier copy of the query's token. Both are measured on 16 rows of random characters; the second half of "
        "each row repeats the first half."
    )


draw()
