"""What the page Quantization quantizes: the reader's choice, the quantized copy, and its pass over the prompt."""

import streamlit as st
from torch import Tensor

import viz_model as vm
from viz_model.quantization.twin import (
    ALL,
    LLM_INT8,
    NF4,
    ONE_LAYER,
    SCHEMES,
    THRESHOLD,
    WHICH,
    Choice,
    Quantized,
    Twins,
    trace_quantized,
    weight_bytes,
)
from viz_ui.frame.address import linked
from viz_ui.frame.jobs import finished
from viz_ui.frame.passes import is_small
from viz_ui.frame.view import View
from viz_ui.look.glossary import explained
from viz_ui.look.text import number, plain, size_words

LARGEST_THRESHOLD = 999.0

EXPLAINED = {
    "int8": "Rounds the weights of each row to whole numbers from −127 to 127, which take 8 bits. Products are "
    "computed in 32 bits.",
    LLM_INT8: "Rounds the weights, and also the inputs that they are multiplied with, to int8. Input columns with "
    "large numbers stay in 16 bits.",
    NF4: "Takes the weights in groups of 64, and rounds each weight to one of 16 levels. Products are computed in 32 "
    "bits.",
}

FORMULAS = {
    "int8": r"The weights of a **row** share one constant c, their largest |w|: "
    r"$\mathrm{code} = \mathrm{round}(127\, w / c)$, $\hat w = c \cdot \mathrm{code} / 127$.",
    LLM_INT8: r"The rows of W **and of the input x** become int8: $\mathrm{code} = \mathrm{round}(127\, w / c)$, "
    "where c is the largest absolute value of the row. "
    "A column of x stays in 16 bits if one of its numbers reaches the **threshold**.",
    NF4: "The weights of a **group** of 64 share one constant c, their largest |w|. Each weight becomes the nearest "
    r"of 16 levels: $\hat w = c \cdot \mathrm{level}[\mathrm{code}]$.",
}


def draw_choices() -> tuple[str, str, float]:
    """Scheme, which weights, and the threshold of outliers."""
    scheme = linked(
        st.segmented_control,
        "Scheme",
        SCHEMES,
        default=NF4,
        required=True,
        key="scheme",
        help="\n".join(f"- **{name}**: {words}" for name, words in EXPLAINED.items())
        + f"\n\n{explained('NF4', 'outlier')}",
    )
    which = linked(
        st.selectbox,
        "Which weights",
        WHICH,
        index=WHICH.index(ALL),
        key="quantized",
        width=160,
        help="Only the weight matrices inside the layers can be quantized. Embeddings, norms, biases and the "
        "unembedding stay as they are. “one layer” is the layer that is chosen in the sidebar.\n\n"
        + explained("embedding", "norm", "unembedding"),
    )
    threshold = THRESHOLD
    if scheme == LLM_INT8:
        threshold = linked(
            st.number_input,
            "Threshold",
            0.1,
            LARGEST_THRESHOLD,
            THRESHOLD,
            0.5,
            key="threshold",
            width=120,
            help="An input column has one number for each token of the prompt. The column is an outlier if the "
            "absolute value of one of these numbers reaches the threshold.",
        )
    return scheme, which, threshold


def stack_of(view: View) -> str:
    """The stack that the chosen layer is in: "" where there is only one."""
    return view.trace.config.stack_name(view.trace.part).rstrip(".")


def current_choice(view: View, scheme: str, which: str, threshold: float) -> Choice:
    """What does not apply is left at its default, so that equal choices are equal."""
    place = {"layer": view.layer, "stack": stack_of(view)} if which == ONE_LAYER else {}
    return Choice(scheme, which, threshold=threshold if scheme == LLM_INT8 else THRESHOLD, **place)


def quantized_model(view: View, choice: Choice) -> Quantized:
    """The quantized copy of the running model, under the same edits; not for fragments, see `jobs.finished`."""
    model, made = view.unedited_model, twins()
    if not (made.made(model, choice) or is_small(model) or choice.which == ONE_LAYER):
        finished(
            lambda job: made.get(model, choice, job.tell),
            words=f"Rounding the weights of {plain(model.name)}",
            name="quantization",
            of=(model.name, choice),
        )
    return kept_copy(view, choice)


def kept_copy(view: View, choice: Choice) -> Quantized:
    """The same, where it is made or is made soon."""
    copy = twins().get(view.unedited_model, choice)
    return copy.under_edits_of(view.model) if view.edits else copy


@st.cache_resource(show_spinner=False)
def twins() -> Twins:
    """Shared by all visitors."""
    return Twins()


def quantized_trace(view: View, quantized: Quantized) -> tuple[vm.Trace, dict[str, Tensor]]:
    """The quantized copy's pass over what the view shows, and the largest number of each column that entered its
    matrices."""
    trace, largest = _traced(view.trace, quantized, *view.pass_key, quantized.choice)
    return trace.of(view.trace.part), largest


@st.cache_resource(scope="session", max_entries=2, show_spinner=False)
def _traced(
    _trace, _quantized, model: str, read: tuple, source: tuple | None, masks: tuple, edits: tuple, choice: Choice
):
    return trace_quantized(_quantized, _trace)


def bytes_words(view: View, quantized: Quantized, extra: int) -> str:
    """The bytes of the weights before and after, with their constants. extra: of the outlier columns in 16 bits."""
    before, after = quantized.bytes_before, quantized.bytes_after + extra
    codes = sum(tensor.after.code_bytes for tensor in quantized.stored)
    constants = sum(tensor.after.constant_bytes for tensor in quantized.stored)
    whole = weight_bytes(view.model.transformer)
    share = "one per row"
    if quantized.choice.scheme == NF4:
        plain_bytes = sum(tensor.after.plain_constant_bytes for tensor in quantized.stored)
        share = (
            "one per group of 64 weights; if each c took 32 bits, the constants would take "
            f"{number(8 * plain_bytes / quantized.n_weights, 3)}"
        )
    for_constants = f"{number(8 * constants / quantized.n_weights, 3)} for the constants c ({share})"
    for_outliers = (
        f"{number(8 * extra / quantized.n_weights, 3)} for a second copy, in 16 bits, of the weights that are "
        "multiplied with outlier columns of x"
    )
    words = (
        f"**{quantized.n_weights:,} weights** take **{size_words(after)}** instead of {size_words(before)} "
        f"({size_words(2 * quantized.n_weights)} in float16). That is **{number(8 * after / quantized.n_weights)} bits "
        f"per weight**: {8 * codes / quantized.n_weights:.4g} for the code"
    )
    words += f", {for_constants}, and {for_outliers}" if extra else f" and {for_constants}"
    return f"{words}. The whole model takes {size_words(whole - before + after)} instead of {size_words(whole)}."
