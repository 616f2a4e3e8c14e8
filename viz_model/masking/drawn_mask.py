"""A mask drawn by hand as a short text that fits into a link, and back.

The text is the number of tokens, a point, and the cells that differ from the causal triangle: one bit a cell,
packed, compressed with zlib, in base64 with the letters that an address may hold. A few changed cells, a row or a
band take some ten letters; noise over 256 tokens takes about eleven thousand. Where queries and keys are two texts of
unequal length it begins with both numbers, "4x9.", and the cells that differ from open ones follow.
"""

import re

import numpy as np
import torch
from torch import Tensor

from viz_model.errors import MaskError
from viz_model.masking.compressed_text import from_letters, to_letters

MOST_TOKENS = 4096  # so that nobody's link makes the server unpack gigabytes


def encode_mask(allowed: Tensor | np.ndarray) -> str:
    """Booleans (T,S) -> the text. Raises MaskError for anything else, or more than 4,096 tokens."""
    cells = np.asarray(allowed)
    if cells.dtype != bool or cells.ndim != 2 or not 0 < min(cells.shape) <= max(cells.shape) <= MOST_TOKENS:
        raise MaskError(
            f"A drawn mask is made of booleans (T,S) with T and S up to {MOST_TOKENS:,}, not {cells.shape}."
        )
    queries, keys = cells.shape
    changed = np.packbits(cells ^ _begun(queries, keys))
    numbers = f"{queries}" if queries == keys else f"{queries}x{keys}"
    return f"{numbers}.{to_letters(changed.tobytes())}"


def drawn_shape(code: str) -> tuple[int, int]:
    """For how many queries and keys the mask of this text was drawn. Raises MaskError for a text that is none."""
    match = re.fullmatch(r"([0-9]{1,4})(?:x([0-9]{1,4}))?\.[A-Za-z0-9_-]+", code)
    shape = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not 0 < min(shape) <= max(shape) <= MOST_TOKENS:
        raise MaskError("This text is not a drawn mask. Copy it whole, or draw the mask again.")
    return shape


def decode_mask(code: str, own: Tensor) -> Tensor:
    """The text -> booleans (T,S) for texts whose own mask is `own` (T,S).

    Where the mask was drawn for other numbers of tokens, the cells that both have are kept, and the others
    follow `own`. Raises MaskError for a text that is no drawn mask, or was cut or changed on its way.
    """
    queries, keys = drawn_shape(code)
    packed = _decompressed(code.partition(".")[2], -(-queries * keys // 8))
    changed = np.unpackbits(np.frombuffer(packed, np.uint8), count=queries * keys).astype(bool)
    drawn = torch.from_numpy(changed.reshape(queries, keys) ^ _begun(queries, keys))
    allowed, rows, columns = own.clone(), min(queries, len(own)), min(keys, own.shape[1])
    allowed[:rows, :columns] = drawn[:rows, :columns]
    return allowed


def _begun(queries: int, keys: int) -> np.ndarray:
    """What a text says the changes from."""
    return np.tri(queries, dtype=bool) if queries == keys else np.ones((queries, keys), dtype=bool)


def _decompressed(text: str, size: int) -> bytes:
    """Exactly `size` bytes."""
    try:
        found = from_letters(text, size)
    except ValueError:
        found = b""
    if len(found) != size:
        raise MaskError("This drawn mask was cut or changed on its way. Copy its link again, or draw it again.")
    return found
