"""What is in the figure of a matrix; how it looks and hovers is tests/browser/test_head_grid.py."""

from html import unescape

import numpy as np
import pytest

from viz_ui.look.colours import colour_places, diverging_lut, sequential_lut
from viz_ui.look.figures import MOST_HATCHED_RUNS, matrix_figure, query_lines_figure


def figure(values, allowed=None, labels=None, **changes):
    rows, columns = np.shape(values)
    labels = labels or [f"{index} the" for index in range(max(rows, columns))]
    options = {"row_axis": "query", "column_axis": "key", "title": "weights", "scale": "sequential"}
    options |= {"low": 0.0, "high": 1.0} | changes
    return matrix_figure(values, labels[:rows], labels[:columns], allowed=allowed, **options)


def random(rows, columns):
    return np.random.default_rng(0).random((rows, columns), dtype=np.float32)


def hatched_cells(trace, shape):
    """The cells whose centre lies in one of the rectangles of the hatching."""
    cells = np.zeros(shape, int)
    x, y = np.reshape(trace.x, (-1, 6))[:, :5], np.reshape(trace.y, (-1, 6))[:, :5]
    for left, right, top, bottom in zip(x.min(1), x.max(1), y.min(1), y.max(1), strict=True):
        cells[round(top + 0.5) : round(bottom + 0.5), round(left + 0.5) : round(right + 0.5)] += 1
    return cells


@pytest.mark.parametrize("kind", ["causal", "scattered", "all masked"])
def test_masked_cells_have_no_number_but_a_layer_and_hatching_of_their_own(kind):
    values = random(9, 9)
    kinds = {"causal": np.tri(9, 9, dtype=bool), "scattered": values > 0.5, "all masked": values > 1}
    allowed = kinds[kind]
    numbers, masked, hatch = figure(values, allowed).data
    np.testing.assert_array_equal(numbers.z[allowed], values[allowed])
    assert numbers.z.dtype == np.float32
    np.testing.assert_array_equal(np.isnan(numbers.z), ~allowed)
    np.testing.assert_array_equal(np.isnan(masked.z), allowed)
    np.testing.assert_array_equal(hatched_cells(hatch, (9, 9)), ~allowed)
    assert "masked" in masked.hovertemplate
    assert not numbers.hoverongaps
    assert not masked.hoverongaps


def test_a_permitted_zero_keeps_the_colour_of_zero():
    (numbers,) = figure(np.zeros((3, 3), np.float32), np.ones((3, 3), bool)).data
    assert (numbers.z == 0).all()


def test_a_mask_too_scattered_for_strokes_is_still_grey():
    side = 2 * int(MOST_HATCHED_RUNS**0.5) + 2
    chequered = np.indices((side, side)).sum(0) % 2 == 0
    traces = figure(random(side, side), chequered).data
    assert [trace.type for trace in traces] == ["heatmap", "heatmap"]


@pytest.mark.parametrize(("scale", "table"), [("sequential", sequential_lut()), ("diverging", diverging_lut())])
def test_the_colours_are_those_of_the_canvases(scale, table):
    numbers = figure(random(2, 2), scale=scale, low=-3, high=3).data[0]
    assert (numbers.zmin, numbers.zmax) == (-3, 3)
    colours = [colour for _, colour in numbers.colorscale]
    assert colours == ["rgb({},{},{})".format(*colour) for colour in table]


def test_markup_in_labels_axes_and_title_is_text():
    labels = ["0 <b>x</b>", "1 &amp;", "2 <b>x</b>"]
    drawn = figure(random(3, 3), labels=labels, title="<i>A</i>", row_axis="<q>", column_axis="k&k")
    shown = drawn.layout.xaxis.labelalias
    assert [shown[str(index)] for index in range(3)] == [
        "0 &lt;b&gt;x&lt;/b&gt;",
        "1 &amp;amp;",
        "2 &lt;b&gt;x&lt;/b&gt;",
    ]
    assert drawn.layout.title.text == "&lt;i&gt;A&lt;/i&gt;"
    assert drawn.layout.yaxis.title.text == "&lt;q&gt;"
    assert drawn.data[0].hovertemplate.startswith("&lt;q&gt; %{y}<br>k&amp;k %{x}")


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (12, 12), (200, 200), (14, 32), (40, 8)])
def test_cells_are_square_and_row_zero_is_at_the_top(rows, columns):
    layout = figure(random(rows, columns)).layout
    assert layout.yaxis.scaleanchor == "x"
    assert list(layout.yaxis.range) == [rows - 0.5, -0.5]
    assert list(layout.xaxis.range) == [-0.5, columns - 0.5]
    width = layout.width - layout.margin.l - layout.margin.r
    height = layout.height - layout.margin.t - layout.margin.b
    assert 200 <= width <= 620
    assert 200 <= height <= 500
    if min(rows, columns) > 10:  # no gap between the matrix and its colour bar
        assert width / columns == pytest.approx(height / rows)


def test_no_more_labels_than_there_is_room_for():
    assert figure(random(12, 12)).layout.xaxis.nticks == 13  # Plotly takes more than one tick a cell for one
    assert figure(random(200, 200)).layout.xaxis.nticks * 12 < 500


def test_alone_it_brings_its_theme_and_on_a_page_it_is_clear():
    on_page, light, dark = (figure(random(2, 2), theme=theme).layout for theme in (None, "light", "dark"))
    assert on_page.paper_bgcolor == on_page.plot_bgcolor == "rgba(0,0,0,0)"
    assert on_page.font.color is None
    assert (light.paper_bgcolor, light.font.color) == ("#ffffff", "#31333f")
    assert (dark.paper_bgcolor, dark.font.color) == ("#0e1117", "#fafafa")


def test_lines_over_queries_keep_gaps_and_show_markup_as_text():
    numbers = np.array([1.0, np.nan, 0.5])
    lines = {"A, <b>causal</b>": (numbers, "#123456"), "B": (numbers * 2, "#654321")}
    drawn = query_lines_figure(["0 a", "1 <i>b</i>", "2 c"], lines, axis="entropy, bits", theme="dark")
    first, second = drawn.data
    assert (first.name, first.line.color) == ("A, &lt;b&gt;causal&lt;/b&gt;", "#123456")
    np.testing.assert_array_equal(first.y, numbers)
    assert np.isnan(first.y[1])
    assert not first.connectgaps  # a query without a number gets no point and no line through it
    assert first.line.dash != second.line.dash
    assert drawn.layout.xaxis.labelalias["1"] == "1 &lt;i&gt;b&lt;/i&gt;"
    assert drawn.layout.yaxis.title.text == "entropy, bits"


@pytest.mark.parametrize("law", ["square root", "logarithmic"])
def test_where_colours_do_not_grow_evenly_the_numbers_stay_on_hover_and_the_bar_says_so(law):
    values, allowed = random(5, 5) / 100, np.tri(5, dtype=bool)
    numbers, masked, _ = figure(values, allowed, law=law).data
    np.testing.assert_array_equal(numbers.customdata[allowed], values[allowed])
    np.testing.assert_allclose(numbers.z[allowed], colour_places(values, 0, 1, law)[allowed], rtol=1e-6)
    assert (numbers.zmin, numbers.zmax) == (0, 1)
    assert "%{customdata" in numbers.hovertemplate
    assert law in numbers.colorbar.title.text
    ends = [float(text) for text in numbers.colorbar.ticktext]  # of each place on the bar the number that stands there
    assert ends[-1] == 1
    np.testing.assert_allclose(colour_places(ends, 0, 1, law), numbers.colorbar.tickvals, atol=1e-3)
    assert "masked" in masked.hovertemplate


@pytest.mark.parametrize("side", [3, 60])
def test_the_caption_is_in_the_picture_cut_to_its_width_and_whole_in_the_description(side):
    caption = "Mask: causal. Text: " + "<b>once</b> " * 100
    drawn = figure(random(side, side), caption=caption).layout
    lines = drawn.title.subtitle.text.split("<br>")
    assert 1 < len(lines) <= 3
    assert "&lt;b&gt;once" in lines[0]
    assert max(len(unescape(line)) for line in lines) * 5.5 < drawn.width
    assert drawn.meta["description"] == caption
    assert figure(random(side, side)).layout.margin.t < drawn.margin.t
