"""The words of the lens are shown as they are: markup is no markup, and a quotation mark has no name."""

import numpy as np

from viz_ui.look.lens_figure import lens_figure


def test_words_are_shown_as_they_are():
    words = [['·"', "<b>", "it's"]]
    figure = lens_figure(
        words, np.array([[0.1, 0.5, 0.9]]), ["layer 0"], ['0 "', "1 <b>", "2 a&b"],
        chosen=(0, 1), quantity="probability", high=1.0, theme="light",
    )  # fmt: skip
    assert list(figure.data[0].text) == ['·"', "&lt;b&gt;", "it's"]
    assert list(figure.layout.xaxis.ticktext) == ['0 "', "1 &lt;b&gt;", "2 a&amp;b"]
