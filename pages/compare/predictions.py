"""What both passes predict: the next token after the chosen one, and the loss of every token of the text."""

import numpy as np
import streamlit as st
import torch

import viz_model as vm
from pages.compare.choice import MODEL, NAMES, Sides
from viz_model.heads.comparison import predicts
from viz_model.heads.divergence import ComparedPasses
from viz_ui.look.colours import ROLES
from viz_ui.look.figures import query_lines_figure
from viz_ui.look.glossary import explained
from viz_ui.look.text import counted, number, plain, sentence, shown
from viz_ui.parts.aligned import place_labels
from viz_ui.parts.next_tokens import SHOWN, draw_next_tokens
from viz_ui.parts.token_table import draw_token_table


def draw_predictions(sides: Sides, comparison: ComparedPasses) -> None:
    if sides.is_one_pass:
        st.caption("A and B are heads of one pass, so there is one prediction. Compare with something else to see two.")
        return
    draw_next(sides, comparison)
    draw_losses(sides, comparison)


def draw_next(sides: Sides, comparison: ComparedPasses) -> None:
    """Both predictions after the chosen query, or in its place."""
    first, second = sides.first, sides.second
    in_place = [side.model.config.layout == "encoder-only" for side in (first, second)]
    st.subheader("The token at the query" if all(in_place) else "The next token")
    place = comparison.queries.place_of(first.query)
    if not all(predicts(side.trace) for side in (first, second)):
        st.caption("One of the two passes predicts no token here.", help=explained("unembedding"))
        return
    if place is None:
        st.caption(f"Token {first.query} has no counterpart in B. Choose another query.")
        return
    query, counterpart = comparison.queries.first[place][-1], comparison.queries.second[place][-1]
    logits = first.trace.logits_at(query), second.trace.logits_at(counterpart)
    where = f"{'In the place of' if all(in_place) else 'After'} query **{plain(first.labels[query])}**"
    if in_place[0] != in_place[1]:
        named = second if in_place[1] else first
        st.caption(
            f"{plain(named.model.name)} names the token in the place of the query. The other model names the token "
            "that comes next, so the two predictions are of different places."
        )
    if sides.kind != MODEL or have_one_vocabulary(first.model, second.model):
        draw_next_tokens(first, *logits, NAMES, where)
    else:
        draw_by_text(sides, logits, where)


def have_one_vocabulary(first: vm.Model, second: vm.Model) -> bool:
    """Whether each id stands for the same piece of text in both."""
    size = first.config.vocab_size
    if size != second.config.vocab_size or (first.tokenizer is None) != (second.tokenizer is None):
        return False
    return first.tokenizer is None or first.token_bytes(range(size)) == second.token_bytes(range(size))


def draw_by_text(sides: Sides, logits: tuple[torch.Tensor, torch.Tensor], where: str) -> None:
    """The likeliest tokens of two vocabularies, by their text; a text that is no token of the other has no share."""
    found: list[dict[bytes, float]] = []
    for side, of in zip((sides.first, sides.second), logits, strict=True):
        shares = of.double().softmax(-1)
        pieces: dict[bytes, float] = {}
        for piece, share in zip(side.model.token_bytes(range(len(of))), shares.tolist(), strict=True):
            pieces[piece] = pieces.get(piece, 0.0) + share
        found.append(pieces)
    likeliest = {piece for one in found for piece in sorted(one, key=one.get, reverse=True)[:SHOWN]}
    order = sorted(likeliest, key=lambda piece: (-max(one.get(piece, 0.0) for one in found), piece))
    st.markdown(f"{where}, these are the likeliest tokens of both models.")
    shares = {name: np.array([one.get(piece, 0.0) for piece in order]) for name, one in zip(NAMES, found, strict=True)}
    draw_token_table([shown(piece) for piece in order], shares, key="next_texts")
    st.caption(
        f"The models have different vocabularies, of {len(logits[0]):,} and {len(logits[1]):,} tokens. Tokens are "
        "matched by their text. A text that is no token of a model has probability 0 there, although the model may "
        "write it with several tokens."
    )


def draw_losses(sides: Sides, comparison: ComparedPasses) -> None:
    """What each token costs both passes."""
    st.subheader("What each token costs", help=explained("nat"))
    try:
        losses = [side.numpy() for side in comparison.losses]
    except vm.VizError as error:
        st.caption(plain(sentence(str(error))))
        return
    queries = comparison.queries
    both = ~np.isnan(losses[0]) & ~np.isnan(losses[1])
    if not both.any():
        st.caption("None of the compared tokens is predicted in both passes, so there are no losses to compare.")
        return
    means = [float(one[both].mean()) for one in losses]
    what = "aligned token" if queries.are_tokens else "aligned place"
    st.markdown(
        f"The mean loss is **{number(means[0])} nats** in A and **{number(means[1])} nats** in B, over "
        f"{counted(int(both.sum()), what)}. B − A is {number(means[1] - means[0])}."
    )
    theme = st.context.theme.type or "light"
    of_roles = [ROLES[role] for role in ("stream", "weights")]
    colours = [role.on_dark if theme == "dark" else role.on_light for role in of_roles]
    figure = query_lines_figure(
        place_labels(queries, sides.first.trace.token_bytes, sides.second.trace.token_bytes),
        dict(zip(NAMES, zip(losses, colours, strict=True), strict=True)),
        axis="loss, nats",
        theme=theme,
        height=340,
    )
    st.plotly_chart(figure, key="losses", theme=None, config={"displayModeBar": False})
    st.caption(
        "The loss of a token is −ln of the probability that the model gave it before it came. The first token has "
        "none." + ("" if queries.are_tokens else " Where the models cut the text differently, losses are summed.")
    )
