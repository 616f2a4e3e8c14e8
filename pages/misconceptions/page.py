"""Misconceptions: eight common claims. The reader guesses first, then an experiment on their prompt answers."""

from collections.abc import Callable
from dataclasses import dataclass

import streamlit as st

import viz_model as vm
from pages.misconceptions import approximate, concept, equations, lengths, memory, taking_over, weight, whole
from viz_ui.frame.address import bring_sidebar_along, linked
from viz_ui.frame.embedding import main_picture
from viz_ui.frame.jobs import Stopped
from viz_ui.frame.page_sections import choose_section
from viz_ui.frame.view import View, current_view
from viz_ui.look.glossary import explained
from viz_ui.look.text import plain, sentence


@dataclass(frozen=True)
class Claim:
    """What people say, and the experiment on it. is_long: whether it runs so many passes that it can be stopped."""

    words: str
    draw: Callable[[View], None]
    terms: tuple[str, ...]
    is_long: bool = False


CLAIMS = {
    "Lengths": Claim("Every input must have the same length.", lengths.draw, ("final hidden state",)),
    "The whole": Claim(
        "Attention is the whole Transformer.",
        whole.draw,
        ("feed-forward", "residual stream", "norm", "nat", "ablation"),
    ),
    "Memory": Claim(
        "The attention matrix is the model's memory.",
        memory.draw,
        ("value", "attention weight", "KV cache", "logit", "parameter", "KL divergence", "bit"),
    ),
    "Equations": Claim(
        "BERT and GPT use different attention equations.", equations.draw, ("attention weight", "softmax")
    ),
    "Approximate": Claim("FlashAttention is approximate.", approximate.draw, ("softmax",)),
    "Concept": Claim(
        "Each head stands for one human concept.",
        concept.draw,
        ("attention weight", "previous-token head", "induction"),
    ),
    "Weights": Claim(
        "A high attention weight means that the token mattered.",
        weight.draw,
        ("attention weight", "KL divergence", "rank correlation"),
        is_long=True,
    ),
    "Switching off": Claim(
        "Switching a head off shows what it is for.",
        taking_over.draw,
        ("ablation", "bit", "surprise"),
        is_long=True,
    ),
}
GUESSES = ("true", "false", "it depends")


def draw() -> None:
    names = list(CLAIMS)
    chosen = choose_section("Misconceptions", names, key="claim")
    st.markdown("**What do people often get wrong about attention?** Guess, then let an experiment answer.")
    claim = CLAIMS[chosen]
    with main_picture("claim"), st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        st.subheader(f"{names.index(chosen) + 1}. “{claim.words}”", width="content", help=explained(*claim.terms))
        guess = linked(st.segmented_control, "Your guess", GUESSES, key=f"guess_{chosen.lower().replace(' ', '_')}")
    if guess is None and not st.context.is_embedded:  # there, nobody could guess
        st.info(
            "Guess first. Then an experiment on your prompt gives the answer. You can change the experiment.",
            icon=":material/help:",
        )
        return
    with main_picture():
        (draw_experiment if claim.is_long else draw_quick_experiment)(claim)


def draw_experiment(claim: Claim) -> None:
    """The experiment, as a part of the whole run, for work that can be stopped (see `jobs.finished`)."""
    try:
        claim.draw(current_view())
    except Stopped:
        pass  # where the work was shown, it is said
    except vm.VizError as error:
        st.info(plain(sentence(str(error))), icon=":material/edit:")
    bring_sidebar_along()


@st.fragment
def draw_quick_experiment(claim: Claim) -> None:
    """The same as a fragment, so that a change of its own runs nothing else."""
    draw_experiment(claim)


draw()
