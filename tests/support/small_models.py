"""Small models for tests: any valid configuration, with weights that leave nothing at its default."""

import torch
from hypothesis import strategies as st

from viz_model.transformer import TransformerConfig, make_transformer
from viz_model.transformer.config import CHOICES

VOCABULARY, CONTEXT = 29, 24
ONE_STACK = ("decoder-only", "encoder-only")


@st.composite
def configs(draw, **fixed):
    """Valid configurations of small models, of one stack unless asked; `fixed` fields are not drawn."""

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
        d_ff=choose("d_ff", (None, 7, 12, 0)),
        vocab_size=VOCABULARY,
        context_length=CONTEXT,
        position=position,
        n_encoder_layers=fixed.get("n_encoder_layers"),
        layout=choose("layout", ONE_STACK),
        norm=choose("norm", CHOICES["norm"]),
        norm_place=choose("norm_place", CHOICES["norm_place"]),
        norm_epsilon=choose("norm_epsilon", (1e-5, 1e-3)),
        activation=choose("activation", CHOICES["activation"]),
        rotary_pairs=choose("rotary_pairs", CHOICES["rotary_pairs"]),
        rotary_base=choose("rotary_base", (10000.0, 50)),
        embedding_norm=choose("embedding_norm", (False, True)),
        embedding_scale=choose("embedding_scale", (False, True)),
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
    return randomise(make_transformer(config), seed)


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
    names = {f"{stack}{name}" for part in config.parts for stack in [config.stack_name(part)]
             for name in ("embed.tokens", "embed", "final_norm", *["embed.positions"] * has_table(config))}  # fmt: skip
    for part in config.parts:
        for layer in range(config.layers_of(part)):
            names |= {f"{config.block_name(part, layer)}.{name}" for name in block_sites(config, part)}
            names |= {f"{config.attention_name(part, layer)}.{name}" for name in attention_sites(config, part)}
    return names | {"logits"}


def has_table(config):
    return config.position in ("learned", "sinusoidal")


def block_sites(config, part):
    sites = ["resid_pre", "norm1", "resid_post"]
    if part in ("decoder", "cross"):
        sites += ["resid_self", "norm_cross"]
    return sites + (["resid_mid", "norm2", "ffn.hidden", "ffn.out"] if config.d_ff else [])


def attention_sites(config, part):
    sites = ["q", "k", "v", "raw", "scores", "mask", "weights", "mixed", "out"]
    return sites + (["q_pre", "k_pre"] if config.position == "rotary" and part != "cross" else [])
