"""The bars of the page Misconceptions: what is written at them and under them, against the numbers that were given."""

import numpy as np
import pytest

from pages.misconceptions.bars import WIDEST_NAME, bars_figure

MEASURES = ["previous token", "after an earlier copy", "feed-forward <b>"]


def test_grouped_bars_write_two_decimals_and_narrow_names_but_keep_every_number():
    given = {"text 1": [0.987654, 2.6e-4, np.nan], "text 2": [0.0, 0.096, 0.005]}
    figure = bars_figure(
        {name: dict(zip(MEASURES, numbers, strict=True)) for name, numbers in given.items()}, "share", theme="light"
    )
    for bars, numbers in zip(figure.data, given.values(), strict=True):
        np.testing.assert_array_equal(bars.y, numbers)
        for written, number in zip(bars.text, numbers, strict=True):
            assert len(written) <= 4, "neighbours would touch in a narrow window"
            if written not in ("", "≈0"):
                assert float(written) == pytest.approx(number, abs=0.0051)
        lines = [line for name in bars.x for line in name.split("<br>")]
        assert max(len(line) for line in lines if "&" not in line) <= WIDEST_NAME
        assert [name.replace("<br>", " ") for name in bars.x] == [*MEASURES[:2], "feed-forward &lt;b&gt;"]
    assert [bars.text[1] for bars in figure.data] == ["≈0", "0.10"]
    assert figure.data[0].text[2] == ""


def test_bars_alone_write_three_digits():
    [bars] = bars_figure({"loss": {"whole model": 1.2345, "no norms": 10.06}}, "nats", theme="dark").data
    assert list(bars.text) == ["1.23", "10.1"]
