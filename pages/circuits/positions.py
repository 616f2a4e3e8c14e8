"""Which positions the chosen head looks for: rows of positions against each other, or scores by distance."""

from collections import Counter

import numpy as np
import streamlit as st

import viz_model as vm
from pages.circuits.figures import distance_figure
from pages.circuits.tokens import name_of
from viz_model.circuit.circuits import Circuits
from viz_ui.components.panels import Matrix, panels
from viz_ui.frame.view import View
from viz_ui.look.glossary import explained
from viz_ui.look.text import plain, sentence
from viz_ui.parts.open_matrix import named, note_opened, open_noted_matrix

MOST_POSITIONS, FARTHEST = 48, 128  # rows of the matrix; distances of the curve


def draw_positions(view: View, circuits: Circuits, token: int, distance: int) -> None:
    st.subheader("Which positions it looks for")
    facts, equation = view.model.config, view.trace.equation(view.layer)
    try:
        if facts.position in ("learned", "sinusoidal"):
            draw_position_scores(view, circuits)
        elif equation.turns or any(equation.slopes or ()):
            draw_distance_scores(view, circuits, token, distance)
        elif facts.position == "relative":
            st.markdown(
                "This model adds no vectors for positions to its embeddings. Instead, it adds a bias to each score, "
                "which depends on the distance between query and key. The page Positions shows this bias."
            )
        else:
            st.markdown("Nothing in the parameters of this head says where a token stands.")
    except vm.VizError as error:
        st.info(plain(sentence(str(error))), icon=":material/edit:")


def draw_position_scores(view: View, circuits: Circuits) -> None:
    """Positions as queries × positions as keys, and at which distance the rows have their largest number."""
    scores = circuits.position_scores(view.layer, view.head, MOST_POSITIONS).numpy()
    allowed = np.ones_like(scores, dtype=bool)
    if view.part != "cross" and view.model.config.mask_of(view.part) == "causal":
        allowed = np.tril(allowed)
    relative = scores - np.average(scores, axis=1, weights=allowed, keepdims=True)
    best = np.where(allowed, scores, -np.inf).argmax(axis=1)
    rows = [row for row in range(len(scores)) if allowed[row].sum() > 1]
    [(distance, count)] = Counter(row - int(best[row]) for row in rows).most_common(1) or [(0, 0)]
    matrix = Matrix(
        "position_scores",
        "Scores of positions alone, minus the mean of their row",
        np.where(allowed, relative, -np.inf) if not allowed.all() else relative,
        [str(row) for row in range(scores.shape[0])],
        [str(column) for column in range(scores.shape[1])],
        row_axis="position of the query",
        column_axis="position of the key",
        role="scores",
        scale="diverging",
        high=float(np.abs(relative[allowed]).max()) or 1.0,
        low=-float(np.abs(relative[allowed]).max()) or -1.0,
        allowed=None if allowed.all() else allowed,
    )
    most = (
        f"For **{count} of {len(rows)}** positions of the query, the highest score is at {_where(distance)}."
        if 2 * count > len(rows)
        else "For different positions of the query, the highest score is at different distances: no distance occurs "
        f"for more than {count} of {len(rows)} positions."
    )
    st.markdown(
        f"{most} These scores are made without tokens, only from the vectors that the model adds for positions. What "
        f"norms divide by is left out, and so are all biases. The first {len(scores)} positions are shown.",
        help=explained("QK circuit", "score"),
    )
    panels([matrix], key="position_score_panels", matrix_width=420, on_open=note_opened)
    names = {matrix.name: named(view, "scores of positions alone", "position_scores", view.where)}
    open_noted_matrix(view, {matrix.name: matrix}, names=names)


def draw_distance_scores(view: View, circuits: Circuits, token: int, distance: int) -> None:
    """How the score of two tokens changes with their distance."""
    length = min(FARTHEST, view.model.config.context_length)
    other = int(circuits.looks_for(view.layer, view.head, token, distance).argmax())
    curves = {
        f"key of {name_of(view, other)}": circuits.distance_scores(view.layer, view.head, token, length, other).numpy(),
        "mean of the keys of all tokens": circuits.distance_scores(view.layer, view.head, token, length).numpy(),
    }
    mean = list(curves.values())[1]
    st.markdown(
        f"For a query of **{plain(name_of(view, token))}**, the mean score of all keys is highest at a distance of "
        f"**{int(mean.argmax())}**. The curves show how the score of the same two tokens changes with their distance. "
        "What norms divide by is left out, and so are all biases.",
        help=explained("RoPE", "score"),
    )
    st.plotly_chart(
        distance_figure(curves, theme=st.context.theme.type or "light"),
        key="score_by_distance",
        theme=None,
        config={"displayModeBar": False},
    )


def _where(distance: int) -> str:
    if distance == 0:
        return "the same position"
    steps = f"{abs(distance)} position{'s' * (abs(distance) > 1)}"
    return f"the key {steps} {'before' if distance > 0 else 'after'} the query"
