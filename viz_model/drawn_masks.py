"""A mask drawn by hand as a short text that fits into a link, and back.

The text is the number of tokens, a point, and the cells that differ from the causal triangle: one bit a cell,
packed, compressed with zlib, in base64 with the letters that an address may hold. A few changed cells, a row or a
band take some ten letters; noise over 256 tokens takes about eleven thousand.
"""

import base64
import binascii
import re
import zlib

import numpy as np
import torch
from torch import Tensor

from viz_model.errors import MaskError

MOST_TOKENS = 4096  # so that nobody's link makes the server unpack gigabytes


def encode_mask(allowed: Tensor | np.ndarray) -> str:
    """Booleans (T,T) -> the text. Raises MaskError for anything else, or more than 4,096 tokens."""
    cells = np.asarray(allowed)
    length = len(cells)
    if cells.dtype != bool or cells.shape != (length, length) or not 0 < length <= MOST_TOKENS:
        raise MaskError(f"A drawn mask is made of booleans (T,T) with T up to {MOST_TOKENS:,}, not {cells.shape}.")
    changed = np.packbits(cells ^ np.tri(length, dtype=bool))
    return f"{length}.{base64.urlsafe_b64encode(zlib.compress(changed.tobytes(), 9)).decode().rstrip('=')}"


def drawn_length(code: str) -> int:
    """For how many tokens the mask of this text was drawn. Raises MaskError for a text that is none."""
    match = re.fullmatch(r"([0-9]{1,4})\.[A-Za-z0-9_-]+", code)
    if match is None or not 0 < int(match[1]) <= MOST_TOKENS:
        raise MaskError("This text is not a drawn mask. Copy it whole, or draw the mask again.")
    return int(match[1])


def decode_mask(code: str, own: Tensor) -> Tensor:
    """The text -> booleans (T,T) for a prompt whose own mask is `own` (T,T).

    Where the mask was drawn for another number of tokens, the cells that both have are kept, and the others
    follow `own`. Raises MaskError for a text that is no drawn mask, or was cut or changed on its way.
    """
    length = drawn_length(code)
    packed = _decompressed(code.partition(".")[2], -(-length * length // 8))
    changed = np.unpackbits(np.frombuffer(packed, np.uint8), count=length * length).astype(bool)
    drawn = torch.from_numpy(changed.reshape(length, length) ^ np.tri(length, dtype=bool))
    allowed, common = own.clone(), min(length, len(own))
    allowed[:common, :common] = drawn[:common, :common]
    return allowed


def _decompressed(text: str, size: int) -> bytes:
    """Exactly `size` bytes; zlib's checksum tells a changed text from a whole one."""
    try:
        reader = zlib.decompressobj()
        found = reader.decompress(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), size + 1)
        if len(found) == size and reader.eof and not reader.unused_data:
            return found
    except (zlib.error, binascii.Error):
        pass
    raise MaskError("This drawn mask was cut or changed on its way. Copy its link again, or draw it again.")
