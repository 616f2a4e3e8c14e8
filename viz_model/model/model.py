"""Model: the one face that the pages know: name, facts, tokenizer, trace, generate."""

import operator
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import torch
from torch import Tensor

from viz_model.errors import MaskError, PromptError
from viz_model.model.generation import Step, generate
from viz_model.model.tokenizer import Tokenizer
from viz_model.model.trace import Tokens, Trace
from viz_model.transformer import EncoderDecoder, Transformer, TransformerConfig, masks
from viz_model.transformer.hooks import capture, unwatched

# Weights of all heads up to this size are kept as they were computed; above, heads are derived one by one.
STORED_WEIGHTS_BYTES = 64 * 1024**2

ALWAYS_HELD = ("*.q", "*.k", "*.v", "*.mask")
HELD_WHEN_SMALL = ("*.raw", "*.scores", "*.weights", "*.mixed")
HELD_WHERE_PRESENT = ("*embed*", "*.resid_*", "*final_norm", "logits", "*.q_pre", "*.k_pre", "*.bias", "*.sinks")
HELD_WHERE_PRESENT_WHEN_SMALL = ("*.attn.out", "*.cross.out", "*.capped")

MOST_WRITTEN = 64  # tokens, when an encoder-decoder is asked what it writes itself

Prompt = str | Sequence[int]
Mask = str | Tensor | None


class Model:
    """A Transformer with its tokenizer. Shared by all threads: nothing in it changes after loading."""

    def __init__(
        self,
        name: str,
        transformer: Transformer | EncoderDecoder,
        tokenizer: Tokenizer | None = None,
        measured_heads: dict | None = None,
        examples: dict[str, str] | None = None,
    ):
        self.name, self.transformer, self.tokenizer = name, transformer, tokenizer
        self.measured_heads = measured_heads or {}
        self.examples = examples or {}  # prompts of its own kind, by what they are called
        self.stored_as = "float32"  # the precision of its weights on disk; computed is in float32

    def __repr__(self) -> str:
        heads = f"{self.config.n_layers} layers × {self.config.n_heads} heads"
        return f"<{type(self).__name__} {self.name}: {self.config.layout}, {heads}>"

    @property
    def config(self) -> TransformerConfig:
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
    def start_token(self) -> int:
        """The id that the decoder of an encoder-decoder reads first: the end of the text before, or the last id."""
        return self.config.vocab_size - 1 if self.end_token is None else self.end_token

    @property
    def example_ids(self) -> str:
        """Ids as they are written in place of a text: the first of the vocabulary, twice."""
        several = [*range(min(8, self.config.vocab_size, self.config.context_length))]
        return " ".join(map(str, [*several, *several][: self.config.context_length]))

    def encode(self, prompt: Prompt) -> list[int]:
        """The prompt as ids; raises PromptError when it is empty, too long or outside the vocabulary."""
        ids = self.ids(prompt)
        if not ids:
            raise PromptError("The prompt is empty. Type at least one character.")
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
        """The bytes of each token; of a model without tokenizer, its id in angle brackets."""
        if self.tokenizer is None:
            return [f"<{token}>".encode() for token in ids]
        return [self.tokenizer.token_bytes(token) for token in ids]

    def written(self, prompt: Prompt) -> list[int]:
        """What an encoder-decoder reads when it writes by itself, greedily: the start token and all that follow.

        Up to the end of the text, or `MOST_WRITTEN` tokens. Captures and edits do not reach these passes.
        """
        most = min(MOST_WRITTEN, self.config.context_length - 1)
        with unwatched():
            ids = [self.start_token]
            for step in generate(self, prompt, most, temperature=0.0):
                ids = [*step.ids[:-1]] if step.is_end else [*step.ids]
        return ids

    def trace(
        self,
        prompt: Prompt,
        mask: Mask | Mapping[str, Mask] = None,
        target: Prompt | None = None,
        *,
        stored_weights_bytes: int = STORED_WEIGHTS_BYTES,
    ) -> Trace:
        """Run the prompt (text or ids) once and hold what attention made of it.

        mask: None for the model's own, a name of `masks.NAMES`, or booleans (T,S), True where a query may
        attend. Of an encoder-decoder that is the decoder's on itself; a mapping gives one for each of its parts.
        target: of an encoder-decoder, whose prompt is the source, what the decoder reads (`encode_target`); None is
        what the model itself writes under its own masks (`written`).
        Scores and weights of all heads are kept as computed while the weights take at most
        `stored_weights_bytes`, else derived when asked for.

        Raises PromptError and MaskError with sentences fit for the screen.
        """
        ids, source = self.encode(prompt), None
        if self.has_source:
            ids, source = self.written(ids) if target is None else self.encode_target(target), ids
        elif target is not None:
            self.encode_target(target)  # says why there is none
        small = self._weights_bytes(ids, source) <= stored_weights_bytes
        required = (*ALWAYS_HELD, *HELD_WHEN_SMALL) if small else ALWAYS_HELD
        optional = (*HELD_WHERE_PRESENT, *HELD_WHERE_PRESENT_WHEN_SMALL) if small else HELD_WHERE_PRESENT
        given = {} if source is None else {"source": torch.tensor([source])}
        with torch.inference_mode(), capture(*required, optional=optional) as found:
            allowed, mask_names = self._masks(mask, self._lengths(ids, source))
            self.transformer(torch.tensor([ids]), mask=allowed, **given)
        return Trace(
            config=self.config,
            part=self.config.self_part,
            read=self._tokens(ids),
            source=None if source is None else self._tokens(source),
            mask_names=mask_names,
            tensors={name: _without_batch(name, tensor) for name, tensor in found.items()},
            unembed=self.transformer.unembed,
            equation_of=self.transformer.equation,
        )

    def generate(self, prompt: Prompt, **choices) -> Iterator[Step]:
        """Continue the prompt token by token; see `generation.generate` for the choices."""
        return generate(self, prompt, **choices)

    def ids(self, prompt: Prompt, *, special: bool = True) -> list[int]:
        """The prompt as ids, however many; of a model without tokenizer, the ids that a text writes: "12 7 99".

        special: with the control tokens that the model expects around a text. Raises PromptError for what is no text
        to this model, or no token of it.
        """
        if isinstance(prompt, str):
            if self.tokenizer is None:
                return self.ids(self._written_ids(prompt))
            return self.tokenizer.encode(prompt, special=special)
        if not isinstance(prompt, Iterable):
            raise PromptError(f"A prompt is text or a list of token ids, not {prompt!r}.")
        ids = [_whole_number(token) for token in prompt]
        strange = [token for token in ids if not 0 <= token < self.config.vocab_size]
        if strange:
            last = self.config.vocab_size - 1
            raise PromptError(f"There is no token {strange[0]}: ids go from 0 to {last}.")
        return ids

    def _written_ids(self, text: str) -> list[int]:
        numbers = re.split(r"[\s,]+", text.strip(" \t\n\r,"))
        if not all(re.fullmatch(r"[0-9]{1,9}", number) for number in numbers):
            raise PromptError(
                f"The model {self.name} has no tokenizer, so it reads no words: give the ids of tokens, whole numbers "
                f"from 0 to {self.config.vocab_size - 1}, such as {self.example_ids}."
            )
        return [int(number) for number in numbers]

    def _refuse_long(self, what: str, ids: list[int]) -> None:
        longest = self.config.context_length
        if len(ids) > longest:
            raise PromptError(
                f"{what} has {len(ids):,} tokens, but {self.name} reads at most {longest:,}. Shorten it by "
                f"{len(ids) - longest:,}."
            )

    def _tokens(self, ids: list[int]) -> Tokens:
        return Tokens(tuple(ids), tuple(self.token_bytes(ids)))

    def _lengths(self, ids: list[int], source: list[int] | None) -> dict[str, tuple[int, int]]:
        """T and S of each part."""
        read, from_source = len(ids), len(source or ())
        lengths = {"encoder": (from_source, from_source), "cross": (read, from_source)}
        return {part: lengths.get(part, (read, read)) for part in self.config.parts}

    def _weights_bytes(self, ids: list[int], source: list[int] | None) -> int:
        config, lengths = self.config, self._lengths(ids, source)
        return sum(4 * config.layers_of(part) * config.n_heads * t * s for part, (t, s) in lengths.items())

    def _masks(self, mask: Mask | Mapping[str, Mask], lengths: dict[str, tuple[int, int]]):
        """What the transformer is given, and the name of each part's mask; its own masks it makes itself."""
        chosen = mask if isinstance(mask, Mapping) else {self.config.self_part: mask}
        strange = [part for part in chosen if part not in lengths]
        if strange:
            raise MaskError(f"There is no part '{strange[0]}' for a mask: {self.name} has {', '.join(lengths)}.")
        allowed, names = {}, {}
        for part, (queries, keys) in lengths.items():
            own, asked = self.config.mask_of(part), chosen.get(part)
            is_own = asked is None or (isinstance(asked, str) and asked == own)
            allowed[part], names[part] = (None, own) if is_own else _mask(asked, queries, keys)
        return (allowed if self.has_source else allowed[self.config.self_part]), names


def _mask(mask: str | Tensor, queries: int, keys: int) -> tuple[Tensor, str]:
    if isinstance(mask, str):
        return masks.between(mask, torch.arange(queries), torch.arange(keys)), mask
    wanted = f"A mask for {queries} queries and {keys} keys is a tensor of booleans of shape ({queries}, {keys})"
    if not isinstance(mask, Tensor):
        raise MaskError(f"{wanted}, or one of the names {', '.join(masks.NAMES)}; this is none of them.")
    if mask.dtype != torch.bool or mask.shape != (queries, keys):
        raise MaskError(f"{wanted}; this one is {mask.dtype} of shape {tuple(mask.shape)}.")
    return mask.clone(), "custom"  # a copy: what is drawn later must not change with the caller's


def _whole_number(token: object) -> int:
    """An id of any integer type (numpy's, torch's) as int; booleans and fractions are none."""
    try:
        if not isinstance(token, bool):
            return operator.index(token)
    except TypeError:
        pass
    raise PromptError(f"A token id is a whole number, not {token!r}.")


def _without_batch(name: str, tensor: Tensor) -> Tensor:
    return tensor if name.endswith((".mask", ".bias", ".sinks")) else tensor[0]
