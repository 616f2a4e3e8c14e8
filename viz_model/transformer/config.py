"""TransformerConfig: one skeleton, many models as data. No family name, only fields that branch."""

import math
from dataclasses import dataclass

from viz_model.errors import ConfigError

CHOICES = {
    "layout": ("decoder-only", "encoder-only"),
    "position": ("none", "sinusoidal", "learned", "rotary"),
    "norm": ("layer", "rms"),
    "norm_place": ("pre", "post"),
    "activation": ("gelu", "gelu-tanh", "relu", "swiglu"),
    "rotary_pairs": ("halves", "neighbours"),
}
SWITCHES = ("embedding_norm", "bias", "tied_unembedding")
COUNTS = ("n_layers", "n_heads", "n_kv_heads", "d_model", "d_ff", "vocab_size", "context_length")


@dataclass(frozen=True)
class TransformerConfig:
    """What a Transformer is made of; refused with ConfigError when it contradicts itself.

    n_layers L, n_heads H, n_kv_heads G (None: H), d_model C, d_ff F (None: 4·C), vocab_size V.
    rotary_pairs: which two numbers of a head turn together: i and i + D/2 ("halves", as Llama's
    `transformers` code does) or 2i and 2i + 1 ("neighbours", as in the RoPE paper, Su et al. 2021).
    embedding_norm: a norm right after the embedding, as BERT has.
    """

    n_layers: int
    n_heads: int
    d_model: int
    vocab_size: int
    context_length: int
    n_kv_heads: int | None = None
    d_ff: int | None = None
    layout: str = "decoder-only"
    position: str = "learned"
    norm: str = "layer"
    norm_place: str = "pre"
    norm_epsilon: float = 1e-5
    embedding_norm: bool = False
    activation: str = "gelu-tanh"
    bias: bool = True
    tied_unembedding: bool = True
    rotary_base: float = 10000.0
    rotary_pairs: str = "halves"

    def __post_init__(self):
        self._refuse_unknown_choices()
        self._refuse_bad_numbers()
        object.__setattr__(self, "n_kv_heads", self.n_heads if self.n_kv_heads is None else self.n_kv_heads)
        object.__setattr__(self, "d_ff", 4 * self.d_model if self.d_ff is None else self.d_ff)
        if self.d_model % self.n_heads:
            raise ConfigError(f"d_model {self.d_model} cannot be split into n_heads {self.n_heads} equal heads.")
        if self.n_heads % self.n_kv_heads:
            raise ConfigError(f"n_heads {self.n_heads} is not a multiple of n_kv_heads {self.n_kv_heads}.")
        if self.position == "rotary" and self.d_head % 2:
            raise ConfigError(
                f"position 'rotary' turns pairs of numbers, but d_model / n_heads = {self.d_head} is odd."
            )
        if self.position == "sinusoidal" and self.d_model % 2:
            raise ConfigError(f"position 'sinusoidal' needs an even d_model, not {self.d_model}.")

    def _refuse_unknown_choices(self):
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                raise ConfigError(f"{name} is {getattr(self, name)!r}; it must be one of {', '.join(allowed)}.")
        for name in SWITCHES:
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"{name} is {getattr(self, name)!r}; it must be true or false.")

    def _refuse_bad_numbers(self):
        for name in COUNTS:
            number = getattr(self, name)
            if number is None and name in ("n_kv_heads", "d_ff"):
                continue
            if not isinstance(number, int) or isinstance(number, bool) or number < 1:
                raise ConfigError(f"{name} is {number!r}; it must be a whole number of at least 1.")
        for name in ("norm_epsilon", "rotary_base"):
            number = getattr(self, name)
            if not isinstance(number, int | float) or isinstance(number, bool) or not 0 < number < math.inf:
                raise ConfigError(f"{name} is {number!r}; it must be a number greater than 0.")

    @property
    def d_head(self) -> int:
        """D = C/H, the width of one head."""
        return self.d_model // self.n_heads

    @property
    def mask(self) -> str:
        """The name of the mask that this layout is made for."""
        return "causal" if self.layout == "decoder-only" else "bidirectional"

    def kv_head(self, head: int) -> int:
        """The key/value head that query head `head` reads."""
        return head // (self.n_heads // self.n_kv_heads)
