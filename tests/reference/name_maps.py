"""What other libraries call the parts of a Transformer: their configuration and weights as ours."""

import torch

from viz_model.transformer import TransformerConfig, make_transformer


def loaded(config, weights):
    """Our Transformer with these weights; a missing, foreign or misshapen name is an error."""
    model = make_transformer(config).eval().requires_grad_(False)
    model.load_state_dict(weights)
    return model


def _layer(ours, theirs, both=("weight", "bias")):
    return {f"{ours}.{kind}": theirs[kind] for kind in both if kind in theirs}


def _under(state, prefix):
    return {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}


def _split(layer, parts):
    """A layer that makes several things at once, as one layer each: (parts·out, in) -> parts × (out, in)."""
    chunks = {kind: tensor.chunk(parts) for kind, tensor in layer.items()}
    return [{kind: chunk[part] for kind, chunk in chunks.items()} for part in range(parts)]


def gpt2_config(theirs):
    return TransformerConfig(
        n_layers=theirs.n_layer,
        n_heads=theirs.n_head,
        d_model=theirs.n_embd,
        d_ff=theirs.n_inner,
        vocab_size=theirs.vocab_size,
        context_length=theirs.n_positions,
        norm_epsilon=theirs.layer_norm_epsilon,
        activation={"gelu_new": "gelu-tanh", "gelu": "gelu", "relu": "relu"}[theirs.activation_function],
    )


def gpt2_weights(theirs):
    """GPT-2 keeps its matrices as (in, out), and makes q, k and v in one layer."""
    state = _under(theirs.state_dict(), "transformer.")
    weights = {"tokens.weight": state["wte.weight"], "positions.weight": state["wpe.weight"]}
    weights |= _layer("final_norm", _under(state, "ln_f."))

    def turned(prefix):
        return {kind: tensor.t() for kind, tensor in _under(state, prefix).items()}

    for layer in range(theirs.config.n_layer):
        ours, his = f"blocks.{layer}", f"h.{layer}"
        weights |= _layer(f"{ours}.norm1", _under(state, f"{his}.ln_1."))
        weights |= _layer(f"{ours}.norm2", _under(state, f"{his}.ln_2."))
        parts = _split(turned(f"{his}.attn.c_attn."), 3)
        for name, part in zip(("query", "key", "value"), parts, strict=True):
            weights |= _layer(f"{ours}.attn.{name}", part)
        weights |= _layer(f"{ours}.attn.output", turned(f"{his}.attn.c_proj."))
        weights |= _layer(f"{ours}.ffn.up", turned(f"{his}.mlp.c_fc."))
        weights |= _layer(f"{ours}.ffn.down", turned(f"{his}.mlp.c_proj."))
    return weights


def llama_config(theirs):
    assert theirs.attention_bias == theirs.mlp_bias, "ours has one switch for both"
    return TransformerConfig(
        n_layers=theirs.num_hidden_layers,
        n_heads=theirs.num_attention_heads,
        n_kv_heads=theirs.num_key_value_heads,
        d_model=theirs.hidden_size,
        d_ff=theirs.intermediate_size,
        vocab_size=theirs.vocab_size,
        context_length=theirs.max_position_embeddings,
        position="rotary",
        rotary_base=theirs.rope_parameters["rope_theta"],
        norm="rms",
        norm_epsilon=theirs.rms_norm_eps,
        activation="swiglu",
        bias=theirs.attention_bias,
        tied_unembedding=theirs.tie_word_embeddings,
    )


LLAMA_7B = {"hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32}
LLAMA_NAMES = {
    "norm1": "input_layernorm",
    "norm2": "post_attention_layernorm",
    "attn.query": "self_attn.q_proj",
    "attn.key": "self_attn.k_proj",
    "attn.value": "self_attn.v_proj",
    "attn.output": "self_attn.o_proj",
    "ffn.gate": "mlp.gate_proj",
    "ffn.up": "mlp.up_proj",
    "ffn.down": "mlp.down_proj",
}


def llama_weights(theirs):
    state = theirs.state_dict()
    weights = {"tokens.weight": state["model.embed_tokens.weight"]}
    weights |= _layer("final_norm", _under(state, "model.norm."))
    if not theirs.config.tie_word_embeddings:
        weights["unembedding.weight"] = state["lm_head.weight"]
    for layer in range(theirs.config.num_hidden_layers):
        for ours, his in LLAMA_NAMES.items():
            weights |= _layer(f"blocks.{layer}.{ours}", _under(state, f"model.layers.{layer}.{his}."))
    return weights


def bert_config(theirs):
    return TransformerConfig(
        n_layers=theirs.num_hidden_layers,
        n_heads=theirs.num_attention_heads,
        d_model=theirs.hidden_size,
        d_ff=theirs.intermediate_size,
        vocab_size=theirs.vocab_size,
        context_length=theirs.max_position_embeddings,
        layout="encoder-only",
        norm_place="post",
        norm_epsilon=theirs.layer_norm_eps,
        embedding_norm=True,
        activation=theirs.hidden_act,
    )


BERT_NAMES = {
    "norm1": "attention.output.LayerNorm",
    "norm2": "output.LayerNorm",
    "attn.query": "attention.self.query",
    "attn.key": "attention.self.key",
    "attn.value": "attention.self.value",
    "attn.output": "attention.output.dense",
    "ffn.up": "intermediate.dense",
    "ffn.down": "output.dense",
}


def bert_weights(theirs):
    """Every token gets the embedding of sentence 0 as well: it is folded into the positions."""
    state = theirs.state_dict()
    embeddings = _under(state, "embeddings.")
    sentence = embeddings["token_type_embeddings.weight"][0]
    weights = {
        "tokens.weight": embeddings["word_embeddings.weight"],
        "positions.weight": embeddings["position_embeddings.weight"] + sentence,
    }
    weights |= _layer("embedding_norm", _under(embeddings, "LayerNorm."))
    for layer in range(theirs.config.num_hidden_layers):
        for ours, his in BERT_NAMES.items():
            weights |= _layer(f"blocks.{layer}.{ours}", _under(state, f"encoder.layer.{layer}.{his}."))
    return weights


TORCH_NAMES = {
    "norm1": "norm1",
    "norm2": "norm2",
    "attn.output": "self_attn.out_proj",
    "ffn.up": "linear1",
    "ffn.down": "linear2",
}


def torch_weights(encoder, embedding):
    """`nn.TransformerEncoder` has no embedding of its own; q, k and v are one layer."""
    return {"tokens.weight": embedding} | _torch_stack(encoder, TORCH_NAMES)


TORCH_DECODER_NAMES = TORCH_NAMES | {
    "norm2": "norm3",
    "norm_cross": "norm2",
    "cross.output": "multihead_attn.out_proj",
}


def torch_encoder_decoder_weights(theirs, embedding):
    """Of `nn.Transformer`."""
    stacks = {"encoder": (theirs.encoder, TORCH_NAMES), "decoder": (theirs.decoder, TORCH_DECODER_NAMES)}
    weights = {"tokens.weight": embedding}
    for name, (stack, names) in stacks.items():
        weights |= {f"{name}.{ours}": tensor for ours, tensor in _torch_stack(stack, names).items()}
    return weights


def _torch_stack(stack, names):
    state = stack.state_dict()
    weights = _layer("final_norm", _under(state, "norm."))
    for layer in range(stack.num_layers):
        his = _under(state, f"layers.{layer}.")
        for attention, prefix in (("attn", "self_attn"), ("cross", "multihead_attn")):
            if f"{prefix}.in_proj_weight" in his:
                together = {kind: his[f"{prefix}.in_proj_{kind}"] for kind in ("weight", "bias")}
                for name, part in zip(("query", "key", "value"), _split(together, 3), strict=True):
                    weights |= _layer(f"blocks.{layer}.{attention}.{name}", part)
        for ours, theirs in names.items():
            weights |= _layer(f"blocks.{layer}.{ours}", _under(his, f"{theirs}."))
    return weights


def marian_config(theirs):
    assert theirs.encoder_attention_heads == theirs.decoder_attention_heads, "ours has one number for both"
    assert theirs.encoder_ffn_dim == theirs.decoder_ffn_dim
    return TransformerConfig(
        layout="encoder-decoder",
        n_layers=theirs.decoder_layers,
        n_encoder_layers=theirs.encoder_layers,
        n_heads=theirs.decoder_attention_heads,
        d_model=theirs.d_model,
        d_ff=theirs.decoder_ffn_dim,
        vocab_size=theirs.vocab_size,
        context_length=theirs.max_position_embeddings,
        position="sinusoidal",
        norm_place="post",
        embedding_scale=theirs.scale_embedding,
        activation=theirs.activation_function,
    )


MARIAN_NAMES = {
    "norm1": "self_attn_layer_norm",
    "norm_cross": "encoder_attn_layer_norm",
    "norm2": "final_layer_norm",
    "ffn.up": "fc1",
    "ffn.down": "fc2",
} | {
    f"{ours}.{part}": f"{theirs}.{name}"
    for ours, theirs in (("attn", "self_attn"), ("cross", "encoder_attn"))
    for part, name in (("query", "q_proj"), ("key", "k_proj"), ("value", "v_proj"), ("output", "out_proj"))
}


def marian_weights(theirs):
    """Marian puts the C/2 sines before the cosines, the paper each sine beside its cosine.

    So the stream's numbers stand in another order: what reads the stream and what writes to it is put in ours.
    """
    state = _under(theirs.state_dict(), "model.")
    width = theirs.config.d_model
    order = torch.arange(width).view(2, -1).t().flatten()  # 0, C/2, 1, C/2 + 1 …
    weights = {"tokens.weight": state["shared.weight"][:, order]}
    for stack, layers in (("encoder", theirs.config.encoder_layers), ("decoder", theirs.config.decoder_layers)):
        for layer in range(layers):
            for ours, his in MARIAN_NAMES.items():
                found = _layer(f"{stack}.blocks.{layer}.{ours}", _under(state, f"{stack}.layers.{layer}.{his}."))
                reads = ours.endswith(("query", "key", "value", "up"))
                for name, tensor in found.items():
                    if not reads:
                        weights[name] = tensor[order]
                    else:
                        weights[name] = tensor[:, order] if name.endswith("weight") else tensor
    return weights


def agree(found, expected, tolerance=2e-5):
    torch.testing.assert_close(found, expected, atol=tolerance, rtol=0)
