"""Do BERT and GPT use different equations? Both through one function, under both masks."""

import streamlit as st

import viz_model as vm
from pages.misconceptions.matrices import draw_matrices
from viz_model.misconceptions.equations import SameEquation, through_one_equation
from viz_ui.components.panels import Matrix
from viz_ui.frame.loaded_models import load_model
from viz_ui.frame.view import View, choose_picked_cell, traced
from viz_ui.look.text import labels, number, plain
from viz_ui.parts.open_matrix import pass_words

TWINS = ("tiny-gpt", "tiny-bert")
SHORT = 40  # tokens


def draw(view: View) -> None:
    if view.part == "cross":
        raise vm.VizError(
            "Cross-attention reads another text, so a causal mask does not fit it. Choose encoder or decoder in the "
            "sidebar."
        )
    passes = {name: trace for name, trace in _traces(view).items() if view.layer < trace.n_layers}
    found = {name: through_one_equation(trace, view.layer, view.head) for name, trace in passes.items()}
    st.markdown(answer(found))
    draw_matrices(
        view,
        "one_equation",
        [matrix(name, passes[name], result, mask) for name, result in found.items() for mask in result.weights],
        width=250 if len(found) > 1 and view.trace.length <= SHORT else 420,  # two or three beside each other
        selected=(view.query, view.key),
        on_pick=choose_picked_cell,
        of={
            f"{name}_{mask}": pass_words(passes[name], mask)
            for name, result in found.items()
            for mask in result.weights
        },
    )
    formulas = {result.formula for result in found.values()}
    papers = (
        "The equation: Vaswani et al. 2017, eq. 1. GPT and BERT both use it: Radford et al. 2018, §3.1; Devlin et al. "
        "2019, §3."
        if all(formula.is_plain for formula in formulas)
        else "Vaswani et al. 2017 (eq. 1) compute softmax(QKᵀ/√D + M); this model uses the equation that is written "
        "here."
    )
    st.caption(
        f"This is layer {view.layer}, head {view.head}. One function computes "
        f"{' and '.join(plain(formula.weights) for formula in formulas)} from the recorded queries and keys, and only "
        f"the mask M is changed. Under the model's own mask, the function must give the recorded weights. {papers}"
    )


def _traces(view: View) -> dict[str, vm.Trace]:
    """The twins where the chosen model is one of them and both are there, else the chosen model alone."""
    there = {entry.name for entry in vm.catalogue() if entry.folder}
    if view.name in TWINS and there.issuperset(TWINS):
        return {
            name: traced(name, view.prompt, load_model(name).config.mask, kind="twins", most=len(TWINS))
            for name in TWINS
        }
    return {view.name: view.trace.of(view.part)}


def answer(found: dict[str, SameEquation]) -> str:
    worst = max(result.difference for result in found.values())
    names = " and ".join(f"**{plain(name)}** ({result.own} mask)" for name, result in found.items())
    if worst < 1e-4:
        recorded = f"both models: {names}" if len(found) > 1 else names
        return (
            f"**No.** One function reproduces the weights that were recorded in {recorded}. The largest difference "
            f"is **{number(worst, 2)}**. Only the mask M differs."
        )
    return (
        f"**Not for this model:** this equation alone does not reproduce the recorded weights of {names}. The largest "
        f"difference is **{number(worst, 2)}**."
    )


def matrix(name: str, trace: vm.Trace, result: SameEquation, mask: str) -> Matrix:
    names = labels(trace.token_bytes)
    own = "its own mask" if mask == result.own else "not its own mask"
    return Matrix(
        f"{name}_{mask}",
        f"{name}, {mask}",
        result.weights[mask].numpy(),
        names,
        names,
        role="weights",
        caption=own,  # with it the title would be wider than the matrix, and two would not fit beside each other
        low=0,
        high=1,
        allowed=result.allowed[mask].numpy(),
        rows_are_queries=True,
        columns_are_keys=True,
    )
