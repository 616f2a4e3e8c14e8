"""Where positions enter: which hook sites change when the whole prompt moves to other positions, scheme by scheme."""

from collections.abc import Iterable

import pandas as pd
import streamlit as st

import viz_model as vm
from viz_model.positions.schemes import SiteChange, possible_schemes, site_changes
from viz_ui.frame.address import linked
from viz_ui.frame.view import current_view
from viz_ui.look.text import number, plain
from viz_ui.parts.fitting_model import NAMES, FittingPrompt, drawn, is_ours, variant

ELSEWHERE, WITHOUT = "moved as a whole", "without positions"
SENTENCES = {
    ELSEWHERE: "The prompt runs again with every token moved to a later position.",
    WITHOUT: "The prompt runs again without positions.",
}
FIRST_MOVE = 10
NO_ROW, ABOUT_0 = "no row", " ≈ 0"


def draw_sites() -> None:
    """The whole section."""
    view = current_view()
    shown = drawn(view, is_ours, "a model of this project, whose positions can be exchanged")
    config = shown.model.config
    with st.container(horizontal=True, vertical_alignment="bottom"):
        compared = linked(
            st.segmented_control,
            "Compare with a pass in which the prompt is",
            list(SENTENCES),
            default=ELSEWHERE,
            required=True,
            key="compared",
        )
        by = 0
        if compared == ELSEWHERE:
            by = linked(st.slider, "Moved by", 0, 2 * config.context_length, FIRST_MOVE, key="later", width=320)
        st.markdown(
            f"{SENTENCES[compared]} The table shows the largest change at each hook site of the embedding and of layer "
            f"{shown.layer}, and the largest change of the last token's logits. A hook site is a place where the app "
            "records a tensor.",
            width="content",
        )
    if shown.note:
        st.caption(shown.note)
    schemes = [scheme for scheme in possible_schemes(config) if compared == ELSEWHERE or scheme != "none"]
    found, problems = {}, []
    for scheme in schemes:
        try:
            found[scheme] = _site_changes(shown.model, shown.name, shown.prompt, scheme, by, shown.edits)
        except vm.EditError:
            raise  # it is no matter of the scheme
        except vm.VizError as error:
            problems.append(str(error))
    table = change_table(shown, schemes, found)
    st.dataframe(
        table.style.apply(_colours, axis=None), hide_index=True, height="content", row_height=24, key="site_changes"
    )
    for problem in problems:
        st.caption(f"{NO_ROW}: {plain(problem)}")
    st.caption(
        f"All columns use the parameters of {plain(shown.model.name)}, which was trained {_trained(config.position)}. "
        "“0” means exactly the same. “≈ 0” means rounding: less than 10⁻⁵ of the largest number at the site. Learned "
        "and sinusoidal rows are added to the embedding, so everything after it changes. RoPE rotates q and k in every "
        "layer, so QKᵀ depends only on distances. Vaswani et al. 2017, §3.5; Su et al. 2021, “RoFormer”, §3."
    )


@st.cache_data(scope="session", max_entries=16, show_spinner="Running both passes …")
def _site_changes(
    _model: vm.Model, name: str, prompt: str, scheme: str, by: int, edits: tuple[str, ...]
) -> list[SiteChange]:
    """The pass against itself moved by so many positions; for 0, against the pass without positions."""
    model, other = (variant(name, one).under_edits_of(_model) for one in (scheme, scheme if by else "none"))
    return site_changes(model, model.encode(prompt), other, by)


def change_table(shown: FittingPrompt, schemes: list[str], found: dict[str, list[SiteChange]]) -> pd.DataFrame:
    """A row for each site of the embedding, the chosen layer and the end; a column for each scheme."""
    config = shown.model.config
    part = config.parts[0]
    stack, block = config.stack_name(part), config.block_name(part, shown.layer)
    wanted = [
        name
        for name in merged([[change.site for change in changes] for changes in found.values()])
        if name.startswith(f"{block}.") or (name.startswith(stack) and "blocks." not in name) or name == "logits"
    ]
    table = {"site": wanted}
    for scheme in schemes:
        by_site = {change.site: change for change in found.get(scheme, ())}
        table[heading(config.position, scheme)] = [
            words(by_site.get(name)) if scheme in found else NO_ROW for name in wanted
        ]
    return pd.DataFrame(table)


def _trained(position: str) -> str:
    return "without positions" if position == "none" else f"with {NAMES[position]} positions"


def heading(own: str, scheme: str) -> str:
    return f"{NAMES[scheme]} (its own)" if scheme == own else NAMES[scheme]


def merged(lists: Iterable[list[str]]) -> list[str]:
    """All names of all lists, each once. A name that only one list has stands after the name before it there."""
    result: list[str] = []
    for names in lists:
        at = 0
        for name in names:
            if name not in result:
                result.insert(at, name)
            at = result.index(name) + 1
    return result


def words(change: SiteChange | None) -> str:
    """The largest change in a few letters."""
    if change is None:
        return "–"
    if change.change == 0:
        return "0"
    return f"{number(change.change, 2)}{ABOUT_0}" if change.is_rounding else number(change.change, 3)


def _colours(table: pd.DataFrame) -> pd.DataFrame:
    """A real change is marked; no change, or rounding only, is grey."""
    dark = st.context.theme.type == "dark"
    marked = f"background-color: {'#4A2A58' if dark else '#EADBF0'}; font-weight: 600"
    grey = f"color: {'#B4B8C0' if dark else '#5C6068'}"

    def style(text: str) -> str:
        return grey if text in ("0", "–", NO_ROW) or text.endswith(ABOUT_0) else marked

    styles = table.map(style)
    styles["site"] = ""
    return styles
