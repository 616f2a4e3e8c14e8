"""Must every input have the same length? The prompt and a second one, alone and in one padded batch."""

import numpy as np
import streamlit as st

from pages.misconceptions.matrices import draw_matrices
from viz_model.misconceptions.lengths import SIDES, PaddedBatch, padded_batch
from viz_ui.components.panels import Matrix
from viz_ui.frame.address import linked
from viz_ui.frame.view import View
from viz_ui.look.text import counted, labels, number, plain

SECOND = "The queen."
LONGEST = 1000  # characters
FLOAT_ERROR = 1e-3  # of the largest number: more than another order of summing ever changes


def draw(view: View) -> None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        second = linked(st.text_input, "A second prompt", SECOND, key="second", max_chars=LONGEST)
        side = linked(st.segmented_control, "Padding", SIDES, default=SIDES[0], required=True, key="padded_side")
    prompts = view.prompt, second[:LONGEST]
    batch = padded_batch(view.model, prompts, side)
    st.markdown(answer(view, batch))
    draw_batch(view, batch, [view.model.pieces(prompt) for prompt in prompts])
    where = (
        "The final hidden state of the decoder's start token is compared. The start token has read the whole source."
        if view.model.has_source
        else "The final hidden states of all real tokens are compared."
    )
    st.caption(
        "Padding is filler that makes texts equally long. The mask hides padding from every query, and positions count "
        f"real tokens only. {where} Only a *batch* "
        "needs one length, because a tensor has rows of equal length. On masks: Vaswani et al. 2017, §3.2.3."
    )


def answer(view: View, batch: PaddedBatch) -> str:
    lengths = " and ".join(f"**{count}**" for count in (~batch.padding).sum(1).tolist())
    same = batch.difference <= FLOAT_ERROR * batch.size
    verdict = (
        "**No.** Each prompt gives the same result alone and in the batch, apart from rounding."
        if same
        else "**For this model it matters:** a prompt gives one result alone and another result in the batch."
    )
    return (
        f"{verdict} The prompts have {lengths} tokens. Between the two runs (alone and in the batch), no number of the "
        f"final hidden states changes by more than **{number(batch.difference, 2)}**. For comparison, the largest of "
        f"these numbers is {number(batch.size, 3)}."
    )


def draw_batch(view: View, batch: PaddedBatch, pieces: list[list[bytes]]) -> None:
    """The batch as it is run: one row for each prompt, the padding hatched. pieces: of each prompt, its tokens."""
    longest = batch.ids.shape[1]
    rows = [f"prompt {n + 1}" for n in range(len(pieces))]
    draw_matrices(
        view,
        "padded_batch",
        [
            Matrix(
                "batch",
                f"The batch (B, T) = ({len(rows)}, {longest}): token ids, padding hatched",
                batch.ids.numpy().astype(np.float64),
                rows,
                [str(place) for place in range(longest)],
                row_axis="prompt",
                column_axis="place",
                low=0,
                high=float(view.model.config.vocab_size - 1),
                allowed=~batch.padding.numpy(),
            )
        ],
        width=900,
    )
    for name, row in zip(rows, pieces, strict=True):
        st.caption(f"{name}, {counted(len(row), 'token')}: {plain('  '.join(labels(row)))}")
