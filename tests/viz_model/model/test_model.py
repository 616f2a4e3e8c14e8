"""What a person may type, and many people at once."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.support.properties import examples
from tests.support.small_models import CONTEXT, VOCABULARY, random_ids, small_model
from tests.support.small_tokenizers import small_tokenizer
from viz_model.errors import MaskError, PromptError
from viz_model.model import Model

TOKENIZER = small_tokenizer()
HOST = Model("reader", small_model(vocab_size=TOKENIZER.vocab_size, context_length=48), TOKENIZER)
BY_IDS = Model("nameless", small_model())


@pytest.mark.parametrize(
    "prompt",
    [
        *(
            " ",
            "     ",
            "\n",
            "\n\n\n",
            "\t",
            "a",
            "the",
            "the the the",
            "👍",
            "👩‍🔬 👍🏽",
            "e\u0301\u0301",
            "\u0301",
        ),
        *("שלום", "\u202eabc", "<b>bold</b> &amp;", "# *x* `y` $z$", "a\0b", "\0", "\r\n", "<|endoftext|>"),
        *("\ufeff\u200b", "\ufffd", "日本語"),
    ],
)
def test_any_text_is_traced_to_its_last_byte(prompt):
    trace = HOST.trace(prompt)
    assert b"".join(trace.token_bytes) == prompt.encode()
    assert len(trace.tokens) == len(trace.ids) == trace.length > 0
    assert list(trace.ids) == HOST.encode(prompt)
    assert TOKENIZER.end_of_text not in trace.ids
    assert trace.weights(0, 0).shape == (trace.length, trace.length)
    assert torch.isfinite(trace.logits).all()


@examples(60)
@given(st.text(min_size=1, max_size=11))
def test_any_short_text_is_traced(prompt):
    trace = HOST.trace(prompt)
    assert b"".join(trace.token_bytes) == prompt.encode()
    for token, piece in zip(trace.tokens, trace.token_bytes, strict=True):
        assert token == piece.decode(errors="replace")


@pytest.mark.parametrize("prompt", ["", [], (), np.array([], dtype=int), torch.tensor([], dtype=torch.long)])
def test_nothing_at_all(prompt):
    with pytest.raises(PromptError, match="The prompt is empty"):
        HOST.trace(prompt)


def test_exactly_the_context_length_and_one_more():
    assert HOST.trace("z" * 48).length == 48
    with pytest.raises(PromptError, match=r"49 tokens, but reader reads at most 48\. Shorten it by 1"):
        HOST.trace("z" * 49)
    with pytest.raises(PromptError, match="1,000,000 tokens, but reader reads at most 48"):
        HOST.trace("z" * 1_000_000)
    assert BY_IDS.trace([1] * CONTEXT).length == CONTEXT
    with pytest.raises(PromptError, match=f"{CONTEXT + 1} tokens, but nameless reads at most {CONTEXT}"):
        BY_IDS.trace([1] * (CONTEXT + 1))


def test_half_of_a_surrogate_pair():
    with pytest.raises(PromptError, match="surrogate pair"):
        HOST.trace("a\ud83d")


@pytest.mark.parametrize(
    "ids",
    [
        *([3, 0, 28], (3, 0, 28), np.array([3, 0, 28], np.uint8), [np.int64(3), np.int32(0), 28]),
        *(torch.tensor([3, 0, 28]), iter([3, 0, 28])),
    ],
    ids=["list", "tuple", "array", "numpy ints", "tensor", "iterator"],
)
def test_ids_of_any_integer_type(ids):
    trace = BY_IDS.trace(ids)
    assert trace.ids == (3, 0, 28)
    assert all(type(token) is int for token in trace.ids)
    expected = BY_IDS.transformer(torch.tensor([[3, 0, 28]]))[0]
    torch.testing.assert_close(trace.logits, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        ([VOCABULARY], f"no token {VOCABULARY}: ids go from 0 to {VOCABULARY - 1}"),
        ([0, -1], "no token -1"),
        ([10**30], f"no token {10**30}"),
        ([True], "whole number, not True"),
        ([np.bool_(True)], "whole number, not"),
        ([1.0], "whole number, not 1.0"),
        ([np.float32(1)], "whole number, not"),
        ([float("nan")], "whole number, not nan"),
        (["1"], "whole number, not '1'"),
        ([None], "whole number, not None"),
        ([[1, 2]], r"whole number, not \[1, 2\]"),
        (torch.tensor([[1, 2]]), "whole number"),
        (torch.tensor([0.5]), "whole number"),
        (np.array([0.5]), "whole number"),
        (None, "text or a list of token ids, not None"),
        (7, "text or a list of token ids, not 7"),
    ],
)
def test_what_is_no_id_is_said_in_a_sentence(ids, words):
    with pytest.raises(PromptError, match=words):
        BY_IDS.trace(ids)


def test_without_a_tokenizer_ids_are_traced_and_text_is_refused():
    trace = BY_IDS.trace([3, 28])
    assert trace.token_bytes == (b"<3>", b"<28>")
    assert trace.tokens == ("<3>", "<28>")
    assert BY_IDS.encode(" 3, 28\n7") == [3, 28, 7]
    for refused in ("text", "", "3 four", "3.5", "-1", "９"):
        with pytest.raises(PromptError, match="nameless has no tokenizer"):
            BY_IDS.trace(refused)


def test_the_control_token_can_be_given_by_its_id():
    trace = HOST.trace([TOKENIZER.end_of_text, 97])
    assert trace.token_bytes == (b"<|endoftext|>", b"a")


SQUARE = torch.ones(3, 3, dtype=torch.bool)


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        ("upside down", "no mask 'upside down'. Choose one of: causal, bidirectional"),
        ("", "no mask ''"),
        (SQUARE[:2], r"3 queries and 3 keys .* shape \(3, 3\); .* \(2, 3\)"),
        (SQUARE[None, None], r"shape \(3, 3\); .* \(1, 1, 3, 3\)"),
        (SQUARE.float(), "booleans .* torch.float32"),
        (SQUARE.numpy(), "booleans"),
        ([[True] * 3] * 3, "booleans"),
        (7, "booleans"),
    ],
)
def test_a_mask_that_does_not_fit_is_refused(mask, words):
    with pytest.raises(MaskError, match=words):
        BY_IDS.trace([1, 2, 3], mask=mask)


def test_a_refused_pass_leaves_nothing_behind():
    before = BY_IDS.trace([1, 2, 3])
    for refused in ({"prompt": []}, {"prompt": [1], "mask": "none"}, {"prompt": [1, 2], "mask": SQUARE}):
        with pytest.raises((PromptError, MaskError)):
            BY_IDS.trace(**refused)
    after = BY_IDS.trace([1, 2, 3])
    assert before.tensors.keys() == after.tensors.keys()
    assert all(torch.equal(before[name], after[name]) for name in before.tensors)


@pytest.mark.parametrize("stored_weights_bytes", [0, 1 << 20])
def test_eight_threads_on_one_model_mix_nothing_up(stored_weights_bytes):
    threads, prompts = 8, 40
    together = threading.Barrier(threads)

    def choices(thread, number):
        length = 1 + (7 * thread + 5 * number) % CONTEXT
        mask = (None, "bidirectional", torch.rand(length, length) > 0.5)[number % 3]
        return random_ids(length, seed=1000 * thread + number).tolist(), mask

    given_to = [[choices(thread, number) for number in range(prompts)] for thread in range(threads)]

    def work(thread):
        together.wait()
        return [BY_IDS.trace(*given, stored_weights_bytes=stored_weights_bytes) for given in given_to[thread]]

    with ThreadPoolExecutor(threads) as pool:
        traces = list(pool.map(work, range(threads)))
    for thread in range(threads):
        for given_choices, trace in zip(given_to[thread], traces[thread], strict=True):
            alone = BY_IDS.trace(*given_choices, stored_weights_bytes=stored_weights_bytes)
            assert (trace.ids, trace.mask_name) == (alone.ids, alone.mask_name)
            assert trace.tensors.keys() == alone.tensors.keys()
            assert all(torch.equal(trace[name], alone[name]) for name in alone.tensors)
            assert torch.equal(trace.weights(1, 3), alone.weights(1, 3))
