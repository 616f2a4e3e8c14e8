"""Model: the one face that the pages know: name, facts, tokenizer, trace, generate."""

import operator
from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor

from viz_model import masks
from viz_model.errors import MaskError, PromptError
from viz_model.generation import Step, generate
from viz_model.hooks import capture
from viz_model.tokenizer import Tokenizer
from viz_model.trace import Trace
from viz_model.transformer import Transformer, TransformerConfig

# Weights of all heads up to this size are kept as they were computed; above, heads are derived one by one.
STORED_WEIGHTS_BYTES = 64 * 1024**2

ALWAYS_HELD = ("embed*", "*.q", "*.k", "*.v", "*.mask", "*.resid_*", "final_norm", "logits")
HELD_WHEN_SMALL = ("*.raw", "*.scores", "*.weights", "*.mixed", "*.attn.out")


class Model:
    """A Transformer with its tokenizer. Shared by all threads: nothing in it changes after loading."""

    def __init__(
        self,
        name: str,
        transformer: Transformer,
        tokenizer: Tokenizer | None = None,
        measured_heads: dict | None = None,
    ):
        self.name, self.transformer, self.tokenizer = name, transformer, tokenizer
        self.measured_heads = measured_heads or {}

    @property
    def config(self) -> TransformerConfig:
        return self.transformer.config

    def encode(self, prompt: str | Sequence[int]) -> list[int]:
        """The prompt as ids; raises PromptError when it is empty, too long or outside the vocabulary."""
        if isinstance(prompt, str):
            if self.tokenizer is None:
                raise PromptError(f"The model {self.name} has no tokenizer. Give token ids, not text.")
            ids = self.tokenizer.encode(prompt)
        else:
            if not isinstance(prompt, Iterable):
                raise PromptError(f"A prompt is text or a list of token ids, not {prompt!r}.")
            ids = [_whole_number(token) for token in prompt]
        if not ids:
            raise PromptError("The prompt is empty. Type at least one character.")
        if len(ids) > self.config.context_length:
            raise PromptError(
                f"The prompt has {len(ids):,} tokens, but {self.name} reads at most "
                f"{self.config.context_length:,}. Shorten it by {len(ids) - self.config.context_length:,}."
            )
        strange = [token for token in ids if not 0 <= token < self.config.vocab_size]
        if strange:
            last = self.config.vocab_size - 1
            raise PromptError(f"There is no token {strange[0]}: ids go from 0 to {last}.")
        return ids

    def token_bytes(self, ids: Sequence[int]) -> list[bytes]:
        """The bytes of each token; of a model without tokenizer, its id in angle brackets."""
        if self.tokenizer is None:
            return [f"<{token}>".encode() for token in ids]
        return [self.tokenizer.token_bytes(token) for token in ids]

    def trace(
        self,
        prompt: str | Sequence[int],
        mask: str | Tensor | None = None,
        stored_weights_bytes: int = STORED_WEIGHTS_BYTES,
    ) -> Trace:
        """Run the prompt (text or ids) once and hold what attention made of it.

        mask: None for the model's own, a name of `masks.NAMES`, or booleans (T,T), True where a query may
        attend. Scores and weights of all heads are kept as computed while the weights take at most
        `stored_weights_bytes`, else derived when asked for.

        Raises PromptError and MaskError with sentences fit for the screen.
        """
        ids = self.encode(prompt)
        config = self.config
        weights_bytes = 4 * config.n_layers * config.n_heads * len(ids) ** 2
        small = HELD_WHEN_SMALL if weights_bytes <= stored_weights_bytes else ()
        with torch.inference_mode(), capture(*ALWAYS_HELD, *small) as found:
            allowed, mask_name = self._mask(mask, len(ids))
            self.transformer(torch.tensor([ids]), mask=allowed)
        pieces = self.token_bytes(ids)
        return Trace(
            config=config,
            ids=tuple(ids),
            tokens=tuple(piece.decode(errors="replace") for piece in pieces),
            token_bytes=tuple(pieces),
            mask_name=mask_name,
            tensors={name: _without_batch(name, tensor) for name, tensor in found.items()},
            unembed=self.transformer.unembed,
        )

    def generate(self, prompt: str | Sequence[int], **choices) -> Iterator[Step]:
        """Continue the prompt token by token; see `generation.generate` for the choices."""
        return generate(self, prompt, **choices)

    def _mask(self, mask: str | Tensor | None, length: int) -> tuple[Tensor, str]:
        if mask is None or isinstance(mask, str):
            name = self.config.mask if mask is None else mask
            return masks.named(name, length), name
        wanted = f"A mask for {length} tokens is a tensor of booleans of shape ({length}, {length})"
        if not isinstance(mask, Tensor):
            raise MaskError(f"{wanted}, or one of the names {', '.join(masks.NAMES)}; this is none of them.")
        if mask.dtype != torch.bool or mask.shape != (length, length):
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
    return tensor if name.endswith(".mask") else tensor[0]
