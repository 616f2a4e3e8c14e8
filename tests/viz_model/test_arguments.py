"""What Python may hand to a public function by mistake: a VizError says what is wanted, whatever it was."""

from contextlib import suppress

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import viz_model as vm
from tests.support.properties import examples
from tests.support.small_models import make_model, small_config
from tests.support.small_tokenizers import small_tokenizer
from viz_model.model import Model

TOKENIZER = small_tokenizer()
MODEL = Model("small", make_model(small_config(vocab_size=TOKENIZER.vocab_size)), TOKENIZER)
PAIR = Model("pair", make_model(small_config(layout="encoder-decoder", n_encoder_layers=1)))

TRACE = MODEL.trace([1, 2, 3])

SIMPLE = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=5)
WRONG = st.one_of(
    SIMPLE,
    st.lists(SIMPLE, max_size=3),
    st.dictionaries(st.text(max_size=3), SIMPLE, max_size=2),
    st.sampled_from([object(), int, print, {1, 2}, torch.zeros(0), torch.zeros(2, 2), 10**400, "\ud800", "a\0b"]),
)


def of_trace(name: str, what: str, value) -> torch.Tensor:
    return getattr(TRACE, name)(**{"layer": 0, "head": 0} | {what: value})


def captured(value) -> None:
    with vm.capture(value):
        MODEL.trace([1, 2])


def edited(functions) -> None:
    with vm.edit(functions):
        MODEL.trace([1, 2])


def written(**choices) -> list:
    """The first two steps, for there may be any number of them."""
    return [step for _, step in zip(range(2), MODEL.generate([1, 2], **choices), strict=False)]


USES = {
    "load": vm.load,
    "trace": MODEL.trace,
    "trace, mask": lambda value: MODEL.trace([1, 2], mask=value),
    "trace, mask of a part": lambda value: MODEL.trace([1, 2], mask={"self": value}),
    "trace, source": lambda value: PAIR.trace(value, target=[1]),
    "trace, target": lambda value: PAIR.trace([1, 2], target=value),
    "encode": MODEL.encode,
    "encode_target": PAIR.encode_target,
    "pieces": MODEL.pieces,
    "generate": lambda value: list(MODEL.generate(value, max_new_tokens=1)),
    **{f"generate, {name}": lambda value, name=name: written(**{name: value})
       for name in ("max_new_tokens", "temperature", "top_k", "top_p", "seed", "forced", "kept", "target")},
    **{f"Trace.{name}": getattr(TRACE, name) for name in ("q", "k", "v", "mixed", "mask", "logits_at")},
    **{f"Trace.{name}, {what}": lambda value, name=name, what=what: of_trace(name, what, value)
       for name in ("raw", "scores", "weights", "softmax_input") for what in ("layer", "head")},
    "capture": captured,
    "edit": edited,
    "KVCache, source": lambda value: vm.KVCache(PAIR.config, 4, source=min(value, 9) if type(value) is int else value),
    "KVCache, capacity": lambda value: vm.KVCache(PAIR.config, min(value, 9) if type(value) is int else value),
    "TransformerConfig": lambda value: vm.TransformerConfig(**vars(small_config()) | {"d_model": value}),
}  # fmt: skip


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@given(value=WRONG)
@examples(40)
def test_a_wrong_argument_is_a_sentence(use, value):
    with suppress(vm.VizError):  # whatever else is raised fails
        use(value)


def test_a_million_spaces():
    for text in (" " * 1_000_000, "a" + " " * 1_000_000 + "b"):
        for use in (MODEL.ids, MODEL.trace, MODEL.pieces):
            with pytest.raises(vm.PromptError, match=r"too long|reads at most"):
                use(text)
    assert MODEL.ids("a b")
