"""The numbers of a cell against a computation in numpy that starts at the model's weight matrices."""

import numpy as np
import pytest
import torch

from tests.reference.written_out import rotated
from tests.support.small_models import make_model, random_ids, small_config
from viz_model.errors import VizError
from viz_model.heads.cell_arithmetic import cell_arithmetic
from viz_model.model import Model

LENGTH = 7
IDS = random_ids(LENGTH).tolist()


def from_the_weights(model, layer, head, mask):
    """(query, key, value, scores, weights) of one head in float64: x = norm(stream), q = x W + b …"""
    config = model.config
    state = {name: tensor.double().numpy() for name, tensor in model.transformer.state_dict().items()}
    x = state["tokens.weight"][IDS]
    if config.position == "learned":
        x = x + state["positions.weight"][:LENGTH]
    assert layer == 0  # the stream before block 0 is the embedding; further blocks would repeat the model
    norm = {name: state[f"blocks.0.norm1.{name}"] for name in ("weight", "bias")}
    centred = x - x.mean(-1, keepdims=True)
    x = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + config.norm_epsilon)
    x = x * norm["weight"] + norm["bias"]

    def projected(name, number):
        width = config.d_head
        rows = slice(number * width, (number + 1) * width)
        matrix, bias = state[f"blocks.0.attn.{name}.weight"], state[f"blocks.0.attn.{name}.bias"]
        return x @ matrix[rows].T + bias[rows]

    group = head * config.n_kv_heads // config.n_heads
    query, key, value = projected("query", head), projected("key", group), projected("value", group)
    if config.position == "rotary":
        turn = (np.arange(LENGTH), config.rotary_base, config.rotary_pairs)
        query, key = rotated(query, *turn), rotated(key, *turn)
    scores = query @ key.T / np.sqrt(config.d_head)
    exponentials = np.where(mask, np.exp(scores), 0)
    sums = exponentials.sum(-1, keepdims=True)
    weights = np.divide(exponentials, sums, out=np.zeros_like(scores), where=sums > 0)
    return query, key, value, scores, weights


def masks(kind):
    if kind == "custom":
        allowed = np.random.default_rng(5).random((LENGTH, LENGTH)) > 0.5
        allowed[4] = False
        return torch.from_numpy(allowed), allowed
    return kind, np.tri(LENGTH, dtype=bool) if kind is None else np.ones((LENGTH, LENGTH), bool)


@pytest.mark.parametrize("stored_weights_bytes", [0, 1 << 20])
@pytest.mark.parametrize("kind", [None, "bidirectional", "custom"])
@pytest.mark.parametrize("position", ["learned", "rotary"])
def test_every_number_of_every_cell(position, kind, stored_weights_bytes):
    model = Model("small", make_model(small_config(position=position)))
    asked, allowed = masks(kind)
    trace = model.trace(IDS, asked, stored_weights_bytes=stored_weights_bytes)
    for head in range(4):
        query, key, value, scores, weights = from_the_weights(model, 0, head, allowed)
        for i, j in np.ndindex(LENGTH, LENGTH):
            cell = cell_arithmetic(trace, 0, head, i, j)
            np.testing.assert_allclose(cell.query, query[i], atol=1e-5)
            np.testing.assert_allclose(cell.key, key[j], atol=1e-5)
            np.testing.assert_allclose(cell.products, query[i] * key[j], atol=1e-5, rtol=1e-5)
            assert cell.raw == pytest.approx(query[i] @ key[j], abs=2e-5)
            assert cell.raw == pytest.approx(sum(cell.products), abs=1e-12)
            assert cell.scale == pytest.approx(1 / np.sqrt(6))
            assert cell.score == pytest.approx(scores[i, j], abs=1e-5)
            assert cell.score == pytest.approx(cell.raw * cell.scale, abs=1e-12)
            assert cell.allowed is bool(allowed[i, j])
            permitted = scores[i, allowed[i]]
            if len(permitted):
                assert cell.row_maximum == pytest.approx(permitted.max(), abs=1e-5)
                assert cell.row_sum == pytest.approx(np.exp(permitted - permitted.max()).sum(), rel=1e-4)
            assert cell.weight == pytest.approx(weights[i, j], abs=1e-5)
            assert cell.drawn_weight == pytest.approx(weights[i, j], abs=1e-5)
            assert cell.drawn_weight == trace.weights(0, head)[i, j].item()
            assert cell.value_length == pytest.approx(np.linalg.norm(value[j]), rel=1e-5)
            assert cell.carried == pytest.approx(weights[i, j] * np.linalg.norm(value[j]), abs=1e-5)
            assert cell.carried == cell.weight * cell.value_length
            if cell.allowed:
                assert cell.exponential == pytest.approx(np.exp(scores[i, j] - permitted.max()), abs=1e-5)
                assert cell.weight == cell.exponential / cell.row_sum
            else:
                assert (cell.exponential, cell.weight, cell.carried) == (0, 0, 0)


def test_the_cells_of_a_row_add_up():
    trace = Model("small", make_model(small_config())).trace(IDS)
    for layer in range(2):
        cells = [cell_arithmetic(trace, layer, 3, 5, j) for j in range(LENGTH)]
        assert sum(cell.exponential for cell in cells) == pytest.approx(cells[0].row_sum, rel=1e-12)
        assert sum(cell.weight for cell in cells) == pytest.approx(1, rel=1e-12)
        assert max(cell.exponential for cell in cells) == 1


def test_a_row_that_may_attend_to_nothing_has_no_weight_and_no_nan():
    mask = torch.ones(LENGTH, LENGTH, dtype=torch.bool)
    mask[3] = False
    trace = Model("small", make_model(small_config())).trace(IDS, mask)
    cell = cell_arithmetic(trace, 1, 0, 3, 2)
    assert (cell.allowed, cell.row_sum, cell.weight, cell.carried, cell.drawn_weight) == (False, 0, 0, 0, 0)
    assert np.isfinite([cell.raw, cell.score, cell.row_maximum, cell.value_length]).all()


def test_huge_scores_overflow_nothing():
    transformer = make_model(small_config())
    state = transformer.state_dict()
    for name in ("query", "key"):
        state[f"blocks.0.attn.{name}.weight"] *= 1e3
    trace = Model("huge", transformer).trace(IDS)
    for i, j in np.ndindex(LENGTH, LENGTH):
        cell = cell_arithmetic(trace, 0, 1, i, j)
        assert 0 <= cell.weight <= 1
        assert cell.weight == pytest.approx(cell.drawn_weight, abs=1e-5)
    assert max(abs(trace.scores(0, 1)).flatten()) > 1e5


@pytest.mark.parametrize(
    ("layer", "head", "i", "j", "words"),
    [
        *((0, 0, i, j, rf"no cell \({i}, {j}\): .* keys 0 to 6") for i, j in ((7, 0), (0, 7), (-1, 0), (0, -1))),
        *((2, 0, 0, 0, "no layer 2"), (-1, 0, 0, 0, "no layer -1"), (0, 4, 0, 0, "no head 4")),
        (0, -1, 0, 0, "no head -1"),
    ],
)
def test_a_cell_that_is_not_there(layer, head, i, j, words):
    trace = Model("small", make_model(small_config())).trace(IDS)
    with pytest.raises(VizError, match=words):
        cell_arithmetic(trace, layer, head, i, j)
