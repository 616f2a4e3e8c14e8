"""Hostile inputs, made by chance from a seed: damaged files of every format, odd texts, odd addresses."""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

Chance = random.Random

HUGE = (2**31, 2**63, 10**30, -1, 1e308, float("nan"), float("inf"))
VALUES = (None, True, 0, "x", "", [], [[]], {}, {"a": {"b": [None]}}, 0.5, *HUGE)
DEEP = 100_000  # brackets
CONTENTS = (b"", b"\0" * 99, b"[" * DEEP, b'{"a":' * DEEP, b"\x80\xfe" * 300, b"null", b"7", b'"x"', b"PK\3\4",
            b"GGUF\x03\0\0\0" + b"\xff" * 40, b"\xff\xff\xff\xff\xff\xff\xff\x7f{}")  # fmt: skip
KEYS = ("model_type", "quantization_config", "auto_map", "text_config", "architectures", "rope_scaling", "head_dim",
        "rope_parameters", "sliding_window", "layer_types", "eos_token_id", "chat_template", "added_tokens", "x",
        "tokenizer_class", "weight_map")  # fmt: skip

# Parts of texts: letters of many scripts, what joins or turns them, and what is no letter at all.
SCRIPTS = ((0x20, 0x7E), (0xA0, 0x24F), (0x300, 0x36F), (0x370, 0x3FF), (0x400, 0x4FF), (0x590, 0x6FF), (0x900, 0x97F),
           (0xE00, 0xE7F), (0x1100, 0x11FF), (0x2000, 0x206F), (0x3040, 0x30FF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3),
           (0xD800, 0xDFFF), (0xE000, 0xF8FF), (0xFE00, 0xFE0F), (0x1F300, 0x1FAFF), (0x10FFF0, 0x10FFFF))  # fmt: skip
CONTROL = "".join(map(chr, range(32))) + "\x7f\x80\x85\u2028\u2029\u202e\u2066\u200b\u200d\ufeff\ufffe\uffff"
WORDS = ("<|endoftext|>", "<|mask|>", "[MASK]", "<s>", "<script>alert(1)</script>", "$x^2$", ":red[a]", "{{ x }}", "**",
         "../../etc/passwd", "%00", "\ud83d", "e\u0301", "👩‍👩‍👧‍👦", "12 7 99", "-1", "1e400", "ﷺ" * 9)  # fmt: skip


def text(chance: Chance, longest: int = 1_000_000) -> str:
    """Any Unicode: one script, or many, or control characters; now and then very long, or of spaces alone."""
    kind = chance.randrange(8)
    if kind == 0:
        return chance.choice((" ", "\n", "\u3000", "a", "\0", "é", "👍")) * chance.choice((1, 63, 4096, longest))
    if kind == 1:
        return "".join(chance.choices(CONTROL, k=chance.randrange(40)))
    if kind == 2:
        return " ".join(chance.choices(WORDS, k=chance.randrange(1, 8)))
    if kind == 3:
        return "".join(chr(chance.randrange(0x110000)) for _ in range(chance.randrange(60)))
    scripts = SCRIPTS if kind == 4 else [chance.choice(SCRIPTS)]
    letters = (chr(chance.randint(*chance.choice(scripts))) for _ in range(chance.choice((1, 9, 60, 900))))
    return "".join(letter + " " * (chance.random() < 0.1) for letter in letters)


def damaged(chance: Chance, whole: Path, folder: Path) -> str:
    """Copy a whole folder and damage one of its files; gives what was done."""
    shutil.copytree(whole, folder)
    path = chance.choice(sorted(path for path in folder.iterdir() if path.is_file()))
    kinds = (*ANY_FILE, *{".json": OF_JSON, ".safetensors": (_header,)}.get(path.suffix, ()))
    done = chance.choice(kinds)(chance, path)
    return f"{whole.name}/{path.name}: {done}"


def _cut(chance: Chance, path: Path) -> str:
    content = path.read_bytes()
    length = chance.randrange(len(content) + 1)
    path.write_bytes(content[:length])
    return f"cut after {length} bytes"


def _lengthened(chance: Chance, path: Path) -> str:
    more = chance.choice((b"\0", b"}", b"\n", chance.randbytes(999), b"\xff\xfe" * 5000))
    path.write_bytes(path.read_bytes() + more)
    return f"{len(more)} bytes more"


def _turned(chance: Chance, path: Path) -> str:
    content = bytearray(path.read_bytes())
    for _ in range(chance.choice((1, 3, 50))):
        content[chance.randrange(min(len(content), chance.choice((64, 999, 10**9))))] = chance.randrange(256)
    path.write_bytes(bytes(content))
    return "some bytes are others"


def _replaced(chance: Chance, path: Path) -> str:
    content = chance.choice(CONTENTS)
    path.write_bytes(content)
    return f"holds {content[:20]!r} only"


def _gone(chance: Chance, path: Path) -> str:
    path.unlink()
    if chance.random() < 0.5:
        path.mkdir()
        return "is a folder"
    return "is missing"


def _value(chance: Chance, path: Path) -> str:
    """One value, wherever it stands, is another one."""
    content = json.loads(path.read_text("utf-8"))
    places = _places(content)
    holder, key = chance.choice(places) if places else ({}, "")
    value = chance.choice((*VALUES, text(chance, 1000)))
    if places:
        holder[key] = value
    path.write_text(json.dumps(content))
    return f"{key!r} is {str(value)[:40]!r}"


def _doubled(chance: Chance, path: Path) -> str:
    """A key more, which nobody knows, or one that means something elsewhere."""
    content = json.loads(path.read_text("utf-8"))
    key = chance.choice(KEYS)
    value = chance.choice((*VALUES, "gpt2", "bert", ["LlamaForCausalLM"], {"rope_type": "yarn", "factor": -1}))
    if isinstance(content, dict):
        content[key] = value
    path.write_text(json.dumps(content))
    return f"{key!r} is {str(value)[:40]!r}, too"


def _nested(chance: Chance, path: Path) -> str:
    """A value lies a thousand lists deep: more than a reader may go, fewer than a parser refuses."""
    content = json.loads(path.read_text("utf-8"))
    places = _places(content)
    if places:
        holder, key = chance.choice(places)
        deep: list = []
        for _ in range(900):
            deep = [deep]
        holder[key] = deep
    path.write_text(json.dumps(content))
    return "a value is nested 900 times"


def _header(chance: Chance, path: Path) -> str:
    """The header of a file of weights says something else."""
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    tensor = header[chance.choice([name for name in header if name != "__metadata__"])]
    tensor[(key := chance.choice(("dtype", "shape", "data_offsets")))] = (
        value := chance.choice(("F16", "I64", "BOOL", "X", [2**40], [-1], [0, 0], [1, 2**62], [[1]], None))
    )
    written = json.dumps(header).encode()
    path.write_bytes(len(written).to_bytes(8, "little") + written + content[8 + length :])
    return f"the header says {key} {value}"


ANY_FILE: tuple[Callable[[Chance, Path], str], ...] = (_cut, _lengthened, _turned, _replaced, _gone)
OF_JSON = (_value, _value, _value, _value, _doubled, _doubled, _nested)


def _places(content: object) -> list[tuple]:
    """Every place in a JSON value, as what holds it and the key there."""
    found, waiting = [], [content]
    while waiting and len(found) < 5000:
        holder = waiting.pop()
        keys = holder.keys() if isinstance(holder, dict) else range(len(holder)) if isinstance(holder, list) else ()
        found += [(holder, key) for key in keys]
        waiting += [holder[key] for key in keys]
    return found


IN_ADDRESSES = (
    *("", " ", "-1", "0", "1", "99", "2147483648", "99999999999999999999999", "nan", "inf", "1e400", "0.5", "0.0"),
    *(
        "1.2",
        "-1.-1",
        "1.2.3",
        "9999.9999",
        "None",
        "true",
        "a\0b",
        "%00",
        "\u202e",
        "a,b",
        ",",
        "[]",
        "{}",
        "x" * 5000,
    ),
    *("x" * 5000, "<b>", "&", "../..", "/etc/passwd", "causal", "tiny-bert", "tiny-seq2seq", "no-such-model"),
)


def address(chance: Chance, names: list[str]) -> dict[str, str]:
    """Some parameters with values that may not be theirs. A browser writes no half of a surrogate pair."""
    chosen = chance.sample(names, min(len(names), chance.choice((1, 2, 4, 99))))
    values = (chance.choice((*IN_ADDRESSES, text(chance, 4000)[:4000])) for _ in chosen)
    return {name: value.encode(errors="ignore").decode() for name, value in zip(chosen, values, strict=True)}
