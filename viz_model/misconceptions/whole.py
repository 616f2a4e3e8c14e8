"""Is attention the whole Transformer? The same weights with a part of every block switched off."""

from collections.abc import Collection

import torch
from torch import Tensor

from viz_model.errors import EditError
from viz_model.model import Model
from viz_model.positions.schemes import under_scheme
from viz_model.training.loss import Loss, loss
from viz_model.transformer.hooks import Edit, capture, edit

PARTS = ("attention", "feed-forward", "positions", "residuals", "norms")

WRITTEN = {"attention": ("attn.out", "cross.out"), "feed-forward": ("ffn.out",)}
STREAM = ("resid_pre", "resid_self", "resid_mid", "resid_post")
ADDED_POSITIONS = ("embed.positions", "attn.bias")  # to the embedding, to the scores
NORMS = ("norm1", "norm_cross", "norm2", "final_norm")


def switchable(model: Model) -> dict[str, str]:
    """Each part -> why it cannot be switched off in this model; "" where it can."""
    config, sites = model.config, _sites(model)
    found = {part: any(site.endswith(WRITTEN[part]) for site in sites) for part in WRITTEN}
    unseen = "This model's own code computes this part where the app cannot change it."
    reasons = {part: "" if seen else unseen for part, seen in found.items()}
    if config.d_ff == 0:
        reasons["feed-forward"] = "This model has no feed-forward half."
    added = any(site.endswith(ADDED_POSITIONS) for site in sites)
    reasons["positions"] = "" if added or config.is_skeleton else unseen
    if config.position == "none":
        reasons["positions"] = "This model has no positions."
    halves = all(found[part] for part in found if not (part == "feed-forward" and config.d_ff == 0))
    for part, last in (("residuals", "resid_post"), ("norms", "norm1")):
        seen = halves and any(site.endswith(last) for site in sites)
        reasons[part] = "" if seen else unseen
        if config.norm_place != "pre":
            reasons[part] = (
                "In this model the norms scale the residual stream itself, so norms and residuals cannot be switched "
                "off separately."
            )
    if not reasons["residuals"] and not _replaces_stream(model, sites):
        reasons["residuals"] = "This model's own code adds to the residual stream where the app cannot replace the sum."
    return {part: reasons[part] for part in PARTS}


@torch.inference_mode()
def loss_without(model: Model, rows: Tensor, parts: Collection[str], source: Tensor | None = None) -> Loss:
    """The loss on rows of ids (n,T) while those parts are off in every block, and in both stacks where there are two.

    attention, feed-forward: write 0 to the residual stream. positions: none are added, to the embedding or to the
    scores, and nothing is rotated.
    residuals: the stream after a half is what that half wrote. norms: pass on their input unchanged, the last one too.
    Choose parts that `switchable` allows. Raises VizError as `evaluation.loss`.
    """
    sites = _sites(model)
    functions = _edits(parts, sites)
    if "positions" in parts and model.config.is_skeleton:
        model = under_scheme(model, "none")
    elif "positions" in parts:
        functions |= {site: torch.zeros_like for site in sites if site.endswith(ADDED_POSITIONS)}
    if not functions:
        return loss(model, rows, source)
    with edit(functions):
        return loss(model, rows, source)


def _edits(parts: Collection[str], sites: Collection[str]) -> dict[str, Edit]:
    """Functions for the sites of a pass; they hand tensors on to each other, for sites come in its order."""
    held: dict[str, Tensor] = {}

    def hold(name: str) -> Edit:
        def function(tensor: Tensor) -> Tensor:
            held[name] = tensor
            return tensor

        return function

    def function_of(site: str) -> Edit | None:
        last = site.rpartition(".")[2]
        for part, written in WRITTEN.items():
            if site.endswith(written):
                return torch.zeros_like if part in parts else hold("written")
        if last in STREAM[1:] and "residuals" in parts:
            return lambda tensor: hold("stream")(held.get("written", torch.zeros_like(tensor)).clone())
        if last in STREAM:
            return hold("stream")
        if last in NORMS and "norms" in parts:
            return lambda tensor: held["stream"].clone()
        return None

    if not set(parts) - {"positions"}:
        return {}
    return {site: function for site in sites if (function := function_of(site)) is not None}


def _sites(model: Model) -> list[str]:
    """The hook sites of a pass, in their order."""
    with capture("*") as found:
        _pass_of_one(model)
    return list(found)


def _replaces_stream(model: Model, sites: Collection[str]) -> bool:
    """Whether the stream can be replaced after every half; code of a library may add it up beside its modules."""
    try:
        with edit({site: lambda tensor: tensor + 1 for site in sites if site.endswith(STREAM[1:])}):
            _pass_of_one(model)
    except EditError:
        return False
    return True


@torch.inference_mode()
def _pass_of_one(model: Model) -> None:
    """A pass over a single token."""
    one = torch.zeros(1, 1, dtype=torch.long)
    model.transformer(one, **({"source": one} if model.has_source else {}))
