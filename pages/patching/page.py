"""Patching: values of one run put into another one, and how much of the answer comes with them."""

import streamlit as st

import viz_model as vm
from pages.patching.answer import draw_answer, draw_rows
from pages.patching.maps import OF_HEADS, MapChoice, draw_choice, draw_map, patched
from pages.patching.prompts import (
    ComparedRuns,
    begin_with_pair,
    draw_aligned,
    draw_answers,
    draw_other_prompt,
    pair_of,
)
from viz_model.intervention.patching import Patching
from viz_ui.frame.address import bring_sidebar_along
from viz_ui.frame.embedding import main_picture
from viz_ui.frame.jobs import Stopped
from viz_ui.frame.view import begin_with_head, current_view
from viz_ui.look.glossary import explained
from viz_ui.look.text import plain, sentence


def draw() -> None:
    view = current_view()
    st.title("Patching")
    st.markdown(
        "**Which values carry the answer?** The model reads two prompts and gives two answers. Values of one run are "
        "put into the other run, one at a time. The map shows how far each value moves the answer towards the answer "
        "of the run that it comes from.",
        help=explained("activation patching", "clean run", "head", "residual stream", "feed-forward", "layer"),
    )
    try:
        other = draw_other_prompt(view)
        with st.container(horizontal=True, vertical_alignment="bottom"):
            choice = draw_choice()
            answers = draw_answers()
        begin_with_pair(view)
        pair = pair_of(view, other, answers)
        draw_aligned(view, pair)
        found = patched(view, pair, choice)
        if choice.sites in OF_HEADS:
            begin_with_head(lambda: divmod(int(found.effect.argmax()), found.effect.shape[1]))
    except Stopped:
        return
    except vm.VizError as error:
        main_picture("refused").info(plain(sentence(str(error))), icon=":material/edit:")
        return
    draw_picture(pair, choice, found)
    draw_sources()


@st.fragment
def draw_picture(pair: ComparedRuns, choice: MapChoice, found: Patching) -> None:
    """The map, what its chosen cell says, and the rows of its head: a click is answered at once."""
    view = current_view()
    with main_picture(), st.container(horizontal=True, gap="medium"):
        with st.container(key="effect_side"):
            draw_map(view, pair, choice, found)
        with st.container(width=430):
            draw_answer(view, pair, choice, found)
    draw_rows(view, pair, choice, found)
    bring_sidebar_along()


def draw_sources() -> None:
    st.caption(
        "If one value brings the answer back, that value alone is enough for this pair of prompts. This does not show "
        "that the model needs the value: look also at the other direction, and at other pairs. "
        "Vig et al. 2020, “Causal Mediation Analysis”; Meng et al. 2022, “Locating and Editing Factual Associations in "
        "GPT”; Zhang and Nanda 2023, “Towards Best Practices of Activation Patching”."
    )


draw()
