"""Which heads do this: every head ranked by one number, over the text or in the prompt."""

from types import SimpleNamespace

import numpy as np
import pytest

import viz_model as vm
from pages.over_a_text import finder
from pages.over_a_text.finder import ALIKE, CELL, DRAWN, PATTERN, Ranking
from tests.support.app import address_of, opened
from tests.support.page_parts import Noted, Session
from viz_model.heads.finder import alike
from viz_model.heads.windows import repeats
from viz_model.masking.drawn_mask import encode_mask

PROMPT = "The king saw the king"
IN_PROMPT = {"model": "tiny-gpt", "prompt": PROMPT, "read": "the prompt", "head": "1.0", "cell": "4.1"}
QUICK = IN_PROMPT | {"read": "random repeats"}


def ranking_of(test):
    return test.dataframe[0].value


def said(test):
    return "\n".join(element.value for element in (*test.caption, *test.info))


def in_order(values, but=()):
    """Places from the largest value to the smallest."""
    places = [place for place in np.ndindex(values.shape) if place not in but]
    return sorted(places, key=lambda place: -values[place])


def agrees(table, values, but=()):
    """All heads are there, each with its own number, the largest first."""
    places = list(zip(table["layer"], table["head"], strict=True))
    assert set(places) == set(in_order(values, but))
    numbers = table.iloc[:, 2].to_numpy()
    np.testing.assert_allclose(numbers, [values[place] for place in places], atol=1e-4)
    assert (np.diff(numbers) <= 0).all()


def test_heads_are_ranked_by_the_pattern_that_is_chosen():
    test = opened("over_a_text", **QUICK, pattern="induction")
    model = vm.load("tiny-gpt")
    found = vm.head_report(model, repeats(model, 16, 40), windows=16)
    table = ranking_of(test)
    agrees(table, found.mean("induction"))
    assert (table["layer"][0], table["head"][0]) == (1, 0)
    assert table["name"][0] == "evenly spread and first token (60.3%)", "its name, of the text that ships"
    assert list(table.columns) == ["layer", "head", "induction", "name"]


def test_heads_are_ranked_by_the_weight_of_the_chosen_cell():
    test = opened("over_a_text", **IN_PROMPT, find=CELL)
    trace = vm.load("tiny-gpt").trace(PROMPT)
    agrees(ranking_of(test), np.array([[trace.weights(*place)[4, 1] for place in of] for of in places(4, 8)]))
    assert "the query 4 ·king on the key 1 ·king" in said(test).replace("\\", "")


def places(layers, heads):
    return [[(layer, head) for head in range(heads)] for layer in range(layers)]


def test_heads_are_ranked_by_the_cells_that_are_drawn():
    cells = np.zeros((5, 5), bool)
    cells[4, 2] = cells[3, [1, 2]] = True
    test = opened("over_a_text", **IN_PROMPT, find=DRAWN, find_cells=encode_mask(cells))
    trace = vm.load("tiny-gpt").trace(PROMPT)
    weights = np.array([[trace.weights(*place).numpy() for place in of] for of in places(4, 8)])
    agrees(ranking_of(test), (weights[..., 4, 2] + weights[..., 3, 1] + weights[..., 3, 2]) / 2)
    assert "This is the mean over 2 queries." in said(test)
    assert address_of(test)["find_cells"] == encode_mask(cells)


@pytest.mark.parametrize("code", ["", "nonsense", "5.AAAA", "9999.x"])
def test_where_nothing_is_drawn_the_page_says_how(code):
    test = opened("over_a_text", **IN_PROMPT, find=DRAWN, find_cells=code)
    assert "No cell is drawn yet" in said(test)


def test_cells_of_a_long_prompt_are_not_drawn():
    view = SimpleNamespace(trace=SimpleNamespace(length=257, key_length=4))
    with pytest.raises(vm.VizError, match="up to 256 tokens"):
        finder._of_drawing(view, "")


@pytest.mark.parametrize("over", ["the text", "the prompt"])
def test_heads_are_ranked_by_how_much_they_share_with_the_chosen_one(over):
    test = opened("over_a_text", **(QUICK if over == "the text" else IN_PROMPT), find=ALIKE, find_over=over)
    model = vm.load("tiny-gpt")
    found = vm.head_report(model, repeats(model, 16, 40), windows=16)
    values = found.alike(1, 0) if over == "the text" else alike(model.trace(PROMPT), 1, 0)
    agrees(ranking_of(test), values, but=[(1, 0)])
    assert f"the mean over all queries of {over} that may read more than one key" in said(test)


@pytest.mark.parametrize("find", [PATTERN, CELL, DRAWN, ALIKE])
@pytest.mark.parametrize(
    "more",
    [{"model": "tiny-seq2seq", "prompt": "5/3/24 (US)", "part": "cross"}, {"model": "tiny-bert", "prompt": "The king"}],
    ids=["cross", "bert"],
)
def test_every_question_of_other_models(find, more):
    test = opened("over_a_text", **more, read="the prompt", find=find)
    assert len(test.dataframe) == 2 or "No cell is drawn yet" in said(test)


def test_a_ticked_row_chooses_its_head(monkeypatch):
    noted, chosen = Noted(), []
    monkeypatch.setattr(finder, "st", noted)
    monkeypatch.setattr(finder, "choose_head", lambda *place: chosen.append(place))
    monkeypatch.setattr(finder, "names_of", lambda *_: {(1, 0): "induction"})
    ranking = Ranking(np.array([[0.25, np.nan], [0.75, 0.5]]), "weight", "")
    finder._draw_table(SimpleNamespace(layer=3, head=2), None, ranking)
    [((table,), options)] = noted.of("dataframe")
    assert table.to_numpy().tolist() == [[1, 0, 0.75, "induction"], [1, 1, 0.5, ""], [0, 0, 0.25, ""]]
    noted.session_state = Session({options["key"]: {"selection": {"rows": [2]}}})
    options["on_select"]()
    noted.session_state = Session({options["key"]: {"selection": {"rows": []}}})
    options["on_select"]()
    assert chosen == [(0, 0)]
