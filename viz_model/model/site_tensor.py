"""The tensor of any hook site in the pass of a trace, held or not."""

import torch
from torch import Tensor

from viz_model.model import Model
from viz_model.model.trace import Trace
from viz_model.transformer.hooks import capture


@torch.inference_mode()
def site_tensor(model: Model, trace: Trace, name: str) -> Tensor:
    """A tensor of the pass without its batch axis; logits of all positions (T,V).

    What the trace does not hold comes from a second pass over the same ids, under the same masks and on the same path.
    Raises SiteError for a name that the pass does not have.
    """
    if name in trace.tensors and name != "logits":
        return trace[name]
    given = {}
    if not trace.own_mask:
        masks = {part: trace.of(part).mask(0) for part in trace.config.parts}
        given["mask"] = masks if trace.source else masks["self"]
    if trace.source:
        given["source"] = torch.tensor([trace.source.ids])
    same_path = ("*.weights",) if trace.stored else ()
    with capture(name, optional=same_path) as found:
        logits = "all" if name == "logits" else "last"
        model.transformer(torch.tensor([trace.read.ids]), logits=logits, **given)
    return found[name][0]
