"""What the reader chooses on the page Switch off: what stands in the place of a unit, and which effect is looked at."""

from collections.abc import Callable
from dataclasses import dataclass

import streamlit as st
from torch import Tensor

import viz_model as vm
from viz_model.intervention.ablation import Ablation
from viz_model.intervention.replacement import MEAN, OTHER, TEXT_MEAN, ZERO, Values
from viz_model.model.prompts import Tokens
from viz_model.training.held_out import long_rows
from viz_ui.frame.address import linked
from viz_ui.frame.view import View, traced
from viz_ui.look.glossary import explained
from viz_ui.look.text import counted, number, plain, sentence
from viz_ui.parts.other_prompt import with_one_token_replaced
from viz_ui.parts.token_choice import choose_token, token_words

WAYS = {"zero": ZERO, "its mean over the prompt": MEAN, "its mean over a text": TEXT_MEAN, "another prompt": OTHER}
PREDICTION, LOGIT, DIFFERENCE, LOSS = "prediction", "logit", "two logits", "loss"
EFFECTS = (PREDICTION, LOGIT, DIFFERENCE, LOSS)
LONGEST = 4000  # characters
STRETCHES, STRETCH = 4, 256  # of the held-out text: so many of so many tokens
BOX_PIXELS = 230
LIKELIEST = 10
ROUNDINGS = 10  # an effect of less than so many times what a pass without any edit differs by is called rounding


@dataclass(frozen=True)
class Replaced:
    """What stands in the place of a unit. how: one of `viz_model.intervention.replacement.HOW`.

    key: what tells this choice from others. words: what the values are of, as Markdown. values: what `ablate` is given.
    """

    how: str
    key: tuple
    words: str = ""
    values: Callable[[], Values] | None = None


def draw_replaced(view: View) -> Replaced:
    """The box for the way, and where it needs a text the box for that; raises VizError where there is none yet."""
    way = linked(
        st.segmented_control,
        "What stands in its place",
        list(WAYS),
        default="zero",
        required=True,
        key="instead",
        help="For a head, its mixed values are replaced at every token. For a feed-forward or a whole layer, "
        "what it adds to the residual stream is replaced.\n\n"
        "- **zero**: nothing is written.\n"
        "- **its mean over the prompt**: the mean of what it writes, the same at every token. Only the differences "
        "between the tokens are lost. Wang et al. 2022, “Interpretability in the Wild”, §2.3.\n"
        "- **its mean over a text**: the mean of what it writes at all tokens of another text. All that is special to "
        "this prompt is lost.\n"
        "- **another prompt**: what it writes at the same token of another prompt. Only the differences between the "
        "two prompts are lost.\n\n" + explained("residual stream", "value"),
    )
    how = WAYS[way]
    if how == TEXT_MEAN:
        return _text(view)
    if how == OTHER:
        return _other(view)
    return Replaced(how, (how,))


def _text(view: View) -> Replaced:
    typed = linked(
        st.text_input,
        "The text of the mean",
        key="mean_text",
        max_chars=LONGEST,
        placeholder="examples of this model" if view.model.has_source else "text that was held out from training",
        help=f"If this box is empty, the mean is taken over {STRETCHES} stretches of up to {STRETCH} tokens. They come "
        "from the text that was held out from the training of this model, or of tiny-gpt if this model has no such "
        "text. For an encoder-decoder, the mean is taken over its example texts.",
    )
    if typed:
        return Replaced(TEXT_MEAN, (TEXT_MEAN, typed), "the text that you typed", lambda: typed)
    if view.model.has_source:
        texts = [*view.model.examples.values()]
        if not texts:
            raise vm.VizError("This model has no example texts. Type a text to take the mean over.")
        return Replaced(TEXT_MEAN, (TEXT_MEAN,), f"the example texts of {plain(view.model.name)}", lambda: texts)
    length = min(STRETCH, view.model.config.context_length)
    words = f"{counted(STRETCHES, 'stretch', 'stretches')} of text that was held out from training"

    def rows() -> list[list[int]]:
        return long_rows(view.model, view.name, length, STRETCHES)[0].tolist()

    return Replaced(TEXT_MEAN, (TEXT_MEAN,), words, rows)


def _other(view: View) -> Replaced:
    found = with_one_token_replaced(view)
    typed = linked(
        st.text_input,
        "The other prompt",
        key="other_prompt",
        max_chars=LONGEST,
        placeholder=found,
        help="If this box is empty, the other prompt is yours with one token replaced. Values are put in token by "
        "token, so the other prompt should have as many tokens as yours. If the numbers differ, values are put in only "
        "at the tokens that both prompts begin with and at those that both end with.",
    )
    text = typed or found
    if not text:
        raise vm.VizError("Type another prompt, best with as many tokens as this one. Its values will be put in.")
    words = "" if typed else f"The other prompt is yours with one token replaced: “{plain(sentence(text))}”."
    sent = view.model.chat(text) if isinstance(view.prompt, Tokens) else text
    target = view.trace.read.ids if view.model.has_source else None
    kept = {"kind": "other_prompt", "most": 2, "can_stop": True}
    other = traced(view.name, sent, view.trace.mask_name, view.part, target, edits=view.edits, **kept)
    return Replaced(OTHER, (OTHER, other.ids, other.key_ids), words, lambda: other)


@dataclass(frozen=True)
class Effect:
    """One of `EFFECTS`; token, than: as ids, of the logits that are looked at, and names: what they are called."""

    kind: str
    token: int | None = None
    than: int | None = None
    names: tuple[str, ...] = ()

    @property
    def has_sign(self) -> bool:
        return self.kind != PREDICTION

    @property
    def unit(self) -> str:
        """ " bits", or "" of logits, which have none."""
        return {PREDICTION: " bits", LOSS: " nats"}.get(self.kind, "")

    @property
    def subject(self) -> str:
        """What changes, at the beginning of a sentence, as Markdown."""
        if self.kind == LOGIT:
            return f"The logit of “**{plain(self.names[0])}**”"
        if self.kind == DIFFERENCE:
            return f"The logit of “**{plain(self.names[0])}**” minus that of “**{plain(self.names[1])}**”"
        return "The mean loss of the prompt" if self.kind == LOSS else "The prediction"

    @property
    def object(self) -> str:
        """The same within a sentence."""
        return self.subject[:1].lower() + self.subject[1:]

    @property
    def title(self) -> str:
        """Of a picture."""
        if self.kind == LOGIT:
            return f"change of the logit of “{self.names[0]}”"
        if self.kind == DIFFERENCE:
            return f"change of logits: “{self.names[0]}” − “{self.names[1]}”"  # short: two pictures stand in a row
        return "change of the loss, nats per token" if self.kind == LOSS else "change of the prediction, bits"

    def of(self, found: Ablation) -> Tensor:
        """(L,K)."""
        if self.kind == PREDICTION:
            return found.kl
        return found.loss_change if self.kind == LOSS else found.logit_change(self.token, self.than)

    def rounding(self, found: Ablation) -> float:
        """Below this an effect is rounding."""
        if self.kind == PREDICTION:
            return ROUNDINGS * found.kl_rounding
        return ROUNDINGS * (found.loss_rounding if self.kind == LOSS else found.logit_rounding(self.token, self.than))

    def words(self, value: float) -> str:
        """ "changes by 0.2 bits", "falls by 1.3": without the subject, as Markdown."""
        if not self.has_sign:
            return f"changes by **{number(value)}{self.unit}**"
        return f"{'rises' if value > 0 else 'falls'} by **{number(abs(value))}{self.unit}**"

    def range_words(self, low: float, high: float) -> str:
        """ "by 0.1 to 0.3 bits"; with signs, where there are any."""
        first, last = (self.signed(end) for end in (low, high))
        return f"by {first}{self.unit}" if first == last else f"by {first} to {last}{self.unit}"

    def signed(self, value: float) -> str:
        return ("+" if self.has_sign and value > 0 else "") + number(value)


def draw_effect(view: View, logits: Tensor) -> Effect:
    """The boxes for the effect, and for the tokens whose logits it is of. logits (V,): of the pass as it was."""
    kind = linked(
        st.segmented_control,
        "Which effect",
        EFFECTS,
        default=PREDICTION,
        required=True,
        key="effect",
        help="- **prediction**: how far the prediction moves: KL(everything on‖switched off)\n"
        "- **logit**: how much the logit of one token rises or falls\n"
        "- **two logits**: how much the difference of the logits of two tokens rises or falls\n"
        "- **loss**: how much the mean loss of the prompt rises or falls, in nats per token. The loss of a token is "
        "−ln of the probability that the model gave it\n\n" + explained("KL divergence", "logit", "nat"),
    )
    if kind not in (LOGIT, DIFFERENCE):
        return Effect(kind)
    likely = logits.topk(min(LIKELIEST + 1, len(logits))).indices.tolist()
    token = choose_token(view.model, "Token", likely[:LIKELIEST], key="token", width=BOX_PIXELS)
    if kind == LOGIT:
        return Effect(kind, token, names=(token_words(view.model, token),))
    others = [other for other in likely if other != token][:LIKELIEST]
    than = choose_token(
        view.model, "minus that of", others, key="than_token", why="the likeliest other", width=BOX_PIXELS
    )
    return Effect(kind, token, than, (token_words(view.model, token), token_words(view.model, than)))
