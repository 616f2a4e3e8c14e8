"""Families whose attention is in their own code and passes no interface of the library: made to call ours.

Each attention module keeps its matrices, its rotation, its bias and its place in the cache; only
softmax(QKᵀ·scale + b + M)·V is computed here. What is given to `attention` is then captured, edited and drawn as that
of any other family.
"""

import math
import sys
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel

from viz_model.hub.attention import NAME, attention
from viz_model.transformer.sharing import sharing_copy

EAGER, SDPA = "eager", "sdpa"  # the library's names of its own plain attention, and of torch's kernel


def _gpt_neo(module: nn.Module, hidden: Tensor, attention_mask=None, layer_past=None, **_):
    """Scores are not scaled; a local layer reads a window, which its buffer `bias` holds (Black et al. 2021)."""
    made = (module.q_proj(hidden), module.k_proj(hidden), module.v_proj(hidden))
    query, key, value = (_heads(one, module.num_heads) for one in made)
    key, value = _remembered(layer_past, key, value, module.layer_id)
    queries, keys = query.shape[-2], key.shape[-2]
    mask = module.bias[:, :, keys - queries : keys, :keys] & attention_mask
    mixed, _ = attention(module, query, key, value, mask, scaling=1.0)
    return module.out_proj(mixed.flatten(-2)), None


def _falcon(module: nn.Module, hidden: Tensor, alibi, attention_mask, layer_past=None, position_embeddings=None, **_):
    """H/G queries and their key and value lie side by side, group by group (Almazrouei et al. 2023, §3.1)."""
    grouped = module.num_kv_heads if module.new_decoder_architecture else 1
    groups = grouped if module.new_decoder_architecture or module.multi_query else module.num_heads
    fused = module.query_key_value(hidden).unflatten(-1, (groups, -1, module.head_dim))  # (B,T,G,H/G+2,D)
    query, key, value = fused[..., :-2, :].flatten(2, 3), fused[..., -2, :], fused[..., -1, :]
    query, key, value = (one.transpose(1, 2) for one in (query, key, value))  # (B,T,·,D) -> (B,·,T,D)
    bias = None
    if alibi is None:
        turn = sys.modules[type(module).__module__].apply_rotary_pos_emb
        query, key = turn(query, key, *position_embeddings)
    else:  # the model has written its bias into the mask, as numbers to add
        bias, attention_mask = alibi / math.sqrt(module.head_dim), _permitted(attention_mask[:, :1])
    key, value = _remembered(layer_past, key, value, module.layer_idx)
    mixed, _ = attention(module, query, key, value, attention_mask, position_bias=bias)
    return module.dense(mixed.flatten(-2)), None


def _bloom(module: nn.Module, hidden: Tensor, residual: Tensor, alibi: Tensor, attention_mask, layer_past=None, **_):
    """ALiBi in every layer (Press et al. 2022, §3); the module adds its result to the stream itself."""
    fused = module.query_key_value(hidden).unflatten(-1, (module.num_heads, 3, module.head_dim))
    query, key, value = (fused[..., place, :].transpose(1, 2) for place in range(3))
    key, value = _remembered(layer_past, key, value, module.layer_idx)
    bias = alibi.unflatten(0, (-1, module.num_heads))  # (B·H,1,S) -> (B,H,1,S)
    mixed, _ = attention(module, query, key, value, attention_mask, position_bias=bias)
    return module.dense(mixed.flatten(-2)) + residual, None


def _mpt(module: nn.Module, hidden: Tensor, position_bias: Tensor, cache=None, attention_mask=None, **_):
    """ALiBi, counted back from the last key; (H,1,longest text) -> the last S of it."""
    made = module.Wqkv(hidden)
    if module.clip_qkv:
        made = made.clamp(-module.clip_qkv, module.clip_qkv)
    query, key, value = (_heads(one, module.n_heads) for one in made.chunk(3, -1))
    key, value = _remembered(cache, key, value, module.layer_idx)
    bias = position_bias[None, ..., -key.shape[-2] :]
    scale = module.softmax_scale
    mixed, _ = attention(module, query, key, value, attention_mask, scaling=scale, position_bias=bias)
    return module.out_proj(mixed.flatten(-2)), None


def _mpnet(module: nn.Module, hidden: Tensor, attention_mask=None, position_bias=None, **_):
    """One learned bias for each bucket of distances and each head, the same in all layers (Song et al. 2020)."""
    made = (module.q(hidden), module.k(hidden), module.v(hidden))
    query, key, value = (_heads(one, module.num_attention_heads) for one in made)
    mixed, _ = attention(module, query, key, value, attention_mask, position_bias=position_bias)
    return (module.o(mixed.flatten(-2)),)


OURS: dict[str, Callable] = {
    "GPTNeoSelfAttention": _gpt_neo,
    "FalconAttention": _falcon,
    "BloomAttention": _bloom,
    "MptAttention": _mpt,
    "MPNetSelfAttention": _mpnet,
}
FAMILIES = ("gpt_neo", "falcon", "bloom", "mpt", "mpnet")  # their types, as a config says them


def made_with(config: PreTrainedConfig) -> str:
    """The attention that a model of the library is made with, before `adapt` is called."""
    return EAGER if config.model_type in FAMILIES else NAME


def adapt(model: PreTrainedModel) -> None:
    """Once, when the model is loaded: its attention is ours from now on, in every layer a module of its own."""
    for module in model.modules():
        if type(module).__name__ in OURS:
            module.__class__ = _calling_ours(type(module))
            module.config = model.config
        if type(module).__name__ == "AlbertTransformer":
            _part_layers(module)
    choose_attention(model, NAME)


def choose_attention(model: PreTrainedModel, name: str) -> None:
    """Compute attention by ours (`NAME`) or by the library's own from now on."""
    for module in model.modules():
        if isinstance(module, PreTrainedModel):
            module.config._attn_implementation = name


def own_attention(config: PreTrainedConfig) -> str:
    """The library's own attention that a model is compared with: its plain one.

    But in transformers 5, Falcon's plain one adds its ALiBi twice, to the scores and in the mask; the kernel does not.
    """
    return SDPA if config.model_type == "falcon" and config.alibi else EAGER


@cache
def _calling_ours(library: type[nn.Module]) -> type[nn.Module]:
    """The module class with our forward pass, for as long as the config says so."""
    ours = OURS[library.__name__]

    def forward(self, *arguments, **options):
        run = ours if self.config._attn_implementation == NAME else library.forward
        return run(self, *arguments, **options)

    return type(library.__name__, (library,), {"forward": forward, "__module__": library.__module__})


def _part_layers(encoder: nn.Module) -> None:
    """ALBERT runs a few blocks again and again (Lan et al. 2020, §3.1): here every layer is a module of its own, and
    those of a group share all their numbers."""
    config, groups = encoder.config, encoder.albert_layer_groups
    of_each = config.num_hidden_layers / len(groups)
    encoder.albert_layer_groups = nn.ModuleList(
        sharing_copy(groups[int(layer / of_each)], config) for layer in range(config.num_hidden_layers)
    )
    config.num_hidden_groups = config.num_hidden_layers


def _heads(x: Tensor, heads: int) -> Tensor:
    """Heads side by side put apart: (B,T,H·D) -> (B,H,T,D)."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def _remembered(cache, key: Tensor, value: Tensor, layer: int) -> tuple[Tensor, Tensor]:
    """New keys and values behind those that the cache holds, if there is one."""
    return (key, value) if cache is None else cache.update(key, value, layer)


def _permitted(added: Tensor) -> Tensor:
    """A mask of numbers to add as booleans: what is forbidden has the least number there is."""
    return added > torch.finfo(added.dtype).min
