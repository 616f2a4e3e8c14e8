"""One block: attention and feed-forward, each added to the residual stream, with a norm before or after."""

from torch import Tensor, nn

from viz_model.transformer.attention import mixed_values
from viz_model.transformer.cache import LayerCache
from viz_model.transformer.config import TransformerConfig
from viz_model.transformer.feed_forward import ACTIVATIONS
from viz_model.transformer.hooks import site
from viz_model.transformer.linear_maps import AttentionMaps, BlockMaps, Maps, Norm, Product, Rearranged
from viz_model.transformer.positions import rotate


class _Sited:
    """What the module below it makes of x, as a hook site of that name."""

    name = ""

    def forward(self, x: Tensor) -> Tensor:
        return site(self.name, super().forward(x))


class LayerNorm(_Sited, nn.LayerNorm):
    """Ba et al. 2016, "Layer Normalization"."""


class RMSNorm(_Sited, nn.RMSNorm):
    """Zhang and Sennrich 2019, "Root Mean Square Layer Normalization"."""


class NoNorm(_Sited, nn.Identity):
    """In the place of a norm, where a model has none."""


def make_norm(config: TransformerConfig, name: str, *, present: bool = True) -> nn.Module:
    """The norm over C of that kind, or none; what it gives is the hook site `name`."""
    kinds = {"layer": LayerNorm, "rms": RMSNorm}
    norm = kinds[config.norm](config.d_model, eps=config.norm_epsilon) if present else NoNorm()
    norm.name = name
    return norm


def norm_maps(norm: nn.Module) -> Maps:
    """The map that a norm is; none in the place of one."""
    return () if isinstance(norm, NoNorm) else (Norm(norm),)


class Attention(nn.Module):
    """Projections around `attend`: (B,T,C) -> (B,T,C); a text reads itself, and what a cache holds of it."""

    def __init__(self, config: TransformerConfig, name: str):
        super().__init__()
        self.config, self.name = config, name
        kv_width = config.n_kv_heads * config.d_head
        self.query = nn.Linear(config.d_model, config.d_model, bias=config.bias)
        self.key = nn.Linear(config.d_model, kv_width, bias=config.bias)
        self.value = nn.Linear(config.d_model, kv_width, bias=config.bias)
        self.output = nn.Linear(config.d_model, config.d_model, bias=config.bias)

    def forward(self, x: Tensor, mask: Tensor | None, angles: Tensor | None, cache: LayerCache | None = None) -> Tensor:
        query, key, value = self._heads(self.query(x)), self._heads(self.key(x)), self._heads(self.value(x))
        if angles is not None:
            query = rotate(site(f"{self.name}.q_pre", query), angles, self.config.rotary_pairs)
            key = rotate(site(f"{self.name}.k_pre", key), angles, self.config.rotary_pairs)
        if cache is not None:
            key, value = cache.append(key, value)  # (B,G,T,D) -> (B,G,S,D), with all tokens before
        return self._attend(query, key, value, mask)

    def maps(self, norm: nn.Module, pre_norm: bool) -> AttentionMaps:
        """What it does, map by map, with the norm of its half."""
        norms, heads = norm_maps(norm), Rearranged(self._heads)
        return AttentionMaps(
            read=norms if pre_norm else (),
            query=(Product(self.query), heads),
            key=(Product(self.key), heads),
            value=(Product(self.value), heads),
            output=(Product(self.output),),
            after=() if pre_norm else norms,
        )

    def _heads(self, x: Tensor) -> Tensor:
        """(B,T,C) -> (B,H,T,D), or (B,G,T,D) of keys and values."""
        return x.unflatten(-1, (-1, self.config.d_head)).transpose(1, 2)

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        mixed = mixed_values(query, key, value, mask=mask, name=self.name)
        joined = mixed.transpose(1, 2).flatten(-2)  # (B,H,T,D) -> (B,T,C): heads side by side
        return site(f"{self.name}.out", self.output(joined))


class CrossAttention(Attention):
    """The target (B,T,C) reads encoder output, `memory` (B,S,C): queries of the one, keys and values of the other.

    Vaswani et al. 2017, §3.2.3. Nothing is rotated: positions of two texts have no distance. A cache keeps the keys
    and values of the source, which stays as it is; then memory is None.
    """

    def forward(self, x: Tensor, memory: Tensor | None, mask: Tensor | None, cache: LayerCache | None = None) -> Tensor:
        query = self._heads(self.query(x))
        if memory is None:
            key, value = cache.source_keys.to(query), cache.source_values.to(query)
        else:
            key, value = self._heads(self.key(memory)), self._heads(self.value(memory))
            if cache is not None:
                cache.keep_source(key, value)
        return self._attend(query, key, value, mask)


class FeedForward(nn.Module):
    """Two layers at each position by itself: (B,T,C) -> (B,T,F) -> (B,T,C).

    Vaswani et al. 2017, §3.3; the gated form is SwiGLU (Shazeer 2020, "GLU Variants", eq. 6).
    """

    def __init__(self, config: TransformerConfig, name: str):
        super().__init__()
        self.name = name
        self.activation = ACTIVATIONS["silu" if config.activation == "swiglu" else config.activation]
        self.up = nn.Linear(config.d_model, config.d_ff, bias=config.bias)
        self.gate = None
        if config.activation == "swiglu":
            self.gate = nn.Linear(config.d_model, config.d_ff, bias=config.bias)
        self.down = nn.Linear(config.d_ff, config.d_model, bias=config.bias)

    def forward(self, x: Tensor) -> Tensor:
        if self.gate is None:
            hidden = self.activation(self.up(x))
        else:
            hidden = self.activation(self.gate(x)) * self.up(x)
        return site(f"{self.name}.out", self.down(site(f"{self.name}.hidden", hidden)))


class Block(nn.Module):
    """(B,T,C) -> (B,T,C) in halves. Pre-norm: x + f(norm(x)); post-norm: norm(x + f(x)) (Xiong et al. 2020, §3).

    Self-attention and feed-forward; in the decoder of an encoder-decoder cross-attention between them; with F = 0
    no feed-forward. `resid_pre` is the residual stream that comes in, `resid_self` after self-attention where
    cross-attention follows, `resid_mid` before the feed-forward half, `resid_post` at the end. In a post-norm block
    the norm is part of the stream, so it equals the stream after its half.
    """

    def __init__(self, config: TransformerConfig, name: str, *, cross: bool = False):
        super().__init__()
        self.name, self.pre_norm = name, config.norm_place == "pre"
        self.norm1 = make_norm(config, f"{name}.norm1")
        self.norm2 = make_norm(config, f"{name}.norm2") if config.d_ff else None
        self.attn = Attention(config, f"{name}.attn")
        self.ffn = FeedForward(config, f"{name}.ffn") if config.d_ff else None
        self.norm_cross = make_norm(config, f"{name}.norm_cross") if cross else None
        self.cross = CrossAttention(config, f"{name}.cross") if cross else None

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None,
        angles: Tensor | None,
        cache: LayerCache | None = None,
        memory: Tensor | None = None,
        memory_mask: Tensor | None = None,
    ) -> Tensor:
        """memory (B,S,C): encoder output, for cross-attention; None where the cache holds what is read of it."""
        x = site(f"{self.name}.resid_pre", x)
        halfway = "resid_mid" if self.ffn else "resid_post"
        if self.pre_norm:
            x = x + self.attn(self.norm1(x), mask, angles, cache)
        else:
            x = self.norm1(x + self.attn(x, mask, angles, cache))
        x = site(f"{self.name}.{'resid_self' if self.cross else halfway}", x)
        if self.cross and self.pre_norm:
            x = x + self.cross(self.norm_cross(x), memory, memory_mask, cache)
        elif self.cross:
            x = self.norm_cross(x + self.cross(x, memory, memory_mask, cache))
        x = site(f"{self.name}.{halfway}", x) if self.cross else x
        if self.ffn and self.pre_norm:
            x = x + self.ffn(self.norm2(x))
        elif self.ffn:
            x = self.norm2(x + self.ffn(x))
        return site(f"{self.name}.resid_post", x) if self.ffn else x

    def maps(self) -> BlockMaps:
        """What it does to the stream, map by map."""
        return BlockMaps(
            attn=self.attn.maps(self.norm1, self.pre_norm),
            cross=self.cross.maps(self.norm_cross, self.pre_norm) if self.cross else None,
            has_feed_forward=self.ffn is not None,
            after=() if self.pre_norm or not self.ffn else norm_maps(self.norm2),
        )
