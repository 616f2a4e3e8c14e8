"""The navigation: every page, in the groups of the menu. A page's folder is its address, for good."""

import streamlit as st
from starlette.requests import Request
from starlette.responses import RedirectResponse
from starlette.routing import Route

from viz_ui.components.shared.serving import below_base_path
from viz_ui.frame.address import texts_before

MODELS = "Models"  # the page that works where no model can be looked at
FIRST = "heads"

COMPARED = ENCODER, DECODER, BOTH = "tiny-bert", "tiny-gpt", "tiny-seq2seq"  # on the page Layouts

# Pages that show the model as it is while the list of edits holds some, and why; all others show the edited pass.
UNEDITED = {
    "Circuits": "This page shows the model without the edits, because edits change a pass, and all numbers "
    "here come from the parameters alone.",
    "Misconceptions": "This page shows the model without the edits, because its claims are about the trained model.",
    MODELS: "This page shows no pass of your prompt.",
}
# Sections of other pages that do: the parameter that holds the section, and the same by section.
UNEDITED_SECTIONS = {
    "Positions": (
        "positions",
        {
            "Tables": "This section shows no pass. The tables are parameters, and edits do not change these.",
            "Longer texts": "This section shows no pass of your prompt. It reads long texts of its own.",
        },
    ),
    "Training": ("lesson", {"Train one, live": "The model that is trained here is another one."}),
}
# The models that a section of the page Layouts shows, the first one where none is chosen.
SHOWN_ON_LAYOUTS = {
    "Side by side": COMPARED,
    "Norms through depth": (DECODER, BOTH),
    "Cross-attention": (BOTH,),
    "Fill in the blank": (ENCODER, DECODER),
}


def why_unedited(page: str, model: str, called: str) -> str:
    """Why the page, or the section that is chosen on it, shows the pass of this model without edits; "" where it shows
    the edited one. model: its name in the catalogue, or its folder; called: its own name."""
    if page in UNEDITED:
        return UNEDITED[page]
    if page == "Layouts":
        shown = SHOWN_ON_LAYOUTS.get(_section("layouts"), COMPARED)
        if model in shown:
            return ""
        names = " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))
        return f"This section shows {names}, and the edits are of {called}."
    if page not in UNEDITED_SECTIONS:
        return ""
    parameter, reasons = UNEDITED_SECTIONS[page]
    return reasons.get(_section(parameter), "")


def _section(parameter: str) -> str:
    """The section that a parameter holds; "" where none is chosen."""
    return next(iter(texts_before(parameter)), "")


def _page(name: str, title: str, icon: str, default: bool = False):
    """The page in the folder pages/`name`; the path is read from beside main.py."""
    return st.Page(f"../../pages/{name}/page.py", title=title, icon=icon, url_path=name, default=default)


def choose_page():
    """Draw the navigation; gives the page that is chosen."""
    return st.navigation(
        {
            "Explore": [
                _page(FIRST, "Heads", ":material/grid_view:", default=True),
                _page("inside_a_head", "Inside a head", ":material/search:"),
                _page("shapes", "Shapes", ":material/schema:"),
                _page("masks", "Masks", ":material/grid_off:"),
                _page("generate", "Generate", ":material/play_circle:"),
            ],
            "Investigate": [
                _page("prediction", "Prediction", ":material/insights:"),
                _page("switch_off", "Switch off", ":material/toggle_off:"),
                _page("patching", "Patching", ":material/swap_horiz:"),
                _page("over_a_text", "Over a text", ":material/menu_book:"),
                _page("circuits", "Circuits", ":material/hub:"),
                _page("compare", "Compare", ":material/compare:"),
            ],
            "Understand": [
                _page("positions", "Positions", ":material/format_list_numbered:"),
                _page("layouts", "Layouts", ":material/view_week:"),
                _page("training", "Training", ":material/fitness_center:"),
                _page("flash_attention", "FlashAttention", ":material/bolt:"),
                _page("quantization", "Quantization", ":material/compress:"),
                _page("misconceptions", "Misconceptions", ":material/help:"),
            ],
            "Look up": [
                _page("models", MODELS, ":material/database:"),
                _page("shape_reference", "Shape reference", ":material/table_chart:"),
            ],
        },
        position="top",
    )


def first_page_route() -> Route:
    """The address /heads leads to the first page: Streamlit knows that one by the address / alone, and would say "Page
    not found" above it."""
    return Route(below_base_path(f"/{FIRST}"), _to_first_page)


async def _to_first_page(request: Request) -> RedirectResponse:
    return RedirectResponse("./" + (f"?{request.url.query}" if request.url.query else ""))
