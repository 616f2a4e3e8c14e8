"""Quantization: weights in few levels, what they cost and do; beside them what a cache and a fused kernel save."""

import streamlit as st

import viz_model as vm
from pages.quantization.choice import FORMULAS, current_choice, draw_choices, kept_copy, quantized_model
from pages.quantization.effects import draw_effects
from pages.quantization.savings import choose_new_tokens, draw_savings
from pages.quantization.weights import draw_weights
from viz_ui.frame.address import bring_sidebar_along, linked
from viz_ui.frame.embedding import main_picture
from viz_ui.frame.jobs import Stopped
from viz_ui.frame.view import current_view
from viz_ui.look.glossary import explained
from viz_ui.look.text import plain, sentence

WEIGHTS, EFFECTS, THREE = "The weights", "What they do", "Three things"
SECTIONS = {WEIGHTS: draw_weights, EFFECTS: draw_effects}

SENTENCES = {
    WEIGHTS: "**How much of a weight survives when it is stored in only a few bits?**",
    EFFECTS: "**What do rounded weights change?** The model and a copy with rounded weights read the same prompt.",
    THREE: "**What do a KV cache, FlashAttention and quantization save?** They are three different things, and only "
    "quantization changes the result.",
}

WEIGHT = "On this page, a weight is a parameter: one number in a weight matrix. The attention weights are called A."

TERMS = {
    WEIGHTS: ("parameter", "attention weight", "bit"),
    EFFECTS: ("parameter", "attention weight", "nat", "KL divergence", "bit", "logit"),
    THREE: ("parameter", "attention weight", "KV cache", "value", "logit", "FLOP", "bit"),
}

SOURCES = {
    WEIGHTS: "int8 and outliers: Dettmers et al. 2022, “LLM.int8()”, §2.1 and §3. NF4 and double quantization: "
    "Dettmers et al. 2023, “QLoRA”, §3 and appendix E. Only the weight matrices inside the layers are quantized, "
    "in a copy of the model. Double quantization means that the constants c of NF4 are rounded too, to 8 bits. int8 "
    "and NF4 weights are turned back into 32-bit numbers for every product, so here they save memory but no time.",
    EFFECTS: "int8 and NF4 round the weights only. LLM.int8 also rounds the numbers that are multiplied with them. "
    "Perplexity with rounded weights: Dettmers et al. 2022, table 1.",
}


def draw() -> None:
    view = current_view()
    st.title("Quantization")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        section = linked(
            st.segmented_control,
            "What is shown",
            (WEIGHTS, EFFECTS, THREE),
            default=WEIGHTS,
            required=True,
            key="quantization",
            label_visibility="collapsed",
        )
        scheme, which, threshold = draw_choices()
        if section == THREE:
            choose_new_tokens(view)
    formula = f" {FORMULAS[scheme]}" if section == WEIGHTS else ""
    st.markdown(f"{SENTENCES[section]}{formula}", help=f"{WEIGHT}\n\n{explained(*TERMS[section])}")
    if not view.model.place.is_plain:
        st.caption(
            f"The quantized copy computes in float32 on the processor, and the model {view.model.place.words}. The "
            "differences between their passes therefore have two causes: the rounded weights, and this other way to "
            "compute."
        )
    if view.model.rounded_to:
        st.caption(
            f"The weights of {plain(view.model.name)} come from a {view.model.rounded_to} file, so they had "
            "already been rounded. On this page, “before” means these rounded weights. The errors shown here "
            "are added to that."
        )
    try:
        quantized = quantized_model(view, current_choice(view, scheme, which, threshold))
        with main_picture():
            if section == THREE:
                draw_savings(view, quantized)
            else:
                draw_section(section, scheme, which, threshold)
    except Stopped:
        pass  # where the work was shown, it is said
    except vm.VizError as error:
        main_picture("refused").info(plain(sentence(str(error))), icon=":material/edit:")
    if section in SOURCES:
        st.caption(SOURCES[section])


@st.fragment
def draw_section(section: str, scheme: str, which: str, threshold: float) -> None:
    """The chosen section: a fragment, so that another matrix or head is on screen at once."""
    view = current_view()  # of one layer, another one may have been chosen since
    SECTIONS[section](view, kept_copy(view, current_choice(view, scheme, which, threshold)))
    bring_sidebar_along()


draw()
