"""Small models for tests: any valid configuration, with weights that leave nothing at its default."""

import torch
from hypothesis import strategies as st

from viz_model.transformer import Transformer, TransformerConfig
from viz_model.transformer.config import CHOICES

VOCABULARY, CONTEXT = 29, 24


@st.composite
def configs(draw, **fixed):
    """Valid configurations of small models; `fixed` fields are not drawn."""

    def choose(name, values):
        return fixed[name] if name in fixed else draw(st.sampled_from(values), label=name)

    position = choose("position", CHOICES["position"])
    groups, heads_per_group = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    widths = (2, 4, 6) if position in ("rotary", "sinusoidal") else (3, 4, 5)
    heads = groups * heads_per_group
    return TransformerConfig(
        n_layers=choose("n_layers", (1, 2, 3)),
        n_heads=heads,
        n_kv_heads=groups,
        d_model=heads * draw(st.sampled_from(widths)),
        d_ff=choose("d_ff", (None, 7, 12)),
        vocab_size=VOCABULARY,
        context_length=CONTEXT,
        position=position,
        layout=choose("layout", CHOICES["layout"]),
        norm=choose("norm", CHOICES["norm"]),
        norm_place=choose("norm_place", CHOICES["norm_place"]),
        norm_epsilon=choose("norm_epsilon", (1e-5, 1e-3)),
        activation=choose("activation", CHOICES["activation"]),
        rotary_pairs=choose("rotary_pairs", CHOICES["rotary_pairs"]),
        rotary_base=choose("rotary_base", (10000.0, 50)),
        embedding_norm=choose("embedding_norm", (False, True)),
        bias=choose("bias", (False, True)),
        tied_unembedding=choose("tied_unembedding", (False, True)),
    )


def randomise(module, seed=0, size=0.4):
    """Give every parameter random values, norms and biases too: a fresh model's zeros would hide faults."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator) * size
            is_gain = parameter.dim() == 1 and name.endswith("weight")
            parameter.copy_(1 + noise if is_gain else noise)
    return module.eval().requires_grad_(False)


def make_model(config, seed=0):
    return randomise(Transformer(config), seed)


def small_config(**changes):
    fields = {
        "n_layers": 2,
        "n_heads": 4,
        "n_kv_heads": 2,
        "d_model": 24,
        "vocab_size": VOCABULARY,
        "context_length": CONTEXT,
    }
    return TransformerConfig(**(fields | changes))


def small_model(seed=0, **changes):
    return make_model(small_config(**changes), seed)


def random_ids(*shape, seed=0):
    return torch.randint(VOCABULARY, shape, generator=torch.Generator().manual_seed(seed))


def expected_sites(config):
    """Every site that a fully captured pass goes through, as the design lists them."""
    names = ["embed.tokens", "embed"]
    if config.position in ("learned", "sinusoidal"):
        names.append("embed.positions")
    attention = ["q", "k", "v", "raw", "scores", "mask", "weights", "mixed", "out"]
    if config.position == "rotary":
        attention += ["q_pre", "k_pre"]
    block = ["resid_pre", "norm1", "resid_mid", "norm2", "ffn.hidden", "ffn.out", "resid_post"]
    block += [f"attn.{name}" for name in attention]
    names += [f"blocks.{layer}.{name}" for layer in range(config.n_layers) for name in block]
    return {*names, "final_norm", "logits"}
