"""What puts an edit into the list: menus beside a head and a cell, and forms for edits that need a number or a text."""

from collections.abc import Callable

import streamlit as st

import viz_model as vm
from viz_model.intervention.edits import LARGEST, LONGEST
from viz_model.model.edits import Edit
from viz_ui.frame.edits import add_edit
from viz_ui.frame.view import View
from viz_ui.look.glossary import explained
from viz_ui.look.text import plain, sentence

HEAD_EDITS: dict[str, Callable[[View], Edit]] = {
    "Switch it off": lambda view: vm.SwitchOff(*_head(view), part=view.part),
    "Let it write its mean over the prompt": lambda view: vm.SwitchOff(*_head(view), "mean", part=view.part),
    "Multiply what it writes by 2": lambda view: vm.ScaleHead(*_head(view), 2.0, part=view.part),
}
CELL_EDITS: dict[str, Callable[[View], Edit]] = {
    "Forbid the query to read the key": lambda view: vm.SetWeight(*_head(view), *_cell(view), 0.0, part=view.part),
    "Set the weight to 0.5": lambda view: vm.SetWeight(*_head(view), *_cell(view), 0.5, part=view.part),
    "Set the weight to 1": lambda view: vm.SetWeight(*_head(view), *_cell(view), 1.0, part=view.part),
}
EVERY, ONE = "every token", "one token"


def draw_head_edits(view: View) -> None:
    """A menu that edits the chosen head."""
    _draw_menu(view, "head", f"Edit head {view.head} of layer {view.layer}", HEAD_EDITS)


def draw_cell_edits(view: View) -> None:
    """A menu that edits the chosen cell of the chosen head's weights."""
    allowed = bool(view.trace.mask(view.layer)[view.query, view.key])
    _draw_menu(view, "cell", "Edit this weight", CELL_EDITS, is_disabled=not allowed)


def _draw_menu(
    view: View, name: str, label: str, makers: dict[str, Callable[[View], Edit]], is_disabled: bool = False
) -> None:
    key = f"{name}_edit"

    def add() -> None:
        add_edit(makers[st.session_state[key]](view))

    st.menu_button(
        label,
        list(makers),
        key=key,
        on_click=add,
        icon=":material/edit:",
        disabled=is_disabled,
        help="The mask already forbids this cell." if is_disabled else explained("edited pass"),
    )


def draw_edit_forms(view: View) -> None:
    """Edits of the chosen head, and of the stream behind its layer, that need a number or a text."""
    with st.expander("Change something else", icon=":material/edit:"):
        scale, values, vector = st.tabs(["Scale the head", "Values of another prompt", "Add a vector"])
        with scale, st.form("edit_scale", border=False):
            st.markdown(f"Multiply what head {view.head} of layer {view.layer} writes at every token by a number.")
            st.number_input("Factor", -LARGEST, LARGEST, 0.5, 0.5, key="edit_factor", width=160)
            _draw_submit(view, _scale)
        with values, st.form("edit_values", border=False):
            st.markdown(
                f"Let head {view.head} of layer {view.layer} write what it writes for another prompt. With “{EVERY}”, "
                "this is done token by token, and tokens beyond the end of the other prompt stay as they are."
            )
            st.text_input("The other prompt", key="edit_text", max_chars=LONGEST)
            _draw_places(view, "values")
            _draw_submit(view, _values)
        if view.part != "cross":
            with vector, st.form("edit_vector", border=False):
                st.markdown(
                    f"Add a vector to the residual stream after layer {view.layer}. The vector is the strength times a "
                    "difference: the stream of one prompt minus that of another one, both taken after this layer at "
                    "the last token.",
                    help=explained("steering vector", "residual stream"),
                )
                one, other = st.columns(2)
                one.text_input("The stream of this prompt", key="edit_plus", max_chars=LONGEST, placeholder="love")
                other.text_input("minus that of this one", key="edit_minus", max_chars=LONGEST, placeholder="hate")
                st.number_input("Strength", -LARGEST, LARGEST, 2.0, 0.5, key="edit_strength", width=160)
                _draw_places(view, "vector")
                _draw_submit(view, _vector)
        else:
            vector.markdown(
                "A vector can be added to the stream of the encoder or of the decoder. Choose one in the sidebar."
            )


def _draw_places(view: View, name: str) -> None:
    words = {EVERY: EVERY, ONE: f"token {view.query} alone, the chosen query"}
    st.radio("Where", list(words), key=f"edit_{name}_at", horizontal=True, format_func=words.get)


def _draw_submit(view: View, make: Callable[[View], Edit]) -> None:
    problem = st.session_state.get("edit_problem", ("", ""))
    st.form_submit_button("Add to the list of edits", icon=":material/add:", on_click=_add, args=(view, make))
    if problem[0] == make.__name__:
        st.warning(plain(sentence(problem[1])), icon=":material/edit:")


def _add(view: View, make: Callable[[View], Edit]) -> None:
    st.session_state.edit_problem = "", ""
    try:
        add_edit(make(view))
    except vm.VizError as error:
        st.session_state.edit_problem = make.__name__, str(error)


def _scale(view: View) -> Edit:
    return vm.ScaleHead(*_head(view), st.session_state.edit_factor, part=view.part)


def _values(view: View) -> Edit:
    text = _prompt(view, st.session_state.edit_text)
    return vm.SetValues(*_head(view), text, _place(view, "values"), view.target, part=view.part)


def _vector(view: View) -> Edit:
    texts = [_prompt(view, st.session_state[f"edit_{name}"]) for name in ("plus", "minus")]
    return vm.AddVector(view.layer, *texts, st.session_state.edit_strength, _place(view, "vector"), part=view.part)


def _prompt(view: View, text: str) -> str:
    """Raises PromptError for what the model cannot read."""
    view.model.encode(text)
    return text


def _place(view: View, name: str) -> int | None:
    return None if st.session_state[f"edit_{name}_at"] == EVERY else view.query


def _head(view: View) -> tuple[int, int]:
    return view.layer, view.head


def _cell(view: View) -> tuple[int, int]:
    return view.query, view.key
