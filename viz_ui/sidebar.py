"""The sidebar of every page: model, prompt, mask, layer, head, query and key token."""

import streamlit as st

import viz_model as vm
from viz_model.masks import NAMES as MASKS
from viz_ui.state import (
    EXAMPLES,
    FIRST_PROMPT,
    choose,
    clamp,
    drop_nonsense,
    fill_in_address,
    is_first_run,
    take_chosen,
)
from viz_ui.text import labels, plain
from viz_ui.view import View, load_model, traced

BUNDLED = "tiny-gpt"

BARE = "at_the_bare_address"

LONGEST_PROMPT = 4000  # characters; in the address a character may take twelve


def draw_sidebar() -> View | None:
    """Draw the sidebar and give the view, or None when there is nothing to look at; then it said why."""
    try:
        _open_address()
        take_chosen()
        model = _choose_model()
        prompt = _choose_prompt()
        mask = _choose_mask(model)
        _say_length(model, prompt)
        trace = traced(model.name, prompt, mask)
    except vm.VizError as error:
        st.session_state["problem"] = str(error)
        return None
    return _choose_head_and_tokens(model, prompt, trace)


def _open_address() -> None:
    """Make an incomplete address whole: on a first run, or when Back led to the bare address."""
    if is_first_run():
        incomplete = st.query_params.get("model") not in _model_names()
        nonsense = drop_nonsense()
        if incomplete:
            fill_in_address(_first_choice())
        st.session_state.visited = True
        if incomplete or nonsense:
            st.rerun()  # widgets read the address that a run began with
    elif st.session_state.get(BARE):
        choose(**_first_choice())


def _first_choice() -> dict[str, object]:
    """What a visitor sees first: the head that looks at the previous token most, by what was measured of it."""
    names = _model_names()
    prompt = st.query_params.get("prompt", FIRST_PROMPT)
    model = load_model(names[0])
    table = model.measured_heads.get("previous_text", [])
    places = [(value, layer, head) for layer, row in enumerate(table) for head, value in enumerate(row)]
    _, layer, head = max(places, default=(0, 0, 0))
    last = max(0, len(model.tokenizer.encode(prompt)) - 1)
    choice = {"model": names[0], "prompt": prompt, "layer": layer, "head": head, "query": last}
    return choice | {"key": max(0, last - 1)}


def _model_names() -> list[str]:
    """The models that read text; raises CheckpointError, which says what is wrong, when there is none."""
    names = [entry.name for entry in vm.catalogue() if entry.has_tokenizer]
    if not names:
        load_model(BUNDLED)  # says which file is missing or damaged
        raise vm.CheckpointError(f"The model {BUNDLED} has no tokenizer. Restore its folder from the repository.")
    return names


def _choose_model() -> vm.Model:
    name = st.sidebar.selectbox(
        "Model",
        _model_names(),
        index=None,
        required=True,
        key="model",
        bind="query-params",
        on_change=_own_masks_stay_own,
    )
    if name is None and not st.session_state.get(BARE):
        st.session_state[BARE] = True  # the widgets of this run follow the bare address; the next run fills it in
        st.rerun()
    st.session_state[BARE] = False
    if name is None:
        raise vm.CheckpointError("Choose a model in the sidebar.")
    model = load_model(name)
    config = model.config
    st.session_state["own_mask"] = config.mask
    st.sidebar.caption(
        f"{model.transformer.n_parameters():,} parameters · {config.n_layers} layers × {config.n_heads} heads · "
        f"C = {config.d_model}, D = {config.d_head}"
    )
    return model


def _own_masks_stay_own() -> None:
    """Masks that were the former model's own, or the other one, are that of the new model too.

    For the address leaves out what a model begins with: a link must not mean another mask than its sender saw.
    """
    former, own = st.session_state.get("own_mask"), load_model(st.session_state.model).config.mask
    if former not in (None, own):
        for key in ("mask", "mask_a", "mask_b"):
            if st.session_state.get(key) in MASKS:
                [st.session_state[key]] = [mask for mask in MASKS if mask != st.session_state[key]]


def _choose_prompt() -> str:
    prompt = st.sidebar.text_area(
        "Prompt",
        key="prompt",
        bind="query-params",
        height=130,
        max_chars=LONGEST_PROMPT,
        placeholder="Type something, then Ctrl+Enter",
        help=f"Any text of up to {LONGEST_PROMPT:,} characters. Ctrl+Enter takes it.",
    )
    st.sidebar.menu_button(
        "Examples",
        list(EXAMPLES),
        key="example",
        on_click=_take_example,
        width="stretch",
        icon=":material/list:",
    )
    return prompt[:LONGEST_PROMPT]  # a link may hold more than the box allows


def _take_example() -> None:
    choose(prompt=EXAMPLES[st.session_state.example], query=0, key=0)


def _choose_mask(model: vm.Model) -> str:
    choices = (model.config.mask, *(name for name in MASKS if name != model.config.mask))
    mask = st.sidebar.segmented_control(
        "Mask", choices, key="mask", bind="query-params", required=True, default=choices[0], width="stretch"
    )
    if mask != model.config.mask:
        st.sidebar.caption(f"{model.name} was trained with the {model.config.mask} mask: this one is foreign to it.")
    return mask


def _say_length(model: vm.Model, prompt: str) -> None:
    n_tokens = len(model.tokenizer.encode(prompt))
    st.sidebar.caption(f"{n_tokens:,} of {model.config.context_length:,} tokens")


def _choose_head_and_tokens(model: vm.Model, prompt: str, trace: vm.Trace) -> View:
    config, last = model.config, trace.length - 1
    left, right = st.sidebar.columns(2)
    layer = _number(left, "Layer", "layer", config.n_layers - 1)
    head = _number(right, "Head", "head", config.n_heads - 1)
    query = _number(left, "Query", "query", last)
    key = _number(right, "Key", "key", last)
    names = labels(trace.token_bytes)
    st.sidebar.caption(f"query {plain(names[query])}  \nkey {plain(names[key])}")
    return View(model, prompt, trace, layer, head, query, key)


def _number(place, label: str, name: str, highest: int) -> int:
    clamp(name, highest)
    number = place.number_input(
        f"{label} (0–{highest})",
        0,
        highest,
        value=None,
        step=1,
        key=name,
        bind="query-params",
        placeholder="0",
    )
    return number or 0
