"""A second prompt for one that has none, and the answers that tell the runs of two prompts apart."""

from torch import Tensor

from viz_model.heads.comparison import likely_tokens, predicts, surprise, with_token
from viz_model.model import Model
from viz_model.model.trace import Trace

TRIED = 5  # likely tokens of a place


def with_another_token(model: Model, trace: Trace, text: str) -> str | None:
    """The text with one token replaced, so that all others stay where they are; None where that cannot be done.

    trace: the pass over this very text, seen through the stack that reads it. The token that surprised the model most
    gives way to the one of its kind that it expected most; where it expects none, the first one gives way to another
    token of the text. The first token and the last one stay, where there are others.
    """
    ids, inner = trace.ids, [*range(1, trace.length - 1)] or [*range(trace.length)]
    if predicts(trace):
        losses = [0.0, *surprise(trace).tolist()]
        inner.sort(key=lambda position: -losses[position])
    for position in inner:
        kind = _kind(model, ids[position])
        for token in likely_tokens(trace, position, TRIED, model.signs):
            changed = with_token(ids, position, token)
            written = None if _kind(model, token) != kind else _written(model, text, trace, changed, position)
            if written is not None and tuple(model.ids(written)) == changed:
                return written
    return None


def telling_answers(clean: Tensor, corrupted: Tensor) -> tuple[int, int]:
    """Logits (V,) of two runs -> the token whose probability the first raises most above the second, and the other
    way round."""
    change = clean.double().softmax(-1) - corrupted.double().softmax(-1)
    return int(change.argmax()), int(change.argmin())


def _kind(model: Model, token: int) -> tuple[bool, ...] | None:
    """Whether a token begins with a space, is made of letters, is made of digits: what takes its place shall, too."""
    if model.tokenizer is None:
        return None
    text = model.token_bytes([token])[0].decode(errors="replace")
    return text.startswith(" "), text.strip().isalpha(), text.strip().isdigit()


def _written(model: Model, text: str, trace: Trace, ids: tuple[int, ...], position: int) -> str | None:
    """The text of other ids, of which one differs."""
    if model.tokenizer is None:
        return " ".join(map(str, ids))
    before, after = (b"".join(trace.token_bytes[part]) for part in (slice(position), slice(position + 1, None)))
    try:
        return (before + model.token_bytes([ids[position]])[0] + after).decode()
    except UnicodeDecodeError:  # half a character
        return None
