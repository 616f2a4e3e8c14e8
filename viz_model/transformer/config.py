"""TransformerConfig: one skeleton, many models as data. No family name, only fields that branch."""

import sys
from dataclasses import dataclass

from viz_model.arguments import LARGEST, said
from viz_model.errors import ConfigError
from viz_model.transformer.facts import LAYOUTS, ModelFacts

CHOICES = {
    "layout": LAYOUTS,
    "position": ("none", "sinusoidal", "learned", "rotary"),
    "norm": ("layer", "rms"),
    "norm_place": ("pre", "post"),
    "activation": ("gelu", "gelu-tanh", "relu", "swiglu"),
    "rotary_pairs": ("halves", "neighbours"),
}
SWITCHES = ("embedding_norm", "embedding_scale", "bias", "tied_unembedding")
COUNTS = ("n_layers", "n_encoder_layers", "n_heads", "n_kv_heads", "d_model", "d_ff", "vocab_size", "context_length")
LEFT_OUT = ("n_encoder_layers", "n_kv_heads", "d_ff")  # counts that follow from the others where they are not given
MAY_BE_0 = ("n_encoder_layers", "d_ff")


@dataclass(frozen=True)
class TransformerConfig(ModelFacts):
    """What a Transformer is made of; refused with ConfigError when it contradicts itself.

    n_layers L, n_heads H, n_kv_heads G (None: H), d_model C, vocab_size V.
    d_ff F (None: 4·C); 0 is a model of attention only, whose blocks have no feed-forward half.
    n_encoder_layers: of an encoder-decoder (None: L, which are then those of the decoder); else 0.
    rotary_pairs: which two numbers of a head turn together: i and i + D/2 ("halves", as Llama's
    `transformers` code does) or 2i and 2i + 1 ("neighbours", as in the RoPE paper, Su et al. 2021).
    embedding_norm: a norm right after the embedding, as BERT has.
    embedding_scale: token rows times √C before positions are added (Vaswani et al. 2017, §3.4).
    """

    n_layers: int
    n_heads: int
    d_model: int
    vocab_size: int
    context_length: int
    n_kv_heads: int | None = None
    d_ff: int | None = None
    n_encoder_layers: int | None = None
    layout: str = "decoder-only"
    position: str = "learned"
    norm: str = "layer"
    norm_place: str = "pre"
    norm_epsilon: float = 1e-5
    embedding_norm: bool = False
    embedding_scale: bool = False
    activation: str = "gelu-tanh"
    bias: bool = True
    tied_unembedding: bool = True
    rotary_base: float = 10000.0
    rotary_pairs: str = "halves"

    # What is the same of all of them; no fields of a config.json.
    family = "Built in this project"
    is_skeleton = True
    has_unembedding = True
    embedding_matrix = ""
    end_matrix = False
    unembedding_factor = 1.0
    unembedding_softcap = None
    unembedding_hidden = None
    expert_share = 1.0
    shares_layers = False

    def __post_init__(self):
        self._refuse_unknown_choices()
        self._refuse_bad_numbers()
        object.__setattr__(self, "n_kv_heads", self.n_heads if self.n_kv_heads is None else self.n_kv_heads)
        object.__setattr__(self, "d_ff", 4 * self.d_model if self.d_ff is None else self.d_ff)
        self._set_encoder_layers()
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

    def _set_encoder_layers(self):
        has_encoder = self.layout == "encoder-decoder"
        if self.n_encoder_layers is None:
            object.__setattr__(self, "n_encoder_layers", self.n_layers if has_encoder else 0)
        if has_encoder != bool(self.n_encoder_layers):
            raise ConfigError(
                f"n_encoder_layers is {self.n_encoder_layers}, but the layout is {self.layout!r}: only an "
                "'encoder-decoder' has an encoder beside its n_layers, of at least 1 layer."
            )

    def _refuse_unknown_choices(self):
        for name, allowed in CHOICES.items():
            found = getattr(self, name)
            if not isinstance(found, str) or found not in allowed:
                raise ConfigError(f"{name} is {said(found)}; it must be one of {', '.join(allowed)}.")
        for name in SWITCHES:
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"{name} is {said(getattr(self, name))}; it must be true or false.")

    def _refuse_bad_numbers(self):
        for name in COUNTS:
            number = getattr(self, name)
            if number is None and name in LEFT_OUT:
                continue
            least = 0 if name in MAY_BE_0 else 1
            if not isinstance(number, int) or isinstance(number, bool) or not least <= number <= LARGEST:
                raise ConfigError(f"{name} is {said(number)}; it must be a whole number, at least {least}, below 2⁶³.")
        for name in ("norm_epsilon", "rotary_base"):
            number = getattr(self, name)
            if isinstance(number, bool) or not isinstance(number, int | float) or not 0 < number <= sys.float_info.max:
                raise ConfigError(f"{name} is {said(number)}; it must be a number greater than 0.")

    @property
    def d_head(self) -> int:
        """D = C/H, the width of one head."""
        return self.d_model // self.n_heads

    @property
    def matrix_numbers(self) -> int:
        """How many numbers its matrices and tables are; norms and biases, a thousandth of them, are not counted."""
        attentions = sum(self.layers_of(part) for part in self.parts)
        of_attentions = attentions * 2 * self.d_model * self.d_head * (self.n_heads + self.n_kv_heads)
        feed_forwards = (self.n_layers + self.n_encoder_layers) * (3 if self.is_gated else 2)
        rows = self.vocab_size * (1 if self.tied_unembedding else 2)
        if self.position in ("learned", "sinusoidal"):
            rows += self.context_length * max(1, len(self.stacks))
        return of_attentions + (feed_forwards * self.d_ff + rows) * self.d_model

    @property
    def embedding_factor(self) -> float:
        """What rows of tokens are multiplied with before positions are added."""
        return self.d_model**0.5 if self.embedding_scale else 1.0
