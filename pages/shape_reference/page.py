"""Shape reference: one page to print, with every quantity, its letters, its formula and this model's numbers."""

import pandas as pd
import streamlit as st

from viz_model.shapes import costs
from viz_model.shapes.reference import GROUPS, Quantity, letters, quantities
from viz_ui.frame.passes import kept_pass
from viz_ui.frame.view import View, current_view
from viz_ui.look.formulas import ATTENTION, coloured
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
TITLES = {"inside_a_head": "Inside a head", "flash_attention": "FlashAttention"}


def draw() -> None:
    st.title("Shape reference")
    view = current_view()
    part = "" if view.trace.part == "self" else f", {view.trace.part} attention"
    st.markdown(
        f"Every tensor of one pass of **{plain(view.model.name)}** over the prompt in the sidebar, layer {view.layer}"
        f"{part}: its letters, its formula, and the sizes that were read off the tensors. Print it with Ctrl+P."
    )
    draw_letters(view)
    st.latex(coloured(ATTENTION))
    rows = rows_of(view)
    for group in GROUPS:
        draw_group(group, [row for row in rows if row.group == group])
    draw_costs(view)
    st.caption(
        "Vaswani et al. 2017, “Attention Is All You Need”, §3; grouped heads: Ainslie et al. 2023, “GQA”, §2.2. "
        "An axis that all share is written as 1; biases are left out of the formulas; y is the encoder's end; embed, "
        "head and f stand for more than a sum or product, which the model's own code does. "
        "`vm.capture(site)` gives any hook site."
    )


def rows_of(view: View) -> list[Quantity]:
    trace = view.trace
    of = (view.name, trace.read.ids, trace.source and trace.source.ids, view.part, view.layer)

    def work() -> list[Quantity]:
        return quantities(view.model, trace, view.layer)

    return kept_pass("quantities", of, view.model, view.prompt, work, most=1, can_stop=True)


def draw_letters(view: View) -> None:
    numbers = letters(view.trace)
    table = pd.DataFrame([[f"**{numbers[letter]:,}**" for letter in numbers]], columns=list(numbers))
    table.columns = [f"**{letter}** {MEANINGS[letter]}" for letter in numbers]
    st.table(table, hide_index=True)


def draw_group(group: str, rows: list[Quantity]) -> None:
    """One table, and the pages on which its tensors are seen."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.subheader(group, width="content")
        for page in SEEN_ON[group]:
            title = TITLES.get(page, page.capitalize())
            st.page_link(f"../../pages/{page}/page.py", label=title, width="content")
    if not rows:
        st.markdown("This model shows no hook site here: its code makes these tensors where they cannot be seen.")
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


def draw_costs(view: View) -> None:
    """What grows with what, by formula."""
    config, numbers = view.trace.config, letters(view.trace)
    cells = numbers["L"] * numbers["H"] * numbers["T"] * numbers["S"]
    rows = [
        ("learned numbers", "", f"{view.model.transformer.n_parameters():,}"),
        ("weights of all heads, bytes", r"4 \cdot L H T S", f"{4 * cells:,}"),
        ("products QKᵀ and AV of all heads, operations", r"4 \cdot L H D T S", f"{4 * cells * numbers['D']:,}"),
    ]
    if config.layout == "decoder-only":
        cached = costs.cache_bytes(config, numbers["T"])
        rows.append(("KV cache, bytes", r"2 \cdot L G D T \cdot 4", f"{cached:,}"))
    st.subheader("What they add up to")
    table = pd.DataFrame(rows, columns=["quantity", "formula", "here"])
    table["formula"] = [formula and f"${formula}$" for formula in table["formula"]]  # S is a letter here, no scores
    st.table(table, hide_index=True)


draw()
