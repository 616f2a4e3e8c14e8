"""Where the library keeps what a formula names: symbols of the shape reference -> modules of each family, by hand.

Written from the library's own modeling files. What turns, which norm takes the mean away, where a bias of scores comes
from: read there too, and written out in numpy; nothing of ours is asked.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from torch import nn
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from tests.reference.formula_reader import FUNCTIONS, Matrix, side_by_side
from viz_model.transformer import TransformerConfig

TAKES_THE_MEAN = ("LayerNorm", "CohereLayerNorm", "Cohere2LayerNorm", "OlmoLayerNorm", "NemotronLayerNorm1P")
ADDS_ONE = ("GemmaRMSNorm", "Gemma2RMSNorm", "Gemma3RMSNorm", "NemotronLayerNorm1P", "VaultGemmaRMSNorm")
NEIGHBOURS = ("gptj", "cohere", "cohere2", "llama4_text", "glm", "glm4", "helium", "ernie4_5", "deepseek_v2")
PARTED = ("deepseek_v3", "youtu")  # neighbours, of which all first ones come before all second ones


@dataclass(frozen=True)
class Names:
    """stacks: by part, what a block's modules begin with. block, ends: symbols -> module; of q, k and v in one matrix
    also how they lie in it. offset: rows of the position table that stand for no position."""

    stacks: dict[str, str]
    block: dict[str, str]
    ends: dict[str, str]
    fused: str = ""
    offset: int = 0
    cross: dict[str, str] = field(default_factory=dict)


def written_norm(module: nn.Module) -> Callable[[np.ndarray], np.ndarray]:
    kind = type(module).__name__
    gain, shift = (numbers(getattr(module, name, None)) for name in ("weight", "bias"))
    epsilon = next((said[name] for name in ("eps", "variance_epsilon", "epsilon", "norm_eps")
                    if isinstance((said := vars(module)).get(name), float)), 1e-5)  # fmt: skip

    def of(x: np.ndarray) -> np.ndarray:
        x = x - x.mean(-1, keepdims=True) if kind in TAKES_THE_MEAN else x
        x = x / np.sqrt((x**2).mean(-1, keepdims=True) + epsilon)
        own = gain
        if own is not None:
            own = own + 1 if kind in ADDS_ONE else own
            own = own[:, None, :] if own.ndim == 2 else own  # one for each head (H,D)
            x = x * own
        return x if shift is None else x + shift

    return of


def numbers(tensor) -> np.ndarray | None:
    return None if tensor is None else tensor.detach().double().numpy()


def matrix(module: nn.Module) -> Matrix:
    weight = numbers(module.weight)
    bias = numbers(getattr(module, "bias", None))
    return Matrix(weight if type(module).__name__ == "Conv1D" else weight.T, 0.0 if bias is None else bias)


def columns(whole: Matrix, which) -> Matrix:
    return Matrix(whole.weight[:, which], whole.bias[which] if np.ndim(whole.bias) else 0.0)


# --- the families ---

QKVO = {
    "W_{Q}": "self_attn.q_proj",
    "W_{K}": "self_attn.k_proj",
    "W_{V}": "self_attn.v_proj",
    "W_O": "self_attn.o_proj",
}
GATED = {"W_g": "mlp.gate_proj", "W_1": "mlp.up_proj", "W_2": "mlp.down_proj"}
TWO_NORMS = {r"\mathrm{norm}_1": "input_layernorm", r"\mathrm{norm}_2": "post_attention_layernorm"}
QK_NORMS = {r"\mathrm{norm}_Q": "self_attn.q_norm", r"\mathrm{norm}_K": "self_attn.k_norm"}
ENDS = {"E": "model.embed_tokens", r"\mathrm{norm}": "model.norm", "W_U": "lm_head"}


def llama(more: dict | None = None, **changes) -> Names:
    block = {**QKVO, **GATED, **TWO_NORMS, **(more or {})}
    return Names({"self": "model.layers.{}"}, block, ENDS | changes.pop("ends", {}), **changes)


def gpt2() -> Names:
    return Names(
        {"self": "transformer.h.{}"},
        {r"\mathrm{norm}_1": "ln_1", "QKV": "attn.c_attn", "W_O": "attn.c_proj", r"\mathrm{norm}_2": "ln_2",
         "W_1": "mlp.c_fc", "W_2": "mlp.c_proj"},
        {"E": "transformer.wte", "P": "transformer.wpe", r"\mathrm{norm}": "transformer.ln_f", "W_U": "lm_head"},
        fused="in order",
    )  # fmt: skip


def bert(root: str, head: dict, more: dict | None = None, offset: int = 0) -> Names:
    own = "attention.self."
    return Names(
        {"self": f"{root}.encoder.layer.{{}}"},
        {"W_{Q}": own + "query", "W_{K}": own + "key", "W_{V}": own + "value", "W_O": "attention.output.dense",
         r"\mathrm{norm}_1": "attention.output.LayerNorm", "W_1": "intermediate.dense", "W_2": "output.dense",
         r"\mathrm{norm}_2": "output.LayerNorm"},
        {"E": f"{root}.embeddings.word_embeddings", "P": f"{root}.embeddings.position_embeddings",
         "S": f"{root}.embeddings.token_type_embeddings", r"\mathrm{norm}": f"{root}.embeddings.LayerNorm",
         **head, **(more or {})},
        offset=offset,
    )  # fmt: skip


def bart(**changes) -> Names:
    attention = {"W_{Q}": "q_proj", "W_{K}": "k_proj", "W_{V}": "v_proj", "W_O": "out_proj"}
    return Names(
        {"encoder": "model.encoder.layers.{}", "decoder": "model.decoder.layers.{}"},
        {**{symbol: f"self_attn.{path}" for symbol, path in attention.items()},
         r"\mathrm{norm}_1": "self_attn_layer_norm", r"\mathrm{norm}_\times": "encoder_attn_layer_norm",
         r"\mathrm{norm}_2": "final_layer_norm", "W_1": "fc1", "W_2": "fc2"},
        {"E": "model.shared", "P": "model.{stack}.embed_positions",
         "embedding norm": "model.{stack}.layernorm_embedding",
         r"\mathrm{norm}": "model.{stack}.layer_norm", "W_U": "lm_head"},
        cross={symbol: f"encoder_attn.{path}" for symbol, path in attention.items()},
        **changes,
    )  # fmt: skip


def t5(bias_of: str = "{stack}.block.0") -> Names:
    attention, half = {"W_{Q}": "q", "W_{K}": "k", "W_{V}": "v", "W_O": "o"}, "layer.{last}.DenseReluDense."
    feed_forward = {"W_1": half + "wi", "W_2": half + "wo", "gated W_g": half + "wi_0", "gated W_1": half + "wi_1"}
    return Names(
        {"encoder": "encoder.block.{}", "decoder": "decoder.block.{}"},
        {**{symbol: f"layer.0.SelfAttention.{path}" for symbol, path in attention.items()},
         r"\mathrm{norm}_1": "layer.0.layer_norm", r"\mathrm{norm}_\times": "layer.1.layer_norm",
         r"\mathrm{norm}_2": "layer.{last}.layer_norm", **feed_forward},
        {"E": "shared", r"\mathrm{norm}": "{stack}.final_layer_norm", "W_U": "lm_head",
         "B": f"{bias_of}.layer.0.SelfAttention.relative_attention_bias"},
        cross={symbol: f"layer.1.EncDecAttention.{path}" for symbol, path in attention.items()},
    )  # fmt: skip


BERT_HEAD = {r"\mathrm{norm}_h": "cls.predictions.transform.LayerNorm", "W_h": "cls.predictions.transform.dense",
             "W_U": "cls.predictions.decoder"}  # fmt: skip
ROBERTA_HEAD = {r"\mathrm{norm}_h": "lm_head.layer_norm", "W_h": "lm_head.dense", "W_U": "lm_head.decoder"}
AFTER = {
    r"\mathrm{norm}_1": "input_layernorm",
    r"\mathrm{norm}_{1'}": "post_attention_layernorm",
    r"\mathrm{norm}_2": "pre_feedforward_layernorm",
    r"\mathrm{norm}_{2'}": "post_feedforward_layernorm",
}
EXPERTS = {"W_r": "mlp.gate", "experts": "mlp.experts"}

OF_OURS = {"W_{Q}": "query", "W_{K}": "key", "W_{V}": "value", "W_O": "output"}
NAMES = {
    "ours": Names(  # this project's own Transformer
        {"self": "blocks.{}", "encoder": "encoder.blocks.{}", "decoder": "decoder.blocks.{}"},
        {**{symbol: f"attn.{path}" for symbol, path in OF_OURS.items()}, r"\mathrm{norm}_1": "norm1",
         r"\mathrm{norm}_2": "norm2", r"\mathrm{norm}_\times": "norm_cross", "W_g": "ffn.gate", "W_1": "ffn.up",
         "W_2": "ffn.down"},
        {"E": "tokens", "P": "{inside}positions", "embedding norm": "{inside}embedding_norm",
         r"\mathrm{norm}": "{inside}final_norm", "W_U": "unembedding"},
        cross={symbol: f"cross.{path}" for symbol, path in OF_OURS.items()},
    ),
    "gpt2": gpt2(),
    "gpt_bigcode": gpt2(),
    "gpt_neo": Names(
        {"self": "transformer.h.{}"},
        {r"\mathrm{norm}_1": "ln_1", "W_{Q}": "attn.attention.q_proj", "W_{K}": "attn.attention.k_proj",
         "W_{V}": "attn.attention.v_proj", "W_O": "attn.attention.out_proj", r"\mathrm{norm}_2": "ln_2",
         "W_1": "mlp.c_fc", "W_2": "mlp.c_proj"},
        {"E": "transformer.wte", "P": "transformer.wpe", r"\mathrm{norm}": "transformer.ln_f", "W_U": "lm_head"},
    ),
    "falcon": Names(
        {"self": "transformer.h.{}"},
        {r"\mathrm{norm}_1": "input_layernorm|ln_attn", r"\mathrm{norm}_2": "post_attention_layernorm|ln_mlp",
         "QKV": "self_attention.query_key_value", "W_O": "self_attention.dense", "W_1": "mlp.dense_h_to_4h",
         "W_2": "mlp.dense_4h_to_h"},
        {"E": "transformer.word_embeddings", r"\mathrm{norm}": "transformer.ln_f", "W_U": "lm_head"},
        fused="by group",
    ),
    "bloom": Names(
        {"self": "transformer.h.{}"},
        {**TWO_NORMS, "QKV": "self_attention.query_key_value", "W_O": "self_attention.dense",
         "W_1": "mlp.dense_h_to_4h", "W_2": "mlp.dense_4h_to_h"},
        {"E": "transformer.word_embeddings", "embedding norm": "transformer.word_embeddings_layernorm",
         r"\mathrm{norm}": "transformer.ln_f", "W_U": "lm_head"},
        fused="by group",
    ),
    "mpt": Names(
        {"self": "transformer.blocks.{}"},
        {r"\mathrm{norm}_1": "norm_1", "QKV": "attn.Wqkv", "W_O": "attn.out_proj", r"\mathrm{norm}_2": "norm_2",
         "W_1": "ffn.up_proj", "W_2": "ffn.down_proj"},
        {"E": "transformer.wte", r"\mathrm{norm}": "transformer.norm_f", "W_U": "lm_head"},
        fused="in order",
    ),
    "albert": Names(
        {"self": "albert.encoder.albert_layer_groups.{}.albert_layers.0"},
        {"W_{Q}": "attention.query", "W_{K}": "attention.key", "W_{V}": "attention.value", "W_O": "attention.dense",
         r"\mathrm{norm}_1": "attention.LayerNorm", "W_1": "ffn", "W_2": "ffn_output",
         r"\mathrm{norm}_2": "full_layer_layer_norm"},
        {"E": "albert.embeddings.word_embeddings", "P": "albert.embeddings.position_embeddings",
         "S": "albert.embeddings.token_type_embeddings", r"\mathrm{norm}": "albert.embeddings.LayerNorm",
         "W_E": "albert.encoder.embedding_hidden_mapping_in", r"\mathrm{norm}_h": "predictions.LayerNorm",
         "W_h": "predictions.dense", "W_U": "predictions.decoder"},
    ),
    "mpnet": Names(
        {"self": "mpnet.encoder.layer.{}"},
        {"W_{Q}": "attention.attn.q", "W_{K}": "attention.attn.k", "W_{V}": "attention.attn.v",
         "W_O": "attention.attn.o", r"\mathrm{norm}_1": "attention.LayerNorm", "W_1": "intermediate.dense",
         "W_2": "output.dense", r"\mathrm{norm}_2": "output.LayerNorm"},
        {"E": "mpnet.embeddings.word_embeddings", "P": "mpnet.embeddings.position_embeddings",
         "B": "mpnet.encoder.relative_attention_bias", r"\mathrm{norm}": "mpnet.embeddings.LayerNorm",
         r"\mathrm{norm}_h": "lm_head.layer_norm", "W_h": "lm_head.dense", "W_U": "lm_head.decoder"},
        offset=2,
    ),
    "gptj": Names(
        {"self": "transformer.h.{}"},
        {r"\mathrm{norm}_1": "ln_1", "W_{Q}": "attn.q_proj", "W_{K}": "attn.k_proj", "W_{V}": "attn.v_proj",
         "W_O": "attn.out_proj", "W_1": "mlp.fc_in", "W_2": "mlp.fc_out"},
        {"E": "transformer.wte", r"\mathrm{norm}": "transformer.ln_f", "W_U": "lm_head"},
    ),
    "gpt_neox": Names(
        {"self": "gpt_neox.layers.{}"},
        {**TWO_NORMS, "QKV": "attention.query_key_value", "W_O": "attention.dense", "W_1": "mlp.dense_h_to_4h",
         "W_2": "mlp.dense_4h_to_h"},
        {"E": "gpt_neox.embed_in", r"\mathrm{norm}": "gpt_neox.final_layer_norm", "W_U": "lm_head"},
        fused="by head",
    ),
    "opt": Names(
        {"self": "model.decoder.layers.{}"},
        {**QKVO, "W_O": "self_attn.out_proj", r"\mathrm{norm}_1": "self_attn_layer_norm",
         r"\mathrm{norm}_2": "final_layer_norm", "W_1": "fc1", "W_2": "fc2"},
        {"E": "model.decoder.embed_tokens", "P": "model.decoder.embed_positions", "W_E": "model.decoder.project_in",
         r"\mathrm{norm}": "model.decoder.final_layer_norm", "W_x": "model.decoder.project_out", "W_U": "lm_head"},
        offset=2,
    ),
    "llama": llama(), "mistral": llama(), "qwen2": llama(), "smollm3": llama(), "gemma": llama(), "granite": llama(),
    "cohere": llama(QK_NORMS), "olmo": llama(), "qwen3": llama(QK_NORMS),
    "gemma2": llama(AFTER), "gemma3_text": llama(AFTER | QK_NORMS),
    "olmo2": llama(QK_NORMS | {r"\mathrm{norm}_{1'}": "post_attention_layernorm",
                               r"\mathrm{norm}_{2'}": "post_feedforward_layernorm"}),
    "phi3": llama({"QKV": "self_attn.qkv_proj", "W_gW_1": "mlp.gate_up_proj"}, fused="in order"),
    "starcoder2": llama({"W_1": "mlp.c_fc", "W_2": "mlp.c_proj"}),
    "mixtral": llama(EXPERTS),
    "gpt_oss": llama({"W_r": "mlp.router", "experts": "mlp.experts"}),
    **dict.fromkeys(("deepseek_v3", "youtu"), llama({
        "W_{DQ}": "self_attn.q_a_proj", r"\mathrm{norm}_Q": "self_attn.q_a_layernorm", "W_{UQ}": "self_attn.q_b_proj",
        "W_{DK}W_R": "self_attn.kv_a_proj_with_mqa", r"\mathrm{norm}_K": "self_attn.kv_a_layernorm",
        "W_{UK}W_{UV}": "self_attn.kv_b_proj", **EXPERTS, "shared": "mlp.shared_experts"})),
    "llama4_text": llama({"W_r": "feed_forward.router", "experts": "feed_forward.experts",
                          "shared": "feed_forward.shared_expert", r"\mathrm{norm}_Q": "self_attn.qk_norm",
                          r"\mathrm{norm}_K": "self_attn.qk_norm"}),
    "bert": bert("bert", BERT_HEAD),
    "electra": bert("electra", {r"\mathrm{norm}_h": "generator_predictions.LayerNorm",
                                "W_h": "generator_predictions.dense", "W_U": "generator_lm_head"},
                    {"W_E": "electra.embeddings_project"}),
    "distilbert": Names(
        {"self": "distilbert.transformer.layer.{}"},
        {"W_{Q}": "attention.q_lin", "W_{K}": "attention.k_lin", "W_{V}": "attention.v_lin",
         "W_O": "attention.out_lin", r"\mathrm{norm}_1": "sa_layer_norm", "W_1": "ffn.lin1", "W_2": "ffn.lin2",
         r"\mathrm{norm}_2": "output_layer_norm"},
        {"E": "distilbert.embeddings.word_embeddings", "P": "distilbert.embeddings.position_embeddings",
         r"\mathrm{norm}": "distilbert.embeddings.LayerNorm", r"\mathrm{norm}_h": "vocab_layer_norm",
         "W_h": "vocab_transform", "W_U": "vocab_projector"},
    ),
    "modernbert": Names(
        {"self": "model.layers.{}"},
        {r"\mathrm{norm}_1": "attn_norm", "QKV": "attn.Wqkv", "W_O": "attn.Wo", r"\mathrm{norm}_2": "mlp_norm",
         "W_gW_1": "mlp.Wi", "W_2": "mlp.Wo"},
        {"E": "model.embeddings.tok_embeddings", "embedding norm": "model.embeddings.norm",
         r"\mathrm{norm}": "model.final_norm", r"\mathrm{norm}_h": "head.norm", "W_h": "head.dense", "W_U": "decoder"},
        fused="in order",
    ),
    "phi": llama({"W_O": "self_attn.dense", "W_1": "mlp.fc1", "W_2": "mlp.fc2"},
                 ends={r"\mathrm{norm}": "model.final_layernorm"}),
    "stablelm": llama(), "cohere2": llama(), "helium": llama(), "arcee": llama(), "seed_oss": llama(),
    "ernie4_5": llama(), "eurobert": llama(), "nemotron": llama(),
    "olmo3": llama(QK_NORMS | {r"\mathrm{norm}_{1'}": "post_attention_layernorm",
                               r"\mathrm{norm}_{2'}": "post_feedforward_layernorm"}),
    "exaone4": llama(QK_NORMS | {r"\mathrm{norm}_{1'}": "post_attention_layernorm",
                                 r"\mathrm{norm}_{2'}": "post_feedforward_layernorm"}),
    "vaultgemma": llama({r"\mathrm{norm}_2": "pre_feedforward_layernorm"}),
    "glm": llama({"W_gW_1": "mlp.gate_up_proj"}),
    "glm4": llama({"W_gW_1": "mlp.gate_up_proj", r"\mathrm{norm}_{1'}": "post_self_attn_layernorm",
                   r"\mathrm{norm}_{2'}": "post_mlp_layernorm"}),
    "hunyuan_v1_dense": llama({r"\mathrm{norm}_Q": "self_attn.query_layernorm",
                               r"\mathrm{norm}_K": "self_attn.key_layernorm"}),
    "qwen2_moe": llama(EXPERTS | {"shared": "mlp.shared_expert", "w_s": "mlp.shared_expert_gate"}),
    "olmoe": llama(QK_NORMS | EXPERTS), "qwen3_moe": llama(QK_NORMS | EXPERTS),
    "granitemoe": llama({"W_r": "block_sparse_moe.router", "experts": "block_sparse_moe.experts"}),
    "dots1": llama(QK_NORMS | EXPERTS | {"shared": "mlp.shared_experts"}),
    "deepseek_v2": llama({
        "W_{DK}W_R": "self_attn.kv_a_proj_with_mqa", r"\mathrm{norm}_K": "self_attn.kv_a_layernorm",
        "W_{UK}W_{UV}": "self_attn.kv_b_proj", **EXPERTS, "shared": "mlp.shared_experts"}),
    "biogpt": Names(
        {"self": "biogpt.layers.{}"},
        {**QKVO, "W_O": "self_attn.out_proj", r"\mathrm{norm}_1": "self_attn_layer_norm",
         r"\mathrm{norm}_2": "final_layer_norm", "W_1": "fc1", "W_2": "fc2"},
        {"E": "biogpt.embed_tokens", "P": "biogpt.embed_positions", r"\mathrm{norm}": "biogpt.layer_norm",
         "W_U": "output_projection"},
        offset=2,
    ),
    "modernbert-decoder": Names(
        {"self": "model.layers.{}"},
        {r"\mathrm{norm}_1": "attn_norm", "W_{Q}": "attn.q_proj", "W_{K}": "attn.k_proj", "W_{V}": "attn.v_proj",
         "W_O": "attn.Wo", r"\mathrm{norm}_2": "mlp_norm", "W_gW_1": "mlp.Wi", "W_2": "mlp.Wo"},
        {"E": "model.embeddings.tok_embeddings", "embedding norm": "model.embeddings.norm",
         r"\mathrm{norm}": "model.final_norm", r"\mathrm{norm}_h": "lm_head.norm", "W_h": "lm_head.dense",
         "W_U": "decoder"},
    ),
    "nomic_bert": Names(
        {"self": "nomic_bert.layers.{}"},
        {**QKVO, **GATED, r"\mathrm{norm}_1": "post_attention_layernorm", r"\mathrm{norm}_2": "post_mlp_layernorm"},
        {"E": "nomic_bert.embeddings.word_embeddings", "S": "nomic_bert.embeddings.token_type_embeddings",
         r"\mathrm{norm}": "nomic_bert.embeddings.LayerNorm",
         r"\mathrm{norm}_h": "cls.predictions.transform.layer_norm",
         "W_h": "cls.predictions.transform.dense", "W_U": "cls.predictions.decoder"},
    ),
    "ernie": bert("ernie", BERT_HEAD),
    **{kind: bert(root, ROBERTA_HEAD, offset=1) for kind, root in
       (("roberta", "roberta"), ("xlm-roberta", "roberta"), ("camembert", "roberta"),
        ("data2vec-text", "data2vec_text"))},
    "t5": t5(), "mt5": t5(), "umt5": t5("{stack}.block.{layer}"),
    "blenderbot": bart(), "blenderbot-small": bart(), "plbart": bart(offset=2),
    "bart": bart(offset=2), "mbart": bart(offset=2), "marian": bart(), "pegasus": bart(), "m2m_100": bart(offset=1),
}  # fmt: skip


# --- what a formula's symbols are, in one block of a model ---


class Weights:
    """The symbols of one attention of one layer. model: of the library; view: which attention, and sizes as numbers."""

    def __init__(self, model: nn.Module, part: str, layer: int, heads: tuple[int, int, int], stream: int):
        self.is_ours = isinstance(model.config, TransformerConfig)
        self.model, self.part, self.layer = model, part, layer
        self.config = model.config if self.is_ours else model.config.get_text_config()
        self.heads, self.groups, self.width = heads
        self.kind = "ours" if self.is_ours else self.config.model_type
        self.names = NAMES[self.kind]
        self.stack = "encoder" if part == "encoder" else "decoder" if part in ("decoder", "cross") else "self"
        self.stream = stream
        inside = "" if self.stack == "self" else f"{self.stack}."
        self.places = {"stack": self.stack, "inside": inside, "layer": layer}

    def symbols(self, length: int) -> dict[str, object]:
        """Those of the weights alone; `length` tokens are read."""
        own = FUNCTIONS | {r"\sqrt{D}": math.sqrt(self.width), r"\sqrt{C}": math.sqrt(self.stream)}
        for symbol in self.names.block:
            module = self.module(symbol)
            if "norm" in symbol and module is not None and not isinstance(module, nn.Identity):
                own[symbol] = self.norm(module, symbol)
            elif symbol.startswith(("W", "w")) and (found := self.matrix_of(symbol)) is not None:
                own[symbol] = found
        own |= self.split_matrices()
        own |= self.gates()
        own["E"] = self.matrix_of("E")
        of_ends = {symbol: self.matrix_of(symbol) for symbol in ("W_U", "W_h", "W_E", "W_x")}
        own |= {symbol: found for symbol, found in of_ends.items() if found is not None}
        if (module := self.module(r"\mathrm{norm}_h")) is not None:
            own[r"\mathrm{norm}_h"] = written_norm(module)
        own |= {"R_i": self.rotation(length), "R_j": self.rotation(length)}
        return own

    def module(self, symbol: str) -> nn.Module | None:
        inside = self.names.block | (self.names.cross if self.part == "cross" else {})
        paths = [self.names.ends.get(symbol, "")]
        if symbol in inside:
            last, block = 2 if self.stack == "decoder" else 1, self.names.stacks[self.stack].format(self.layer)
            paths = [f"{block}.{path.format(last=last)}" for path in inside[symbol].split("|")]
        for path in filter(None, paths):
            try:
                return self.model.get_submodule(path.format(**self.places))
            except AttributeError:
                continue
        return None

    def matrix_of(self, symbol: str) -> Matrix | None:
        module = self.module(symbol)
        if module is None or getattr(module, "weight", None) is None:
            return None
        if symbol == "E":  # where it is the unembedding too, that has the bias
            end = self.matrix_of("W_U")
            return Matrix(numbers(module.weight), 0.0 if end is None else end.bias)
        return matrix(module)

    def norm(self, module: nn.Module, symbol: str) -> Callable:
        """A norm of queries or keys may be of each head (D), or of all that the matrix gives (H·D)."""
        function, gain = written_norm(module), getattr(module, "weight", None)
        per_head = symbol in (r"\mathrm{norm}_Q", r"\mathrm{norm}_K") and (gain is None or gain.shape[-1] == self.width)

        return (lambda x: function(self.by_head(x))) if per_head and "W_{DQ}" not in self.names.block else function

    def by_head(self, x: np.ndarray) -> np.ndarray:
        """(T,H·D) -> (H,T,D)"""
        return x if x.ndim == 3 else np.swapaxes(x.reshape(len(x), -1, self.width), 0, 1)

    def split_matrices(self) -> dict[str, Matrix]:
        own, d, h, g = {}, self.width, self.heads, self.groups
        if (whole := self.matrix_of("QKV")) is not None:
            places = {"Q": np.arange(h * d), "K": h * d + np.arange(g * d), "V": (h + g) * d + np.arange(g * d)}
            if self.names.fused == "by head":  # query, key and value of each head side by side
                places = {letter: (np.arange(h)[:, None] * 3 * d + at * d + np.arange(d)).ravel()
                          for at, letter in enumerate("QKV")}  # fmt: skip
            if self.names.fused == "by group":  # of each group its queries, a key and a value
                each = np.arange(whole.weight.shape[1]).reshape(g, h // g + 2, d)
                places = {"Q": each[:, :-2].ravel(), "K": each[:, -2].ravel(), "V": each[:, -1].ravel()}
            own |= {f"W_{{{letter}}}": columns(whole, place) for letter, place in places.items()}
        if (whole := self.matrix_of("W_gW_1")) is not None:
            half = whole.weight.shape[1] // 2
            own |= {"W_g": columns(whole, slice(half)), "W_1": columns(whole, slice(half, None))}
        for gated in ("gated W_g", "gated W_1"):
            if (found := self.matrix_of(gated)) is not None:
                own[gated.removeprefix("gated ")] = found
        if (down := self.matrix_of("W_{DK}W_R")) is not None:
            rank, turned = self.config.kv_lora_rank, self.config.qk_rope_head_dim
            whole, keys = self.matrix_of("W_{UK}W_{UV}"), self.config.qk_nope_head_dim
            each = np.arange(whole.weight.shape[1]).reshape(h, -1)
            own |= {"W_{DK}": columns(down, slice(rank)), "W_R": columns(down, slice(rank, rank + turned))}
            own |= {"W_{UK}": of_heads(whole, each[:, :keys]), "W_{UV}": of_heads(whole, each[:, keys:])}
        return own

    def gates(self) -> dict[str, object]:
        """Experts: of each its own matrices; and one that all tokens go through."""
        experts = self.module("experts")
        if experts is None:
            return {}
        up, down = numbers(experts.gate_up_proj), numbers(experts.down_proj)
        wide = self.stream
        up = up if up.shape[1] == wide else np.swapaxes(up, 1, 2)  # (E,C,2F)
        down = down if down.shape[2] == wide else np.swapaxes(down, 1, 2)  # (E,F,C)
        biases = [numbers(getattr(experts, f"{name}_bias", None)) for name in ("gate_up_proj", "down_proj")]
        half = up.shape[2] // 2
        at = {"g": slice(0, None, 2), "1": slice(1, None, 2)} if biases[0] is not None else {
            "g": slice(half), "1": slice(half, None)}  # fmt: skip
        of_one = {
            f"W_{letter}^e": (lambda e, place=place: Matrix(
                up[e][:, place], 0.0 if biases[0] is None else biases[0][e][place]))
            for letter, place in at.items()
        } | {"W_2^e": lambda e: Matrix(down[e], 0.0 if biases[1] is None else biases[1][e])}  # fmt: skip
        return {"experts": len(up), "of an expert": of_one} | self.shared_expert()

    def shared_expert(self) -> dict[str, Matrix]:
        module = self.module("shared")
        if module is None:
            return {}
        return {f"W_{letter}^s": matrix(module.get_submodule(path))
                for letter, path in (("g", "gate_proj"), ("1", "up_proj"), ("2", "down_proj"))}  # fmt: skip

    # --- positions ---

    def rotation(self, length: int) -> Callable:
        """The turn of queries or keys at each position (H,T,D); only the first numbers turn, or the last (DeepSeek)."""
        neighbours = self.is_ours and self.config.rotary_pairs == "neighbours"
        frequencies, factor = self.frequencies(length)
        if frequencies is None:
            return lambda x: x * np.nan
        turning = 2 * len(frequencies)
        angles = np.arange(length)[:, None] * frequencies
        cos, sin = np.cos(angles) * factor, np.sin(angles) * factor

        def turned(x: np.ndarray) -> np.ndarray:
            if neighbours or self.kind in NEIGHBOURS + PARTED:
                one, two = x[..., 0::2], x[..., 1::2]
                first, second = one * cos - two * sin, two * cos + one * sin
                if self.kind in PARTED:
                    return np.concatenate([first, second], -1)
                return np.stack([first, second], -1).reshape(x.shape)
            one, two = np.split(x, 2, -1)
            return np.concatenate([one * cos - two * sin, two * cos + one * sin], -1)

        def of(x: np.ndarray) -> np.ndarray:
            if x.ndim == 2 and x.shape[1] == turning:  # one key for all heads
                return turned(x[None])
            x = self.by_head(x)
            if hasattr(self.config, "qk_rope_head_dim"):
                return side_by_side([x[..., :-turning], turned(x[..., -turning:])])
            return side_by_side([turned(x[..., :turning]), x[..., turning:]])

        return of

    def frequencies(self, length: int) -> tuple[np.ndarray | None, float]:
        config = self.config
        if self.is_ours:
            return config.rotary_base ** (-np.arange(0, self.width, 2) / self.width), 1.0
        if rotary := getattr(config, "rotary_dim", None):
            return 10000.0 ** (-np.arange(0, rotary, 2) / rotary), 1.0
        rope = getattr(config, "rope_parameters", None)
        if not rope:
            return None, 1.0
        kinds = getattr(config, "layer_types", None)
        of_layer = kinds[self.layer] if kinds and kinds[self.layer] in rope else None
        own = rope[of_layer] if of_layer else rope
        if own.get("rope_type", "default") == "default":
            width = getattr(config, "qk_rope_head_dim", None) or int(self.width * own.get("partial_rotary_factor", 1.0))
            return own["rope_theta"] ** (-np.arange(0, width, 2) / width), 1.0
        found, factor = ROPE_INIT_FUNCTIONS[own["rope_type"]](config, "cpu", seq_len=length)
        return numbers(found), float(factor)

    def bias(self, queries: int, keys: int) -> dict[str, np.ndarray]:
        """T5's table of distances (Raffel et al. 2020, §2.1): half of the buckets exact, the others logarithmic; or
        the slopes of Press et al. 2022, §3: for H heads, a power of 2, 2^(−8/H), 2^(−16/H) …; for others of the power
        below, then every other one of the power above."""
        if self.module("B") is None:
            below = 2 ** int(math.log2(self.heads))
            slopes = [2 ** (-8 * n / below) for n in range(1, below + 1)]
            slopes += [2 ** (-4 * n / below) for n in range(1, 2 * below + 1, 2)]
            before = self.width**-0.5 if self.kind == "falcon" else 1.0  # it divides the sum
            return {"m_h": before * np.array(slopes[: self.heads])[:, None, None], "S": float(keys)}
        table, config = numbers(self.module("B").weight), self.config
        both, count = self.part in ("encoder", "self"), len(table)
        far = getattr(config, "relative_attention_max_distance", 128)
        there = np.zeros((queries, keys), dtype=int)
        for i, j in np.ndindex(queries, keys):
            distance, buckets, first = j - i, count, 0
            if both:
                buckets //= 2
                first = buckets if distance > 0 else 0
                distance = abs(distance)
            else:
                distance = max(-distance, 0)
            exact = buckets // 2
            if distance >= exact:
                share_of = math.log(distance / exact) / math.log(far / exact)
                distance = min(exact + int(share_of * (buckets - exact)), buckets - 1)
            there[i, j] = first + distance
        return {r"B_h[\mathrm{bucket}(j-i)]": np.moveaxis(table[there], -1, 0)}  # (H,T,S)


def of_heads(whole: Matrix, places: np.ndarray) -> Matrix:
    """Of a matrix, the columns (H,·) of each head: (T,R) -> (H,T,·)."""
    return Matrix(np.moveaxis(whole.weight[:, places], 1, 0))
