"""Is attention the whole Transformer? Parts of every block switched off, and the loss that is left."""

from math import inf, isnan, log

import streamlit as st
import torch

from pages.misconceptions.bars import bars_figure
from viz_model.misconceptions.whole import PARTS, loss_without, switchable
from viz_model.training.held_out import held_out_rows
from viz_model.training.loss import Loss
from viz_ui.frame.address import linked
from viz_ui.frame.loaded_models import load_model
from viz_ui.frame.view import View
from viz_ui.look.text import counted, number, plain

PROMPT, HELD_OUT = "this prompt", "held-out text"
WHOLE = "whole model"


def draw(view: View) -> None:
    reasons = switchable(view.model)
    can = [part for part, reason in reasons.items() if not reason]
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        off = linked(st.pills, "Switch off together", can, selection_mode="multi", key="off")
        names = [PROMPT] if _held_out(view.name) is None else [PROMPT, HELD_OUT]
        text = linked(st.segmented_control, "Text for the loss", names, default=names[0], required=True, key="off_text")
    losses = _losses(view.name, text, *_read(view), tuple(can), tuple(part for part in can if part in off))
    st.markdown(answer(view, losses))
    whole, uniform = losses[WHOLE], log(view.model.config.vocab_size)
    st.plotly_chart(
        bars_figure(
            {"loss": {name if name == WHOLE else f"no {name}": loss.nats for name, loss in losses.items()}},
            "loss, nats per token",
            theme=st.context.theme.type or "light",
            line=(uniform, "uniform guess"),
        ),
        config={"displayModeBar": False},
        key="losses_without",
    )
    st.caption(
        "The same model runs again with one part switched off in every layer. When attention or feed-forward is "
        "switched off, it adds 0 to the stream. Without residuals, the stream holds only the last output of attention "
        "or feed-forward. A norm that is switched off passes its input on unchanged. Without positions, no position "
        "vector is added, and queries and keys are not rotated. The loss is the cross-entropy "
        f"{whole.words}, averaged over {counted(whole.tokens, 'token')}. "
        f"A uniform guess among {view.model.config.vocab_size:,} tokens costs "
        f"ln {view.model.config.vocab_size:,} = {number(uniform, 3)} nats. The model was trained with all its parts. "
        "So this shows that the trained model uses them; a model trained without one of them might still learn. Why "
        "attention alone is not enough: Dong et al. 2021, “Attention is not all you need”, §2."
    )
    for part, reason in reasons.items():
        if reason:
            st.caption(f"{part.capitalize()} cannot be switched off here. {plain(reason)}")


def answer(view: View, losses: dict[str, Loss]) -> str:
    """Which part the model needs most, and whether attention alone would be enough.

    A model that is worse than a uniform guess may well gain by the loss of a part, which says nothing about the part.
    """
    whole, singles = losses[WHOLE].nats, {name: loss.nats for name, loss in losses.items() if name in PARTS}
    if not singles:
        return "Nothing can be switched off in this model."
    found = f"The loss of the whole model is **{number(whole, 3)}** nats per token. Without " + ", without ".join(
        f"{name} {'it overflows float32' if isnan(nats) else f'it is {number(nats, 3)}'}"
        for name, nats in singles.items()
    )
    if whole > log(view.model.config.vocab_size):
        return (
            "**This text gives no answer:** here even the whole model is worse than a uniform guess. Try another text. "
            f"{found}."
        )
    cost = {name: inf if isnan(nats) else nats for name, nats in singles.items()}
    worst = max(cost, key=cost.get)
    needed = [name for name, nats in cost.items() if nats > whole + 0.01 and name != "attention"]
    verdict = "**No.**" if needed else "**On this text, yes:** no other part is needed."
    return f"{verdict} {found}. The loss grows most without **{worst}**."


def _read(view: View) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What the stack that makes the logits read, and the source beside it: empty where there is none."""
    trace = view.trace.of(view.model.config.self_part)
    return trace.ids, () if trace.source is None else trace.source.ids


@st.cache_resource(max_entries=4, show_spinner=False)
def _held_out(name: str) -> torch.Tensor | None:
    """Read and cut into tokens once, not at every run of the page."""
    return held_out_rows(load_model(name), name)


@st.cache_resource(scope="session", max_entries=8, show_spinner="Switching off each part in turn …")
def _losses(name: str, text: str, read: tuple, source: tuple, parts: tuple[str, ...], off: tuple[str, ...]):
    """The loss of the whole model, without each part, and without those that are off together."""
    model = load_model(name)
    rows, given = torch.tensor([read]), torch.tensor(source) if source else None
    if text == HELD_OUT:
        rows, given = _held_out(name), None
    combinations = {WHOLE: ()} | {part: (part,) for part in parts}
    if len(off) > 1:
        combinations[", no ".join(off)] = off
    return {words: loss_without(model, rows, parts, given) for words, parts in combinations.items()}
