"""The header of a GGUF file: the same as the library `gguf` reads; one that lies costs neither time nor memory."""

import struct
import time
import tracemalloc

import gguf
import numpy as np
import pytest

from viz_model import checkpoints
from viz_model.errors import CheckpointError
from viz_model.hub import convert_gguf
from viz_model.hub.gguf_header import read_header

GROUPS = {"llama.block_count": 1, "llama.attention.head_count": 2, "llama.embedding_length": 8}


def write(path, **changes):
    writer = gguf.GGUFWriter(path, "llama")
    for name, value in (GROUPS | changes).items():
        writer.add_uint32(name, value)
    writer.add_token_list([f"t{n}" for n in range(20)])
    writer.add_array("numbers", [1.5, 2.5])
    writer.add_tensor("token_embd.weight", np.arange(20 * 8, dtype=np.float32).reshape(20, 8))
    writer.add_tensor("blk.0.attn_norm.weight", np.ones(8, np.float16))
    blocks = gguf.quants.quantize(np.ones((2, 32), np.float32), gguf.GGMLQuantizationType.Q4_1)
    writer.add_tensor("blk.0.ffn_up.weight", blocks, raw_dtype=gguf.GGMLQuantizationType.Q4_1)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_it_says_what_the_library_reads(tmp_path):
    path = tmp_path / "small.gguf"
    write(path)
    header, library = read_header(path), gguf.GGUFReader(path)
    fields = {name: field.contents() for name, field in library.fields.items() if not name.startswith("GGUF.")}
    assert header.fields.keys() == fields.keys()
    for name, value in header.fields.items():
        assert value == fields[name] or value.count == len(fields[name])
    assert header.tensors == {
        tensor.name: (tensor.tensor_type.name, tuple(reversed(tensor.shape.tolist()))) for tensor in library.tensors
    }
    entry = checkpoints.describe(path)
    assert (entry.parameters, entry.stored_as) == (20 * 8 + 8 + 64, "float32")


def test_cut_off_at_any_length(tmp_path):
    path = tmp_path / "small.gguf"
    write(path)
    whole = path.read_bytes()
    last = gguf.GGUFReader(path).tensors[-1]
    end = last.data_offset + last.n_bytes  # behind it there is padding
    path.write_bytes(whole[:end])
    read_header(path)
    for length in [*range(0, end, 13), end - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(CheckpointError, match="is not a complete GGUF file"):
            read_header(path)


def header(*fields: bytes, tensors: bytes = b"", n_tensors: int = 0, n_fields: int | None = None) -> bytes:
    counts = struct.pack("<IQQ", 3, n_tensors, len(fields) if n_fields is None else n_fields)
    return b"GGUF" + counts + b"".join(fields) + tensors


def field(name: bytes, kind: int, value: bytes) -> bytes:
    return struct.pack("<Q", len(name)) + name + struct.pack("<I", kind) + value


def array(kind: int, count: int, items: bytes = b"") -> bytes:
    return field(b"a", 9, struct.pack("<IQ", kind, count) + items)


def tensor(*shape: int, offset: int = 0, dimensions: int | None = None) -> bytes:
    sizes = struct.pack(f"<{len(shape)}Q", *shape)
    count = len(shape) if dimensions is None else dimensions
    return struct.pack("<Q", 1) + b"t" + struct.pack("<I", count) + sizes + struct.pack("<IQ", 0, offset)


LIES = {
    "fields": header(n_fields=2**63),
    "tensors": header(n_tensors=2**63),
    "a name": header(struct.pack("<Q", 2**63) + b"name"),
    "a text": header(field(b"a", 8, struct.pack("<Q", 2**60))),
    **{f"an array of type {kind}": header(array(kind, 2**50, b"\0" * 24)) for kind in range(14)},
    "a few numbers more": header(array(0, 1000, b"\0" * 24)),
    "a few texts more": header(array(8, 50, b"\0" * 24)),
    "a text in an array": header(array(8, 2, struct.pack("<Q", 2**63) + b"\0" * 24)),
    "empty arrays": header(array(9, 3 * 10**8, struct.pack("<IQ", 4, 0) * 50)),
    "nested arrays": header(array(9, 1, struct.pack("<IQ", 9, 1) * 5000)),
    "many texts": header(array(8, 3_000_000, b"\0" * 24_000_000)),
    "many numbers": header(array(0, 3_000_000, b"\0" * 3_000_000)),
    "many arrays": header(*(field(b"%d" % n, 9, struct.pack("<IQ", 0, 900_000) + b"\0" * 900_000) for n in range(3))),
    "many fields": header(*(field(b"%d" % n, 0, b"\0") for n in range(70_000))),
    "two of a name": header(array(0, 1, b"\0"), array(0, 1, b"\0")),
    "a tensor without end": header(tensors=tensor(2**31, 2**31), n_tensors=1),
    "a tensor of nothing beyond": header(tensors=tensor(0, offset=2**62), n_tensors=1),
    "dimensions": header(tensors=tensor(1, dimensions=2**31), n_tensors=1),
    "an alignment": header(field(b"general.alignment", 4, struct.pack("<I", 3))),
}


@pytest.mark.parametrize("content", LIES.values(), ids=LIES)
def test_what_a_header_declares_beyond_its_file_is_refused_at_once(tmp_path, content):
    path = tmp_path / "lies.gguf"
    path.write_bytes(content)
    tracemalloc.start()
    began = time.thread_time()
    with pytest.raises(CheckpointError, match=r"lies\.gguf is not a complete GGUF file"):
        read_header(path)
    seconds, (_, most) = time.thread_time() - began, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert seconds < 2
    assert most < 50e6


@pytest.mark.parametrize(
    "field", ["block_count", "embedding_length", "vocab_size", "feed_forward_length", "attention.head_count"]
)
def test_sizes_beyond_the_tensors_take_no_memory(tmp_path, field):
    path = tmp_path / "large.gguf"
    write(path, **{f"llama.{field}": 2**31})
    began = time.thread_time()
    for use in (lambda: checkpoints.load(path), lambda: convert_gguf(path, tmp_path / "converted")):
        with pytest.raises(CheckpointError, match=r"2,147,483,648|belong together|fewer than one a|not a multiple"):
            use()
    assert time.thread_time() - began < 20  # the library is imported meanwhile
