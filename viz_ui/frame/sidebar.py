"""The sidebar of every page: model, prompt, mask, layer, head, query and key token; of two stacks target and part."""

from collections.abc import Callable

import streamlit as st

import viz_model as vm
from viz_model.model import MOST_WRITTEN
from viz_model.model.edits import Edit
from viz_model.transformer.masks import NAMES as MASKS
from viz_model.transformer.masks import window_in
from viz_ui.frame.address import arriving, choose, half_of_pair, linked
from viz_ui.frame.edits import MOST as MOST_LISTED
from viz_ui.frame.edits import Applied, ListedEdits, fitting, is_compared, take_entries
from viz_ui.frame.embedding import main_picture
from viz_ui.frame.examples import EXAMPLES
from viz_ui.frame.jobs import Stopped
from viz_ui.frame.loaded_models import draw_fetch, load_model, model_names
from viz_ui.frame.passes import Prompt
from viz_ui.frame.view import View, edited_model, fit_head_and_cell, hold_head_and_cell, traced
from viz_ui.frame.visitors import may, told
from viz_ui.look.glossary import explained
from viz_ui.look.text import counted, labels, plain, sentence
from viz_ui.sharing.settings import FETCH

LONGEST_PROMPT = 4000  # characters; in the address a character may take twelve
LONGEST_TARGET = 1000
LONGEST_NAME = 200  # of a model that is not here, as a link has it
LONGEST_DRAWN = 2048  # tokens; a matrix of more has more cells than a browser bears

BITS = {"float16": "in 16 bits", "bfloat16": "in 16 bits"}

SENT = ("raw", "chat")  # a chat model's prompt: as typed, or in the template of its chats

ATTENTION = {
    "encoder": "each token of the source reads the source",
    "decoder": "each token of the target reads the target",
    "cross": "each token of the target reads the source",
}


def draw_sidebar(why_unedited: Callable[[str, str], str]) -> tuple[View | None, Applied]:
    """Draw the sidebar; gives the view, None when there is nothing to look at (then it said why), and what became of
    the list of edits. why_unedited: why the page shows the pass of a model (in the catalogue, and by its own name)
    without them; "" where it does not."""
    listed, applied = take_entries(), Applied()
    try:
        model = _choose_model()
        typed = _choose_prompt(model)
        prompt = _choose_how_sent(model, typed)
        target = _choose_target(model)
        part = _choose_part(model)
        mask = _choose_mask(model, part)
        _say_length(model, prompt, typed)
        with st.sidebar.container():  # always there, so that what is below stays while the model reads
            trace = traced(st.session_state.model, prompt, mask, part, target, can_stop=True)
            if any(entry.is_on for entry in listed):
                why = why_unedited(st.session_state.model, model.name)
                model, trace, applied = _edited(model, trace, (prompt, target), mask, listed, why)
        _say_target(model, trace, target)
        _say_segments(model, trace)
    except (Stopped, vm.VizError) as error:
        st.session_state["problem"] = told(str(error))
        hold_head_and_cell()
        return None, applied
    view = View(model, st.session_state.model, prompt, target, trace, **_choose_head_and_tokens(model, trace))
    return view, applied


def _edited(
    model: vm.Model, trace: vm.Trace, texts: tuple[Prompt, str | None], mask: str, listed: ListedEdits, why: str
) -> tuple[vm.Model, vm.Trace, Applied]:
    """The model and its pass under the edits that fit this pass, the unedited one; or these two, where none does."""
    name, (prompt, target) = st.session_state.model, texts

    def fits(edit: Edit) -> None:
        edited_model(name, (edit,), kind="edit", most=2 * MOST_LISTED)
        edit.refuse_pass(trace)

    edits, problems = fitting(listed, fits)
    if not edits or why or is_compared():
        left = "" if not edits else why or "You see the pass without the edits, to compare."
        return model, trace, Applied((), problems, left)
    try:
        edited = traced(name, prompt, mask, trace.part, target, edits=edits, kind="edited", can_stop=True)
    except Stopped:
        raise
    except vm.VizError as error:
        return model, trace, Applied((), problems, told(str(error)))
    return edited_model(name, edits), edited, Applied(edits, problems, part=trace.part)


def _choose_model() -> vm.Model:
    names = model_names()
    wanted = arriving("model") or st.session_state.get("model")
    if wanted and wanted not in names:
        st.session_state.missing_model = wanted
    name = linked(
        st.sidebar.selectbox,
        "Model",
        names,
        required=True,
        key="model",
        is_always_there=True,
        on_change=_take_model,
    )
    _say_missing(name)
    draw_fetch()
    model = load_model(name)
    config = model.config
    layers = counted(config.n_layers, "layer")
    if model.has_source:
        layers = f"{config.n_encoder_layers} encoder and {config.n_layers} decoder layers"
    kind = f"{model.rounded_to} blocks" if model.rounded_to else model.stored_as  # a fetch has made float32 of blocks
    stored = "stored and" if kind == "float32" else f"stored {BITS.get(kind, f'as {kind}')},"
    computed = "in 32 bits" if model.place.is_plain else model.place.words
    st.sidebar.caption(
        f"{model.transformer.n_parameters():,} parameters · {layers} × {counted(config.n_heads, 'head')} · "
        f"C = {config.d_model}, D = {config.d_head} · {stored} computed {computed}",
        help="C is the width of the residual stream, and D is the width of a head. The parameters are stored as "
        f"{kind}, and the model computes {model.place.words}.\n\n" + explained("parameter", "residual stream", "bit"),
    )
    if config.shares_layers:
        st.sidebar.caption(
            "Several layers have the same parameters. Each of them reads a different residual stream, so each has its "
            "own attention weights."
        )
    if model.has_adapter:
        st.sidebar.caption(
            "The folder of this model also holds an adapter, a small change of some weight matrices. The change is "
            "added: W + (α/r)·B·A. A and B are the small matrices of the adapter, r is their rank, and α is a factor."
        )
    return model


def _say_missing(name: str) -> None:
    """That the model of a link, or the one that was looked at, is not here; until another one is chosen."""
    missing = st.session_state.get("missing_model")
    if missing is not None:
        place = main_picture("missing") if st.context.is_embedded else st.sidebar
        place.warning(
            f"The model {plain(missing[:LONGEST_NAME])} is not here: it was removed, or it cannot be read. You see "
            f"{plain(name)} instead. Choose another model above{', or fetch one on the page Models' * may(FETCH)}.",
            icon=":material/search_off:",
        )


def _take_model() -> None:
    """Another model was chosen."""
    st.session_state.missing_model = None
    try:
        model = load_model(st.session_state.model)
    except vm.VizError:
        return  # the run that follows says what is wrong with it
    _begin_with_its_kind(model)
    _own_masks_stay_own(model)


def _kind_of_text(model: vm.Model) -> str:
    """What a model was trained to read, as far as its prompts are concerned: a translator's own texts, ids, or any."""
    if model.tokenizer is None:
        return "ids"
    return model.name if model.has_source and model.examples else "any"


def _begin_with_its_kind(model: vm.Model) -> None:
    """An example of the former model gives way to one of the new one.

    So does what was typed, where the new one was trained on another kind of text, for it would make nonsense of a
    sentence in silence. What was typed is kept, and comes back with a model of its kind.
    """
    examples, former = _examples(model), st.session_state.get("examples", EXAMPLES)
    kind, before = _kind_of_text(model), st.session_state.get("kind_of_text", "any")
    typed, kept = st.session_state.get("prompt"), st.session_state.setdefault("kept_prompts", {})  # by their kind
    is_own = bool(typed) and typed not in former.values()
    if examples == former or (is_own and kind == before):
        return
    if kind != before:
        kept[before] = typed if is_own else None
    prompt = (kept.get(kind) if kind != before else None) or next(iter(examples.values()))
    st.session_state.began_with = (prompt, st.session_state.looked_at) if is_own else None
    choose(prompt=prompt, cell=None)


def _say_kept(model: vm.Model, prompt: str) -> None:
    """That the former model's prompt is kept, until another one is chosen."""
    began, former = st.session_state.get("began_with") or ("", "")
    if prompt and prompt == began and former != st.session_state.model:
        st.sidebar.info(
            f"{plain(model.name)} was trained on another kind of text, so you see a prompt of that kind. Your prompt "
            f"comes back when you choose {plain(former)} again.",
            icon=":material/undo:",
        )


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
    prompt = linked(
        st.sidebar.text_area,
        "Prompt",
        next(iter(_examples(model).values())),
        key="prompt",
        is_always_there=True,
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
    _say_kept(model, prompt)
    st.session_state.examples, st.session_state.looked_at = _examples(model), st.session_state.model
    st.session_state.kind_of_text = _kind_of_text(model)
    st.sidebar.menu_button(
        "Examples",
        list(st.session_state.examples),
        key="example",
        on_click=_take_example,
        width="stretch",
        icon=":material/list:",
    )
    return prompt


def _take_example() -> None:
    """With a cell of its own, for the former one may say nothing there."""
    choose(prompt=st.session_state.examples[st.session_state.example], cell=None)


def _choose_how_sent(model: vm.Model, typed: str) -> Prompt:
    """What the model reads: the text that was typed, or its tokens in the chat template of a model that has one."""
    if not (typed and model.tokenizer and model.tokenizer.has_chat):
        return typed
    how = linked(
        st.sidebar.segmented_control,
        "How the prompt is sent",
        SENT,
        default=SENT[0],
        required=True,
        key="sent",
        width="stretch",
        help="**raw**: the model reads exactly what you typed.\n\n**chat**: the model reads your text as a message in "
        "a chat. It was trained with a template for chats, which puts more tokens around the text.",
    )
    return model.chat(typed) if how == "chat" else typed  # a template may fail: only where it is asked


def _choose_target(model: vm.Model) -> str | None:
    """What the decoder of an encoder-decoder shall read; None for what the model writes by itself."""
    if not model.has_source:
        return None
    text = linked(
        st.sidebar.text_input,
        "What the decoder reads",
        key="target",
        max_chars=LONGEST_TARGET,
        placeholder="empty: what the model writes",
        help="This text is called the target. The decoder reads a start token and then this text, and the model "
        "predicts the next token. If the box is empty, the model writes the target itself, taking the likeliest token "
        "each time.",
    )
    return text or None


def _choose_part(model: vm.Model) -> str:
    """Which attention of an encoder-decoder is looked at."""
    if model.has_source:
        linked(
            st.sidebar.segmented_control,
            "Attention",
            model.config.parts,
            default="cross",
            required=True,
            key="part",
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
    mask = linked(
        st.sidebar.segmented_control,
        "Mask",
        choices,
        key="mask",
        required=True,
        default=own,
        width="stretch",
        help=explained("mask"),
    )
    if mask != own:
        there = "" if part == "self" else f" {'in cross-attention' if part == 'cross' else f'in its {part}'}"
        st.sidebar.caption(f"{plain(model.name)} was trained with the {own} mask{there}, not with this one.")
    return mask


def _say_length(model: vm.Model, prompt: Prompt, typed: str) -> None:
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
        cut = f"the first {MOST_WRITTEN} tokens of " if len(written) == MOST_WRITTEN else ""
        st.sidebar.caption(f"The decoder reads {cut}the model's own output: {plain(sentence(text))}")


def _say_segments(model: vm.Model, trace: vm.Trace) -> None:
    """Where the text is a pair to the model, which second text it reads."""
    segments = model.segments(trace.read.ids)
    if 1 in segments:
        place = segments.index(1)
        separator = labels(trace.read.pieces)[place - 1]
        st.sidebar.caption(
            f"The model reads two texts. The tokens up to {plain(separator)} are in segment 0, and the tokens after it "
            "are in segment 1."
        )


def _choose_head_and_tokens(model: vm.Model, trace: vm.Trace) -> dict[str, int]:
    """Layer, head, query and key: those of the part that is looked at."""
    (layer, head), (query, key) = fit_head_and_cell(model, trace)
    left, right = st.sidebar.columns(2)
    half_of_pair(left, "Layer", "head", 0, trace.n_layers - 1, key="layer", help=explained("layer"))
    half_of_pair(right, "Head", "head", 1, trace.config.n_heads - 1, key="head", help=explained("head"))
    half_of_pair(left, "Query", "cell", 0, trace.length - 1, key="query", help=explained("query"))
    half_of_pair(right, "Key", "cell", 1, trace.key_length - 1, key="key", help=explained("key", "value"))
    queries, keys = labels(trace.token_bytes), labels(trace.key_token_bytes)
    st.sidebar.caption(f"query {plain(queries[query])}  \nkey {plain(keys[key])}")
    _say_window(trace, layer)
    return {"layer": layer, "head": head, "query": query, "key": key}


def _say_window(trace: vm.Trace, layer: int) -> None:
    """Where a layer's own mask is narrower than its name says: some look no further than a window (Mistral, Gemma)."""
    reach = window_in(trace.mask(layer), trace.mask_name)
    if reach is not None:
        st.sidebar.caption(
            f"In layer {layer} the mask is a sliding window: a query reads at most {counted(reach, 'key')}."
        )
