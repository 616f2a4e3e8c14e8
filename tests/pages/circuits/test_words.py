"""What the page Circuits says and draws of numbers that are given, and what it keeps them under."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

import viz_model as vm
from pages.circuits import figures, lines, measured, positions, tokens
from pages.circuits.figures import HeadLine
from pages.circuits.lines import HeadPairs, LayerColumns, Place
from tests.support.page_parts import Noted, page_module, view_of
from tests.support.small_models import small_model
from viz_model.circuit.circuits import Composition
from viz_ui.look.text import number

IDS = (5, 9, 11, 9, 4)


@pytest.fixture(scope="module")
def view():
    return view_of(vm.Model("small", small_model(n_layers=3)), IDS, layer=1, head=2, query=3)


@pytest.mark.parametrize(
    ("own", "words"),
    [(0.75, "It raises the tokens that it reads, more than"), (-0.75, "It lowers the tokens that it reads, more than"),
     (0.45, "This says little, because"), (-0.35, "This says little, because")],
)  # fmt: skip
def test_a_head_is_called_by_its_score_beside_the_random_ones_of_its_own_layer(view, own, words):
    page = page_module("circuits")
    page.st = noted = Noted()
    page.raises_itself, page.eigenvalue_figure = lambda *_: 0.123, noted.eigenvalue_figure
    random = torch.tensor([[-0.9, 0.9], [0.5, -0.4], [-0.01, 0.01]]).double()
    eigenvalues = torch.arange(3 * 4 * 6).reshape(3, 4, 6).to(torch.complex128)
    found = SimpleNamespace(scores=torch.full((3, 4), 0.99).double(), random=random, eigenvalues=eigenvalues)
    found.scores[1, 2] = own
    page.draw_answer(view, None, found)
    first, second, third = noted.words.splitlines()
    assert first.startswith(f"Layer 1, head 2 has the copying score {number(own)}. {words}")
    assert "−0.400 to 0.500" in first
    assert "2 random heads" in first
    assert second.startswith("For 12.3% of all tokens")
    assert third.startswith("Its 6 eigenvalues.")
    [((values,), _)] = noted.of("eigenvalue_figure")
    np.testing.assert_array_equal(values, eigenvalues[1, 2])
    found.scores[2, 1] = 1.5
    assert page.most_copying(found) == (2, 1)


def test_the_picture_of_copying_names_the_head_that_copies_most(view):
    page = page_module("circuits")
    page.st = noted = Noted()
    page.draw_head_matrix, page.draw_answer = noted.draw_head_matrix, noted.draw_answer
    scores = torch.linspace(-0.9, 0.2, 12).double().reshape(3, 4)
    scores[0, 3] = 0.375
    page.draw_copying(view, None, SimpleNamespace(scores=scores))
    [((_, _, _, values, _), look)] = noted.of("draw_head_matrix")
    np.testing.assert_array_equal(values, scores)
    assert look["caption"].endswith("The highest is that of layer 0, head 3: 0.3750.")
    assert (look["low"], look["high"]) == (-1.0, 1.0)


def test_eigenvalues_stand_at_their_real_and_their_imaginary_part():
    [points] = figures.eigenvalue_figure(np.array([1 + 2j, -3 - 4j]), theme="light").data
    assert (list(points.x), list(points.y)) == ([1, -3], [2, -4])
    assert [list(one) for one in points.customdata] == [["1.000", "2.000"], ["−3.000", "−4.000"]]


def test_a_line_has_the_names_of_both_its_heads_and_its_number():
    columns, heads = ["layer 0", "layer 1", "layer 2"], 2
    names = [f"layer {layer}, head {head}" for layer in range(3) for head in range(2)]
    drawn = [HeadLine((0, 1), (2, 0), 0.5), HeadLine((1, 0), (2, 1), 0.25)]
    figure = figures.line_figure(columns, heads, drawn, [(2, 1)], role="key", names=names, theme="light")
    *both, places, points = figure.data
    assert [(list(line.x), list(line.y), line.line.width) for line in both] == [
        ([1, 2], [0, 1], 1 + 6 * 0.5), ([0, 2], [1, 0], 7.0),
    ]  # fmt: skip
    assert [line.opacity for line in both] == [0.9, 0.35]
    assert list(places.customdata[0]) == [0, 1, 2, 0, "layer 0, head 1", "layer 2, head 0", "0.5000"]
    assert list(places.customdata[-1]) == [1, 0, 2, 1, "layer 1, head 0", "layer 2, head 1", "0.2500"]
    for line in drawn:  # its places lie on it
        own = [(x, y) for x, y, data in zip(places.x, places.y, places.customdata, strict=True)
               if tuple(data[:4]) == line.first + line.second]  # fmt: skip
        (x0, y0), (x1, y1) = line.first, line.second
        assert all((x - x0) * (y1 - y0) == pytest.approx((y - y0) * (x1 - x0)) for x, y in own)
    assert [list(one) for one in points.customdata] == [[n // 2, n % 2, name] for n, name in enumerate(names)]
    assert (list(points.x), list(points.y)) == ([0, 0, 1, 1, 2, 2], [0, 1] * 3)
    assert list(points.marker.size) == [11] * 5 + [15]
    assert list(figure.layout.xaxis.ticktext) == columns
    many = figures.line_figure([f"layer {n}" for n in range(30)], 1, [], [], role="key", names=["x"] * 30, theme="dark")
    assert list(many.layout.xaxis.tickvals) == [0, 3, 6, 9, 12, 15, 18, 21, 24, 27]
    assert many.layout.xaxis.ticktext[1] == "layer 3"


def test_a_chosen_head_is_told_what_it_reads_and_who_reads_it(monkeypatch):
    noted = Noted()
    monkeypatch.setattr(lines, "st", noted)
    rows = np.array([[0, 3, 2, 1], [0, 1, 1, 2], [1, 2, 2, 3]])
    pairs = HeadPairs("self", "self", rows, np.array([0.5, 0.25, -0.125]))
    lines.draw_answer(pairs, Place("self", 1, 2), "value")
    assert noted.words.splitlines() == [
        "The widest line leads from layer 0, head 3 to layer 2, head 1: the values of the later head read what the "
        "earlier head writes. This line has the number 0.5000; random matrices have 0 on average.",
        "The values of the chosen head, layer 1, head 2, read layer 0, head 1 the most (0.2500). What the chosen head "
        "writes is read most by layer 2, head 3 (−0.1250). A number below 0 means less than random matrices have.",
    ]
    assert [options["args"] for _, options in noted.of("button")] == [(Place("self", 0, 1),), (Place("self", 2, 3),)]
    own = pairs.of(Place("self", 1, 2))
    np.testing.assert_array_equal(own.rows, rows[1:])
    assert list(own.over) == [0.25, -0.125]


def test_columns_of_two_stacks_of_other_lengths_are_those_of_their_own_layers():
    columns = LayerColumns("encoder", "cross", (3, 2), 4)
    assert columns.names == ["encoder 0", "encoder 1", "encoder 2", "cross 0", "cross 1"]
    assert columns.of(Place("cross", 1, 3)) == (4, 3)
    assert columns.at(2, 1) == Place("encoder", 2, 1)
    assert len(columns.points) == 20
    assert LayerColumns("decoder", "cross", (2, 2), 4).names == ["decoder 0", "cross 0", "decoder 1", "cross 1"]


def test_what_has_no_line_is_counted_and_the_strongest_of_it_is_told(view, monkeypatch):
    noted = Noted()
    monkeypatch.setattr(lines, "st", noted)
    over = torch.full((3, 4, 3, 4), torch.nan).double()
    over[0, 1, 2, 3], over[0, 2, 1, 0], over[1, 3, 2, 2] = 0.5, 0.25, 0.125
    found = Composition(**{name: {"over": over, "baseline": 0.0625, "source": "self"}.get(name)
                           for name in Composition.__dataclass_fields__})  # fmt: skip
    pairs = lines.pairs_of(found, "self")
    lines.draw_what_is_left_out(view, found, pairs, 1, "value", 7)
    [((table,), _)] = noted.of("dataframe")
    assert table.to_numpy().tolist() == [["layer 0, head 1", "layer 2, head 3", "0.5000"]]
    assert noted.of("expander")[0][0] == ("The 1 lines as a table",)
    assert "No line is drawn for 2 more pairs. The largest number left out is 0.2500. " in noted.words
    assert "The baseline is 0.06250, the mean share of" in noted.words


def test_the_distance_at_which_most_rows_look_is_told_with_their_number(view, monkeypatch):
    noted = Noted()
    for name in ("st", "panels", "open_noted_matrix"):
        monkeypatch.setattr(positions, name, noted if name == "st" else getattr(noted, name))
    scores = torch.randn(6, 6, generator=torch.Generator().manual_seed(0)).double()
    for row in range(2, 6):
        scores[row, row - 2] = 9.0 + row
    scores.triu(1).fill_(99.0)
    scores[0, 5] = 99.0  # masked
    positions.draw_position_scores(view, SimpleNamespace(position_scores=lambda *_: scores))
    assert noted.words.startswith(
        "For 4 of 5 positions of the query, the highest score is at the key 2 positions before the query."
    )
    [(([matrix],), _)] = noted.of("panels")
    for row in range(6):
        own = scores[row, : row + 1].numpy()
        np.testing.assert_allclose(matrix.values[row, : row + 1], own - own.mean())
    assert (matrix.row_axis, matrix.column_axis) == ("position of the query", "position of the key")
    assert matrix.high == -matrix.low == pytest.approx(np.abs(matrix.values[np.tri(6, dtype=bool)]).max())
    assert [positions._where(n) for n in (0, 1, -1, -3)] == [
        "the same position", "the key 1 position before the query", "the key 1 position after the query",
        "the key 3 positions after the query",
    ]  # fmt: skip


def test_lists_are_of_what_is_raised_lowered_and_looked_for(view, monkeypatch):
    noted = Noted()
    monkeypatch.setattr(tokens, "st", noted)
    written, looked = torch.linspace(-3, 1, 29).double(), torch.linspace(5, -2, 29).double()
    circuits = SimpleNamespace(writes=lambda *_: written, looks_for=lambda *_: looked)
    tokens.draw_tokens(view, circuits, 27, 0)
    raised, lowered, looks = (table for (table,), _ in noted.of("dataframe"))
    assert (raised.token[1], raised.number[0]) == ("<27> ← itself", "1.000")
    assert (lowered.token[0], lowered.number[0]) == ("<0>", "−3.000")
    assert (looks.token[0], looks.number[0]) == ("<0>", "5.000")
    assert "When the head reads <27>, it changes the logits of all 29 tokens." in noted.words
    assert "<27> itself has rank 2." in noted.words
    assert "looks most for the key of <0>. The key of <27> itself has rank 28 of 29." in noted.words


def test_what_is_kept_is_told_apart_by_part_kind_distance_and_head(monkeypatch):
    asked, two = [], vm.Model("pair", small_model(layout="encoder-decoder", n_encoder_layers=3, position="rotary"))
    monkeypatch.setattr(measured, "is_small", lambda _: True)

    class Kept(dict):
        def get(self, model, key, work):
            asked.append((model.name, key))

        def holds(self, *_):
            return False

    monkeypatch.setattr(measured, "kept", Kept)
    for part in ("encoder", "decoder", "cross"):
        for layer, head in ((0, 2), (1, 2), (0, 1)):
            measured.raises_itself(view_of(two, IDS, target=(3, 7), part=part, layer=layer, head=head), None)
    of = view_of(two, IDS, target=(3, 7), part="decoder", head=2)
    for kind, distance in (("query", 0), ("query", 3), ("key", 3), ("value", 3)):
        measured.composition(of, None, kind, distance)
    measured.composition(view_of(two, IDS, target=(3, 7), part="encoder"), None, "query", 3)
    measured.copying(of, None)
    measured.copying(view_of(two, IDS, target=(3, 7), part="cross"), None)
    assert len(set(asked)) == len(asked)
    measured.composition(of, None, "value", 5)
    assert asked[-1] in asked[:-1], "values are turned by no position"


def test_the_key_stands_at_most_as_far_as_the_longest_text_reaches():
    page, boxes = page_module("circuits"), []
    page.linked = lambda _, *box, **__: boxes.append(box) or 0
    rotary = view_of(vm.Model("small", small_model(position="rotary")), IDS)
    page.draw_distance_box(rotary)
    assert boxes == [("Distance from query to key", 0, 23, 0)]  # of 24 tokens
    page.draw_distance_box(view_of(vm.Model("small", small_model()), IDS))
    assert len(boxes) == 1
