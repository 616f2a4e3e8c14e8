"""Prompts: what a model reads as ids, of a text or of numbers, and what its tokens are called."""

import operator
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

from viz_model.arguments import of_type, said, switch, text
from viz_model.errors import PromptError
from viz_model.model.tokenizer import Tokenizer
from viz_model.model.writing_rules import WritingRules
from viz_model.transformer.facts import ModelFacts
from viz_model.transformer.host import Host


@dataclass(frozen=True)
class Tokens:
    """A text as a model reads it: ids and the bytes of each."""

    ids: tuple[int, ...]
    pieces: tuple[bytes, ...]

    @property
    def texts(self) -> tuple[str, ...]:
        """The bytes as text; those that are no complete character become U+FFFD."""
        return tuple(piece.decode(errors="replace") for piece in self.pieces)

    def __len__(self) -> int:
        return len(self.ids)


Prompt = str | Sequence[int] | Tokens

MOST_IDS = 1_000_000  # of a list; a list may have no end


def empty_prompt(what: str = "The prompt") -> PromptError:
    """The error for a prompt without a character; `what` is how the sentence calls it."""
    return PromptError(f"{what} is empty. Type at least one character.")


class PromptReader:
    """A Transformer with its tokenizer. Shared by all threads: nothing in it changes after loading.

    edits: what was changed in its passes, see `Model.edited`.
    """

    edits: tuple = ()

    def __init__(
        self,
        name: str,
        transformer: Host,
        tokenizer: Tokenizer | None = None,
        measured_heads: dict | None = None,
        examples: dict[str, str] | None = None,
    ):
        of_type("The transformer", transformer, Host, "a Transformer, or another host of a model")
        self.name, self.transformer, self.tokenizer = text("The name", name), transformer, tokenizer
        self.measured_heads = {} if measured_heads is None else measured_heads
        self.examples = {} if examples is None else examples  # prompts of its own kind, by what they are called
        self.stored_as = "float32"  # the precision of its weights on disk; computed is in float32
        self.has_adapter = False  # whether the weights are a base model's with an adapter merged into them
        self.rounded_to = ""  # the kind of GGUF blocks that its weights were in before, such as "Q4_1"

    @property
    def config(self) -> ModelFacts:
        return self.transformer.config

    @property
    def has_source(self) -> bool:
        """Whether a prompt is the source of an encoder-decoder, which then writes a text of its own."""
        return self.config.layout == "encoder-decoder"

    @property
    def end_token(self) -> int | None:
        """The id that says a text is at its end; None where no token does."""
        return None if self.tokenizer is None else self.tokenizer.end_of_text

    @property
    def end_tokens(self) -> frozenset[int]:
        """Every id that says so; some models have several."""
        return frozenset() if self.end_token is None else frozenset({self.end_token})

    @property
    def mask_token(self) -> int | None:
        """The id that stands in the place of a hidden token; None where no token does."""
        return None if self.tokenizer is None else self.tokenizer.mask

    @property
    def signs(self) -> frozenset[int]:
        """Ids that stand for no piece of a text, such as [CLS]."""
        return frozenset() if self.tokenizer is None else self.tokenizer.signs

    @property
    def start_token(self) -> int:
        """The id that the decoder of an encoder-decoder reads first: the end of the text before, or the last id."""
        return self.config.vocab_size - 1 if self.end_token is None else self.end_token

    @property
    def writing_rules(self) -> WritingRules:
        """What is forbidden or fixed where it writes, whatever its logits say; a model may have no rule."""
        return WritingRules()

    @property
    def example_ids(self) -> str:
        """Ids as they are written in place of a text: the first of the vocabulary, twice."""
        several = [*range(min(8, self.config.vocab_size, self.config.context_length))]
        return " ".join(map(str, [*several, *several][: self.config.context_length]))

    def encode(self, prompt: Prompt) -> list[int]:
        """The prompt as ids; raises PromptError when it is empty, too long or outside the vocabulary."""
        ids = self.ids(prompt)
        if not ids:
            raise empty_prompt()
        self._refuse_long("The prompt", ids)
        return ids

    def encode_target(self, target: Prompt) -> list[int]:
        """What a decoder shall read, as ids: of a text, the start token before it; ids are all that it reads.

        Raises PromptError as `encode`, and where the model has no source.
        """
        if not self.has_source:
            raise PromptError(f"{self.name} reads one text only, so it has no target. Leave it out.")
        ids = [self.start_token, *self.ids(target, special=False)] if isinstance(target, str) else self.ids(target)
        if not ids:
            raise PromptError("The target is empty: a decoder reads at least the start token.")
        self._refuse_long("The target", ids)
        return ids

    def token_bytes(self, ids: Sequence[int]) -> list[bytes]:
        """The bytes of each token; of a model without tokenizer, its id in angle brackets. Errors as `ids`."""
        ids = self.ids(ids)
        if self.tokenizer is None:
            return [f"<{token}>".encode() for token in ids]
        return [self.tokenizer.token_bytes(token) for token in ids]

    def pieces(self, prompt: Prompt, *, special: bool = True) -> list[bytes]:
        """What each token of a prompt stands for: of a text, the part of it; of ids, what each is alone.

        Put together, the tokens of a text are the text. Raises PromptError as `ids`.
        """
        switch("special", special)
        if isinstance(prompt, Tokens):
            return [*prompt.pieces]
        if isinstance(prompt, str) and self.tokenizer is not None:
            return self.tokenizer.pieces(prompt, special=special)
        return self.token_bytes(self.ids(prompt))

    def target_pieces(self, target: Prompt | None, ids: Sequence[int]) -> list[bytes]:
        """What each of the ids that a decoder reads stands for; a text has the start token before it."""
        if isinstance(target, str):
            return [*self.token_bytes(ids[:1]), *self.pieces(target, special=False)]
        return self.token_bytes(ids) if target is None else self.pieces(target)

    def chat(self, text: str) -> Tokens | None:
        """The text as a user's message in the model's chat template, ready for an answer; None where there is none.

        Its tokens, put together, are what the template makes of the text. Raises PromptError where it refuses it.
        """
        written = None if self.tokenizer is None else self.tokenizer.in_chat(text)
        if written is None:
            return None
        ids = self.tokenizer.encode(written, special=False)
        return Tokens(tuple(ids), tuple(self.tokenizer.pieces(written, special=False)))

    def segments(self, ids: Sequence[int]) -> list[int]:
        """To which of two texts the model takes each token to belong, 0 or 1; all 0 where it tells none apart."""
        return [0 for _ in self.ids(ids)]

    def ids(self, prompt: Prompt, *, special: bool = True) -> list[int]:
        """The prompt as ids, however many; of a model without tokenizer, the ids that a text writes: "12 7 99".

        special: with the control tokens that the model expects around a text. Raises PromptError for what is no text
        to this model, or no token of it.
        """
        switch("special", special)
        if isinstance(prompt, str):
            if self.tokenizer is None:
                return self.ids(self._written_ids(prompt))
            return self.tokenizer.encode(prompt, special=special)
        prompt = prompt.ids if isinstance(prompt, Tokens) else prompt
        ids = [_id(token) for token in _listed(prompt)]
        strange = [token for token in ids if not 0 <= token < self.config.vocab_size]
        if strange:
            last = self.config.vocab_size - 1
            raise PromptError(f"There is no token {said(strange[0])}: ids go from 0 to {last}.")
        return ids

    def _written_ids(self, text: str) -> list[int]:
        numbers = re.split(r"[\s,]+", text.strip(" \t\n\r,"))
        if not all(re.fullmatch(r"[0-9]{1,9}", number) for number in numbers):
            raise PromptError(
                f"The model {self.name} has no tokenizer, so it cannot read text. Give token ids, whole numbers "
                f"from 0 to {self.config.vocab_size - 1}, such as {self.example_ids}."
            )
        return [int(number) for number in numbers]

    def _refuse_long(self, what: str, ids: list[int]) -> None:
        longest = self.config.context_length
        if (more := len(ids) - longest) > 0:
            raise PromptError(
                f"{what} has {len(ids):,} tokens, but {self.name} reads at most {longest:,}. Shorten it by "
                f"{more:,} token{'s' * (more != 1)}."
            )


def _listed(prompt: object) -> list:
    """What a prompt that is no text lists."""
    try:
        found = [*islice(prompt, MOST_IDS + 1)] if isinstance(prompt, Iterable) else None
    except Exception:  # what looks like a list, and is none: a tensor without an axis
        found = None
    if found is None:
        raise PromptError(f"A prompt is text or a list of token ids, not {said(prompt)}.")
    if len(found) > MOST_IDS:
        raise PromptError(f"The prompt is too long: it lists more than {MOST_IDS:,} tokens.")
    return found


def _id(token: object) -> int:
    """An id of any integer type (numpy's, torch's) as int; booleans and fractions are none."""
    with suppress(Exception):  # each library has its own word for a thing that is no number
        if not isinstance(token, bool):
            return operator.index(token)
    raise PromptError(f"A token id is a whole number, not {said(token)}.")
