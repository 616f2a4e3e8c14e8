"""The page Compare: what it shows of two passes is what both passes are, put side by side by hand."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon
from transformers import GPT2Config, GPT2LMHeadModel

import viz_model as vm
from pages.compare import heads
from tests.support.app import address_of, drawn_matrices, opened
from tests.support.whole_folders import write_ours
from viz_ui.components.shared.packing import unpack
from viz_ui.look.text import number, shown

PROMPT = "The blue bird saw a brave wolf by the mill. The blue"
OTHER = "The brave bird saw a blue wolf by the mill. The blue"
LINK = {"model": "tiny-gpt", "prompt": PROMPT, "compared_prompt": OTHER, "head": "1.0", "cell": "12.2"}


def page(**choices):
    return opened("compare", **(LINK | choices))


def said(test):
    return "\n".join(element.value for element in (*test.markdown, *test.caption, *test.info, *test.subheader))


def trace(prompt=PROMPT, model="tiny-gpt", **given):
    return vm.load(model).trace(prompt, **given)


def apart(first, second):
    """The mean divergence of two heads' rows, by scipy."""
    return np.mean([jensenshannon(*rows, base=2) ** 2 for rows in zip(first.double(), second.double(), strict=True)])


def assert_shows(test, first, second):
    """Weights (T,S) of A and B, their difference, and the rows of query 12."""
    drawn = drawn_matrices(test)
    for name, values in (("A", first), ("B", second), ("difference", second - first)):
        np.testing.assert_allclose(drawn[name][0], values, atol=1e-4)
    np.testing.assert_allclose(drawn["rows"][0], torch.stack([first[12], second[12]]), atol=1e-4)


def test_two_prompts_head_by_head_cell_by_cell_and_in_what_they_predict():
    test, traces = page(), (trace(), trace(OTHER))
    weights = [one.weights(1, 0) for one in traces]
    assert_shows(test, *weights)
    grid = drawn_matrices(test)["divergence"][0]
    assert grid[1, 0] == pytest.approx(apart(*weights), abs=1e-4)
    assert grid[3, 4] == pytest.approx(apart(*(one.weights(3, 4) for one in traces)), abs=1e-4)
    row = jensenshannon(weights[0][12].double(), weights[1][12].double(), base=2) ** 2
    middle = number(float(np.median(grid)), 3)
    assert f"change by less than {middle}." in said(test)
    assert f"are **{number(grid[1, 0])} bits** apart, on average" in said(test).replace("‑", "-")
    assert f"Query **12 ·blue**: **{number(row)} bits** apart." in said(test)
    logs = [one.logits.double().log_softmax(-1) for one in traces]
    kl = float((logs[0].exp() * (logs[0] - logs[1])).sum() / np.log(2))
    assert f"KL(A‖B) = **{number(kl)} bits**" in said(test)
    losses = []
    for one in traces:
        logits = torch.stack([one.logits_at(n) for n in range(one.length - 1)])
        losses.append(float(torch.nn.functional.cross_entropy(logits, torch.tensor(one.ids[1:]))))
    assert f"**{number(losses[0])} nats** in A and **{number(losses[1])} nats** in B, over 12 aligned tokens" in said(
        test
    )
    [chart] = [one for one in test.get("plotly_chart") if one.proto.id.endswith("losses")]
    lines = json.loads(chart.proto.spec)["data"]
    assert [line["name"] for line in lines] == ["A", "B"]


def test_who_has_chosen_no_head_begins_with_the_one_that_changed_most():
    test = opened("compare", model="tiny-gpt", prompt=PROMPT, compared_prompt=OTHER)
    grid = drawn_matrices(test)["divergence"][0]
    assert divmod(int(grid.argmax()), 8) == (1, 0)
    assert address_of(test)["head"] == "1.0"


def test_an_empty_box_is_the_prompt_with_one_token_replaced():
    test = opened("compare", model="tiny-gpt", prompt=PROMPT)
    other = test.text_input(key="compared_prompt").value
    assert other != PROMPT
    changed = [a != b for a, b in zip(trace().ids, trace(other).ids, strict=True)]
    assert sum(changed) == 1
    test.button(key="swap_sides").click().run()
    assert (test.text_area(key="prompt").value, test.text_input(key="compared_prompt").value) == (other, PROMPT)


def test_another_head_of_the_same_pass_begins_with_the_closest():
    test, one = page(compared="another head"), trace()
    grid = drawn_matrices(test)["divergence"][0]
    expected = [[apart(one.weights(1, 0), one.weights(layer, head)) for head in range(8)] for layer in range(4)]
    np.testing.assert_allclose(grid, expected, atol=1e-4)
    others = np.array(expected)
    others[1, 0] = np.inf
    closest = divmod(int(others.argmin()), 8)
    assert_shows(test, one.weights(1, 0), one.weights(*closest))
    assert "there is one prediction" in said(test)
    assert_shows(page(compared="another head", compared_head="3.7"), one.weights(1, 0), one.weights(3, 7))


def test_another_model_is_its_own_pass_with_a_head_of_its_own():
    test, one, other = page(compared="another model", compared_model="tiny-llama"), trace(), trace(model="tiny-llama")
    grid = drawn_matrices(test)["divergence"][0]
    closest = divmod(int(grid.argmin()), 8)
    assert grid[closest] == pytest.approx(apart(one.weights(1, 0), other.weights(*closest)), abs=1e-4)
    assert_shows(test, one.weights(1, 0), other.weights(*closest))
    assert "B: **head" in said(test)
    test = page(compared="another model", compared_model="tiny-bert")
    assert "names the token in the place of the query" in said(test)
    assert "has no loss" in said(test)


def test_another_mask_and_no_edits():
    test = page(compared="another mask", head="2.3")
    assert_shows(test, trace().weights(2, 3), trace(mask="bidirectional").weights(2, 3))
    off = vm.SwitchOff(0, 0)
    assert "This pass has no edits" in said(page(compared="no edits"))
    test = page(compared="no edits", edits=off.written)
    assert_shows(test, vm.load("tiny-gpt").trace(PROMPT, edits=[off]).weights(1, 0), trace().weights(1, 0))
    assert "the same pass without the edits" not in said(test)
    test = page(edits=off.written)
    model = vm.load("tiny-gpt")
    assert_shows(test, *(model.trace(text, edits=[off]).weights(1, 0) for text in (PROMPT, OTHER)))


def test_a_click_chooses_heads_and_cells_by_their_places():
    test = page(compared_prompt="The brave old bird saw a blue wolf by the mill. The blue")
    [strip] = [
        unpack(element.proto.bytes)[0]
        for element in test.main.get("bidi_component")
        if "differing" in unpack(element.proto.bytes)[0]
    ]
    assert strip["columns"][-1] == ["12 ·blue", "13 ·blue"]
    assert [None in column for column in strip["columns"]].count(True) == 5 + 6
    drawn = drawn_matrices(test)
    assert drawn["A"][0].shape == (8, 8)
    first, second = (
        trace().weights(1, 0),
        trace("The brave old bird saw a blue wolf by the mill. The blue").weights(1, 0),
    )
    rows, columns = [0, *range(6, 13)], [0, *range(7, 14)]
    np.testing.assert_allclose(drawn["A"][0], first[rows][:, rows], atol=1e-4)
    np.testing.assert_allclose(drawn["B"][0], second[columns][:, columns], atol=1e-4)
    away = [float(1 - first[12, rows].sum()), float(1 - second[13, columns].sum())]
    assert "get " + number(away[0], 3)[:4] in said(test)
    assert "has no counterpart in B" in said(page(cell="3.1", compared_prompt="The old bird by the mill. The blue"))


def test_a_click_in_the_grid_of_another_head_is_the_head_of_b(monkeypatch):
    clicks, asked = [], []
    monkeypatch.setattr(heads, "draw_head_matrix", lambda *_, **look: clicks.append((look["on_pick"], look["marked"])))
    monkeypatch.setattr(heads, "choose_pair", lambda *given: asked.append(given))
    view = SimpleNamespace(trace=None, layer=1, head=0)
    sides = SimpleNamespace(first=view, second=view, words="the same pass", has_own_head=True)
    monkeypatch.setattr(heads, "_both_passes", lambda _: "")
    monkeypatch.setattr(heads, "named", lambda *_, **__: None)
    heads.draw_grid(sides, torch.rand(4, 8), (2, 5))
    [(click, marked)] = clicks
    click({"row": 3, "column": None})
    assert asked == [("compared_head", 3, None, (2, 5))]
    assert marked == {"layer": 2, "head": 5}


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"compared_prompt": PROMPT}, "Both prompts are the same"),
        ({"compared_prompt": "zebra"}, "neither begin nor end with the same token"),
        ({"prompt": "a", "compared_prompt": "b"}, "Query **0 a \\| b**"),
        ({"compared": "another model", "compared_model": "induction"}, "bits** apart"),
        ({"compared": "none of these", "compared_head": "99.99"}, "bits** apart"),
        ({"compared": "another head", "compared_head": "99.99"}, "head 7 of layer 3"),
    ],
)
def test_what_cannot_be_compared_is_a_sentence(choices, words):
    test = page(**choices)
    assert words in said(test)


def test_a_model_with_another_vocabulary_is_compared_by_its_text(tmp_path):
    """Places hold several of its tokens, and the predictions are matched by the text of their tokens."""
    folder, text = str(write_ours(tmp_path / "small")), "the cat sat on the mat"
    test = page(prompt=text, cell="3.1", compared="another model", compared_model=folder)
    one, other = trace(text), vm.load(folder).trace(text)
    ends = [np.cumsum([len(piece) for piece in side.token_bytes]).tolist() for side in (one, other)]
    shared = sorted({*ends[0]} & {*ends[1]})
    assert drawn_matrices(test)["A"][0].shape == (len(shared), len(shared))
    bounds = [*zip([0, *shared], shared, strict=False)]
    groups = [[[n for n, end in enumerate(of) if low < end <= high] for low, high in bounds] for of in ends]
    weights = one.weights(1, 0).double().numpy()
    columns = np.stack([weights[:, group].sum(1) for group in groups[0]], axis=1)
    expected = np.stack([columns[group].mean(0) for group in groups[0]])
    np.testing.assert_allclose(drawn_matrices(test)["A"][0], expected, atol=1e-4)
    assert max(map(len, groups[1])) > 1
    [table] = [frame.value for frame in test.dataframe if "A" in frame.value.columns]
    place = next(n for n, group in enumerate(groups[0]) if 3 in group)
    shares = other.logits_at(groups[1][place][-1]).softmax(-1)
    likeliest = int(shares.argmax())
    piece = vm.load(folder).token_bytes([likeliest])[0]
    row = table[table["token"] == shown(piece)].iloc[0]
    assert row["B"] == pytest.approx(float(shares[likeliest]), rel=1e-4)
    assert "different vocabularies" in said(test)


def test_models_of_the_library_are_compared_too(tmp_path):
    config = GPT2Config(vocab_size=50, n_positions=16, n_embd=16, n_layer=2, n_head=2)
    GPT2LMHeadModel(config).save_pretrained(tmp_path / "gpt2")
    folder = str(tmp_path / "gpt2")
    test = opened("compare", model=folder, prompt="1 2 3 4 1 2 3 4", compared_prompt="1 2 9 4 1 2 3 4", head="1.1")
    model = vm.load(folder)
    first, second = (model.trace([1, 2, n, 4, 1, 2, 3, 4]).weights(1, 1) for n in (3, 9))
    np.testing.assert_allclose(drawn_matrices(test)["difference"][0], second - first, atol=1e-5)
