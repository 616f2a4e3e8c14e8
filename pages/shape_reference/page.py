"""Shape reference: a page to print, with every tensor, its letters, its formula and this model's sizes."""

import pandas as pd
import streamlit as st

from pages.shape_reference.symbols import explanations
from viz_model.flash.traffic import matrix_flops
from viz_model.model.formula import AttentionFormula
from viz_model.shapes import costs
from viz_model.shapes.reference import GROUPS, Quantity, letters, quantities
from viz_ui.frame.embedding import main_picture
from viz_ui.frame.passes import kept_pass
from viz_ui.frame.view import View, current_view
from viz_ui.look.formulas import coloured
from viz_ui.look.glossary import explained
from viz_ui.look.text import plain

MEANINGS = {  # short: ten columns in a narrow window
    "B": "batch",
    "T": "queries",
    "S": "keys",
    "C": "stream width",
    "H": "heads",
    "G": "key/value heads",
    "D": "head width",
    "L": "layers",
    "V": "vocabulary",
    "F": "feed-forward width",
}

SEEN_ON = {
    "Into the stream": ("positions", "layouts"),
    "Attention": ("heads", "inside_a_head", "masks", "flash_attention"),
    "Feed-forward": ("shapes", "quantization"),
    "Out of the stream": ("generate", "training"),
}
PLACES = {
    "self": "layer {}",
    "encoder": "layer {} of the encoder",
    "decoder": "layer {} of the decoder",
    "cross": "the cross-attention of layer {}",
}
TITLES = {"inside_a_head": "Inside a head", "flash_attention": "FlashAttention"}


def draw() -> None:
    st.title("Shape reference")
    view = current_view()
    place = PLACES[view.trace.part].format(view.layer)
    st.markdown(
        f"**Which tensors does a pass make?** These are the tensors of **{plain(view.model.name)}** on your prompt, in "
        f"{place}, with their letters and formulas. The sizes are read from the recorded tensors, "
        "not computed from the formulas. Print this page with Ctrl+P.",
        help=explained(
            "residual stream",
            "embedding",
            "norm",
            "score",
            "attention weight",
            "softmax",
            "value",
            "feed-forward",
            "logit",
        ),
    )
    with main_picture():
        draw_letters(view)
        st.latex(coloured(AttentionFormula.of(view.trace, view.layer).latex))
        rows = rows_of(view)
        for group in GROUPS:
            draw_group(group, [row for row in rows if row.group == group])
        draw_costs(view)
        draw_notes(view, rows)


def rows_of(view: View) -> list[Quantity]:
    trace = view.trace
    of = (*view.pass_key, view.part, view.layer)

    def work() -> list[Quantity]:
        return quantities(view.model, trace, view.layer)

    return kept_pass("quantities", of, view.model, view.prompt, work, most=1, can_stop=True)


def draw_letters(view: View) -> None:
    numbers = letters(view.trace)
    table = pd.DataFrame([[f"**{numbers[letter]:,}**" for letter in numbers]], columns=list(numbers))
    table.columns = [f"**{letter}** {MEANINGS[letter]}" for letter in numbers]
    st.table(table, hide_index=True)


def draw_group(group: str, rows: list[Quantity]) -> None:
    """One table, and links to the pages that show its tensors."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.subheader(group, width="content")
        for page in SEEN_ON[group]:
            title = TITLES.get(page, page.capitalize())
            st.page_link(f"../../pages/{page}/page.py", label=title, width="content")
    if not rows:
        st.markdown("This model has no hook sites here: its code makes these tensors where the app cannot record them.")
        return
    table = pd.DataFrame(
        {
            "quantity": [row.title for row in rows],
            "formula": [f"${coloured(row.formula)}$" for row in rows],
            "letters": [f"({', '.join(row.axes)})" for row in rows],
            "here": [f"({', '.join(f'{size:,}' for size in row.shape)})" for row in rows],
            "numbers": [f"{row.count:,}" for row in rows],
            "hook site": [f"`{row.site}`" for row in rows],
        }
    )
    st.table(table, hide_index=True)


def draw_notes(view: View, rows: list[Quantity]) -> None:
    """How to read the formulas of this model, and the papers."""
    words = ["The formulas leave out biases."]
    if any("1" in row.axes for row in rows):
        words.insert(0, "Where the column “letters” has a 1, all prompts, or all heads, share the same numbers.")
    sources, terms = ["Vaswani et al. 2017, “Attention Is All You Need”, §3"], []
    if view.model.has_source:
        words.append("y is the encoder output.")
        terms.append("encoder output")
    words += explanations([row.formula for row in rows], view.trace.config, view.trace.equation(view.layer))
    if view.trace.config.n_kv_heads < view.trace.config.n_heads:
        sources.append("grouped heads: Ainslie et al. 2023, “GQA”, §2.2")
        terms.append("grouped heads")
    words.append(
        "A hook site is a place where the app records a tensor; `vm.capture(site)` gives that tensor. "
        f"{'; '.join(sources)}."
    )
    st.caption(" ".join(words), help=explained(*terms) or None)


def draw_costs(view: View) -> None:
    """The totals of the pass, each with its formula."""
    config, numbers = view.trace.config, letters(view.trace)
    cells = numbers["L"] * numbers["H"] * numbers["T"] * numbers["S"]
    width = view.model.transformer.value_width
    products = r"4 \cdot L H D T S" if width == numbers["D"] else rf"2 \cdot L H (D + {width}) T S"
    rows = [
        ("parameters", "", f"{view.model.transformer.n_parameters():,}"),
        ("attention weights of all heads, bytes", r"4 \cdot L H T S", f"{4 * cells:,}"),
        ("QKᵀ and AV of all heads, FLOPs", products, f"{matrix_flops(cells, numbers['D'], width):,}"),
    ]
    if config.layout == "decoder-only" and width == numbers["D"]:  # others cannot be cached here
        cached = costs.cache_bytes(config, numbers["T"])
        rows.append(("KV cache, bytes", r"2 \cdot L G D T \cdot 4", f"{cached:,}"))
    st.subheader("Totals", help=explained("parameter", "FLOP", "KV cache"))
    table = pd.DataFrame(rows, columns=["quantity", "formula", "here"])
    table["formula"] = [formula and f"${formula}$" for formula in table["formula"]]  # S is a letter here, no scores
    st.table(table, hide_index=True)


draw()
