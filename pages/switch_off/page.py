"""Switch off: every head in turn, and what the model then predicts."""

import streamlit as st

import viz_model as vm
from viz_model.intervention.ablation import MEAN, ZERO, Ablation
from viz_ui.components.panels import Matrix, panels
from viz_ui.frame.address import bring_sidebar_along, linked
from viz_ui.frame.embedding import main_picture
from viz_ui.frame.jobs import Stopped, finished
from viz_ui.frame.passes import is_small
from viz_ui.frame.view import View, choose_head, current_view
from viz_ui.look.glossary import explained
from viz_ui.look.text import number, plain, sentence, shown
from viz_ui.parts.next_tokens import draw_next_tokens

WAYS = {"zero": ZERO, "its mean over the prompt": MEAN}


def draw() -> None:
    view = current_view()
    st.title("Switch off")
    st.markdown(
        "**What would the model predict without a head?** The model runs again once for each head, with that head "
        "switched off. A cell is one head: the brighter it is, the more the next token's probabilities change.",
        help=explained("ablation", "KL divergence", "head", "layer"),
    )
    way = linked(
        st.segmented_control,
        "What stands in the place of the head's mixed values",
        list(WAYS),
        default="zero",
        required=True,
        key="instead",
        help="- **zero**: the head writes nothing.\n- **its mean over the prompt**: the head writes the same vector at "
        "every token. What is lost is how the head's vectors differ from that mean. "
        "Wang et al. 2022, “Interpretability in the Wild”, §2.3.",
    )
    try:
        found = ablation(view, WAYS[way])
    except Stopped:
        return
    except vm.VizError as error:
        st.info(plain(sentence(str(error))), icon=":material/edit:")
        return
    with main_picture():
        draw_effects(found)
    draw_chosen(found)
    draw_sources()


def ablation(view: View, how: str) -> Ablation:
    """Kept for this visitor until another pass, part or way is asked for."""
    of = (*view.pass_key, view.part, how)
    kept = st.session_state.get("ablation")
    if kept is not None and kept[0] == of:
        return kept[1]
    if is_small(view.model):
        found = vm.ablate(view.model, view.trace, how=how, part=view.part)
    else:
        found = finished(
            lambda job: vm.ablate(view.model, view.trace, how=how, part=view.part, tell=job.tell),
            words=f"Switching off {view.trace.n_layers * view.trace.config.n_heads} heads, one at a time",
            name="ablation",
            of=of,
        )
    st.session_state.ablation = (of, found)
    return found


@st.fragment
def draw_effects(found: Ablation) -> None:
    """All heads in one picture; a click chooses a head."""
    view = current_view()
    layers, heads = found.kl.shape
    effect = Matrix(
        "effect",
        "Change of the prediction when a head is switched off",
        found.kl.numpy(),
        [f"layer {layer}" for layer in range(layers)],
        [f"head {head}" for head in range(heads)],
        row_axis="layer",
        column_axis="head",
        caption=f"KL divergence in bits: 0 is no change. The largest is {number(float(found.kl.max()))}.",
        role="weights",
        low=0.0,
        high=float(found.kl.max()) or 1.0,
    )
    with st.container(horizontal=True, gap="medium"):
        with st.container(key="effect_side"):
            panels(
                [effect],
                key="ablation_panels",
                marked={"layer": view.layer, "head": view.head},
                matrix_width=560,
                on_pick=lambda event: choose_head(event["row"], event["column"]),
            )
        with st.container(width=340):
            draw_answer(view, found)
    bring_sidebar_along()


def draw_answer(view: View, found: Ablation) -> None:
    """The chosen head in a sentence, beside the other heads of its layer."""
    kl, (low, high) = float(found.kl[view.layer, view.head]), found.control[view.layer, view.head].tolist()
    before, after = (int(logits.argmax()) for logits in (found.logits, edited_logits(found, view)))
    names = [plain(shown(piece)) for piece in view.model.token_bytes([before, after])]
    change = (
        f"the likeliest next token is still **{names[0]}**"
        if before == after
        else f"the likeliest next token is **{names[1]}** and no longer **{names[0]}**"
    )
    others = (
        f" For the other heads of layer {view.layer}, the change is between {number(low)} and {number(high)}."
        if found.kl.shape[1] > 1
        else ""
    )
    st.markdown(f"Without {view.where}, {change}. The prediction changes by **{number(kl)} bits**.{others}")


def draw_chosen(found: Ablation) -> None:
    view = current_view()
    st.subheader(f"The next token without {view.where}")
    draw_next_tokens(
        view,
        found.logits,
        edited_logits(found, view),
        ("all heads", "switched off"),
        f"After token {view.trace.length - 1}",
    )


def edited_logits(found: Ablation, view: View):
    """Those of the pass without the chosen head."""
    return found.edited[found.heads.index((view.layer, view.head))]


def draw_sources() -> None:
    st.caption(
        "A small change does not show that a head does nothing: another head may take its place when it is gone. A "
        "large change does not say what the head does. "
        "Heads: Michel et al. 2019, “Are Sixteen Heads Really Better than One?”. "
        "Heads that take over: McGrath et al. 2023, “The Hydra Effect”.",
    )


draw()
