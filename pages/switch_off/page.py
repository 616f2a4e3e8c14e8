"""Switch off: every head in turn, and what the model then predicts."""

import streamlit as st

import viz_model as vm
from viz_model.intervention.ablation import Ablation
from viz_model.intervention.replacement import MEAN, ZERO
from viz_ui.frame.address import bring_sidebar_along, linked
from viz_ui.frame.embedding import main_picture
from viz_ui.frame.jobs import Stopped, kept_result
from viz_ui.frame.passes import is_small
from viz_ui.frame.view import View, current_view
from viz_ui.look.glossary import explained
from viz_ui.look.text import number, plain, sentence, shown
from viz_ui.parts.head_matrix import draw_head_matrix
from viz_ui.parts.next_tokens import draw_next_tokens
from viz_ui.parts.open_matrix import named, pass_words

ROUNDING = 1e-4  # bits: smaller changes may be the rounding of another batch, and get no colour of their own
WAYS = {"zero": ZERO, "its mean over the prompt": MEAN}


def draw() -> None:
    view = current_view()
    st.title("Switch off")
    st.markdown(
        "**What would the model predict without a head?** The model runs again once for each head, with that head "
        f"switched off. A cell is one head: the brighter it is, the more the probabilities "
        f"of the token {where(view)} change.",
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
    position = place(view)
    return kept_result(
        lambda tell: vm.ablate(view.model, view.trace, how=how, part=view.part, position=position, tell=tell),
        words=f"Switching off {view.trace.n_layers * view.trace.config.n_heads} heads, one at a time",
        name="ablation",
        of=(*view.pass_key, view.part, how, position),
        at_once=is_small(view.model),
    )


@st.fragment
def draw_effects(found: Ablation) -> None:
    """All heads in one picture; a click chooses a head."""
    view = current_view()
    with st.container(horizontal=True, gap="medium"):
        with st.container(key="effect_side"):
            draw_head_matrix(
                view,
                "effect",
                "Change of the prediction when a head is switched off",
                found.kl.numpy(),
                named(view, "change without each head, bits", "switched_off", of=pass_words(view.trace)),
                caption=f"KL divergence in bits: 0 is no change. The largest is {number(float(found.kl.max()))}.",
                role="weights",
                low=0.0,
                high=max(float(found.kl.max()), ROUNDING),
            )
        with st.container(width=420):
            draw_answer(view, found)
    bring_sidebar_along()


def draw_answer(view: View, found: Ablation) -> None:
    """The chosen head in a sentence, beside the other heads of its layer."""
    kl, (low, high) = float(found.kl[view.layer, view.head]), found.control[view.layer, view.head].tolist()
    before, after = (int(logits.argmax()) for logits in (found.logits, edited_logits(found, view)))
    names = [plain(shown(piece)) for piece in view.model.token_bytes([before, after])]
    change = (
        f"the likeliest token {where(view)} is still **{names[0]}**"
        if before == after
        else f"the likeliest token {where(view)} is **{names[1]}** and no longer **{names[0]}**"
    )
    others = {
        1: "",
        2: f" The other head of layer {view.layer} changes it by {number(low)}.",
    }.get(found.kl.shape[1], f" Each other head of layer {view.layer} changes it by {number(low)} to {number(high)}.")
    if float(found.kl.max()) < ROUNDING:
        st.markdown("No head changes the prediction by more than rounding can.")
    st.markdown(
        f"Without head {view.head} of layer {view.layer}{part_words(view)}, {change}. The prediction changes by "
        f"**{number(kl)} bits**.{others}"
    )


def draw_chosen(found: Ablation) -> None:
    view = current_view()
    st.subheader(f"The prediction without head {view.head} of layer {view.layer}{part_words(view)}")
    draw_next_tokens(
        view,
        found.logits,
        edited_logits(found, view),
        ("all heads", "switched off"),
        where(view).capitalize(),
    )


def place(view: View) -> int:
    """The position whose prediction is compared: of the query, or the decoder's last where an encoder's head goes."""
    return view.trace.of(view.model.config.self_part).length - 1 if view.part == "encoder" else view.query


def where(view: View) -> str:
    """ "after token 5", or of a model that names tokens in their own places, "in the place of token 5"."""
    if view.model.config.layout == "encoder-only":
        return f"in the place of token {place(view)}"
    return f"after token {place(view)}{' of the target' if view.part == 'encoder' else ''}"


def part_words(view: View) -> str:
    return "" if view.part == "self" else f" ({'cross-attention' if view.part == 'cross' else view.part})"


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
