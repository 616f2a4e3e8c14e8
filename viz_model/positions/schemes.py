"""The same weights under another position scheme, with their tokens in another order or at other positions.

Absolute positions are added to the embedding (Vaswani et al. 2017, §3.5); rotary ones turn queries and keys inside
every attention (Su et al. 2021, "RoFormer", §3). The schemes here are run with the weights of one model, so that what
differs between two passes is where positions enter, and nothing else.
"""

import copy
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from viz_model.errors import ConfigError, VizError
from viz_model.heads.comparison import ROUNDING
from viz_model.model import Model
from viz_model.model.trace import Trace
from viz_model.positions.tables import learned_table
from viz_model.transformer import TransformerConfig
from viz_model.transformer.config import CHOICES
from viz_model.transformer.hooks import Edit, capture, edit
from viz_model.transformer.positions import rotary_angles, rotate, sinusoidal_table

SCHEMES = CHOICES["position"]


def possible_schemes(config: TransformerConfig) -> tuple[str, ...]:
    """The schemes that weights of this config can be run under: learned rows only where they were learned."""
    return tuple(scheme for scheme in SCHEMES if scheme == config.position or _fits(config, scheme))


def _fits(config: TransformerConfig, scheme: str) -> bool:
    if scheme == "learned":
        return False
    try:
        replace(config, position=scheme)
    except ConfigError:  # an odd width
        return False
    return True


def under_scheme(model: Model, scheme: str) -> Model:
    """The model with the same weights (shared, not copied) and another position scheme; "none" takes positions out.

    Raises VizError where the weights cannot be run so.
    """
    config = model.config
    if scheme == config.position:
        return model
    if scheme not in possible_schemes(config):
        raise VizError(f"{model.name} cannot be run with {scheme} positions. Choose another scheme or another model.")
    return with_config(model, replace(config, position=scheme))


def with_config(model: Model, config: TransformerConfig) -> Model:
    """The model with the same weights (shared, not copied) under a config that has no further ones."""
    with torch.random.fork_rng(devices=[]):  # its first weights are drawn in vain
        transformer = type(model.transformer)(config)
    weights = model.transformer.state_dict()
    transformer.load_state_dict({name: weights[name] for name in transformer.state_dict()}, assign=True)
    variant = copy.copy(model)
    variant.transformer = transformer.eval().requires_grad_(False)
    return variant.under_edits_of(model)


def unmasked_trace(model: Model, ids: Sequence[int]) -> Trace:
    """The pass in which every token reads every other; of an encoder-decoder, the encoder's part of it.

    It holds q, k and v, from which weights are derived a head at a time: two of these passes are kept at once.
    """
    if model.config.layout == "encoder-decoder":
        return model.trace(ids, target=[model.start_token], stored_weights_bytes=0).of("encoder")
    return model.trace(ids, mask="bidirectional", stored_weights_bytes=0)


def shuffled_order(length: int, seed: int) -> tuple[int, ...]:
    """Which token stands at each place after shuffling; never as before where there are two tokens or more."""
    order, chance = list(range(length)), random.Random(seed)
    while length > 1 and order == sorted(order):
        chance.shuffle(order)
    return tuple(order)


def put_back(matrix: Tensor, order: Sequence[int]) -> Tensor:
    """Rows and columns (T,T) of tokens in `order`, as they stood before: cell (a, b) is of tokens a and b again."""
    places = torch.tensor(order).argsort()
    return matrix[places][:, places]


@dataclass(frozen=True, eq=False)
class OrderChange:
    """One prompt as typed and in another order, nothing masked, and how far apart the two passes are.

    weights_change: the largest |difference| of all weights of all heads, once rows and columns are put back;
    stream_change: that of the normalised end of the stream (T,C), rows put back, and stream_size its largest number.
    """

    typed: Trace
    shuffled: Trace
    order: tuple[int, ...]
    weights_change: float
    stream_change: float
    stream_size: float


@torch.inference_mode()
def change_order(model: Model, ids: Sequence[int], order: Sequence[int]) -> OrderChange:
    """Run the prompt as typed, and with token `order[p]` at place p. Raises VizError where that is no order of it."""
    if sorted(order) != list(range(len(ids))):
        raise VizError(f"An order of {len(ids)} tokens must name each place from 0 to {len(ids) - 1} exactly once.")
    typed, shuffled = unmasked_trace(model, ids), unmasked_trace(model, [ids[token] for token in order])
    config = model.config
    layers = config.layers_of(config.parts[0])
    weights_change = max(
        (put_back(shuffled.weights(layer, head), order) - typed.weights(layer, head)).abs().max().item()
        for layer in range(layers)
        for head in range(config.n_heads)
    )
    name = f"{config.stack_name(config.parts[0])}final_norm"
    end = typed[name]  # (T,C)
    return OrderChange(
        typed=typed,
        shuffled=shuffled,
        order=tuple(order),
        weights_change=weights_change,
        stream_change=(shuffled[name][torch.tensor(order).argsort()] - end).abs().max().item(),
        stream_size=end.abs().max().item(),
    )


def moved_on(model: Model, by: int) -> dict[str, Edit]:
    """Edits under which every token stands `by` positions later.

    A learned table ends with the trained length: VizError for a prompt that would need more rows is raised in the
    pass. Sinusoids and rotations go on.
    """
    config = model.config
    if config.position == "rotary":
        angles = rotary_angles(torch.tensor([by]), config.d_head, config.rotary_base)  # (1,D/2): the same for all
        turn = lambda x: rotate(x, angles, config.rotary_pairs)  # noqa: E731
        return {"*.attn.q": turn, "*.attn.k": turn}
    if config.position == "none":
        return {}
    return {"*embed.positions": lambda rows: _rows(model, by, rows.shape[-2]).expand_as(rows).to(rows.dtype)}


def _rows(model: Model, first: int, count: int) -> Tensor:
    """Rows of the table from position `first` on: (count, C)."""
    config = model.config
    if config.position == "sinusoidal":
        return sinusoidal_table(first + count, config.d_model)[first:]
    table = learned_table(model.transformer)
    if first + count > len(table):
        raise VizError(
            f"Position {first + count - 1} has no row, because {model.name} learned only rows 0 to {len(table) - 1}."
        )
    return table[first : first + count]


@dataclass(frozen=True)
class SiteChange:
    """How much one hook site differs between two passes: the largest |difference| of any number of it.

    size: the largest number of the site in the first pass.
    """

    site: str
    change: float
    size: float

    @property
    def is_rounding(self) -> bool:
        """Whether the change is as small as float32 rounds: under 10⁻⁵ of the site's largest number, but not 0."""
        return 0 < self.change < ROUNDING * self.size


@torch.inference_mode()
def site_changes(model: Model, ids: Sequence[int], other: Model, by: int = 0) -> list[SiteChange]:
    """Every site of a pass of `model`, against that of `other` (the same weights) with tokens `by` positions later.

    Where `other` has no positions, it has no rows of them (0 is added) and turns nothing (q is q_pre).
    """
    first, second = _all_sites(model, ids), _all_sites(other, ids, moved_on(other, by) if by else {})
    changes = []
    for name, tensor in first.items():
        if tensor.dtype == torch.bool:  # the mask, which has nothing to do with positions
            continue
        compared = second.get(name, second.get(name.removesuffix("_pre")))
        difference = tensor if compared is None else compared - tensor
        changes.append(SiteChange(name, difference.abs().max().item(), tensor.abs().max().item()))
    return changes


def _all_sites(model: Model, ids: Sequence[int], edits: dict[str, Edit] | None = None) -> dict[str, Tensor]:
    """Every site of the pass under the model's own mask, in the order in which the pass comes to them."""
    with capture("*") as found:
        if edits:
            with edit(edits):
                _run(model, ids)
        else:
            _run(model, ids)
    return found


def _run(model: Model, ids: Sequence[int]) -> None:
    model.trace(ids, target=[model.start_token]) if model.config.layout == "encoder-decoder" else model.trace(ids)
