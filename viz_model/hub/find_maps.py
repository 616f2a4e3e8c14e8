"""What the blocks of a model do to their stream, map by map, as far as the first pass shows it."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from viz_model.hub.find_sites import BlockSites
from viz_model.hub.recording import Event, first_event
from viz_model.transformer.linear_maps import AttentionMaps, BlockMaps, Maps, Norm, Product

NORM_SITES = {"attn": "norm1", "cross": "norm_cross"}


def of_block(found: BlockSites, events: Sequence[Event], made: Mapping[str, Mapping[str, Maps | None]]) -> BlockMaps:
    """events: of the block. made: of "attn", and of "cross" where there is one, what makes queries and keys."""
    sites, is_post = found.sites, found.norm_place == "post"
    is_parallel = "resid_mid" not in sites and "ffn.out" in sites
    of = {name: _of_attention(found, events, name, maps, is_parallel) for name, maps in made.items()}
    after = (Norm(sites["norm2"].module),) if is_post and "norm2" in sites else ()
    return BlockMaps(of["attn"], of.get("cross"), after=after, is_parallel=is_parallel)


def final(events: Sequence[Event], stream: Tensor, end: Tensor) -> Maps | None:
    """From the stream behind the last block to the final hidden state: nothing, or norms and products (OPT has both);
    None where it is something else."""
    maps: Maps = ()
    for event in reversed(events):
        if torch.equal(stream, end):
            break
        if event.kind == "out" and (event.is_norm or event.is_product) and torch.equal(event.tensor, end):
            maps = ((Norm if event.is_norm else Product)(event.module), *maps)
            end = first_event(events, lambda one, module=event.module: one.kind == "in" and one.module is module).tensor
    return maps if torch.equal(stream, end) else None


def _of_attention(
    found: BlockSites, events: Sequence[Event], name: str, made: Mapping[str, Maps | None], is_parallel: bool
) -> AttentionMaps:
    sites, norm = found.sites, NORM_SITES[name]
    norms = (Norm(sites[norm].module),) if norm in sites else ()
    is_post = found.norm_place == "post"
    is_told_apart = is_parallel or ("resid_self" if name == "attn" and "cross.out" in sites else "resid_mid") in sites
    output = None
    if f"{name}.out" in sites and is_told_apart and name not in found.scaled:
        output = (Product(sites[f"{name}.out"].module),)
        output += (Norm(sites[f"{name}.out_norm"].module),) if f"{name}.out_norm" in sites else ()
    return AttentionMaps(
        read=() if is_post else norms,
        query=made["q"],
        key=made["k"],
        output=output,
        after=norms if is_post else (),
    )
