"""A second prompt for a page that compares two, where the reader has typed only one."""

import streamlit as st

from viz_model.intervention.contrast import with_another_token
from viz_ui.frame.loaded_models import load_model
from viz_ui.frame.view import View


def with_one_token_replaced(view: View) -> str | None:
    """The prompt as typed, with one token replaced by the model without edits; None where that cannot be done."""
    return _replaced(view.name, st.session_state.prompt, view)


@st.cache_resource(scope="session", max_entries=4, show_spinner=False)
def _replaced(name: str, typed: str, _view: View) -> str | None:
    model = load_model(name)
    is_of_text = isinstance(_view.prompt, str) and _view.trace.own_mask and not _view.edits  # else another pass
    trace = _view.trace if is_of_text else model.trace(typed)
    return with_another_token(model, trace.of("encoder") if model.has_source else trace, typed)
