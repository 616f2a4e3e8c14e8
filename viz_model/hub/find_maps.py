"""What the blocks of a model do to their stream, map by map, as far as the first pass shows it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from viz_model.hub.find_sites import BlockSites
from viz_model.hub.recording import Event, first_event
from viz_model.transformer.linear_maps import AttentionMaps, BlockMaps, Maps, Norm, Product, Scaled

NORM_SITES = {"attn": "norm1", "cross": "norm_cross"}


def of_block(found: BlockSites, made: Mapping[str, AttentionMaps]) -> BlockMaps:
    """made: of "attn", and of "cross" where there is one, what makes queries, keys and values."""
    sites, is_post = found.sites, found.norm_place == "post"
    is_parallel = "resid_mid" not in sites and "ffn.out" in sites
    told_apart = {name: is_parallel or _stream_behind(name, sites) in sites for name in made}
    of = {name: _of_attention(found, name, maps, told_apart[name]) for name, maps in made.items()}
    after = (Norm(sites["norm2"].module),) if is_post and "norm2" in sites else ()
    adds = "ffn.out" in sites and all(told_apart.values())
    return BlockMaps(of["attn"], of.get("cross"), adds=adds, after=after, is_parallel=is_parallel)


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


def _stream_behind(name: str, sites: Mapping[str, Event]) -> str:
    """The site of the stream behind an attention."""
    return "resid_self" if name == "attn" and "cross.out" in sites else "resid_mid"


def _of_attention(found: BlockSites, name: str, made: AttentionMaps, is_told_apart: bool) -> AttentionMaps:
    sites, norm = found.sites, NORM_SITES[name]
    norms = (Norm(sites[norm].module),) if norm in sites else ()
    is_post = found.norm_place == "post"
    output = None
    if f"{name}.out" in sites and is_told_apart:
        output = (Product(sites[f"{name}.out"].module),)
        output += (Norm(sites[f"{name}.out_norm"].module),) if f"{name}.out_norm" in sites else ()
        output += (Scaled(found.scaled[name]),) if name in found.scaled else ()
    return replace(made, read=() if is_post else norms, output=output, after=norms if is_post else ())
