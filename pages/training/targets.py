"""What the model has to predict in training: each position's target, loss and rank; one pass beside decode steps."""

import math
from dataclasses import dataclass

import pandas as pd
import streamlit as st

import viz_model as vm
from viz_model.training.targets import Targets, compare_with_steps, expected, hidden_token_targets, next_token_targets
from viz_ui.components.tokens.token_targets import TokenTarget, token_targets
from viz_ui.frame.address import choose, linked
from viz_ui.frame.jobs import finished
from viz_ui.frame.view import View, choose_cell
from viz_ui.look.text import counted, label, labels, number, plain, sentence, shown

LARGEST_SEED = 9999


@dataclass(frozen=True, eq=False)
class Exercise:
    """A row as the model reads it, its targets, and a sentence that says what they are."""

    trace: vm.Trace
    targets: Targets
    words: str


def draw_asked(view: View) -> None:
    """The row with its targets; below it what the model expected at the chosen position, and what one pass costs."""
    try:
        exercise = _exercise(view)
    except vm.VizError as error:
        st.info(str(error), icon=":material/edit:")
        return
    trace, targets, vocabulary = exercise.trace, exercise.targets, view.model.config.vocab_size
    right, uniform = int((targets.ranks == 1).sum()), math.log(vocabulary)
    st.markdown(
        f"{exercise.words} One pass makes **{counted(len(targets), 'prediction')}**. Their mean loss is "
        f"**{number(targets.loss, 3)} nats**; a uniform guess among {vocabulary:,} tokens would have ln {vocabulary:,} "
        f"= {number(uniform, 3)} nats. The likeliest token was right in **{right:,}** of "
        f"{counted(len(targets), 'prediction')}."
    )
    position = min(view.query, trace.length - 1)
    token_targets(
        row_of(view.model, exercise),
        blind=uniform,
        position=position,
        key="targets",
        on_pick=lambda at: pick_position(view, at),
    )
    left, other = st.columns(2, gap="large")
    with left:
        _draw_expected(view.model, exercise, position)
    with other:
        _draw_costs(view, trace, len(targets))


def pick_position(view: View, position: int) -> None:
    """A position is a query of the stack that is asked."""
    choose_cell(query=position)
    if view.part == "encoder":
        choose(part="decoder")


def _exercise(view: View) -> Exercise:
    """What a model of this layout has to predict in training."""
    model = view.model
    if not model.config.has_unembedding:
        raise vm.VizError(
            f"{model.name} has no unembedding. It gives a vector for each token and predicts no token, so there is no "
            "loss to show. Choose a model that predicts tokens, such as tiny-bert."
        )
    if model.config.layout == "encoder-only":
        with st.container(horizontal=True, vertical_alignment="bottom"):
            seed = linked(
                st.number_input,
                "Hide other tokens",
                0,
                LARGEST_SEED,
                0,
                key="hide",
                width=150,
                help="The hidden tokens are chosen at random. Enter a different number to hide different tokens.",
            )
        trace, targets = hidden_token_targets(model, view.prompt, seed)
        words = (
            f"{plain(model.name)} reads in both directions, so it would see the next token. It predicts **hidden** "
            "tokens instead: about 15 % of all tokens. Most hidden tokens are replaced by the mask token, some by a "
            "random token, and some stay as they are."
        )
        if not view.trace.own_mask:
            words += " The mask in the sidebar does not apply here."
        return Exercise(trace, targets, words)
    trace = view.trace.of(model.config.self_part)
    words = "At every token the model predicts **the token after it**, so the targets are the prompt shifted by one."
    if model.has_source:
        words = "At every token of the target, the decoder predicts **the token after it**."
        if view.target is None:
            words += " Here the model wrote the target itself. To choose another target, type it in the sidebar."
    if trace.mask_name != model.config.mask:
        words += " :orange[Under this mask a query can read its own target, so the losses say nothing about the model.]"
    return Exercise(trace, next_token_targets(trace), words)


def row_of(model: vm.Model, exercise: Exercise) -> list[TokenTarget]:
    """One cell a position, as the component draws it."""
    trace, targets = exercise.trace, exercise.targets
    names = labels(trace.token_bytes)
    row = [TokenTarget(name) for name in names]
    is_hidden = model.config.layout == "encoder-only"
    right, best = (model.token_bytes(ids.tolist()) for ids in (targets.ids, targets.best))
    for n, position in enumerate(targets.positions.tolist()):
        place = position if is_hidden else position + 1
        row[position] = TokenTarget(
            read=names[position],
            target=label(place, right[n]) if is_hidden or place == len(names) else names[place],
            loss=targets.losses[n].item(),
            rank=int(targets.ranks[n]),
            best=shown(best[n]),
            hidden=is_hidden,
        )
    return row


def _draw_expected(model: vm.Model, exercise: Exercise, position: int) -> None:
    """The likeliest tokens at the chosen position, and where the target stands among them.

    Where the position has no target, such as the last one of a text, the nearest position that has one is shown.
    """
    trace, targets = exercise.trace, exercise.targets
    st.subheader("What the model expected")
    names = [plain(label) for label in labels(trace.token_bytes)]
    n = (targets.positions - position).abs().argmin()
    nearest = int(targets.positions[n])
    if nearest != position:
        why = "it is not hidden" if model.config.layout == "encoder-only" else "the text ends there"
        st.caption(f"**{names[position]}** has no target, because {why}. This is the nearest token with a target.")
    target, loss, rank = int(targets.ids[n]), targets.losses[n].item(), int(targets.ranks[n])
    name = plain(shown(model.token_bytes([target])[0]))
    st.markdown(
        f"At **{names[nearest]}**, the target **{name}** has a loss of "
        f"−ln {number(math.exp(-loss), 3 if loss > 0.01 else 7)} = **{number(loss)} nats**. The target has rank "
        f"**{rank:,}** of {model.config.vocab_size:,}."
    )
    likeliest = expected(trace, nearest)
    ranks = [*range(1, len(likeliest) + 1)]
    if target not in [token for token, _ in likeliest]:
        likeliest, ranks = [*likeliest, (target, math.exp(-loss))], [*ranks, rank]
    table = pd.DataFrame(
        {
            "rank": ranks,
            "token": [shown(piece) for piece in model.token_bytes([token for token, _ in likeliest])],
            "probability": [share for _, share in likeliest],
            "target": ["◀ target" if token == target else "" for token, _ in likeliest],
        }
    )
    columns = {
        "probability": st.column_config.ProgressColumn(min_value=0.0, max_value=1.0, format="%.4g"),
        "rank": st.column_config.NumberColumn(format="localized"),
    }
    st.dataframe(table, hide_index=True, key="expected", column_config=columns)


def _draw_costs(view: View, trace: vm.Trace, asked: int) -> None:
    """One training pass beside one decode step; a click runs both."""
    if view.model.config.layout == "encoder-only":
        st.subheader("What one pass teaches")
        st.markdown(
            f"In one pass over {counted(trace.length, 'token')} this model learns only from the **{asked:,}** hidden "
            f"ones. A model that reads from left to right learns from {counted(trace.length - 1, 'prediction')} on the "
            "same text. There are no decode steps here, because this model writes no next token."
        )
        return
    st.subheader(
        "One training pass and one decode step",
        help="A training pass reads a whole text at once. In a decode step the model adds one token to the text that "
        "it is writing.",
    )
    rows = {
        "tokens read": (f"{asked:,} at once", "1; the cache holds the others"),
        "predictions": (f"{asked:,}", "1"),
        "the right token": ("known: it is in the text", "unknown: the model draws a token"),
        "learned from": (f"the mean of {counted(asked, 'loss', 'losses')}", "nothing"),
    }
    st.table(pd.DataFrame(rows, index=["a training pass", "a decode step"]).T)
    if view.model.config.layout != "decoder-only":
        st.caption("Choose a decoder-only model to run both and compare them.")
        return
    of = (view.name, view.trace.ids, view.pass_key[-1])
    if st.button("Run both and compare the losses", key="compare_steps", icon=":material/timer:"):
        st.session_state.compare_of, st.session_state.compared = of, None
    if st.session_state.get("compare_of") == of:
        _compare(view, of)


def _compare(view: View, of: tuple) -> None:
    """Once for a row; what was found stays while other positions are looked at."""
    found = st.session_state.compared
    if found is None:
        try:
            own = view.under(view.own_mask)
            model = view.model.settled(own.ids) if view.edits else view.model
        except vm.EditError as error:
            st.info(plain(sentence(str(error))), icon=":material/edit:")
            return
        found = finished(
            lambda job: compare_with_steps(model, own, job.tell),
            words="Decoding token by token",
            name="compare",
            of=of,
        )
        st.session_state.compared = found
    st.markdown(
        f"One pass took **{number(found.pass_seconds * 1e3, 3)} ms**, and {counted(found.steps, 'step')} took "
        f"**{number(found.step_seconds * 1e3, 3)} ms**. The losses of the pass and of the steps differ by at most "
        f"**{number(found.largest_difference, 2)}**. Under the causal mask, one pass makes at once all the "
        "predictions that decoding makes one by one."
    )
