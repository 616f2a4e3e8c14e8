"""One block: attention and feed-forward, each added to the residual stream, with a norm before or after."""

from torch import Tensor, nn
from torch.nn import functional as F

from viz_model.attention import attend
from viz_model.cache import LayerCache
from viz_model.hooks import site
from viz_model.transformer.config import TransformerConfig
from viz_model.transformer.positions import rotate

ACTIVATIONS = {
    "gelu": F.gelu,
    "gelu-tanh": lambda x: F.gelu(x, approximate="tanh"),
    "relu": F.relu,
    "swiglu": F.silu,
}


def make_norm(config: TransformerConfig) -> nn.Module:
    """LayerNorm (Ba et al. 2016) or RMSNorm (Zhang and Sennrich 2019) over C."""
    if config.norm == "rms":
        return nn.RMSNorm(config.d_model, eps=config.norm_epsilon)
    return nn.LayerNorm(config.d_model, eps=config.norm_epsilon)


class Attention(nn.Module):
    """Projections around `attend()`: (B,T,C) -> (B,T,C)."""

    def __init__(self, config: TransformerConfig, name: str):
        super().__init__()
        self.config, self.name = config, name
        kv_width = config.n_kv_heads * config.d_head
        self.query = nn.Linear(config.d_model, config.d_model, bias=config.bias)
        self.key = nn.Linear(config.d_model, kv_width, bias=config.bias)
        self.value = nn.Linear(config.d_model, kv_width, bias=config.bias)
        self.output = nn.Linear(config.d_model, config.d_model, bias=config.bias)

    def forward(self, x: Tensor, mask: Tensor | None, angles: Tensor | None, cache: LayerCache | None = None) -> Tensor:
        width = self.config.d_head
        query = self.query(x).unflatten(-1, (-1, width)).transpose(1, 2)  # (B,T,C) -> (B,H,T,D)
        key = self.key(x).unflatten(-1, (-1, width)).transpose(1, 2)  # (B,G,T,D)
        value = self.value(x).unflatten(-1, (-1, width)).transpose(1, 2)  # (B,G,T,D)
        if angles is not None:
            query = rotate(site(f"{self.name}.q_pre", query), angles, self.config.rotary_pairs)
            key = rotate(site(f"{self.name}.k_pre", key), angles, self.config.rotary_pairs)
        if cache is not None:
            key, value = cache.append(key, value)  # (B,G,T,D) -> (B,G,S,D), with all tokens before
        mixed = attend(query, key, value, mask=mask, name=self.name)
        joined = mixed.transpose(1, 2).flatten(-2)  # (B,H,T,D) -> (B,T,C): heads side by side
        return site(f"{self.name}.out", self.output(joined))


class FeedForward(nn.Module):
    """Two layers at each position by itself: (B,T,C) -> (B,T,F) -> (B,T,C).

    Vaswani et al. 2017, §3.3; the gated form is SwiGLU (Shazeer 2020, "GLU Variants", eq. 6).
    """

    def __init__(self, config: TransformerConfig, name: str):
        super().__init__()
        self.name, self.activation = name, ACTIVATIONS[config.activation]
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
    """(B,T,C) -> (B,T,C). Pre-norm: x + f(norm(x)); post-norm: norm(x + f(x)) (Xiong et al. 2020, §3).

    `resid_mid` and `resid_post` are the residual stream after each half; in a post-norm block the norm is
    part of the stream, so they equal `norm1` and `norm2`.
    """

    def __init__(self, config: TransformerConfig, name: str):
        super().__init__()
        self.name, self.pre_norm = name, config.norm_place == "pre"
        self.norm1, self.norm2 = make_norm(config), make_norm(config)
        self.attn = Attention(config, f"{name}.attn")
        self.ffn = FeedForward(config, f"{name}.ffn")

    def forward(self, x: Tensor, mask: Tensor | None, angles: Tensor | None, cache: LayerCache | None = None) -> Tensor:
        x = site(f"{self.name}.resid_pre", x)
        if self.pre_norm:
            x = x + self.attn(self._norm1(x), mask, angles, cache)
            x = site(f"{self.name}.resid_mid", x)
            x = x + self.ffn(self._norm2(x))
        else:
            x = self._norm1(x + self.attn(x, mask, angles, cache))
            x = site(f"{self.name}.resid_mid", x)
            x = self._norm2(x + self.ffn(x))
        return site(f"{self.name}.resid_post", x)

    def _norm1(self, x: Tensor) -> Tensor:
        return site(f"{self.name}.norm1", self.norm1(x))

    def _norm2(self, x: Tensor) -> Tensor:
        return site(f"{self.name}.norm2", self.norm2(x))
