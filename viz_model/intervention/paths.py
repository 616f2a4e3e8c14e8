"""Path patching: how much of an answer returns over one path, from a head into a query, key or value of another head,
or into the logits.

Wang et al. 2022, "Interpretability in the Wild", §3.1 and appendix B; Goldowsky-Dill et al. 2023, "Localizing Model
Behavior with Path Patching". Here only the direct path counts, through the residual stream: unlike in Wang et al., the
feed-forward halves on the way are frozen as well.
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
LOGITS = "logits"


def patch_paths(
    model: Model,
    clean: Prompt | Trace,
    corrupted: Prompt | Trace,
    receiver: tuple[int, int] | str,
    into: str | None = None,
    answer: tuple[int | str, int | str] = (0, 1),
    *,
    reverse: bool = False,
    part: str | None = None,
    position: int = -1,
    tell: Tell = untold,
) -> Patching:
    """Put each head's part in a later head's query, key or value, or in the logits, into the corrupted pass, one sender
    at a time.

    receiver: a layer and a head, or "logits". into: the head's "query", "key" (if nothing is said) or "value"; None for
    the logits. In a pass over the corrupted prompt the sender's mixed values are those of the clean pass, and those of
    all other heads and the outputs of all feed-forward halves, up to the receiver, are frozen at the corrupted pass;
    residual stream and norms are computed anew, and so is what the receiver reads. Of logits this is all: the answer
    is read there. A head takes a second pass, which is the corrupted one with nothing but that query (key, value), for
    the receiver alone, where several heads share a key. All that reads the receiver is computed anew.

    Gives a `Patching` whose numbers are (L,H), by sender; NaN of heads that are not before the receiver. Its `whole`
    is what the receiver's query (key, value) of the clean pass does as a whole, or the whole final residual stream.
    The other arguments are those of `patch`; sender and receiver are of one part. Raises VizError as `patch`, for a
    receiver that is not there, and for one that no sender can reach.
    """
    is_logits = isinstance(receiver, str) and receiver == LOGITS
    if is_logits and into is not None:
        raise VizError("Logits have no query, key or value of their own. Leave `into` out.")
    into = LOGITS if is_logits else "key" if into is None else text("into", into)
    if not is_logits and into not in INPUTS:
        raise VizError(f"A path cannot lead into {said(into)} of a head. Choose one of {', '.join(INPUTS)}.")
    runs = two_runs(model, clean, corrupted, answer, reverse=reverse, part=part, position=position, tell=tell)
    if is_logits:
        return _into_logits(runs, tell)
    return _into_head(runs, *_receiver(runs, receiver), into, tell)


def _into_logits(runs: Runs, tell: Tell) -> Patching:
    if runs.part == "encoder":
        raise VizError(
            "The heads of an encoder write to the encoder output, not to the stream that the logits are read from. "
            "Choose the decoder's attention, or its cross-attention."
        )
    layers = runs.base.n_layers
    end = f"{runs.model.config.block_name(runs.part, layers - 1)}.resid_post"
    of_origin, _, sent = _senders(runs, layers, end)
    shape = layers, runs.model.config.n_heads
    return patched(runs, LOGITS, sent, shape, {end: put(of_origin[end], runs.alignment.pairs)}, tell)


def _into_head(runs: Runs, layer: int, head: int, into: str, tell: Tell) -> Patching:
    model, config = runs.model, runs.model.config
    if runs.part == "cross" and into != "query":
        raise VizError(
            f"The {into}s of cross-attention are computed from the encoder output. No head of cross-attention writes "
            "to it. Choose the query."
        )
    attention = config.attention_name(runs.part, layer)
    site, mixed = f"{attention}.{INPUTS[into]}", f"{attention}.mixed"
    of_origin, of_base, sent = _senders(runs, layer, site, mixed)
    total = 2 * len(sent) + 2
    tell(0, total)
    reached = ()
    if sent:
        reached = edited_values(model, runs.base, [*sent.values()], site, lambda done: tell(done, total))
    shared = config.kv_head(head)
    others = [n for n in range(config.n_heads) if n != head and config.kv_head(n) == shared]

    def received(value: Tensor, aligned: Sequence[tuple[int, int]]) -> RowEdits:
        if into == "query":
            return {site: put(value, aligned, head)}
        edits = {site: put(value, aligned, shared)}
        return edits | ({mixed: _restored(of_base[mixed], others)} if others else {})

    every = [(n, n) for n in range(runs.base.length)]
    cells = {sender: received(value, every) for sender, value in zip(sent, reached, strict=True)}
    whole = received(of_origin[site], runs.alignment.pairs)
    shape = runs.base.n_layers, config.n_heads
    return patched(runs, into, cells, shape, whole, lambda done, _: tell(len(sent) + done, total))


def _senders(
    runs: Runs, layer: int, site: str, *more: str
) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[tuple[int, int], RowEdits]]:
    """What of origin and base stands at the frozen sites before this layer, at `site` and at `more`; and the edits of
    a pass for each sender. `site` is what the receiver reads, and must be there."""
    frozen = _frozen(runs, layer)
    every = [name for names in frozen.values() for name in names]
    of_origin, of_base = (values_at(runs.model, run, [*every, site, *more]) for run in (runs.origin, runs.base))
    if missing := next((name for name in (*every, site) if name not in of_base), None):
        raise VizError(
            f"{runs.model.name} does not let {missing} be replaced, so the path cannot be separated from others."
        )
    sent: dict[tuple[int, int], RowEdits] = {}
    for before in range(layer):
        mixed = f"{runs.model.config.attention_name(runs.part, before)}.mixed"
        # Before the sender's layer all is as in the base, so nothing need be held there.
        held = {name: _constant(of_base[name]) for of, names in frozen.items() if of >= before for name in names}
        for head in range(runs.model.config.n_heads):
            own = _sent(of_base[mixed], put(of_origin[mixed], runs.alignment.pairs, head))
            sent[before, head] = held | {mixed: own}
    return of_origin, of_base, sent


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


def _frozen(runs: Runs, layer: int) -> dict[int, list[str]]:
    """What is added to the receiver's stream before its layer: mixed values of heads, and outputs of feed-forward
    halves, by layer."""
    config, part = runs.model.config, runs.part
    attentions = ("decoder", "cross") if part in ("decoder", "cross") else (part,)
    names = {}
    for before in range(layer):
        names[before] = [f"{config.attention_name(attention, before)}.mixed" for attention in attentions]
        block = config.block_name(part, before)
        names[before] += [f"{block}.ffn.out"] if runs.model.transformer.maps(block).has_feed_forward else []
    if part == "cross" and layer < runs.base.n_layers:
        names[layer] = [f"{config.attention_name('decoder', layer)}.mixed"]
    return names


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
