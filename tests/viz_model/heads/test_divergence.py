"""Heads of two passes: divergences as scipy has them on rows put together by hand, and places where texts agree."""

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon

import viz_model as vm
from tests.support.small_models import random_ids, small_model
from viz_model.heads.alignment import side_by_side
from viz_model.heads.divergence import compare, jensen_shannon

FIRST = "The blue bird saw a brave wolf by the mill. The blue"
SECOND = "The brave bird saw a blue wolf by the mill. The blue"
LONGER = "The old brave bird saw a blue wolf by the mill. The blue"


@pytest.fixture(scope="module")
def model():
    return vm.load("tiny-gpt")


def small_pass(layers):
    return vm.Model("small", small_model(n_layers=layers)).trace([1, 2, 3])


def of_scipy(first, second):
    return jensenshannon(np.asarray(first), np.asarray(second), base=2) ** 2


def test_rows_of_random_shares_have_the_divergence_of_scipy():
    rows = torch.rand(2, 6, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    rows[0, 0, 3:] = 0  # what one has and the other lacks
    first, second = rows / rows.sum(-1, keepdim=True)
    found = jensen_shannon(first, second)
    assert found.tolist() == pytest.approx([of_scipy(*pair) for pair in zip(first, second, strict=True)])
    assert jensen_shannon(first, first).tolist() == [0.0] * 6
    ends = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])
    assert float(jensen_shannon(*ends)) == pytest.approx(1)


def test_each_head_differs_by_the_mean_divergence_of_its_rows(model):
    traces = model.trace(FIRST), model.trace(SECOND)
    table = compare(*traces).divergences()
    for layer, head in ((0, 0), (1, 0), (3, 2)):
        rows = zip(*(trace.weights(layer, head).double() for trace in traces), strict=True)
        assert float(table[layer, head]) == pytest.approx(np.mean([of_scipy(*pair) for pair in rows]), abs=1e-6)
    assert tuple(divmod(int(table.argmax()), 8)) == (1, 0), "the head that finds the word again changes most"
    assert compare(traces[0], traces[0]).divergences().abs().max() == 0


def test_one_head_is_compared_with_every_head_of_the_other_model(model):
    first, second = model.trace(FIRST), vm.load("tiny-llama").trace(FIRST)
    table = compare(first, second).divergences((1, 0))
    rows = zip(first.weights(1, 0).double(), second.weights(2, 3).double(), strict=True)
    assert float(table[2, 3]) == pytest.approx(np.mean([of_scipy(*pair) for pair in rows]), abs=1e-6)


def test_tokens_without_a_counterpart_are_weight_that_is_not_shared(model):
    """Of unequal texts the shared ends are aligned; the rest of a row is a share of its own in each text."""
    first, second = model.trace(FIRST), model.trace(LONGER)
    comparison = compare(first, second)
    places = comparison.queries
    assert places.first == tuple((n,) for n in (0, *range(6, 13)))
    assert places.second == tuple((n,) for n in (0, *range(7, 14)))
    at, other = [n for (n,) in places.first], [n for (n,) in places.second]
    found = comparison.weights((1, 0))
    a, b = first.weights(1, 0).double()[at], second.weights(1, 0).double()[other]
    rows = []
    for one, two in zip(a, b, strict=True):
        kept, kept_too = one[at].numpy(), two[other].numpy()
        rows.append(of_scipy([*kept, 1 - kept.sum(), 0], [*kept_too, 0, 1 - kept_too.sum()]))
    assert found.divergence.tolist() == pytest.approx(rows, abs=1e-6)
    assert found.elsewhere[1].tolist() == pytest.approx((1 - b[:, other].sum(-1)).tolist(), abs=1e-6)
    assert float(found.elsewhere[1].max()) > 0.01


def test_two_cuts_of_one_text_meet_where_a_token_of_both_ends():
    first = [b"[CLS]", b"the", b" daugh", b"ters", b" ran"]
    second = [b"th", b"e", b" da", b"ughters", b" r", b"an", b"!"]
    places = side_by_side(first, second[:-1], ({0}, ()))
    assert places.by_characters
    assert places.first == ((1,), (2, 3), (4,))
    assert places.second == ((0, 1), (2, 3), (4, 5))
    assert not side_by_side(first, second, ({0}, ())).by_characters, "another text"
    assert [places.place_of(n) for n in range(5)] == [None, 0, 1, 1, 2]
    assert places.place_of(5, second=True) == 2


def test_of_several_tokens_at_a_place_rows_are_averaged_and_columns_summed(model):
    whole = model.trace(FIRST)
    pieces = ["The", " bl", "ue", *whole.tokens[2:]]
    cut = model.trace([model.ids(piece, special=False)[0] for piece in pieces])
    assert b"".join(cut.token_bytes) == b"".join(whole.token_bytes)
    comparison = compare(whole, cut)
    assert comparison.queries.second[:3] == ((0,), (1, 2), (3,))
    found = comparison.weights((2, 5)).second
    weights = cut.weights(2, 5).double().numpy()
    columns = np.stack([weights[:, list(group)].sum(1) for group in comparison.keys.second], axis=1)
    expected = np.stack([columns[list(group)].mean(0) for group in comparison.queries.second])
    assert found.numpy() == pytest.approx(expected, abs=1e-12)
    assert found.sum(-1).tolist() == pytest.approx([1.0] * len(found), abs=1e-6)


def test_losses_are_those_of_torch_and_summed_over_a_place(model):
    traces = model.trace(FIRST), model.trace(LONGER)
    comparison = compare(*traces)
    for trace, found, groups in zip(
        traces, comparison.losses, (comparison.queries.first, comparison.queries.second), strict=True
    ):
        ids = torch.tensor(trace.ids)
        logits = torch.stack([trace.logits_at(n) for n in range(trace.length)])
        losses = [np.nan, *torch.nn.functional.cross_entropy(logits[:-1], ids[1:], reduction="none").tolist()]
        expected = [sum(losses[n] for n in group) for group in groups]
        assert found.tolist() == pytest.approx(expected, abs=1e-4, nan_ok=True)


def test_a_query_that_may_read_nothing_in_one_of_them_is_left_out():
    model = vm.Model("small", small_model())
    blind = torch.ones(6, 6, dtype=torch.bool).tril()
    blind[3] = False
    ids = random_ids(6).tolist()
    name = model.config.attention_name("self", "*")
    with vm.edit({f"{name}.mask": lambda own: blind.expand_as(own)}):
        masked = model.trace(ids)
    found = compare(model.trace(ids), masked).weights((0, 0)).divergence
    assert torch.isnan(found).tolist() == [n == 3 for n in range(6)]
    assert not compare(model.trace(ids), masked).divergences().isnan().any()


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda a, b: compare(a, "b"), "a trace"),
        (lambda a, b: compare(a, b).weights((9, 0)), "layer"),
        (lambda a, b: compare(a, b).weights((0, 99)), "head"),
        (lambda a, b: compare(a, b).weights(3), "two numbers"),
        (lambda a, b: compare(a, b).divergences(tell=3), "tell"),
        (lambda a, b: compare(*map(small_pass, (2, 3))).divergences(), "do not belong together"),
        (lambda a, b: compare(a.of("self"), vm.load("tiny-gpt").trace("zebra")), "neither begin nor end"),
    ],
)
def test_what_cannot_be_compared_is_a_sentence(model, ask, words):
    with pytest.raises(vm.VizError, match=words):
        ask(model.trace(FIRST), model.trace(SECOND))
