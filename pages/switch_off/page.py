"""Switch off: every head, feed-forward and layer in turn, and what the model then predicts."""

from dataclasses import dataclass

import numpy as np
import streamlit as st
from torch import Tensor

import viz_model as vm
from pages.switch_off.band_figure import band_figure
from pages.switch_off.choice import LOSS, OTHER, TEXT_MEAN, Effect, Replaced, draw_effect, draw_replaced
from viz_model.intervention.ablation import FEED_FORWARD, HEAD, LAYER, UNITS, Ablation, ablate_units, band
from viz_ui.components.panels import Matrix
from viz_ui.frame.address import bring_sidebar_along, choose, chosen_value, held
from viz_ui.frame.embedding import main_picture
from viz_ui.frame.forms import OneOf
from viz_ui.frame.jobs import Stopped, kept_result
from viz_ui.frame.passes import takes_a_second
from viz_ui.frame.view import View, current_view
from viz_ui.look.colours import telling_law
from viz_ui.look.glossary import explained
from viz_ui.look.text import counted, number, plain, sentence, shown
from viz_ui.parts.edit_form import draw_edit_forms, draw_head_edits
from viz_ui.parts.head_matrix import draw_head_matrix
from viz_ui.parts.next_tokens import draw_next_tokens
from viz_ui.parts.open_matrix import Named, named, pass_words

WHOLES = {FEED_FORWARD: "feed-forward", LAYER: "whole layer"}  # columns beside the heads


@dataclass(frozen=True)
class Off:
    """What is switched off, of the chosen layer: a head, the feed-forward, or all of it."""

    unit: str
    layer: int
    head: int

    @property
    def place(self) -> tuple[int, int]:
        """Where it stands in the tables of its unit."""
        return self.layer, self.head if self.unit == HEAD else 0

    @property
    def words(self) -> str:
        """ "head 0 of layer 1"."""
        return {
            HEAD: f"head {self.head} of layer {self.layer}",
            FEED_FORWARD: f"the feed-forward of layer {self.layer}",
            LAYER: f"layer {self.layer}",
        }[self.unit]


def draw() -> None:
    view = current_view()
    held("off", OneOf(UNITS), HEAD)
    st.title("Switch off")
    st.markdown(
        "**What would the model predict without a head?** The model runs again for each head, each feed-forward and "
        "each layer, with that one switched off. A cell shows the change of what you choose: the prediction of the "
        f"token {where(view)}, one or two logits of this prediction, or the loss of the prompt.",
        help=explained("ablation", "KL divergence", "head", "feed-forward", "layer"),
    )
    try:
        if not view.model.config.has_unembedding:
            raise vm.VizError(f"{view.model.name} predicts no token. Choose a model such as tiny-gpt.")
        with st.container(horizontal=True, vertical_alignment="top"):
            effect = draw_effect(view, view.trace.of(view.model.config.self_part).logits_at(place(view)))
            replaced = draw_replaced(view)
        found = ablations(view, replaced, effect)
    except Stopped:
        return
    except vm.VizError as error:
        main_picture("refused").info(plain(sentence(str(error))), icon=":material/edit:")
        return
    draw_effects(found, effect, replaced)
    draw_edit_forms(current_view())
    draw_sources()


def ablations(view: View, replaced: Replaced, effect: Effect) -> dict[str, Ablation]:
    """By unit. Kept for this visitor until another pass, part or way is asked for; the loss of a large model, which
    takes the logits of all positions, is worked out when it is looked at."""
    trace, config = view.trace, view.model.config
    rows = trace.n_layers * (config.n_heads + 2)
    at_once = not takes_a_second(view.model, trace.read.ids, rows // 2)  # half of the layers are skipped
    has_loss = config.layout != "encoder-only" and trace.of(config.self_part).length > 1
    with_loss = effect.kind == LOSS or (at_once and has_loss)

    def work(tell) -> dict[str, Ablation]:
        values = {} if replaced.values is None else {"values_of": replaced.values()}
        given = {"part": view.part, "position": place(view), "with_loss": with_loss, **values}
        return ablate_units(view.model, trace, UNITS, "all", replaced.how, **given, tell=tell)

    return kept_result(
        work,
        words=f"Running the prompt {rows:,} times, each time with something else switched off",
        name="ablation_loss" if with_loss else "ablation",
        of=(*view.pass_key, view.part, replaced.key, place(view)),
        at_once=at_once,
    )


def chosen_off(view: View, found: dict[str, Ablation]) -> Off:
    """What is looked at: a head, where the model has nothing of what was chosen."""
    off = Off(chosen_value("off"), view.layer, view.head)
    return off if off.unit in found and off.place in found[off.unit].heads else Off(HEAD, view.layer, view.head)


@st.fragment
def draw_effects(found: dict[str, Ablation], effect: Effect, replaced: Replaced) -> None:
    """All of them in one picture; a click chooses one, which is answered beside it and below."""
    view = current_view()
    off = chosen_off(view, found)
    with main_picture(), st.container(horizontal=True, gap="medium"):
        with st.container(key="effect_side"):
            draw_picture(view, found, effect, off)
        with st.container(width=340):
            draw_answer(view, found, effect, off)
            draw_replacement(view, found[off.unit], replaced)
    one = found[off.unit]
    st.subheader(f"The prediction without {off.words}{part_words(view, off.unit)}")
    edited = one.edited[one.heads.index(off.place)]
    draw_next_tokens(view, one.logits, edited, ("everything on", "switched off"), where(view).capitalize())
    bring_sidebar_along()


def draw_picture(view: View, found: dict[str, Ablation], effect: Effect, off: Off) -> None:
    """Heads, and apart from them feed-forwards and layers, each with a scale of its own."""
    units = [unit for unit in WHOLES if unit in found]
    wholes = np.concatenate([effect.of(found[unit]).numpy() for unit in units], axis=1) if units else None
    heads = effect.of(found[HEAD]).numpy()

    def picked(event: dict) -> None:
        row, column = event["row"], event["column"]
        if event["panel"] == "effect":
            layer, head = view.layer if row is None else row, view.head if column is None else column
            choose(off=HEAD, head=(layer, head))
        else:
            unit = off.unit if column is None else units[column]
            choose(off=unit if unit in units else units[0], head=(view.layer if row is None else row, view.head))

    beside = {}
    if units:
        beside[_named(view, effect, "each feed-forward and layer", "switched_off_layers")] = Matrix(
            "wholes",
            "Larger parts",
            np.where(np.isnan(wholes), -np.inf, wholes),
            [f"layer {layer}" for layer in range(len(wholes))],
            [WHOLES[unit] for unit in units],
            row_axis="layer",
            column_axis="part",
            allowed=~np.isnan(wholes),
            **look(wholes, effect, max(effect.rounding(found[unit]) for unit in units)),
        )
    marked = {"layer": off.layer} | ({"head": off.head} if off.unit == HEAD else {"part": units.index(off.unit)})
    draw_head_matrix(
        view,
        "effect",
        effect.title.capitalize() if not effect.names else f"C{effect.title[1:]}",
        heads,
        _named(view, effect, "each head", "switched_off"),
        beside=beside,
        marked=marked,
        on_pick=picked,
        **look(heads, effect, effect.rounding(found[HEAD])),
    )


def _named(view: View, effect: Effect, what: str, file_words: str) -> Named:
    return named(view, f"{effect.title} without {what}", file_words, of=pass_words(view.trace))


def look(values: np.ndarray, effect: Effect, rounding: float) -> dict:
    """How a table of effects is coloured and captioned: from 0 to the largest one, and where most are far smaller, on
    a scale on which they are told apart."""
    sizes = np.abs(values[~np.isnan(values)])
    high = max(float(sizes.max()), rounding)
    largest = float(values.flat[np.nanargmax(np.abs(values))])
    ends = {"low": -high, "high": high, "scale": "diverging"} if effect.has_sign else {"low": 0.0, "high": high}
    return ends | {
        "law": telling_law(sizes, high),
        "role": "scores" if effect.has_sign else "weights",
        "caption": f"The largest is {effect.signed(largest)}; 0 is no change.",
    }


def draw_answer(view: View, found: dict[str, Ablation], effect: Effect, off: Off) -> None:
    """What is switched off in a sentence, and beside the same edit elsewhere."""
    one = found[off.unit]
    before, after = (int(logits.argmax()) for logits in (one.logits, one.edited[one.heads.index(off.place)]))
    names = [plain(shown(piece)) for piece in view.model.token_bytes([before, after])]
    change = (
        f"the likeliest token {where(view)} is still “**{names[0]}**”"
        if before == after
        else f"the likeliest token {where(view)} is “**{names[1]}**” and no longer “**{names[0]}**”"
    )
    table = effect.of(one)
    value, rounding = float(table[off.place]), effect.rounding(one)
    if float(table[~table.isnan()].abs().max()) <= rounding:
        what = "No head" if off.unit == HEAD else "None of them"
        st.markdown(f"{what} changes {effect.object} by more than rounding can.")
    by = f"{effect.subject} {effect.words(value)}"
    if abs(value) <= rounding:
        by = (
            f"{effect.subject} changes by {effect.signed(value)}{effect.unit}. That is no more than rounding: "
            "a second pass with everything on may differ by as much"
        )
    elif effect.kind == LOSS:
        by += f" per token, from {number(one.loss_before)} to {number(float(one.loss[off.place]))}"
    st.markdown(
        f"Without {off.words}{part_words(view, off.unit)}, {change}. {by}.",
        help=explained("KL divergence", "bit", "logit", "nat"),
    )
    if off.unit == HEAD:
        draw_head_edits(view)
    draw_control(table, effect, off)


def draw_control(table: Tensor, effect: Effect, off: Off) -> None:
    """The same edit on the other heads of the layer, or on the same half of the other layers: a band and a sentence."""
    low, high = band(table, off.unit)[off.place].tolist()
    if np.isnan(low):
        return
    line, own = (table[off.layer], off.head) if off.unit == HEAD else (table[:, 0], off.layer)
    names = f"layer {off.layer}, head {{}}" if off.unit == HEAD else f"{WHOLES[off.unit]}, layer {{}}"
    others = {names.format(n): float(value) for n, value in enumerate(line) if n != own and not value.isnan()}
    st.plotly_chart(
        band_figure(names.format(own), float(line[own]), others, effect.title, theme=st.context.theme.type or "light"),
        key="control",
        theme=None,
        config={"displayModeBar": False},
    )
    which = {
        HEAD: f"head of layer {off.layer}",
        FEED_FORWARD: "layer’s feed-forward",
        LAYER: "layer",
    }[off.unit]
    each = f"The other {which} changes" if len(others) == 1 else f"Each other {which} changes"
    st.markdown(f"{each} {effect.object} {effect.range_words(low, high)}.")
    st.caption(
        "The diamond is what you chose. The band goes from the smallest effect of the others to their largest one. "
        "The colours of each picture end at its own largest effect."
    )


def draw_replacement(view: View, one: Ablation, replaced: Replaced) -> None:
    """Which values stand in its place, of what text, over how many tokens."""
    if replaced.how == TEXT_MEAN:
        st.caption(f"The mean is taken over {counted(one.replaced.tokens, 'token')}: {replaced.words}.")
    if replaced.how == OTHER:
        pairs, length = len(one.replaced.alignment.pairs), view.trace.length
        st.caption(
            f"{replaced.words} All {counted(length, 'token')} have a counterpart in the other prompt."
            if pairs == length
            else f"{replaced.words} Of {counted(length, 'token')}, {pairs} have a counterpart in the other prompt: "
            "those that both prompts begin with, and those that both end with. All other tokens keep their values."
        )


def place(view: View) -> int:
    """The position whose prediction is compared: of the query, or the decoder's last where an encoder's head goes."""
    return view.trace.of(view.model.config.self_part).length - 1 if view.part == "encoder" else view.query


def where(view: View) -> str:
    """ "after token 5", or of a model that names tokens in their own places, "in the place of token 5"."""
    if view.model.config.layout == "encoder-only":
        return f"in the place of token {place(view)}"
    return f"after token {place(view)}{' of the target' if view.part == 'encoder' else ''}"


def part_words(view: View, unit: str) -> str:
    """ " (decoder)", where there are several; whole layers of cross-attention are those of the decoder."""
    of_cross = "cross-attention" if unit == HEAD else "decoder"
    return "" if view.part == "self" else f" ({of_cross if view.part == 'cross' else view.part})"


def draw_sources() -> None:
    st.caption(
        "A small change does not show that a head does nothing: another head may take its place when it is gone. A "
        "large change does not say what the head does. "
        "Heads: Michel et al. 2019, “Are Sixteen Heads Really Better than One?”. "
        "Heads that take over: McGrath et al. 2023, “The Hydra Effect”.",
    )


draw()
