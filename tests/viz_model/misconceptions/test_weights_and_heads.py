"""What a heavy weight and a lost head do, against whole passes under masks and edits of their own."""

import numpy as np
import pytest
import scipy.stats
import torch

import viz_model as vm
from tests.support.small_models import small_model
from viz_model.misconceptions.taking_over import Other, TakingOver, most_replaced_head, pairs_off
from viz_model.misconceptions.weight import Cell, Weighing, rank_correlation, weigh
from viz_model.model import Model

IDS = [3, 7, 4, 9, 5]

# --- a high attention weight means that the token mattered ---


def test_a_forbidden_cell_does_what_a_mask_without_it_does():
    """In a model of one layer and one head, where a mask can forbid a single cell of a single head."""
    model = Model("small", small_model(n_layers=1, n_heads=1, n_kv_heads=1))
    trace = model.trace(IDS)
    found = weigh(model, trace, query=4, position=4)
    assert [cell.key for cell in found.cells] == trace.weights(0, 0)[4].argsort(descending=True).tolist()
    assert found.of == 5
    for cell in found.cells:
        mask = torch.ones(5, 5).tril().bool()
        mask[4, cell.key] = False
        before, after = (one.logits.double().log_softmax(-1) for one in (trace, model.trace(IDS, mask)))
        divergence = float((before.exp() * (before - after)).sum()) / np.log(2)
        assert cell.effect == pytest.approx(divergence, rel=1e-3, abs=1e-8)
        assert cell.weight == pytest.approx(float(trace.weights(0, 0)[4, cell.key]))
    cells = [(cell.weight, cell.effect) for cell in found.cells]
    assert found.correlation() == pytest.approx(scipy.stats.spearmanr(*zip(*cells, strict=True)).statistic)


def test_rank_correlation_is_spearmans_also_with_equal_numbers():
    first, second = [1.0, 2.0, 2.0, 5.0, 0.0], [3.0, 1.0, 4.0, 4.0, 4.0]
    assert rank_correlation(first, second) == pytest.approx(scipy.stats.spearmanr(first, second).statistic)
    assert np.isnan(rank_correlation([1.0, 1.0], [2.0, 3.0]))


def test_of_many_cells_the_heaviest_are_tried_and_others_evenly():
    model = vm.load("tiny-gpt")
    trace = model.trace("Once upon a time there was a king who had three daughters.")
    found = weigh(model, trace, trace.length - 1, trace.length - 1)
    weights = torch.stack([trace.weights(layer, head)[-1] for layer in range(4) for head in range(8)]).flatten()
    assert found.of == len(weights)
    assert [cell.weight for cell in found.cells[:64]] == weights.sort(descending=True).values[:64].tolist()
    assert len(found.cells) == 128
    assert found.cells[-1].weight == float(weights.min())


def cell(weight, effect):
    return Cell(0, 0, 0, weight, effect)


@pytest.mark.parametrize(
    ("cells", "places"),
    [
        ([(0.9, 0.001), (0.5, 0.4), (0.4, 0.3)], (0, 2)),  # the second has more than half of the first one's weight
        ([(0.9, 0.001), (0.3, 0.1), (0.2, 0.2)], (0, 2)),
        ([(0.9, 0.2), (0.4, 0.3)], None),  # less than twice as much
        ([(0.9, 0.2), (0.4, 0.01), (0.1, 0.3)], None),  # 0.4 is no high weight beside 0.9
        ([(0.9, 1e-12), (0.4, 1e-11)], None),  # both are rounding
    ],
)
def test_the_pair_of_the_answer(cells, places):
    found = Weighing(tuple(cell(*one) for one in cells), len(cells), rounding=1e-10)
    assert found.pair == (None if places is None else tuple(found.cells[place] for place in places))


def test_a_query_that_reads_one_key_cannot_do_without_it():
    model = Model("small", small_model())
    with pytest.raises(vm.VizError, match="only one key"):
        weigh(model, model.trace(IDS), query=0, position=0)


# --- switching a head off shows what it is for ---


@torch.inference_mode()
def test_pairs_of_heads_cost_what_they_cost_in_whole_passes():
    model = Model("small", small_model(n_layers=3))
    trace = model.trace(IDS)
    token = int(trace.logits.argmax())
    found = pairs_off(model, trace, 1, 2, position=-1)

    def cost(*heads):
        edits = {}
        for layer in range(3):
            off = [head for at, head in heads if at == layer]
            edits[f"blocks.{layer}.attn.mixed"] = lambda x, off=off: x.index_fill(1, torch.tensor(off).long(), 0.0)
        with vm.edit(edits):
            logits = model.transformer(torch.tensor([IDS]))[0]
        return float(trace.logits.log_softmax(-1)[token] - logits.log_softmax(-1)[token]) / np.log(2)

    assert found.token == token
    assert found.first == pytest.approx(cost((1, 2)), abs=1e-4)
    places = [(1, 0), (1, 1), (1, 3), (2, 0), (2, 1), (2, 2), (2, 3)]
    assert [(other.layer, other.head) for other in found.others] == places
    for other in found.others:
        place = other.layer, other.head
        assert other.alone == pytest.approx(cost(place), abs=1e-4)
        assert other.together == pytest.approx(cost((1, 2), place), abs=1e-4)
        assert found.when_off(other) == pytest.approx(other.together - found.first)


def pairs(first, *others):
    return TakingOver(0, 0.5, first, tuple(Other(1, n, *costs) for n, costs in enumerate(others)), len(others))


@pytest.mark.parametrize(
    ("found", "best", "takes_over"),
    [
        (pairs(0.2, (1.0, 1.2), (0.5, 2.0)), 1, True),
        (pairs(0.2, (1.0, 1.6), (0.5, 0.7)), 0, False),  # 1.4 when off: not one and a half times 1.0
        (pairs(0.2, (0.01, 0.25)), 0, False),  # 0.04 bits more
        (pairs(0.2, (-0.5, 0.1)), 0, True),  # alone its loss is a gain, and no more when the first one is off
    ],
)
def test_a_head_takes_over_if_it_matters_far_more_when_the_other_is_off(found, best, takes_over):
    assert found.best == found.others[best]
    assert found.takes_over == takes_over


def test_the_most_replaced_head_is_found_among_all_pairs():
    model = vm.load("induction")
    trace = model.trace("abcabcab")
    heads = [(layer, head) for layer in range(trace.n_layers) for head in range(trace.config.n_heads)]
    gains = {}
    for layer, head in heads[:-1]:
        found = pairs_off(model, trace, layer, head, -1)
        if found.takes_over:
            gains[layer, head] = found.when_off(found.best) - found.best.alone
    assert most_replaced_head(model, trace, -1) == max(gains, key=gains.get, default=None)


def test_what_no_head_can_take_over_for_is_said():
    model = Model("small", small_model(n_layers=1, n_heads=1, n_kv_heads=1))
    with pytest.raises(vm.VizError, match="No other head comes after"):
        pairs_off(model, model.trace(IDS), 0, 0, -1)
