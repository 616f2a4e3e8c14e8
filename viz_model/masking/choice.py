"""What mask somebody chose, as a record that makes the booleans of it and says it in words."""

import re
from dataclasses import dataclass

import torch
from torch import Tensor

from viz_model.errors import MaskError
from viz_model.masking.drawn_mask import decode_mask, drawn_shape
from viz_model.transformer import masks

KINDS = (*masks.NAMES, "sliding window", "prefix", "padding", "drawn by hand")


@dataclass(frozen=True)
class MaskChoice:
    """A kind of mask and what belongs to it; refused with MaskError where it says nonsense.

    width: of the sliding window, the query itself counted. length: of the prefix. padded: which positions are
    padding, so that nobody may read them as keys. cells: a drawn mask as `drawn_masks.encode_mask` writes it; ""
    is the model's own, which drawing starts from.
    """

    kind: str
    width: int = 1
    length: int = 0
    padded: tuple[int, ...] = ()
    cells: str = ""

    def __post_init__(self):
        if self.kind not in KINDS:
            raise MaskError(f"There is no mask '{self.kind}'. Choose one of: {', '.join(KINDS)}.")
        if self.width < 1:
            raise MaskError(f"A window of {self.width} tokens shows no token. Make it at least 1 token wide.")
        if self.length < 0:
            raise MaskError(f"A prefix cannot be {self.length} tokens long. Make it 0 or longer.")
        if self.cells:
            drawn_shape(self.cells)

    def allowed(self, own: Tensor) -> Tensor:
        """Booleans (T,S) where the model's own mask is `own` (T,S), which may differ from layer to layer.

        Window and padding take cells away from it; of a drawn mask, what is not drawn is as in it. Raises MaskError
        for a padded position that the keys do not have, or cells that cannot be read.
        """
        places = [torch.arange(size) for size in own.shape]
        if self.kind in masks.NAMES:
            return masks.between(self.kind, *places)
        if self.kind == "sliding window":
            return own & masks.near(*places, self.width)
        if self.kind == "prefix":
            return masks.prefix(*places, self.length)
        if self.kind == "padding":
            keys = own.shape[-1]
            _refuse_beyond(self.padded, keys)
            real = torch.ones(1, keys, dtype=torch.bool)
            real[0, list(self.padded)] = False
            return masks.with_padding(own, real)[0, 0]
        return decode_mask(self.cells, own) if self.cells else own

    @property
    def words(self) -> str:
        """The mask in a few words, e.g. "sliding window of 3"."""
        if self.kind == "sliding window":
            return f"sliding window of {self.width}"
        if self.kind == "prefix":
            return f"prefix of {self.length}"
        if self.kind == "padding":
            return f"padding at {position_words(self.padded)}" if self.padded else "padding nowhere"
        return self.kind


def opened_and_closed(allowed: Tensor, own: Tensor) -> tuple[int, int]:
    """How many cells a mask opens that the model's own has closed, and closes that it has open. Both (T,T).

    A mask with (0, 0) is the model's own, whatever its name: it is not foreign.
    """
    return int((allowed & ~own).sum()), int((own & ~allowed).sum())


def blind_queries(allowed: Tensor) -> list[int]:
    """The queries that may read nothing at all: fully masked rows of (T,S)."""
    return (~allowed.any(-1)).nonzero().flatten().tolist()


def parse_positions(text: str, tokens: int) -> tuple[int, ...]:
    """Positions as a person writes them, "0-2, 5", in order, each once; "" is none.

    Raises MaskError for what is no position, or one beyond the prompt of so many tokens.
    """
    found = set()
    for part in filter(None, re.split(r"[,;\s]+", re.sub(r"\s*[-–−]\s*", "-", text.strip()))):
        match = re.fullmatch(r"([0-9]{1,6})(?:-([0-9]{1,6}))?", part)
        if match is None:
            raise MaskError(f"“{part}” is no position. Write positions such as 0-2, 5.")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise MaskError(f"“{part}” runs backwards. Write {last}-{first}.")
        _refuse_beyond((last,), tokens)
        found.update(range(first, last + 1))
    return tuple(sorted(found))


def position_words(positions: tuple[int, ...] | list[int]) -> str:
    """Positions for reading, runs joined: (0, 1, 2, 5) -> "0–2, 5"."""
    runs: list[list[int]] = []
    for position in positions:
        if runs and position == runs[-1][1] + 1:
            runs[-1][1] = position
        else:
            runs.append([position, position])
    return ", ".join(str(first) if first == last else f"{first}–{last}" for first, last in runs)


def _refuse_beyond(positions: tuple[int, ...], tokens: int) -> None:
    if positions and max(positions) >= tokens:
        raise MaskError(f"There is no position {max(positions)}: the prompt has positions 0 to {tokens - 1}.")
