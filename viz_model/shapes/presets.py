"""Published models as configurations, with what they are said to hold and where our count differs."""

from dataclasses import dataclass

from viz_model.transformer import TransformerConfig


@dataclass(frozen=True)
class Preset:
    """A published model.

    published: its number of parameters, as its published weights hold them; source: where it is described.
    length: the longest prompt it was trained on. beyond: what it has that our skeleton lacks, each as (words,
    formula, count), so that our count plus these is `published` to the last digit. logits: whether the published
    weights make logits; our skeleton always can.
    """

    name: str
    config: TransformerConfig
    published: int
    source: str
    beyond: tuple[tuple[str, str, int], ...] = ()
    logits: bool = True

    @property
    def length(self) -> int:
        return self.config.context_length


def _gpt2(layers: int, heads: int, width: int) -> TransformerConfig:
    return TransformerConfig(layers, heads, width, vocab_size=50257, context_length=1024)


PRESETS = {
    preset.name: preset
    for preset in (
        Preset(
            "GPT-2 small",
            _gpt2(12, 12, 768),
            124_439_808,
            "Radford et al. 2019, “Language Models are Unsupervised Multitask Learners”, Table 2, which says 117M; the "
            "released weights hold 124,439,808 numbers",
        ),
        Preset(
            "GPT-2 XL",
            _gpt2(48, 25, 1600),
            1_557_611_200,
            "Radford et al. 2019, Table 2, which says 1542M; the released weights hold 1,557,611,200 numbers. It has "
            "25 heads of D = 64",
        ),
        Preset(
            "BERT-base",
            TransformerConfig(
                *(12, 12, 768),
                vocab_size=30522,
                context_length=512,
                layout="encoder-only",
                norm_place="post",
                norm_epsilon=1e-12,
                embedding_norm=True,
                activation="gelu",
            ),
            109_482_240,
            "Devlin et al. 2019, “BERT”, §3, which says 110M; the released encoder (bert-base-uncased, without its "
            "head for masked words) holds 109,482,240 numbers",
            beyond=(
                ("the embeddings of two token types", "2 · C", 2 * 768),
                ("the pooler, a dense layer on the first token", "C · C + C", 768 * 768 + 768),
            ),
            logits=False,
        ),
        Preset(
            "Llama-7B",
            TransformerConfig(
                *(32, 32, 4096),
                vocab_size=32000,
                context_length=2048,
                d_ff=11008,
                position="rotary",
                norm="rms",
                norm_epsilon=1e-6,
                activation="swiglu",
                bias=False,
                tied_unembedding=False,
            ),
            6_738_415_616,
            "Touvron et al. 2023, “LLaMA”, Table 2, which says 6.7B; the released weights hold 6,738,415,616 numbers",
        ),
    )
}


def resized(preset: Preset, *, layers: int, heads: int, width: int, length: int) -> TransformerConfig:
    """The preset with another L, H, C, for prompts of `length` tokens.

    F grows with C, as F/C of the preset, rounded; every head keeps its own keys and values where the preset's do.
    A table of learned positions is never shorter than the preset's, and grows to `length`.

    Raises ConfigError where the numbers cannot be (C that H does not divide, an odd D that is to be rotated).
    """
    own = preset.config
    groups = own.n_kv_heads if own.n_kv_heads < own.n_heads else heads
    return TransformerConfig(
        **vars(own)
        | {
            "n_layers": layers,
            "n_heads": heads,
            "n_kv_heads": groups,
            "d_model": width,
            "d_ff": round(own.d_ff * width / own.d_model),
            "context_length": max(own.context_length, length),
        }
    )


def fitting_heads(width: int, heads: int, most: int, *, even: bool = False) -> list[int]:
    """The numbers of heads next to `heads`, one below and one above, that divide `width`; D even where asked."""
    fits = [n for n in range(1, most + 1) if width % n == 0 and not (even and width // n % 2)]
    below, above = [n for n in fits if n < heads], [n for n in fits if n > heads]
    return below[-1:] + above[:1]
