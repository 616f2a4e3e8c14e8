"""Figures of the page Layouts: the numbers in them, and that no token's text is obeyed as markup."""

import re

import numpy as np
import pytest

from pages.layouts.blanks_figure import guess_figure
from pages.layouts.depth_figure import depth_figure


def test_a_line_for_each_token_and_their_mean():
    values = {"embedding": np.array([1.0, 2.0, 6.0]), "block 0, attention": np.array([2.0, 4.0, 3.0])}
    options = {"low": 1.0, "high": 6.0, "width": 16, "theme": "light"}
    figure = depth_figure(values, ["0 <b>a</b>", "1 b", "2 c"], logarithmic=True, **options)
    tokens, mean = figure.data
    lines = np.reshape(tokens.y, (3, 3))
    np.testing.assert_array_equal(lines[:, :2], [[1, 2], [2, 4], [6, 3]])
    assert np.isnan(lines[:, 2]).all()
    assert tokens.text[0] == "0 &lt;b&gt;a&lt;/b&gt;"
    np.testing.assert_array_equal(mean.y, [3, 3])
    low, high = 10 ** np.array(figure.layout.yaxis.range)
    assert low < 1 < 6 < high
    assert figure.layout.shapes[0].y0 == 4
    assert figure.layout.annotations[0].y == pytest.approx(np.log10(4))
    linear = depth_figure(values, ["a", "b", "c"], logarithmic=False, **options)
    assert linear.layout.yaxis.range[0] == 0
    assert linear.layout.annotations[0].y == 4


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_guesses_of_both_and_which_was_right(theme):
    shares = {"bert": np.array([0.5, 0.1, 0.0]), "gpt": np.array([0.2, 0.7, 0.05])}
    figure = guess_figure(["·a", "<i>", "·the"], shares, right=1, theme=theme)
    for bars, (name, values) in zip(figure.data, shares.items(), strict=True):
        assert bars.name == name
        np.testing.assert_array_equal(bars.x, values)
    written = [[re.sub("<.*?>", "", text) for text in bars.text] for bars in figure.data]
    assert written == [["50.0% · 20.0%", "", ""], ["", "10.0% · 70.0%", "0% · 5.00%"]]
    assert list(figure.layout.yaxis.ticktext) == ["·a", "<b>▸ &lt;i&gt;</b>", "·the"]
    assert figure.layout.yaxis.autorange == "reversed"
