"""Does switching a head off show what it is for? The chosen head is switched off alone, and together with others."""

import streamlit as st

from pages.misconceptions.bars import bars_figure
from pages.misconceptions.weight import position
from viz_model.misconceptions.taking_over import (
    MOST_OTHERS,
    MOST_SEARCHED,
    TakingOver,
    most_replaced_head,
    pairs_off,
)
from viz_ui.frame.jobs import kept_result
from viz_ui.frame.passes import takes_a_second
from viz_ui.frame.view import View, choose_head
from viz_ui.look.text import number, plain, shown


def draw(view: View) -> None:
    heads = view.model.config.n_heads
    passes = 1 + 2 * min(MOST_OTHERS, (view.trace.n_layers - view.layer) * heads)
    found = kept_result(
        lambda tell: pairs_off(view.model, view.trace, view.layer, view.head, position(view), tell),
        words=f"Switching off pairs of heads, {passes} passes",
        name="pairs_off",
        of=(*view.pass_key, view.part, view.layer, view.head, view.query),
        at_once=not takes_a_second(view.model, view.trace.read.ids, passes),
    )
    st.markdown(answer(view, found))
    if not found.takes_over:
        draw_search(view)
    best = found.best
    other = f"head {best.head} of layer {best.layer}"
    own = f"head {view.head} of layer {view.layer}"
    st.plotly_chart(
        bars_figure(
            {
                "cost": {
                    f"without {own}": found.first,
                    f"without {other}": best.alone,
                    "sum of the two": found.first + best.alone,
                    "without both": best.together,
                    f"without {other}, when {own} is off": found.when_off(best),
                }
            },
            "cost, bits",
            theme=st.context.theme.type or "light",
        ),
        config={"displayModeBar": False},
        key="costs_of_pairs",
    )
    tried = (
        f"all {found.of} heads"
        if found.of == len(found.others)
        else f"the next {len(found.others)} of {found.of} heads"
    )
    st.caption(
        "All costs are for one token, the one that the whole model finds likeliest. A cost is the number of bits by "
        "which the surprise at this token grows. A negative cost means that the token becomes likelier. A head that "
        f"is switched off writes nothing. To find a second head, {tried} of the same layer and of later layers were "
        f"switched off, each alone and each together with {own}. The chart shows the head whose cost grows most when "
        f"{own} is off. Heads that take over: McGrath et al. 2023, “The Hydra Effect”. Many heads can be removed with "
        "little harm: Michel et al. 2019, “Are Sixteen Heads Really Better than One?”."
    )


def draw_search(view: View) -> None:
    """A button that shows a head which another one replaces, where the model is small enough to try all pairs."""
    heads = view.trace.n_layers * view.model.config.n_heads
    if heads > MOST_SEARCHED:
        return
    of = (*view.pass_key, view.part, view.query)
    if st.session_state.get("search_replaced") != of:
        st.button("Show a head that another one replaces", key="replaced_head", icon=":material/search:",
                  on_click=lambda: st.session_state.update(search_replaced=of))  # fmt: skip
        return
    passes = heads + heads * (heads - 1) // 2
    found = kept_result(
        lambda tell: most_replaced_head(view.model, view.trace, position(view), tell),
        words=f"Switching off all pairs of heads, {passes} passes",
        name="replaced",
        of=of,
        at_once=not takes_a_second(view.model, view.trace.read.ids, passes),
    )
    if found is None:
        st.caption("On this prompt, no head of this model is replaced by another one.")
    elif found != (view.layer, view.head):
        st.session_state.pop("search_replaced")
        choose_head(*found)
        st.rerun()


def answer(view: View, found: TakingOver) -> str:
    [piece] = view.model.token_bytes([found.token])
    token, best = plain(shown(piece) or "∅"), found.best
    own, other = f"head {view.head} of layer {view.layer}", f"head {best.head} of layer {best.layer}"
    costs = (
        f"The whole model finds **{token}** likeliest. Switching off {own} costs this token "
        f"**{number(found.first, 3)} bits**, and switching off {other} alone costs it "
        f"**{number(best.alone, 3)} bits**. When {own} is off already, switching off {other} costs "
        f"**{number(found.when_off(best), 3)} bits**. Both together cost **{number(best.together, 3)} bits**. "
        f"The costs of the two alone add up to {number(found.first + best.alone, 3)}."
    )
    if found.takes_over:
        return f"**No.** A second head takes over for {own}. So switching off {own} alone shows too little. {costs}"
    return (
        "**For this head, no other one takes over on this prompt.** The head that comes nearest to taking over is "
        f"{other}. {costs}"
    )
