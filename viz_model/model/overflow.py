"""Overflow: weights that are finite, and a pass whose numbers are not."""

from collections.abc import Mapping

from torch import Tensor

from viz_model.errors import CheckpointError, EditError

LOOKED_AT = (".q", ".k", ".v", ".raw", ".mixed", "embed", "resid_mid", "resid_post", "final_norm", "logits")


def refuse_overflow(name: str, tensors: Mapping[str, Tensor], is_edited: bool = False) -> None:
    """Raises CheckpointError where a tensor of a pass, by its hook site, is not finite; names the first that is not. Of
    an edited pass, EditError.

    Logits may be −∞, which some models give to tokens that they never write.
    """
    for site, tensor in tensors.items():
        if site.endswith(LOOKED_AT) and not _is_finite(tensor, may_be_low=site.endswith("logits")):
            if is_edited:
                raise EditError(
                    f"With these edits the numbers of {name} become too large: those of {site} are larger than float32 "
                    "can hold, so there is nothing to draw. Choose a smaller factor or strength."
                )
            raise CheckpointError(
                f"The numbers of {name} become too large in this pass: those of {site} are larger than float32 can "
                "hold, so there is nothing to draw. The weights are damaged, or their scale is not the one that the "
                "model needs. Restore the weights, or choose another model."
            )


def _is_finite(tensor: Tensor, *, may_be_low: bool) -> bool:
    if tensor.sum().isfinite():  # then each number is
        return True
    return bool((tensor < float("inf")).all() if may_be_low else tensor.isfinite().all())
