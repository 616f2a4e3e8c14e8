"""What the page Over a text says and draws of numbers that are given: of which head, pattern and end of an interval."""

from types import SimpleNamespace
from urllib.parse import parse_qs

import numpy as np
import pandas as pd
import pytest

from pages.over_a_text import figures, shown_windows
from tests.support.page_parts import Noted, page_module
from viz_model.heads.examples import HeadExample
from viz_model.heads.names import HeadName
from viz_model.heads.patterns import ENTROPY, INDUCTION, PREVIOUS, UNITS

PLACE = 1, 2


class Report:
    """Three layers, four heads, two patterns and the entropy, all with numbers of their own."""

    patterns = (PREVIOUS, INDUCTION, ENTROPY)
    has_distances, is_partial, planned, n_tokens = True, False, 16, 4096
    windows = (None,) * 16
    label = HeadName((PREVIOUS,), "2 before", 0.625, 0.5625, 0.6875)

    def mean(self, pattern):
        return np.linspace(0.1, 0.9, 12).reshape(3, 4) + 2 * self.patterns.index(pattern)

    def uniform(self, pattern):
        return np.full((3, 4), 0.05) + np.arange(12).reshape(3, 4) / 100

    def interval(self, pattern):
        return self.mean(pattern) - 0.03125, self.mean(pattern) + 0.015625

    def name(self, layer, head):
        return self.label if (layer, head) == PLACE else HeadName(("first token",), "first token", 0.75, 0.7, 0.8)

    def words(self, pattern, layer, head):
        return f"{pattern} of {layer}.{head}"

    def curve(self, layer, head):
        return pd.DataFrame({"k": [0, 1], "mean": [0.25 + layer, 0.5 + head], "uniform": [0.125, 0.0625]})


@pytest.fixture
def page():
    page = page_module("over_a_text")
    page.st = page.noted = Noted()
    page.noted.session_state.two_patterns = SimpleNamespace(selection=SimpleNamespace(points=[{"point_index": 7}]))
    for name in ("curve_figure", "scatter_figure", "choose_head", "bring_sidebar_along"):
        setattr(page, name, getattr(page.noted, name))
    return page


VIEW = SimpleNamespace(where="layer 1, head 2", layer=1, head=2)


def test_a_head_has_its_name_its_share_and_its_own_mean_beside_that_of_uniform_attention(page):
    page.draw_answer(VIEW, Report(), INDUCTION)
    first, second = noted = page.noted.words.splitlines()
    assert first == ("Layer 1, head 2 is named 2 before. This pattern gets 62.5% of its attention (56.3% to 68.8%).")
    assert second == (
        f"The mean of this head for {INDUCTION} of 1.2 is 2.54 (2.51 to 2.55). With uniform attention it would be "
        "0.110."
    ), noted
    [((k, mean, uniform), _)] = page.noted.of("curve_figure")
    assert (list(k), list(mean), list(uniform)) == ([0, 1], [1.25, 2.5], [0.125, 0.0625])


def test_bits_and_tokens_have_their_unit_and_a_mixed_head_says_that_no_pair_explains_half(page):
    report = Report()
    report.label = HeadName((PREVIOUS, INDUCTION), "these two", 0.375, np.nan, np.nan)
    page.draw_answer(VIEW, report, ENTROPY)
    first, second = page.noted.words.splitlines()
    assert first == (
        "Layer 1, head 2 is named mixed. No two patterns together get half of its attention. The largest share goes to "
        "these two: 37.5% of its attention."
    )
    unit = UNITS[ENTROPY]
    assert f"is 4.54 {unit} (4.51 to 4.55). With uniform attention it would be 0.110 {unit}." in second


def test_shares_have_one_scale_and_what_is_no_share_ends_at_its_largest(page):
    assert page.ends(Report(), INDUCTION) == (0.0, 1.0)
    assert page.ends(Report(), ENTROPY) == (0.0, pytest.approx(4.9))


def test_the_strongest_heads_and_the_windows_so_far_are_told(page):
    report = Report()
    report.windows = (None,) * 5
    words = page.strongest_words(report, PREVIOUS).replace("**", "")
    assert words == (
        f"After 5 of 16 windows, the largest means of {PREVIOUS} are those of layer 2, head 3 (0.900), layer 2, head 2 "
        "(0.827), layer 2, head 1 (0.755), layer 2, head 0 (0.682)."
    )
    text = SimpleNamespace(words="of a text")
    assert page.what_was_read(report, text) == "5 windows (4,096 tokens) of a text."
    report.is_partial = True
    assert (
        page.what_was_read(report, text) == "only 5 windows (4,096 tokens), taken at random from 16 windows of a text."
    )


def test_one_pattern_goes_across_and_the_other_up_and_a_point_is_its_head(page):
    page.current_view = lambda: VIEW
    report = Report()
    means = {PREVIOUS: report.mean(PREVIOUS), ENTROPY: report.mean(ENTROPY)}
    means[PREVIOUS][0, 1] = np.nan  # no query could show it: no point
    report.mean = means.get
    page.draw_points.__wrapped__(report, PREVIOUS, ENTROPY)
    [((x, y, names, chosen), titles)] = page.noted.of("scatter_figure")
    np.testing.assert_array_equal(x, np.delete(means[PREVIOUS].ravel(), 1))
    np.testing.assert_array_equal(y, np.delete(means[ENTROPY].ravel(), 1))
    assert (names[0], names[1], chosen) == (
        "layer 0, head 0: first token (75.0%)",
        "layer 0, head 2: first token (75.0%)",
        5,
    )
    assert names[5] == "layer 1, head 2: 2 before (62.5%)"
    assert (titles["x_title"], titles["y_title"]) == (f"{PREVIOUS}, mean weight", f"{ENTROPY}, {UNITS[ENTROPY]}")
    page.noted.of("plotly_chart")[0][1]["on_select"]()
    assert page.noted.of("choose_head") == [((2, 0), {})]


def test_the_table_is_a_file_with_the_name_of_each_head(page):
    page.linked = lambda *_, **__: []
    report = Report()
    report.scores = pd.DataFrame({"layer": [0, 1], "head": [3, 2], "pattern": [PREVIOUS] * 2, "mean": [0.5, 0.25]})
    report.names = {place: report.name(*place) for place in np.ndindex(3, 4)}
    report.model, report.part = SimpleNamespace(name="m"), "cross"
    page.draw_table(report)
    [((table,), _)] = page.noted.of("dataframe")
    assert table["name"].tolist() == ["first token (75.0%)", "2 before (62.5%)"]
    [((_, data, file, _), _)] = page.noted.of("download_button")
    assert file == "m_cross_patterns.csv"
    assert data.decode().splitlines()[2] == f"1,2,{PREVIOUS},0.25,2 before (62.5%)"


def test_the_figures_have_each_number_at_its_own_place():
    bars, dotted = figures.curve_figure(
        np.array([-1, 2]), np.array([0.5, 0.25]), np.array([0.125, 0.75]), theme="light"
    ).data
    assert (list(bars.x), list(bars.y), list(dotted.y)) == ([-1, 2], [0.5, 0.25], [0.125, 0.75])
    assert [list(one) for one in bars.customdata] == [["0.5000"], ["0.2500"]]
    assert [list(one) for one in dotted.customdata] == [["0.1250"], ["0.7500"]]
    figure = figures.scatter_figure(
        np.array([0.5, 0.25]), np.array([2.0, 3.0]), ["a", "b"], 1, x_title="across", y_title="up", theme="dark"
    )
    [points] = figure.data
    assert (list(points.x), list(points.y)) == ([0.5, 0.25], [2.0, 3.0])
    assert list(points.marker.symbol) == ["circle", "diamond"]
    assert [list(one) for one in points.customdata] == [["a", "0.5000", "2.000"], ["b", "0.2500", "3.000"]]
    assert (figure.layout.xaxis.title.text, figure.layout.yaxis.title.text) == ("across", "up")


def test_the_way_to_heads_has_the_head_and_its_query_before_its_key(monkeypatch):
    monkeypatch.setattr(
        shown_windows, "written", lambda: {"model": "m", "part": "cross", "windows": "64", "prompt": "no"}
    )
    example = HeadExample(None, 0.5, query=3, key=1, weights=np.zeros(4))
    link = shown_windows.heads_link(VIEW, {"prompt": "a & b", "target": "c"}, example)
    assert parse_qs(link.partition("?")[2]) == {
        "model": ["m"], "part": ["cross"], "prompt": ["a & b"], "target": ["c"], "head": ["1.2"], "cell": ["3.1"],
    }  # fmt: skip
