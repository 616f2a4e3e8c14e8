"""The header of a GGUF file: what it declares is compared with the file's size before it is read.

The format is described in https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. The library `gguf` believes what
a header declares: a file of 60 bytes can keep it busy for hours. It only ever gets a file that was read here before.
"""

import math
import mmap
import struct
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from viz_model.errors import CheckpointError

# Numbers by their type in a field, as `struct` writes them; the types that are none.
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9

# More than any model has: the largest vocabularies have 262,144 tokens, with three arrays of them and one of pairs.
MOST_ITEMS = 2_000_000
MOST_ENTRIES = 65_536  # fields, or tensors
LEAST_FIELD, LEAST_TENSOR = 13, 24  # bytes
MOST_DIMENSIONS = 4


class Array(NamedTuple):
    """An array in a field. What is in it is not kept."""

    count: int

    def __str__(self) -> str:
        return f"an array of {self.count}"


class GGUFTensor(NamedTuple):
    """One tensor in a file. kind: of its blocks, such as "Q4_1". shape: as torch has it, the longest stride first."""

    kind: str
    shape: tuple[int, ...]


class GGUFHeader(NamedTuple):
    """What a file says of its model, by the names of the format, and its tensors by name."""

    fields: dict[str, object]
    tensors: dict[str, GGUFTensor]


def read_header(path: Path) -> GGUFHeader:
    """The header of a file; raises CheckpointError for one that is damaged, cut off or declares more than it holds."""
    try:
        about = path.stat()
        return _read(path, about.st_mtime_ns, about.st_size)
    except (OSError, ValueError, OverflowError, struct.error) as error:
        raise CheckpointError(f"The file {path} is not a complete GGUF file ({error}). Fetch it again.") from error


@lru_cache(maxsize=8)
def _read(path: Path, changed: int, size: int) -> GGUFHeader:
    """`changed`, `size`: a header is read again where one of them is another."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        reader = _Reader(data)
        if data[:4] != b"GGUF":
            raise ValueError("it does not begin with GGUF")
        reader.at = 4
        reader.order = "<" if data[4:6] != b"\0\0" else ">"
        version = reader.number("I")
        if version not in (2, 3):
            raise ValueError(f"its version is {version}, and 2 and 3 can be read")
        n_tensors, n_fields = reader.number("Q"), reader.number("Q")
        reader.refuse_more(n_fields, LEAST_FIELD, MOST_ENTRIES, "fields")
        reader.refuse_more(n_tensors, LEAST_TENSOR, MOST_ENTRIES, "tensors")
        fields = _named(((reader.text(), reader.value(reader.number("I"))) for _ in range(n_fields)), n_fields)
        places = _named((reader.tensor() for _ in range(n_tensors)), n_tensors)
        tensors = {name: tensor for name, (tensor, _) in places.items()}
        _refuse_beyond(size, reader.at, fields.get("general.alignment", 32), places)
    return GGUFHeader(fields, tensors)


def _named(pairs, count: int) -> dict:
    found = dict(pairs)
    if len(found) != count:
        raise ValueError("a name stands there twice")
    return found


class _Reader:
    """Reads one thing after the other; raises ValueError or struct.error behind the end."""

    def __init__(self, data: mmap.mmap):
        self.data, self.at, self.order, self.items = data, 0, "<", 0

    def refuse_more(self, count: int, least_bytes: int, most: int, what: str) -> None:
        """A count that the rest of the file cannot hold, or that no model has."""
        if count * least_bytes > len(self.data) - self.at:
            raise ValueError(f"it declares {count:,} {what}, more than it can hold")
        if count > most:
            raise ValueError(f"it declares {count:,} {what}, and at most {most:,} are read")

    def number(self, kind: str) -> int | float | bool:
        (found,) = struct.unpack_from(self.order + kind, self.data, self.at)
        self.at += struct.calcsize(self.order + kind)
        return found

    def text(self) -> str:
        length = self.number("Q")
        self.refuse_more(length, 1, len(self.data), "letters")
        self.at += length
        return self.data[self.at - length : self.at].decode()

    def value(self, kind: int) -> object:
        if kind == ARRAY:
            return self.array(self.number("I"), self.number("Q"))
        if kind == STRING:
            return self.text()
        if kind not in NUMBERS:
            raise ValueError(f"it has a field of the unknown type {kind}")
        return self.number(NUMBERS[kind])

    def array(self, kind: int, count: int) -> Array:
        if kind != STRING and kind not in NUMBERS:
            raise ValueError(f"it has an array of the type {kind}, which is neither numbers nor texts")
        width = 8 if kind == STRING else struct.calcsize("<" + NUMBERS[kind])
        self.items += count
        self.refuse_more(count, width, MOST_ITEMS, "items in an array")
        if self.items > MOST_ITEMS:
            raise ValueError(f"it declares {self.items:,} items in its arrays, and at most {MOST_ITEMS:,} are read")
        if kind != STRING:
            self.at += count * width
            return Array(count)
        length_at = struct.Struct(self.order + "Q").unpack_from
        for _ in range(count):  # written out: a vocabulary has 10⁵ of them
            self.at += 8 + length_at(self.data, self.at)[0]
        if self.at > len(self.data):
            raise ValueError("a text is cut off")
        return Array(count)

    def tensor(self) -> tuple[str, tuple[GGUFTensor, int]]:
        """Name, tensor, and where its numbers begin behind the header."""
        name, dimensions = self.text(), self.number("I")
        if not 1 <= dimensions <= MOST_DIMENSIONS:
            raise ValueError(f"the tensor '{name[:60]}' has {dimensions:,} dimensions")
        shape = tuple(self.number("Q") for _ in range(dimensions))[::-1]
        kind, offset = self.number("I"), self.number("Q")
        from gguf.constants import GGMLQuantizationType  # a third of a second

        return name, (GGUFTensor(GGMLQuantizationType(kind).name, shape), offset)


def _refuse_beyond(size: int, end: int, alignment: object, places: dict[str, tuple[GGUFTensor, int]]) -> None:
    """Every tensor must lie within the file."""
    from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

    if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
        raise ValueError(f"its alignment is {str(alignment)[:40]}")
    start = -(-end // alignment) * alignment
    for name, (tensor, offset) in places.items():
        block, block_bytes = GGML_QUANT_SIZES[GGMLQuantizationType[tensor.kind]]
        if start + offset + math.prod(tensor.shape) // block * block_bytes > size:
            raise ValueError(f"the tensor '{name[:60]}' lies behind its end")
