"""Training: what is asked of every position of the prompt, and a small model that is trained while people watch."""

import streamlit as st

from pages.training.live import draw_choices
from pages.training.targets import draw_asked
from pages.training.watched import draw_training
from viz_ui.frame.view import current_view

ASKED, LIVE = "What is asked", "Train one, live"


def draw() -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="medium", key="training_head"):
        st.title("Training", width="content")
        lesson = st.segmented_control(
            "Lesson",
            (ASKED, LIVE),
            default=ASKED,
            required=True,
            key="lesson",
            bind="query-params",
            label_visibility="collapsed",
        )
    if lesson == ASKED:
        st.markdown(r"Loss of a token: $-\ln p(\mathrm{target})$, in nats. Training makes the mean of it smaller.")
        draw_asked(current_view())
        st.caption(
            "Next tokens: Radford et al. 2018, “Improving Language Understanding by Generative Pre-Training”, eq. 1. "
            "Hidden tokens: Devlin et al. 2019, “BERT”, §3.1. Right tokens so far (teacher forcing): Williams and "
            "Zipser 1989. Losses in float64 from the logits of the pass."
        )
        return
    draw_choices()
    draw_training()
    st.caption(
        "Elhage et al. 2021, “A Mathematical Framework for Transformer Circuits”; Olsson et al. 2022, “In-context "
        "Learning and Induction Heads”. Random repeats: rows of 48 characters in which a segment comes again; only its "
        "second copy counts. Weights of the heads on the token before, and on the one after the earlier copy: means "
        "over 16 rows of random characters and the same again, together as long as a row of the training."
    )


draw()
