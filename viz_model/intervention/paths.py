"""Path patching: how much of an answer returns over one path, from a head into the query, key or value of another.

Wang et al. 2022, "Interpretability in the Wild", §3.1 and appendix B; Goldowsky-Dill et al. 2023, "Localizing Model
Behavior with Path Patching". Here only the direct path counts, through the residual stream: unlike in Wang et al., the
feed-forward halves between the two heads are frozen as well.
"""

from collections.abc import Sequence

from torch import Tensor

from viz_model.arguments import said, text, whole_number
from viz_model.errors import VizError
from viz_model.intervention.batches import RowEdit, RowEdits, edited_values, values_at
from viz_model.intervention.patching import Patching, patched, put
from viz_model.intervention.runs import Runs, two_runs
from viz_model.jobs import Tell, untold
from viz_model.model import Model
from viz_model.model.prompts import Prompt
from viz_model.model.trace import Trace

INPUTS = {"query": "q", "key": "k", "value": "v"}


def patch_paths(
    model: Model,
    clean: Prompt | Trace,
    corrupted: Prompt | Trace,
    receiver: tuple[int, int],
    into: str = "key",
    answer: tuple[int | str, int | str] = (0, 1),
    *,
    reverse: bool = False,
    part: str | None = None,
    position: int = -1,
    tell: Tell = untold,
) -> Patching:
    """Put each head's part in a later head's query, key or value into the corrupted pass, one sender at a time.

    receiver: a layer and a head. into: its "query", "key" or "value". Each sender takes two passes over the corrupted
    prompt. In the first one the sender's mixed values are those of the clean pass, and those of all other heads and
    the outputs of all feed-forward halves are frozen at the corrupted pass; residual stream and norms are computed
    anew, and so is the receiver's query (key, value). The second one is the corrupted pass with nothing but that query
    (key, value), for the receiver alone, where several heads share a key. All that reads the receiver is computed anew.

    Gives a `Patching` whose numbers are (L,H), by sender; NaN of heads that are not before the receiver. Its `whole`
    is what the receiver's query (key, value) of the clean pass does as a whole. The other arguments are those of
    `patch`; sender and receiver are of one part. Raises VizError as `patch`, for a receiver that is not there, and for
    one that no sender can reach.
    """
    if text("into", into) not in INPUTS:
        raise VizError(f"A path cannot lead into {said(into)} of a head. Choose one of {', '.join(INPUTS)}.")
    runs = two_runs(model, clean, corrupted, answer, reverse=reverse, part=part, position=position, tell=tell)
    layer, head = _receiver(runs, receiver)
    if runs.part == "cross" and into != "query":
        raise VizError(
            f"The {into}s of cross-attention are computed from the encoder output. No head of cross-attention writes "
            "to it. Choose the query."
        )
    attention = model.config.attention_name(runs.part, layer)
    site, mixed = f"{attention}.{INPUTS[into]}", f"{attention}.mixed"
    of_heads = [f"{model.config.attention_name(runs.part, before)}.mixed" for before in range(layer)]
    frozen = _frozen(runs, layer)
    of_origin, of_base = (values_at(model, run, [*frozen, *of_heads, site, mixed]) for run in (runs.origin, runs.base))
    if missing := next((name for name in (*frozen, site) if name not in of_base), None):
        raise VizError(f"{model.name} does not let {missing} be replaced, so the path cannot be separated from others.")
    held = {name: _constant(of_base[name]) for name in frozen}
    senders = [(before, sender) for before in range(layer) for sender in range(model.config.n_heads)]
    pairs = runs.alignment.pairs
    sent: list[RowEdits] = []
    for before, sender in senders:
        name = of_heads[before]
        sent.append(held | {name: _sent(of_base[name], put(of_origin[name], pairs, sender))})
    total = 2 * len(sent) + 2
    tell(0, total)
    reached = edited_values(model, runs.base, sent, site, lambda done: tell(done, total)) if sent else ()
    shared = model.config.kv_head(head)
    others = [n for n in range(model.config.n_heads) if n != head and model.config.kv_head(n) == shared]

    def received(value: Tensor, aligned: Sequence[tuple[int, int]]) -> RowEdits:
        if into == "query":
            return {site: put(value, aligned, head)}
        edits = {site: put(value, aligned, shared)}
        return edits | ({mixed: _restored(of_base[mixed], others)} if others else {})

    every = [(n, n) for n in range(runs.base.length)]
    cells = {sender: received(value, every) for sender, value in zip(senders, reached, strict=True)}
    whole = received(of_origin[site], pairs)
    shape = runs.base.n_layers, model.config.n_heads
    return patched(runs, into, cells, shape, whole, lambda done, _: tell(len(sent) + done, total))


def _receiver(runs: Runs, receiver: tuple[int, int]) -> tuple[int, int]:
    try:
        layer, head = receiver
    except Exception:  # whatever it is, it has no two halves
        raise VizError("A receiver is a layer and a head, such as (1, 0).") from None
    layer, head = whole_number("The layer", layer), whole_number("The head", head)
    layers, heads = runs.base.n_layers, runs.model.config.n_heads
    if not (0 <= layer < layers and 0 <= head < heads):
        raise VizError(f"There is no head {head} in layer {layer}: layers 0 to {layers - 1}, heads 0 to {heads - 1}.")
    return layer, head


def _frozen(runs: Runs, layer: int) -> list[str]:
    """What is added to the receiver's stream before it: mixed values of heads, and outputs of feed-forward halves."""
    config, part = runs.model.config, runs.part
    attentions = ("decoder", "cross") if part in ("decoder", "cross") else (part,)
    names = []
    for before in range(layer):
        names += [f"{config.attention_name(attention, before)}.mixed" for attention in attentions]
        block = config.block_name(part, before)
        names += [f"{block}.ffn.out"] if runs.model.transformer.maps(block).has_feed_forward else []
    return names + ([f"{config.attention_name('decoder', layer)}.mixed"] if part == "cross" else [])


def _constant(value: Tensor) -> RowEdit:
    return lambda _: value


def _sent(base: Tensor, patched_in: RowEdit) -> RowEdit:
    """The base's own values (H,T,D) with one head's of the origin."""
    return lambda _: patched_in(base.clone())


def _restored(base: Tensor, heads: Sequence[int]) -> RowEdit:
    """Heads of (H,T,D) that share the receiver's key or value, as they are in the base."""

    def change(mixed: Tensor) -> Tensor:
        mixed[heads] = base[heads]
        return mixed

    return change
