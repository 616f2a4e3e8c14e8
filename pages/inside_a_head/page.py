"""Inside a head: Q, K, V, then every step from QKᵀ to A·V, and the arithmetic of one cell."""

import numpy as np
import streamlit as st

from viz_model.model.formula import AttentionFormula
from viz_model.transformer.attention import softmax_input
from viz_ui.components.panels import Matrix, Symbol, panels
from viz_ui.frame.address import bring_sidebar_along
from viz_ui.frame.embedding import main_picture
from viz_ui.frame.view import View, current_view
from viz_ui.look.formulas import coloured
from viz_ui.look.glossary import explained
from viz_ui.parts.cell import draw_cell
from viz_ui.parts.open_matrix import note_opened, open_noted_matrix
from viz_ui.parts.special_tokens import Shown, choose_shown, say_hidden
from viz_ui.parts.weight_colours import WeightColours, choose_weight_colours


def draw() -> None:
    view = current_view()
    st.title("Inside a head")
    two_texts = " Q is computed from the target; K and V are computed from the source." if view.part == "cross" else ""
    st.markdown(
        f"**How does a head turn vectors into weights?** Below is every step of {view.where}. In each step, the row of "
        f"query {view.query} is framed. Click any cell to follow another query.{two_texts}",
        help=explained("value", "score", "softmax", "attention weight"),
    )
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.latex(coloured(AttentionFormula.of(view.trace, view.layer).latex), width="stretch")
        shown, colours = choose_shown(view), choose_weight_colours(view.trace.key_length)
    with main_picture():
        draw_steps(shown, colours)
    draw_sources(view)
    draw_cell(view, products_open=True)


@st.fragment
def draw_steps(shown: Shown, colours: WeightColours) -> None:
    """Every matrix of the head: a fragment, so that another query is framed at once."""
    view = current_view()
    matrices = {
        name: shown.matrix(item, item.values if name == "weights" else None)
        for name, item in head_matrices(view).items()
    }
    matrices["weights"] = colours.of(matrices["weights"])
    first = [matrices["q"], Symbol("·"), matrices["k"]]
    if "q_pre" in matrices:  # each as projected, then turned by its position
        first = [matrices["q_pre"], Symbol("R →"), *first[:2], matrices["k_pre"], Symbol("R →"), first[2]]
    scaling = AttentionFormula.of(view.trace, view.layer).scaling
    panels(
        [
            *first, Symbol("ᵀ ="), matrices["raw"], Symbol(scaling), matrices["scores"],
            *between(view, matrices), Symbol("+ M"), matrices["masked"],
            Symbol("softmax"), matrices["weights"], Symbol("·"), matrices["v"], Symbol("="), matrices["mixed"],
        ],
        key="inside_panels",
        selected=shown.selected(view.query, view.key),
        matrix_width=290,
        on_pick=shown.choose_cell,
        on_open=note_opened,
    )  # fmt: skip
    say_hidden(view, shown, "A·V and the arithmetic")
    open_noted_matrix(view, matrices)
    bring_sidebar_along()


def between(view: View, matrices: dict[str, Matrix]) -> list:
    """What some models do to the scores before the mask: a soft cap, a bias by distance."""
    cap = view.trace.equation(view.layer).softcap
    words = {"capped": f"{cap:g}·tanh(·/{cap:g})" if cap else "", "biased": "+ bias"}
    return [item for name in words if name in matrices for item in (Symbol(words[name]), matrices[name])]


def head_matrices(view: View) -> dict[str, Matrix]:
    """The matrices of a head under their names: eight, and those that only some models have."""
    trace, layer, head = view.trace, view.layer, view.head
    group, equation = trace.config.kv_head(head), trace.equation(layer)
    raw, weights = trace.raw(layer, head).numpy(), trace.weights(layer, head).numpy()
    allowed, entering = trace.mask(layer).numpy(), trace.softmax_input(layer, head).numpy()
    formula, bias = AttentionFormula.of(trace, layer), trace.bias(layer, head)
    plain_scores = equation.softcap is None and bias is None
    of_raw = {"same_as": "raw", "factor": equation.scale}
    items = [
        *unrotated(view, group),
        features(view, "q", "Q, queries", "query", trace.q(layer)[head], "T", rows_are_queries=True),
        features(view, "k", shared("K, keys", view), "key", trace.k(layer)[group], "S", rows_are_keys=True),
        features(view, "v", shared("V, values", view), "value", trace.v(layer)[group], "S", rows_are_keys=True),
        square(view, "raw", "QKᵀ", raw),
        square(view, "scores", formula.scores, None, **of_raw),
    ]
    if equation.softcap is not None:
        capped = softmax_input(trace.scores(layer, head), None, equation.softcap)
        items.append(square(view, "capped", "capped scores", capped.numpy()))
    if bias is not None:
        items.append(square(view, "biased", "scores + bias", entering))
    masked = of_raw if plain_scores else {"values": np.where(allowed, entering, -np.inf)}
    items += [
        square(view, "masked", formula.masked if plain_scores else "scores + M", **masked, allowed=allowed),
        square(view, "weights", "A = softmax", weights, role="weights", scale="sequential", allowed=allowed),
        features(view, "mixed", "A·V, mixed values", "stream", trace.mixed(layer)[head], "T", rows_are_queries=True),
    ]
    return {item.name: item for item in items}


def unrotated(view: View, group: int) -> list[Matrix]:
    """Q and K before their rotation, where positions rotate them and the model lets them be seen."""
    trace, attention = view.trace, view.trace.config.attention_name(view.part, view.layer)
    if f"{attention}.q_pre" not in trace.tensors:
        return []
    query, key = trace[f"{attention}.q_pre"][view.head], trace[f"{attention}.k_pre"][group]
    return [
        features(view, "q_pre", "Q before rotation", "query", query, "T", rows_are_queries=True),
        features(view, "k_pre", shared("K before rotation", view), "key", key, "S", rows_are_keys=True),
    ]


def features(view: View, name: str, title: str, role: str, values, rows: str, **which) -> Matrix:
    """A matrix of tokens × the D numbers of the head."""
    values = values.numpy()
    return Matrix(
        name,
        title,
        values,
        view.key_labels if which.get("rows_are_keys") else view.labels,
        [str(d) for d in range(values.shape[1])],
        row_axis="key" if which.get("rows_are_keys") else "query",
        column_axis="feature",
        caption=f"({rows}, D) = {values.shape}",
        role=role,
        scale="diverging",
        **which,
    )


def square(view: View, name: str, title: str, values: np.ndarray | None = None, **choices) -> Matrix:
    """A matrix of queries × keys."""
    choices = {"role": "scores", "scale": "diverging"} | choices
    return Matrix(
        name,
        title,
        values,
        view.labels,
        view.key_labels,
        caption=f"(T, S) = ({view.trace.length}, {view.trace.key_length})",
        rows_are_queries=True,
        columns_are_keys=True,
        **choices,
    )


def shared(title: str, view: View) -> str:
    """The title of K or V, which names its head where several query heads share one."""
    config = view.trace.config
    if config.n_kv_heads == config.n_heads:
        return title
    return f"{title} (key/value head {config.kv_head(view.head)})"


def draw_sources(view: View) -> None:
    """Where the numbers come from, what is special in this model, and the papers."""
    trace = view.trace
    words = [
        "The scores and weights are the ones that the model computed when it read your prompt."
        if trace.stored
        else "The scores and weights are computed from Q, K and mask, which are the ones that the model made when it "
        "read your prompt.",
        f"The scaled scores are QKᵀ {AttentionFormula.of(trace, view.layer).scaling_words}.",
    ]
    sources, terms = ["Vaswani et al. 2017, “Attention Is All You Need”, §3.2.1"], []
    if trace.sink(view.layer, view.head) is not None:
        words.append("A sink takes part in each softmax, so the weights of a row add up to less than 1.")
        terms.append("attention sink")
    if trace.config.position == "rotary":
        words.append("R rotates each query and key by angles that depend on its position.")
        sources.append("Su et al. 2021, “RoFormer”, §3.2.2")
        terms.append("RoPE")
    if trace.config.n_kv_heads < trace.config.n_heads:
        group = trace.config.kv_head(view.head)
        sharing = [head for head in range(trace.config.n_heads) if trace.config.kv_head(head) == group]
        words.append(f"Heads {sharing[0]} to {sharing[-1]} share key/value head {group}, which gives K and V.")
        terms.append("grouped heads")
    st.caption(f"{' '.join(words)} {'; '.join(sources)}.", help=explained(*terms) or None)


draw()
