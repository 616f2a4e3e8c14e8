"""Our attend() as an attention of the transformers library: registered once under a name of its own.

Every attention layer of a model that is loaded with this name calls `attention` with query, key and value as they enter
the product, and every mask is asked of `boolean_mask`. What a single pass changes lives in a ContextVar.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from viz_model.errors import VizError
from viz_model.transformer.attention import Equation, mixed_values

NAME = "viz_model"

# Keyword arguments that the equation does not depend on: the window is in the mask, the rest steers other code.
HARMLESS = {
    "is_causal", "sliding_window", "position_ids", "deterministic", "use_cache", "output_attentions",
    "output_hidden_states", "output_router_logits", "return_dict", "cache_position", "logits_to_keep",
}  # fmt: skip


@dataclass(frozen=True)
class AttentionPlace:
    """Which attention a module is: its part, what its hook sites begin with, and whether a bias is added there."""

    part: str = ""
    name: str = ""
    has_bias: bool = True


def give_place(module: nn.Module, place: AttentionPlace) -> None:
    """Once, when the model is loaded. It is kept on the module: nothing else of ours comes with a call of it."""
    module.viz_place = place


def place_of(module: nn.Module) -> AttentionPlace | None:
    """Which attention it is; None for a module that is none, or was not met in the first pass."""
    return getattr(module, "viz_place", None)


@dataclass(frozen=True, eq=False)
class AttentionCall:
    """One call of an attention layer, as the first pass of a model met it."""

    module: nn.Module
    equation: Equation
    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor
    bias: Tensor | None
    mixed: Tensor


@dataclass(frozen=True)
class _Pass:
    """What one pass changes."""

    masks: Mapping[str, Tensor] = field(default_factory=dict)
    met: Callable[[AttentionCall], None] | None = None


_AS_IT_IS = _Pass()
_running: ContextVar[_Pass] = ContextVar("viz_model.hub.attention", default=_AS_IT_IS)


@contextmanager
def with_masks(masks: Mapping[str, Tensor]) -> Iterator[None]:
    """Within it, the passes of this thread take these masks (…,T,S) instead of the model's own, by part."""
    token = _running.set(replace(_running.get(), masks=masks))
    try:
        yield
    finally:
        _running.reset(token)


@contextmanager
def telling(met: Callable[[AttentionCall], None]) -> Iterator[None]:
    """Within it, `met` is told of every call of an attention layer in this thread."""
    token = _running.set(replace(_running.get(), met=met))
    try:
        yield
    finally:
        _running.reset(token)


def register() -> None:
    """Make the name known to the library; again does no harm."""
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(NAME, attention)
    AttentionMaskInterface.register(NAME, boolean_mask)


def boolean_mask(*arguments, **options) -> Tensor:
    """The library's own mask as booleans (B,1,T,S), also where a kernel could do without one."""
    from transformers.masking_utils import sdpa_mask

    return sdpa_mask(*arguments, **options | {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False})


def attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    softcap: float | None = None,
    position_bias: Tensor | None = None,
    s_aux: Tensor | None = None,
    sinks: Tensor | None = None,
    **others,
) -> tuple[Tensor, None]:
    """What the library calls: query (B,H,T,D), key and value (B,G,S,D) -> (B,T,H,D), and no weights.

    Raises VizError, which names it, for what is asked for and would change the equation in a way we do not know.
    """
    _refuse_unknown(module, attention_mask, dropout, others)
    run, place = _running.get(), place_of(module) or AttentionPlace()
    equation = Equation(query.shape[-1] ** -0.5 if scaling is None else scaling, softcap)
    mask = run.masks.get(place.part, attention_mask)
    if mask is None:
        mask = _mask_without_one(module, query, key, others)
    position_bias = position_bias if place.has_bias else None
    mixed = mixed_values(
        query,
        key,
        value,
        mask=mask,
        bias=position_bias,
        scale=equation.scale,
        softcap=softcap,
        sinks=s_aux if sinks is None else sinks,
        name=place.name,
    )
    if run.met is not None:
        run.met(AttentionCall(module, equation, query, key, value, mask, position_bias, mixed))
    return mixed.transpose(1, 2).contiguous(), None  # (B,H,T,D) -> (B,T,H,D), as the library gives it


def _mask_without_one(module: nn.Module, query: Tensor, key: Tensor, others: dict) -> Tensor:
    """Of a layer that gives no mask but says whether it is causal."""
    causal = others.get("is_causal")
    causal = getattr(module, "is_causal", False) if causal is None else causal
    mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device)
    return mask.tril(key.shape[-2] - query.shape[-2]) if causal else mask


def _refuse_unknown(module: nn.Module, mask: Tensor | None, dropout: float, others: dict) -> None:
    what = type(module).__name__
    strange = [name for name, given in others.items() if given is not None and name not in HARMLESS]
    if strange:
        raise VizError(f"{what} computes its attention with '{strange[0]}', which is not known here.")
    if dropout:
        raise VizError(f"{what} drops out weights at random, so its numbers would not be those of the model.")
    if mask is not None and mask.dtype != torch.bool:
        raise VizError(f"{what} adds numbers ({mask.dtype}) to its scores, and no mask can be read from these numbers.")
