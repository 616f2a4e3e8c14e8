"""Wrong arguments for every public function of viz_model: of any type, size and combination."""

import time
from decimal import Decimal
from inspect import Parameter
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from torch import Tensor

import viz_model as vm
from tests.support.public import Use, uses
from tests.support.small_models import make_model, small_config
from tests.support.small_tokenizers import small_tokenizer
from viz_model.model import Model

TOKENIZER = small_tokenizer()
MODEL = Model("small", make_model(small_config(vocab_size=TOKENIZER.vocab_size, position="rotary")), TOKENIZER)
PAIR = Model("pair", make_model(small_config(layout="encoder-decoder", n_encoder_layers=1)))
[STEP] = MODEL.generate([1, 2], max_new_tokens=1)

MOST_SECONDS = 2


class Hostile:
    """Answers nothing that it is asked."""

    def __repr__(self):
        raise RuntimeError("no name")

    __str__ = __bool__ = __len__ = __iter__ = __eq__ = __repr__
    __hash__ = object.__hash__


SIMPLE = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=5)
HUGE = [2**31, 2**63, -(2**63), 10**400, 10**5000, -(10**5000), 1e308, 1e-320, 10**9]
TEXTS = ["\ud800", "a\0b", "x" * 100_000, "/", "..", "~nosuchuser/x", "self", "cross", "causal", "logits", "*"]
ARRAYS = [np.zeros(0), np.zeros((2, 2)), np.array(["a", None], dtype=object), np.int64(1), np.float32("nan"),
          np.array([True, False]), np.arange(3)]  # fmt: skip
KINDS = (torch.bool, torch.long, torch.int8, torch.float32, torch.float64, torch.bfloat16, torch.complex64)
SHAPES = ((), (0,), (1,), (2, 2), (1, 3), (3, 3), (1, 4, 3, 6), (1, 2, 3, 6), (1, 1, 1, 1, 1), (2, 0, 3))
TENSORS = [
    *(torch.zeros(shape).to(kind) for shape in SHAPES for kind in KINDS),
    torch.zeros(1, 3, device="meta"),
    torch.zeros(1, 3, dtype=torch.long, device="meta"),
    torch.zeros(3, 3, dtype=torch.bool, device="meta"),
    torch.full((1, 3), -1),
    torch.full((1, 3), 10**9),
    torch.eye(3).to_sparse(),
    torch.full((1, 4, 3, 6), torch.nan),
]
OBJECTS = [object(), Hostile(), print, {1, 2}, frozenset(), Path("x"), Decimal("nan"), 1j, range(10**9), count(),
           slice(None), Ellipsis, [[1], [2, 3]], [[[]]], [None], {"self": 5}, {5: 5}, (1, "a"), MODEL, MODEL.config,
           PAIR.config, torch.float32, torch.int8, bytearray(b"ab"), memoryview(b"ab")]  # fmt: skip
WRONG = st.one_of(
    SIMPLE,
    st.lists(SIMPLE, max_size=3),
    st.lists(st.lists(SIMPLE, max_size=2), max_size=2),
    st.dictionaries(st.text(max_size=3), SIMPLE, max_size=2),
    st.sampled_from(HUGE),
    st.sampled_from(TEXTS),
    st.sampled_from(ARRAYS),
    st.sampled_from(TENSORS),
    st.sampled_from(OBJECTS),
)

# Values that fit a parameter, by its name; those of tensors stand apart, for a name may be a list elsewhere.
FITTING = {
    "batch": [1], "cache": [True, False], "capacity": [5, 0], "compare": [False, True], "config": [MODEL.config],
    "context_length": [8], "count": [2], "d_model": [8], "forced": [None, {0: 5}], "functions": [{"*.q": Tensor.clone}],
    "head": [0, 3], "ids": [[1, 2, 3]], "kept": [()], "layer": [0, 1], "length": [3], "max_new_tokens": [2],
    "n_heads": [2], "n_layers": [1], "name": ["small", "resid_post"], "name_or_folder": ["tiny-gpt"], "new": [1],
    "number": [0], "part": ["self", "cross"], "position": [-1], "prompt": [[1, 2, 3], "a b"], "seed": [0],
    "site": ["logits"], "special": [True], "target": [None, [1, 2]], "temperature": [0.0, 1.0], "text": ["a b"],
    "token": [5], "vocab_size": [29], "mask": [None, "causal", torch.ones(3, 3).bool()],
    "transformer": [MODEL.transformer],
    "attention": ["blocks.0.attn"], "mask_name": ["mine"], "folder": ["."], "patterns": [("*.q",)], "optional": [()],
    "view": [STEP.cache], "block": ["blocks.0", "decoder.blocks.0"], "model": [MODEL], "clean": [[1, 2, 3]],
    "corrupted": [[1, 2, 4]], "heads": ["all", [(0, 1)]], "ends": [frozenset()], "than": [None, "mean", "row"],
    "answer": [(1, 2)], "how": ["zero", "mean of a text"], "unit": ["head", "layer"], "values_of": [None, [1]],
    "receiver": [(1, 0)], "layers": ["all", [0]], "into": ["query", "value"],
    "queries": [[0, 2]], "tokens": [[5, 1]],
    "minus": ["b"], "trace": [MODEL.trace([1, 2, 3])],
    "edits": [(), [vm.SwitchOff(0, 1)], [vm.AddVector(0, "1 2", "3")]],
    "kind": ["query", "value"], "distance": [0, 2], "other": [None, 5],
    "pattern": ["itself"], "windows": [3], "most": [1], "content": [{}], "shape": [(2, 4)],
}  # fmt: skip
FITTING_TENSORS = {
    "ids": [torch.tensor([[1, 2, 3]])], "source": [torch.tensor([[1, 2, 3]])], "tensor": [torch.ones(2)],
    "query": [torch.ones(1, 4, 3, 6)], "key": [torch.ones(1, 2, 3, 6)], "value": [torch.ones(1, 2, 3, 6)],
    "hidden": [torch.ones(1, 3, 24)], "rows": [torch.ones(1, 3, 24)], "mask": [None, torch.ones(3, 3).bool()],
    "padding": [None, torch.tensor([[True, False, False]])], "bias": [None, torch.ones(4, 3, 3)],
    "sinks": [None, torch.ones(4)], "x": [torch.ones(4, 3, 6)], "positions": [torch.arange(3)],
}  # fmt: skip


def fitting(parameter: Parameter) -> list:
    """Values that it may have."""
    is_tensor = "Tensor" in str(parameter.annotation) and parameter.name in FITTING_TENSORS
    known = FITTING_TENSORS if is_tensor else FITTING
    if parameter.name in known:
        return known[parameter.name]
    if parameter.default is not Parameter.empty:
        return [parameter.default]
    assert parameter.annotation in (int, float), f"Nothing in this file fits {parameter}: add a value to FITTING."
    return [parameter.annotation(0)]


@st.composite
def arguments(draw, use: Use) -> dict[str, Any]:
    """Some are wrong, at least one; the others fit, or are left out where they may be."""
    wrong = draw(st.sets(st.sampled_from([parameter.name for parameter in use.parameters]), min_size=1))
    chosen = {}
    for parameter in use.parameters:
        if parameter.name in wrong:
            several = parameter.kind == Parameter.VAR_POSITIONAL
            chosen[parameter.name] = draw(st.lists(WRONG, max_size=2) if several else WRONG)
        elif parameter.default is Parameter.empty or draw(st.booleans()):
            chosen[parameter.name] = draw(st.sampled_from(fitting(parameter)))
    return chosen


def fault(use: Use, examples: int, start: int = 0) -> str:
    """What other error than a VizError a use ends with in so many examples, and with which arguments; "" for none."""

    @seed(start)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        report_multiple_bugs=False,
        suppress_health_check=[*HealthCheck],
    )
    @given(arguments(use))
    def a_wrong_argument_is_a_sentence(chosen):
        began, sentence = time.process_time(), "."
        try:
            use(chosen)
        except vm.VizError as error:
            sentence = str(error).strip()
        assert sentence.endswith((".", "?")), sentence
        assert time.process_time() - began < MOST_SECONDS, "it took too long"

    try:
        a_wrong_argument_is_a_sentence()
    except Exception as error:
        return " ".join([f"{type(error).__name__}: {error}"[:200], *getattr(error, "__notes__", ())])[:900]
    return ""


def library_model(folder: Path) -> Model:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(vocab_size=67, hidden_size=24, num_hidden_layers=2, num_attention_heads=4,
                         num_key_value_heads=2, intermediate_size=20, max_position_embeddings=24)  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    return vm.load(folder)


ROOTS = {
    "functions": lambda _: {name: getattr(vm, name) for name in vm.__all__},
    "a decoder": lambda _: {"model": MODEL, "cache": vm.KVCache(MODEL.config, 5)},
    "an encoder-decoder": lambda _: {"model": PAIR, "cache": vm.KVCache(PAIR.config, 5, source=3)},
    "a model of the library": lambda folder: {"model": library_model(folder)},
}


def reached(root: str, folder: Path) -> dict[str, Use]:
    """What takes arguments and is reached from a root, by name. folder: an empty one, where a model may be written."""
    found = uses(ROOTS[root](folder), lambda parameter: fitting(parameter)[0], lambda: MODEL.trace([1, 2]))
    return {name: use for name, use in found.items() if use.parameters}
