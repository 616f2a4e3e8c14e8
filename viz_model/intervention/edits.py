"""The kinds of edits: a head switched off or scaled, a weight set, values of another prompt, a vector added.

Each says what it does to the tensors of every pass (`Change`), in a sentence, and in a few letters for an address.
With a cache a pass reads only the tokens after those that were read before. So an edit of a token counts tokens from
the beginning of the text, and what an edit does at a token does not depend on the tokens that are written after it. A
mean over the prompt stays what it was over the prompt alone while the model writes.
"""

import re
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass

import torch
from torch import Tensor

from viz_model.arguments import of_type, real_number, said, text, whole_number
from viz_model.errors import EditError, VizError
from viz_model.model import Model
from viz_model.model.edits import Edit
from viz_model.model.trace import Trace
from viz_model.transformer.changes import Change
from viz_model.transformer.facts import PARTS
from viz_model.transformer.hooks import capture, unwatched

ZERO, MEAN = "zero", "mean"
HOW = (ZERO, MEAN)

LARGEST = 1e6  # factors and strengths
MOST_PLACES = 999_999  # layers, heads, tokens
LONGEST = 1000  # letters of a text
LONGEST_WRITTEN = 6 * LONGEST  # letters of an edit in an address: texts, and the signs before colons in them
SHOWN = 40  # letters of a text in a sentence

STACKS = {"self": "", "encoder": " of the encoder", "decoder": " of the decoder", "cross": ""}
ROUNDING = 1e-6  # of a row's sum: what a sink takes is not told from it below that


@dataclass(frozen=True)
class HeadEdit(Edit):
    """What all edits of one head have in common.

    part: which attention: "self" in a model of one stack; "encoder", "decoder" or "cross" in an encoder-decoder.
    """

    layer: int
    head: int
    _: KW_ONLY
    part: str = "self"

    def __post_init__(self):
        _set(self, layer=_place("The layer", self.layer), head=_place("The head", self.head), part=_part(self.part))

    def is_of(self, part: str, layer: int, head: int) -> bool:
        return (self.part, self.layer, self.head) == (part, layer, head)

    @property
    def place(self) -> str:
        """ "head 0 of layer 1"."""
        cross = "cross-attention " if self.part == "cross" else ""
        return f"{cross}head {self.head} of layer {self.layer}{STACKS[self.part]}"

    @property
    def _written_place(self) -> str:
        return f"{_written_part(self.part)}{self.layer}.{self.head}"

    def _site(self, model: Model, local: str) -> str:
        """The hook site in this model. Raises EditError where it has no such head."""
        _model(model).config.refuse_no_part(self.part)
        layers, heads = model.config.layers_of(self.part), model.config.n_heads
        if self.layer >= layers or self.head >= heads:
            raise EditError(
                f"{model.name} has no {self.place}. There are layers 0 to {layers - 1} and heads 0 to {heads - 1}."
            )
        return f"{model.config.attention_name(self.part, self.layer)}.{local}"


@dataclass(frozen=True)
class SwitchOff(HeadEdit):
    """Put something else in the place of what a head mixes from the values.

    how: "zero"; or "mean", the mean of what it mixes at all tokens of the prompt, which stays the same while the model
    writes. Michel et al. 2019, "Are Sixteen Heads Really Better than One?"; the mean: Wang et al. 2022,
    "Interpretability in the Wild", §2.3.

    Raises EditError for what is no place or no way.
    """

    how: str = ZERO

    def __post_init__(self):
        super().__post_init__()
        if text("how", self.how, EditError) not in HOW:
            raise EditError(f"A head can be switched off by {' or by '.join(HOW)}, not by {said(self.how)}.")

    @property
    def words(self) -> str:
        if self.how == ZERO:
            return f"{_capital(self.place)} is switched off."
        return f"{_capital(self.place)} writes the same vector at every token: its mean over the prompt."

    @property
    def written(self) -> str:
        return _written("off" if self.how == ZERO else MEAN, self._written_place)

    def changes(self, model: Model) -> tuple[Change, ...]:
        """Of the mixed values, at all tokens."""
        site = self._site(model, "mixed")
        if self.how == MEAN:
            return (Change(site, self.head, _mean, is_of_pass=True),)
        return (_scaled(site, self.head, 0.0),)


@dataclass(frozen=True)
class ScaleHead(HeadEdit):
    """Multiply what a head mixes from the values, at all tokens. Raises EditError for what is no place or no number."""

    factor: float

    def __post_init__(self):
        super().__post_init__()
        _set(self, factor=_number("The factor", self.factor))

    @property
    def words(self) -> str:
        return f"What {self.place} writes is multiplied by {_shown(self.factor)}."

    @property
    def written(self) -> str:
        return _written("scale", self._written_place, _digits(self.factor))

    def changes(self, model: Model) -> tuple[Change, ...]:
        """Of the mixed values, at all tokens."""
        return (_scaled(self._site(model, "mixed"), self.head, self.factor),)


@dataclass(frozen=True)
class SetWeight(HeadEdit):
    """Set the weight of one key for one query: 0 forbids it, as a mask does, and 1 lets the query read nothing else.

    All other weights of the row, and the share of a sink, are multiplied by one number, so that they make up the rest
    of 1. Where there are no others, the row's only weight is the one that was set. A sink whose share is less than a
    millionth of the row gets nothing of it.

    Raises EditError for what is no place, and for a weight that is not from 0 to 1.
    """

    query: int
    key: int
    weight: float = 0.0

    def __post_init__(self):
        super().__post_init__()
        _set(self, query=_place("The query", self.query), key=_place("The key", self.key))
        _set(self, weight=_number("The weight", self.weight, 0.0, 1.0))

    @property
    def words(self) -> str:
        if self.weight == 0:
            return f"In {self.place}, query {self.query} may not read key {self.key}."
        return f"In {self.place}, query {self.query} reads key {self.key} with the weight {_shown(self.weight)}."

    @property
    def written(self) -> str:
        return _written("weight", self._written_place, f"{self.query}.{self.key}", _digits(self.weight))

    def changes(self, model: Model) -> tuple[Change, ...]:
        """Of the weights, in one row."""
        return (Change(self._site(model, "weights"), self.head, self._set_in),)

    def refuse_pass(self, trace: Trace) -> None:
        """Raise EditError for a query or key that is not there, and where the mask forbids the cell."""
        trace = _trace(trace).of(self.part)
        _refuse_beyond("query", self.query, trace.length)
        _refuse_beyond("key", self.key, trace.key_length)
        if not trace.mask(self.layer)[self.query, self.key]:
            raise EditError(f"The mask already forbids query {self.query} to read key {self.key}. Choose another cell.")

    def refuse_writing(self) -> None:
        """Raise EditError for a key behind the query, which is not written yet when the query reads."""
        if self.part in ("self", "decoder") and self.key > self.query:
            raise EditError(
                f"While the model writes, query {self.query} cannot read key {self.key}, because that key comes later. "
                "Choose another cell."
            )

    def _set_in(self, rows: Tensor, start: int) -> Tensor:  # (…,T,S)
        at = self.query - start
        if 0 <= at < rows.shape[-2] and self.key < rows.shape[-1]:
            row = rows[..., at, :].double()
            own = row[..., self.key].clone()
            row[..., self.key] = 0.0
            total = row.sum(-1)
            of_sink = 1 - own - total
            of_sink = of_sink.where(of_sink > ROUNDING, 0.0)
            rest = (1 - self.weight) / (total + of_sink)  # what all others are multiplied with
            row *= rest.where(total > 0, 0.0)[..., None]
            row[..., self.key] = self.weight
            rows[..., at, :] = row.to(rows.dtype)
        return rows


@dataclass(frozen=True)
class SetValues(HeadEdit):
    """Put what a head mixes from the values of another prompt in the place of what it mixes here.

    text: the other prompt; of an encoder-decoder the source. Token by token: those beyond the end of the other prompt
    stay as they are. position: of one token, at which alone that is done. target: what the decoder of an
    encoder-decoder reads with the other prompt; None is what the model writes by itself.
    Vig et al. 2020, "Investigating Gender Bias in Language Models Using Causal Mediation Analysis".

    Raises EditError for what is no place or no text.
    """

    text: str
    position: int | None = None
    target: str | None = None

    def __post_init__(self):
        super().__post_init__()
        _text("The other prompt", self.text)
        _set(self, position=_position(self.position))
        if self.target is not None:
            _text("The target", self.target)

    @property
    def words(self) -> str:
        at = "Token by token" if self.position is None else f"At token {self.position}"
        return f"{at}, {self.place} writes what it writes for the prompt {_quoted(self.text)}."

    @property
    def written(self) -> str:
        texts = [self.text] if self.target is None else [self.text, self.target]
        return _written("values", self._written_place, _written_position(self.position), *texts)

    def changes(self, model: Model) -> tuple[Change, ...]:
        """Of the mixed values. Raises VizError for a text that the model cannot read."""
        site, position = self._site(model, "mixed"), self.position
        values = _tensor_of(model, site, self.text, self.target)[self.head]  # (T,D)
        if position is None:
            return (Change(site, self.head, _in_rows(values)),)
        _refuse_beyond("position", position, len(values), "The other prompt")
        return (Change(site, self.head, _in_row(position, lambda row: row.copy_(values[position]))),)

    def refuse_pass(self, trace: Trace) -> None:
        """Raise EditError where the position is not there."""
        if self.position is not None:
            _refuse_beyond("position", self.position, _trace(trace).of(self.part).length)


@dataclass(frozen=True)
class AddVector(Edit):
    """Add a vector to the residual stream behind a layer, a steering vector: `strength` · (stream of one prompt −
    stream of another one), each behind that layer and at its last token.

    text, minus: the two prompts; of an encoder-decoder two sources, with the stack as `part`: "encoder", or "decoder",
    whose streams are those of its first token. position: of the token whose stream it is added to; None is every token,
    also those that the model writes. Turner et al. 2023, "Steering Language Models With Activation Engineering"; the
    difference at the last token: Rimsky et al. 2023, "Steering Llama 2 via Contrastive Activation Addition".

    Raises EditError for what is no layer, text or number.
    """

    layer: int
    text: str
    minus: str
    strength: float = 1.0
    position: int | None = None
    _: KW_ONLY
    part: str = "self"

    def __post_init__(self):
        _set(self, layer=_place("The layer", self.layer), strength=_number("The strength", self.strength))
        _text("A prompt", self.text)
        _text("A prompt", self.minus)
        _set(self, position=_position(self.position), part=_part(self.part))
        if self.part == "cross":
            raise EditError("A vector can be added to the stream of the encoder or of the decoder. Choose one of them.")

    @property
    def words(self) -> str:
        streams = f"the streams of {_quoted(self.text)} and {_quoted(self.minus)}"
        times = f"{_shown(self.strength)} times the difference between {streams}"
        at = "at every token" if self.position is None else f"at token {self.position}"
        return f"After layer {self.layer}{STACKS[self.part]}, {times} is added {at}."

    @property
    def written(self) -> str:
        place, at = f"{_written_part(self.part)}{self.layer}", _written_position(self.position)
        return _written("add", place, at, _digits(self.strength), self.text, self.minus)

    def changes(self, model: Model) -> tuple[Change, ...]:
        """Of the residual stream. Raises VizError for a layer that the model lacks, and for texts that it cannot
        read."""
        _model(model).config.refuse_no_part(self.part)
        layers = model.config.layers_of(self.part)
        if self.layer >= layers:
            raise EditError(f"{model.name} has no layer {self.layer}{STACKS[self.part]}: layers 0 to {layers - 1}.")
        site = f"{model.config.block_name(self.part, self.layer)}.resid_post"
        target = [model.start_token] if self.part == "decoder" else None
        ends = [_tensor_of(model, site, prompt, target)[-1] for prompt in (self.text, self.minus)]  # (C,)
        vector = self.strength * (ends[0] - ends[1])
        if self.position is not None:
            return (Change(site, None, _in_row(self.position, lambda row: row.add_(vector))),)
        return (Change(site, None, lambda rows, _: rows.add_(vector)),)

    def refuse_pass(self, trace: Trace) -> None:
        """Raise EditError where the position is not there."""
        if self.position is not None:
            _refuse_beyond("position", self.position, _trace(trace).of(self.part).length)


def read_edit(written: str) -> Edit:
    """The edit that `Edit.written` wrote. Raises EditError for what is none."""
    if len(text("An edit", written, EditError)) > LONGEST_WRITTEN:
        raise EditError("This is too long to be an edit.")
    if not _WHOLE.fullmatch(f"{written}:"):
        raise EditError(f"{said(written)} is no complete edit.")
    kind, *fields = [re.sub(r"\\(.)", r"\1", field, flags=re.DOTALL) for field in _FIELD.findall(f"{written}:")]
    if kind not in _READERS:
        raise EditError(f"{said(kind)} is no kind of edit. The kinds are {', '.join(_READERS)}.")
    try:
        return _READERS[kind](*fields)
    except (TypeError, ValueError):
        raise EditError(f"{said(written)} is no complete edit.") from None


def _read_off(place: str) -> Edit:
    return SwitchOff(**_read_place(place, "layer", "head"))


def _read_mean(place: str) -> Edit:
    return SwitchOff(**_read_place(place, "layer", "head"), how=MEAN)


def _read_scale(place: str, factor: str) -> Edit:
    return ScaleHead(**_read_place(place, "layer", "head"), factor=_read_number(factor))


def _read_weight(place: str, cell: str, weight: str) -> Edit:
    cell = _read_numbers(cell, "query", "key")
    return SetWeight(**_read_place(place, "layer", "head"), **cell, weight=_read_number(weight))


def _read_values(place: str, at: str, prompt: str, target: str | None = None) -> Edit:
    place = _read_place(place, "layer", "head")
    return SetValues(**place, text=prompt, position=_read_position(at), target=target)


def _read_add(place: str, at: str, strength: str, prompt: str, minus: str) -> Edit:
    given = {"strength": _read_number(strength), "position": _read_position(at)}
    return AddVector(**_read_place(place, "layer"), text=prompt, minus=minus, **given)


_READERS: dict[str, Callable[..., Edit]] = {
    "off": _read_off,
    "mean": _read_mean,
    "scale": _read_scale,
    "weight": _read_weight,
    "values": _read_values,
    "add": _read_add,
}

_FIELD = re.compile(r"((?:[^:\\]|\\.)*):", re.DOTALL)  # a colon within a text follows a backslash
_WHOLE = re.compile(rf"(?:{_FIELD.pattern})+", re.DOTALL)


def _written(*fields: str) -> str:
    return ":".join(re.sub(r"([:\\])", r"\\\1", field) for field in fields)


def _written_part(part: str) -> str:
    return "" if part == "self" else f"{part}."


def _written_position(position: int | None) -> str:
    return "all" if position is None else str(position)


def _digits(number: float) -> str:
    """All digits of a number: it is read again as the same."""
    return repr(number).removesuffix(".0")


def _read_place(place: str, *names: str) -> dict[str, int | str]:
    """ "cross.1.0" or "1.0", and of a layer alone "1"."""
    part, dot, numbers = place.partition(".")
    if part in PARTS[1:] and dot:
        return {"part": part, **_read_numbers(numbers, *names)}
    return _read_numbers(place, *names)


def _read_numbers(numbers: str, *names: str) -> dict[str, int]:
    if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,6})*", numbers):
        raise ValueError(numbers)
    return dict(zip(names, map(int, numbers.split(".")), strict=True))


def _read_number(number: str) -> float:
    if not re.fullmatch(r"-?[0-9]{1,7}(\.[0-9]{1,30})?(e-[0-9]{1,3})?", number):
        raise ValueError(number)
    return float(number)


def _read_position(position: str) -> int | None:
    return None if position == "all" else _read_numbers(position, "position")["position"]


def _set(edit: Edit, **fields: object) -> None:
    """Write fields of what is frozen, while it is made."""
    for name, value in fields.items():
        object.__setattr__(edit, name, value)


def _model(value: object) -> Model:
    return of_type("The model", value, Model, "a Model, such as vm.load gives", EditError)


def _trace(value: object) -> Trace:
    return of_type("The trace", value, Trace, "a Trace, such as model.trace gives", EditError)


def _place(what: str, value: object) -> int:
    return whole_number(what, value, 0, MOST_PLACES, EditError)


def _position(value: object) -> int | None:
    return None if value is None else _place("The position", value)


def _part(value: object) -> str:
    if text("The part", value, EditError) not in PARTS:
        raise EditError(f"There is no part {said(value)}: they are {', '.join(PARTS)}.")
    return value


def _number(what: str, value: object, low: float = -LARGEST, high: float = LARGEST) -> float:
    try:
        number = real_number(what, value)
    except VizError as error:
        raise EditError(str(error)) from None
    if not low <= number <= high:
        raise EditError(f"{what} is {number:g}. Choose a number from {low:g} to {high:g}.")
    return number + 0.0  # of two zeros the positive one


def _text(what: str, value: object) -> str:
    if len(text(what, value, EditError)) > LONGEST:
        raise EditError(f"{what} has {len(value):,} characters. Give at most {LONGEST:,}.")
    return value


def _refuse_beyond(what: str, number: int, count: int, of: str = "The text") -> None:
    if number >= count:
        raise EditError(f"{of} has {count} tokens, so there is no {what} {number} in it. Choose one up to {count - 1}.")


@torch.inference_mode()
def _tensor_of(model: Model, site: str, prompt: str, target: str | list[int] | None) -> Tensor:
    """What stands at a site when the model reads another prompt, without batch."""
    ids, given = model.encode(prompt), {}
    if model.has_source:
        given = {"source": torch.tensor([ids])}
        ids = model.written(prompt) if target is None else model.encode_target(target)
    with unwatched(), capture(site) as found:
        model.transformer(torch.tensor([ids]), **given)
    return found[site][0]


def _scaled(site: str, head: int, factor: float) -> Change:
    return Change(site, head, lambda rows, _: rows.mul_(factor), factor=factor)


def _mean(rows: Tensor, start: int) -> Tensor:
    """(…,T,D): the mean over the tokens at each of them."""
    if start:
        raise EditError(
            "A pass that goes on with a cache does not see the tokens of the prompt, so it cannot work out their mean. "
            "Let the model write with model.generate, which keeps the mean over the prompt."
        )
    return rows.mean(-2, keepdim=True).expand_as(rows)


def _in_rows(values: Tensor) -> Callable[[Tensor, int], Tensor]:
    """Put values (N,D) in the place of the first N tokens of a text."""

    def rows_changed(rows: Tensor, start: int) -> Tensor:  # (…,T,D)
        there = values[start : start + rows.shape[-2]]
        rows[..., : len(there), :] = there
        return rows

    return rows_changed


def _in_row(position: int, change: Callable[[Tensor], object]) -> Callable[[Tensor, int], Tensor]:
    """Change one token's row (…,n) in its place."""

    def rows_changed(rows: Tensor, start: int) -> Tensor:
        if 0 <= position - start < rows.shape[-2]:
            change(rows[..., position - start, :])
        return rows

    return rows_changed


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def _quoted(words: str) -> str:
    words = words if len(words) <= SHOWN else f"{words[: SHOWN - 1]}…"
    return f"“{words}”"


def _shown(number: float) -> str:
    return f"{number:.10g}"
