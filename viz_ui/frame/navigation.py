"""The navigation: every page, in the groups of the menu. A page's folder is its address, for good."""

import streamlit as st
from starlette.requests import Request
from starlette.responses import RedirectResponse
from starlette.routing import Route

from viz_ui.components.shared.serving import below_base_path

MODELS = "Models"  # the page that works where no model can be looked at
FIRST = "heads"

# Pages that show the model as it is while the list of edits holds some, and why; all others show the edited pass.
UNEDITED = {
    "Masks": "This page shows the model without the edits, because it compares masks in the model as it is.",
    "Patching": "This page shows the model without the edits, because it compares two passes of the model as it is.",
    "Circuits": "This page shows the model without the edits, because edits change a pass, and here no pass runs.",
    "Positions": "This page shows the model without the edits, because it runs its own texts and its own models.",
    "Layouts": "This page shows the model without the edits, because it runs its own texts and models.",
    "Training": "This page shows the model without the edits, because losses here are those of the trained model.",
    "FlashAttention": "This page shows the model without the edits, because it computes the same result in two ways.",
    "Quantization": "This page shows the model without the edits, because it compares the model with its rounded copy.",
    "Misconceptions": "This page shows the model without the edits, because its experiments are of the model as it is.",
    MODELS: "This page shows no pass of your prompt.",
}


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
