"""The sidebar of every page: model, prompt, mask, layer, head, query and key token; of two stacks target and part."""

from contextlib import suppress

import streamlit as st

import viz_model as vm
from viz_model.model import MOST_WRITTEN
from viz_model.transformer.masks import NAMES as MASKS
from viz_model.transformer.masks import window_in
from viz_ui.frame.address import (
    EXAMPLES,
    FIRST_PROMPT,
    choose,
    clamp,
    drop_nonsense,
    fill_in_address,
    is_first_run,
    take_chosen,
)
from viz_ui.frame.jobs import Stopped
from viz_ui.frame.loaded_models import draw_fetch, load_model, model_names
from viz_ui.frame.view import View, traced
from viz_ui.look.glossary import explained
from viz_ui.look.text import counted, labels, plain, sentence

BARE = "at_the_bare_address"

LONGEST_PROMPT = 4000  # characters; in the address a character may take twelve
LONGEST_TARGET = 1000
LONGEST_DRAWN = 2048  # tokens; a matrix of more has more cells than a browser bears

SENT = ("raw", "chat")  # a chat model's prompt: as typed, or in the template of its chats

ATTENTION = {
    "encoder": "each token of the source reads the source",
    "decoder": "each token of the target reads the target",
    "cross": "each token of the target reads the source",
}


def draw_sidebar() -> View | None:
    """Draw the sidebar and give the view, or None when there is nothing to look at; then it said why."""
    try:
        _open_address()
        take_chosen()
        model = _choose_model()
        typed = _choose_prompt(model)
        prompt = _choose_how_sent(model, typed)
        target = _choose_target(model)
        part = _choose_part(model)
        mask = _choose_mask(model, part)
        _say_length(model, prompt, typed)
        with st.sidebar.container():  # always there, so that what is below stays while the model reads
            trace = traced(st.session_state.model, prompt, mask, part, target, can_stop=True)
        _say_target(model, trace, target)
    except Stopped as stopped:
        _keep_head_and_tokens()
        st.session_state["problem"] = str(stopped)
        return None
    except vm.VizError as error:
        st.session_state["problem"] = str(error)
        return None
    return View(model, st.session_state.model, prompt, target, trace, **_choose_head_and_tokens(trace))


def _open_address() -> None:
    """Make an incomplete address whole: on a first run, or when Back led to the bare address."""
    if is_first_run():
        incomplete = st.query_params.get("model") not in model_names()
        nonsense = drop_nonsense()
        unasked = not incomplete and "prompt" not in st.query_params  # typed by hand: a link of ours has one
        if incomplete:
            fill_in_address(_first_choice())
        elif unasked:
            with suppress(vm.VizError):  # a model that cannot be loaded is said so where it is chosen
                st.query_params["prompt"] = next(iter(_examples(load_model(st.query_params["model"])).values()))
        st.session_state.visited = True
        if incomplete or nonsense or unasked:
            st.rerun()  # widgets read the address that a run began with
    elif st.session_state.get(BARE):
        choose(**_first_choice())


def _first_choice() -> dict[str, object]:
    """What a visitor sees first: the head that looks at the previous token most, by what was measured of it."""
    names = model_names()
    prompt = st.query_params.get("prompt", FIRST_PROMPT)
    model = load_model(names[0])
    table = model.measured_heads.get("previous_text", [])
    places = [(value, layer, head) for layer, row in enumerate(table) for head, value in enumerate(row)]
    _, layer, head = max(places, default=(0, 0, 0))
    last = max(0, len(model.ids(prompt)) - 1)
    choice = {"model": names[0], "prompt": prompt, "layer": layer, "head": head, "query": last}
    return choice | {"key": max(0, last - 1)}


def _choose_model() -> vm.Model:
    name = st.sidebar.selectbox(
        "Model",
        model_names(),
        index=None,
        required=True,
        key="model",
        bind="query-params",
        on_change=_take_model,
    )
    if name is None and not st.session_state.get(BARE):
        st.session_state[BARE] = True  # the widgets of this run follow the bare address; the next run fills it in
        st.rerun()
    st.session_state[BARE] = False
    if name is None:
        raise vm.CheckpointError("Choose a model in the sidebar.")
    draw_fetch()
    model = load_model(name)
    config = model.config
    layers = counted(config.n_layers, "layer")
    if model.has_source:
        layers = f"{config.n_encoder_layers} encoder and {config.n_layers} decoder layers"
    stored = "stored and" if model.stored_as == "float32" else f"stored as {model.stored_as},"
    st.sidebar.caption(
        f"{model.transformer.n_parameters():,} parameters · {layers} × {counted(config.n_heads, 'head')} · "
        f"C = {config.d_model}, D = {config.d_head} · {stored} computed in float32",
        help="C is the width of the residual stream, and D is the width of a head.\n\n"
        + explained("parameter", "residual stream"),
    )
    return model


def _take_model() -> None:
    """Another model was chosen: an example of the former one gives way to one of its own."""
    try:
        model = load_model(st.session_state.model)
    except vm.VizError:
        return  # the run that follows says what is wrong with it
    examples, given = _examples(model), st.session_state.get("examples", EXAMPLES)
    if examples != given and st.session_state.get("prompt") in given.values():
        st.session_state.prompt = next(iter(examples.values()))
    _own_masks_stay_own(model)


def _own_masks_stay_own(model: vm.Model | None = None) -> None:
    """Masks that were the own ones of the former model or part, or the other ones, are those of the new one too.

    For the address leaves out what a model begins with: a link must not mean another mask than its sender saw.
    """
    model = model or load_model(st.session_state.model)
    former, own = st.session_state.get("own_mask"), model.config.mask_of(_part(model))
    if former not in (None, own):
        for key in ("mask", "mask_a", "mask_b"):
            if st.session_state.get(key) in MASKS:
                [st.session_state[key]] = [mask for mask in MASKS if mask != st.session_state[key]]


def _examples(model: vm.Model) -> dict[str, str]:
    return model.examples or (EXAMPLES if model.tokenizer else {"Numbers, twice": model.example_ids})


def _choose_prompt(model: vm.Model) -> str:
    source = "The encoder reads this text, which is called the source. " if model.has_source else ""
    kind = "" if model.tokenizer else " of token ids"
    prompt = st.sidebar.text_area(
        "Prompt",
        key="prompt",
        bind="query-params",
        height=130,
        max_chars=LONGEST_PROMPT,
        placeholder="Type something, then Ctrl+Enter",
        help=f"{source}Type up to {LONGEST_PROMPT:,} characters{kind}, then press Ctrl+Enter.\n\n{explained('token')}",
    )
    if model.tokenizer is None:
        st.sidebar.caption(
            f"{plain(model.name)} has no tokenizer. Type token ids from 0 to {model.config.vocab_size - 1:,} instead "
            f"of text, for example {model.example_ids}."
        )
    st.session_state.examples = _examples(model)
    st.sidebar.menu_button(
        "Examples",
        list(st.session_state.examples),
        key="example",
        on_click=_take_example,
        width="stretch",
        icon=":material/list:",
    )
    return prompt[:LONGEST_PROMPT]  # a link may hold more than the box allows


def _take_example() -> None:
    choose(prompt=st.session_state.examples[st.session_state.example], query=0, key=0)


def _choose_how_sent(model: vm.Model, typed: str) -> str | tuple[int, ...]:
    """What the model reads: the text that was typed, or the ids of it in the chat template of a model that has one."""
    in_template = model.tokenizer.chat(typed) if model.tokenizer and typed else None
    if in_template is None:
        return typed
    how = st.sidebar.segmented_control(
        "How the prompt is sent",
        SENT,
        default=SENT[0],
        required=True,
        key="sent",
        bind="query-params",
        width="stretch",
        help="**raw**: the model reads exactly what you typed.\n\n**chat**: the model reads your text as a message in "
        "a chat. It was trained with a template for chats, which puts more tokens around the text.",
    )
    return tuple(in_template) if how == "chat" else typed


def _choose_target(model: vm.Model) -> str | None:
    """What the decoder of an encoder-decoder shall read; None for what the model writes by itself."""
    if not model.has_source:
        return None
    text = st.sidebar.text_input(
        "What the decoder reads",
        key="target",
        bind="query-params",
        max_chars=LONGEST_TARGET,
        placeholder="empty: what the model writes",
        help="This text is called the target. The decoder reads it after its start token, and the model says what it "
        "would write next. If the box is empty, the model writes the target itself, the likeliest token each time.",
    )
    return text[:LONGEST_TARGET] or None


def _choose_part(model: vm.Model) -> str:
    """Which attention of an encoder-decoder is looked at."""
    if model.has_source:
        st.sidebar.segmented_control(
            "Attention",
            model.config.parts,
            default="cross",
            required=True,
            key="part",
            bind="query-params",
            width="stretch",
            on_change=_own_masks_stay_own,
            help="\n".join(f"- **{part}**: {words}" for part, words in ATTENTION.items())
            + f"\n\n{explained('cross-attention')}",
        )
    part = _part(model)
    st.session_state["own_mask"] = model.config.mask_of(part)
    return part


def _part(model: vm.Model) -> str:
    return (st.session_state.get("part") or "cross") if model.has_source else "self"


def _choose_mask(model: vm.Model, part: str) -> str:
    own = model.config.mask_of(part)
    choices = (own, *(name for name in MASKS if name != own))
    mask = st.sidebar.segmented_control(
        "Mask",
        choices,
        key="mask",
        bind="query-params",
        required=True,
        default=choices[0],
        width="stretch",
        help=explained("mask"),
    )
    if mask != own:
        there = "" if part == "self" else f" {'in cross-attention' if part == 'cross' else f'in its {part}'}"
        st.sidebar.caption(f"{plain(model.name)} was trained with the {own} mask{there}, not with this one.")
    return mask


def _say_length(model: vm.Model, prompt: str | tuple[int, ...], typed: str) -> None:
    """How many tokens there are. Raises PromptError where their matrices cannot be drawn."""
    read, raw = (len(model.ids(text)) for text in (prompt, typed))
    without = f", {raw:,} when sent raw" if prompt != typed else ""
    longest = model.config.context_length
    st.sidebar.caption(f"{read:,} of {longest:,} tokens{without}")
    if LONGEST_DRAWN < read <= longest:
        raise vm.PromptError(
            f"The prompt has {read:,} tokens. {model.name} reads up to {longest:,}, but the pages draw at most "
            f"{LONGEST_DRAWN:,}, because a browser cannot show larger matrices. Shorten the prompt by "
            f"{counted(read - LONGEST_DRAWN, 'token')}."
        )


def _say_target(model: vm.Model, trace: vm.Trace, target: str | None) -> None:
    """What the decoder reads, where the model wrote it itself."""
    if model.has_source and target is None:
        written = trace.read.ids[1:]
        text = b"".join(model.token_bytes(written)).decode(errors="replace")
        cut = f"the first {MOST_WRITTEN} tokens that" if len(written) == MOST_WRITTEN else "what"
        st.sidebar.caption(f"The decoder reads {cut} the model writes itself: {plain(sentence(text))}")


def _choose_head_and_tokens(trace: vm.Trace) -> dict[str, int]:
    """Layer, head, query and key: those of the part that is looked at."""
    left, right = st.sidebar.columns(2)
    chosen = {
        "layer": _number(left, "Layer", "layer", trace.n_layers - 1),
        "head": _number(right, "Head", "head", trace.config.n_heads - 1),
        "query": _number(left, "Query", "query", trace.length - 1),
        "key": _number(right, "Key", "key", trace.key_length - 1),
    }
    queries, keys = labels(trace.token_bytes), labels(trace.key_token_bytes)
    st.sidebar.caption(f"query {plain(queries[chosen['query']])}  \nkey {plain(keys[chosen['key']])}")
    _say_window(trace, chosen["layer"])
    return chosen


def _keep_head_and_tokens() -> None:
    """Where there is no pass: what was chosen of one stays in its widgets, and so in the address."""
    left, right = st.sidebar.columns(2)
    for place, name in ((left, "layer"), (right, "head"), (left, "query"), (right, "key")):
        place.number_input(
            name.capitalize(), 0, value=None, step=1, key=name, bind="query-params", placeholder="0", disabled=True
        )


def _say_window(trace: vm.Trace, layer: int) -> None:
    """Where a layer's own mask is narrower than its name says: some look no further than a window (Mistral, Gemma)."""
    reach = window_in(trace.mask(layer), trace.mask_name)
    if reach is not None:
        st.sidebar.caption(
            f"In layer {layer} a query reads at most {counted(reach, 'key')}, those in a sliding window."
        )


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
        help=explained(*(("key", "value") if name == "key" else (name,))),
    )
    return number or 0
