"""The two prompts of the page Patching, their answers, and the passes over both."""

from dataclasses import dataclass

import streamlit as st

import viz_model as vm
from pages.patching.examples import EXAMPLES, PromptPair, examples
from viz_model.heads.alignment import Alignment, align, shared_start
from viz_model.heads.comparison import single_token, with_token
from viz_model.intervention.contrast import telling_answers
from viz_model.model.prompts import Tokens
from viz_ui.frame.address import begins_without, choose, linked
from viz_ui.frame.passes import Prompt
from viz_ui.frame.view import View, choose_cell, traced
from viz_ui.look.glossary import explained
from viz_ui.look.text import plain, shown
from viz_ui.parts.aligned import draw_aligned_texts
from viz_ui.parts.other_prompt import with_one_token_replaced

LONGEST_PROMPT, LONGEST_ANSWER = 4000, 100  # characters
CLEAN, CORRUPTED = "clean", "corrupted"
TYPED = {"·": " ", "⏎": "\n", "⇥": "\t"}  # as labels show them, so that they can be typed as they are seen


@dataclass(frozen=True, eq=False)
class ComparedRuns:
    """Both passes, seen through the part that is looked at; the two answers as ids; and the position in the clean
    prompt where the answer is read. is_hidden: whether an encoder reads a mask token there."""

    clean: vm.Trace
    corrupted: vm.Trace
    good: int
    bad: int
    position: int
    is_hidden: bool

    @property
    def traces(self) -> dict[str, vm.Trace]:
        return {CLEAN: self.clean, CORRUPTED: self.corrupted}

    @property
    def alignment(self) -> Alignment:
        return align(self.clean.ids, self.corrupted.ids)

    @property
    def key_alignment(self) -> Alignment:
        return align(self.clean.key_ids, self.corrupted.key_ids)

    @property
    def key(self) -> tuple:
        """What tells this pair from others: strings and numbers only."""
        passes = [(trace.read.ids, trace.source and trace.source.ids) for trace in self.traces.values()]
        edits = tuple(edit.written for edit in self.clean.edits)
        masks, answers = tuple(self.clean.mask_names.items()), (self.good, self.bad, self.position)
        return *passes, masks, self.clean.part, *answers, edits


def draw_other_prompt(view: View) -> str:
    """The box with the corrupted prompt, and the pairs that there are for this model; gives the text."""
    found = _found_for(view)
    # What nobody typed follows the clean prompt.
    if st.session_state.get("other") in (None, "", st.session_state.get("found_other")):
        st.session_state["other"] = found
    st.session_state["found_other"] = found
    pairs = {pair.words: pair for pair in examples(view.model)}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        other = linked(
            st.text_input,
            "Corrupted prompt",
            found,
            key="other",
            max_chars=LONGEST_PROMPT,
            is_always_there=True,
            help="The clean prompt is the one in the sidebar. Empty this box to get the clean prompt with one token "
            "replaced.\n\n" + explained("clean run"),
        )
        if pairs:
            st.menu_button("Pairs of prompts", list(pairs), key="pair", on_click=_take_pair, icon=":material/list:")
    if view.model.name not in EXAMPLES:
        st.caption(
            f"These pairs were tried with tiny-gpt and tiny-llama. With {plain(view.model.name)} they may show less."
            if pairs
            else f"No pair of prompts was tried with {plain(view.model.name)}, so this one may show little: it is your "
            "prompt with one token replaced."
        )
    return other or found


def begin_with_pair(view: View) -> None:
    """Whoever comes with a prompt that nobody typed begins with a pair of prompts that teaches; after the widgets."""
    pairs = examples(view.model)
    is_untouched = st.session_state.prompt in {*st.session_state.examples.values()} - {pair.clean for pair in pairs}
    if pairs and is_untouched and begins_without("prompt", "other"):
        _take(pairs[0])
        st.rerun()


def _take_pair() -> None:
    view = st.session_state["view"]
    _take(next(pair for pair in examples(view.model) if pair.words == st.session_state.pair))


def _take(pair: PromptPair) -> None:
    answers = {"clean_answer": "", "corrupted_answer": ""}
    choose(prompt=pair.clean, other=pair.corrupted, head=pair.head, cell=pair.cell, **answers)


def _found_for(view: View) -> str:
    """The corrupted prompt that goes with the clean one, where nobody typed one."""
    typed = st.session_state.prompt
    known = {pair.clean: pair.corrupted for pair in examples(view.model)}
    return known.get(typed) or with_one_token_replaced(view) or typed


def draw_answers() -> tuple[str, str]:
    """The boxes of both answers; gives what was typed, empty where the answer is found."""
    words = "Type one token. A dot stands for a space. If this box is empty, the answer is found by itself: it is the "
    rest = "token whose probability in {} is furthest above its probability in the other run."
    return tuple(
        linked(
            st.text_input,
            f"{name.capitalize()} answer",
            key=f"{name}_answer",
            max_chars=LONGEST_ANSWER,
            placeholder="automatic",
            width=130,
            help=words + rest.format(f"the {name} run"),
        )
        for name in (CLEAN, CORRUPTED)
    )


def pair_of(view: View, other: str, answers: tuple[str, str]) -> ComparedRuns:
    """The passes over both prompts. Raises VizError with a sentence where they cannot be compared."""
    if other == st.session_state.prompt:
        raise vm.VizError("Both prompts are the same, so nothing can be put from one run into the other. Change one.")
    sent = view.model.chat(other) if isinstance(view.prompt, Tokens) else other
    is_encoder, hidden = view.model.config.layout == "encoder-only", view.model.mask_token
    if is_encoder and hidden is not None:
        clean, corrupted = (_pass(view, _last_hidden(view.model, text)) for text in (view.prompt, sent))
    elif view.model.has_source and view.target is None:
        written = [view.trace.read.ids, _pass(view, sent).read.ids]
        target = tuple(shared_start(*written))
        clean, corrupted = (_pass(view, text, target) for text in (view.prompt, sent))
    else:
        clean, corrupted = view.trace, _pass(view, sent, view.target)
    stack = view.model.config.self_part
    position = _last(view.model, clean.of(stack).ids) if is_encoder else clean.of(stack).length - 1
    place = dict(align(clean.of(stack).ids, corrupted.of(stack).ids).pairs).get(position, -1)
    if not view.model.config.has_unembedding:
        raise vm.VizError(
            f"{view.model.name} predicts no token, so there is no answer. Choose a model such as tiny-gpt."
        )
    found = telling_answers(clean.of(stack).logits_at(position), corrupted.of(stack).logits_at(place))
    good, bad = (
        single_token(view.model, "".join(TYPED.get(sign, sign) for sign in typed)) if typed else of_itself
        for typed, of_itself in zip(answers, found, strict=True)
    )
    return ComparedRuns(clean, corrupted, good, bad, position, is_encoder and hidden is not None)


def _pass(view: View, prompt: Prompt, target: str | tuple[int, ...] | None = None) -> vm.Trace:
    kept = {"kind": "patched", "most": 4, "can_stop": True}
    try:
        return traced(view.name, prompt, view.trace.mask_name, view.part, target, edits=view.edits, **kept)
    except vm.EditError as error:
        raise vm.EditError(
            f"Both prompts are read with your edits, and one of these edits does not fit the corrupted prompt. {error} "
            "You can also switch that edit off in the list of edits."
        ) from error


def _last_hidden(model: vm.Model, prompt: Prompt) -> Tokens:
    """The prompt with its last token hidden: an encoder names the token of each place, and would see it there."""
    ids = tuple(model.ids(prompt))
    place = _last(model, ids)
    pieces = model.pieces(prompt)
    pieces[place] = model.token_bytes([model.mask_token])[0]
    return Tokens(with_token(ids, place, model.mask_token), tuple(pieces))


def _last(model: vm.Model, ids: tuple[int, ...]) -> int:
    """The position of the last token that stands for text."""
    return max((n for n, token in enumerate(ids) if token not in model.signs), default=len(ids) - 1)


def draw_aligned(view: View, pair: ComparedRuns) -> None:
    """The prompts one above the other; a click chooses the query."""
    draw_aligned_texts(
        pair.alignment.places,
        tuple(trace.token_bytes for trace in pair.traces.values()),
        (CLEAN, CORRUPTED),
        chosen=view.query,
        key="aligned",
        on_pick=lambda token: choose_cell(query=token),
    )
    if view.model.has_source and view.target is None:
        st.caption(
            "The model writes an output for each of the two prompts. In both runs, the decoder then reads the same "
            "target: the tokens that both outputs begin with. The answer is the token that comes next."
        )
    if pair.is_hidden:
        st.caption("The last token of both prompts is hidden from the model, and the answer is what it guesses there.")
    if not pair.alignment.is_whole:
        st.caption(
            f"The prompts have {pair.clean.length} and {pair.corrupted.length} tokens. Only the tokens that both begin "
            "with, and those that both end with, are aligned. No value is put in at the tokens between them. The "
            "tokens that are aligned at the end stand at different positions in the two prompts. So a value that is "
            "put in there was computed at another position."
        )


def answer_words(view: View, pair: ComparedRuns) -> tuple[str, str]:
    """The two answers, as Markdown."""
    return tuple(plain(shown(piece) or "∅") for piece in view.model.token_bytes([pair.good, pair.bad]))
