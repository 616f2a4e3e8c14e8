"""Saved files read back by other readers than ours: pandas, NumPy, Python's csv and html modules."""

import csv
import io
import re
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from viz_ui.look.figures import matrix_figure
from viz_ui.parts import export
from viz_ui.parts.export import csv_bytes, html_bytes, npz_bytes


def read_csv(content):
    return pd.read_csv(io.BytesIO(content), index_col=0)


@given(
    arrays.arrays(
        np.float32,
        st.tuples(st.integers(1, 5), st.integers(1, 5)),
        elements=st.floats(width=32, allow_nan=False, allow_infinity=True),
    )
)
def test_every_float32_comes_back_bit_for_bit(values):
    rows, columns = ([f"{index} t" for index in range(length)] for length in values.shape)
    table = read_csv(csv_bytes(values, rows, columns))
    assert table.to_numpy(np.float64).astype(np.float32).tobytes() == values.tobytes()


def test_numbers_are_short_and_minus_infinity_is_kept():
    text = csv_bytes(np.array([[0.1, -np.inf]], np.float32), ["0 a"], ["0 a", "1 b"]).decode("utf-8-sig")
    assert text == "query \\ key,0 a,1 b\r\n0 a,0.1,-inf\r\n"


def test_a_masked_cell_is_empty_and_a_score_of_minus_infinity_is_written():
    allowed = np.tri(2, dtype=bool)
    values, scores = np.array([[1, 0], [0.25, 0.75]]), np.array([[1, -np.inf], [0, 2]])
    tables = [read_csv(csv_bytes(each, ["0 a", "1 b"], ["0 a", "1 b"], allowed=allowed)) for each in (values, scores)]
    np.testing.assert_array_equal(tables[0].to_numpy(), np.where(allowed, values, np.nan))
    np.testing.assert_array_equal(tables[1].to_numpy(), scores)


def test_what_is_saved_of_a_matrix_names_its_rows_and_its_columns(monkeypatch):
    saved = {}
    monkeypatch.setattr(export, "_open", lambda *_, **made: saved.update(made))
    values, axes = np.arange(6, dtype=np.float32).reshape(2, 3), {"row_axis": "after", "column_axis": "position"}
    export.matrix_dialog(
        values, ["embedding", "layer 0"], ["0 a", "1 b", "2 c"], **axes, title="stream", scale="sequential", low=0,
        high=6, file_name="stream",
    )  # fmt: skip
    table = read_csv(saved["table"]())
    assert table.index.name == "after \\ position"
    assert (list(table.index), list(table.columns)) == (["embedding", "layer 0"], ["0 a", "1 b", "2 c"])
    np.testing.assert_array_equal(table, values)
    assert "after %{y}\\u003cbr\\u003eposition %{x}" in saved["page"]().decode()


@pytest.mark.parametrize("token", ["a,b", 'say "so"', "⏎", "·the", "two\nlines", "ünï", "=SUM(A1:A9)", "'"])
def test_any_token_can_be_a_label(token):
    labels = [f"0 {token}", f"1 {token}"]
    table = read_csv(csv_bytes(np.eye(2, dtype=np.float32), labels, labels))
    assert list(table.index) == list(table.columns) == labels


def test_a_spreadsheet_is_told_that_it_is_utf8():
    assert csv_bytes(np.eye(1), ["0 ·"], ["0 ·"]).startswith(b"\xef\xbb\xbf")


@pytest.mark.parametrize("token", ["=SUM(A1)", "+1", "-1", "@cmd", "\t=1", "\r=1"])
def test_no_label_can_start_a_formula(token):
    for labels in ([f"3 {token}"], [token]):  # with its index, as everywhere here, and without
        content = csv_bytes(np.ones((1, 1), np.float32), labels, labels).decode("utf-8-sig")
        header, row = csv.reader(io.StringIO(content, newline=""))
        for cell in (header[0], header[1], row[0]):
            assert cell[0] not in "=+-@\t\r"
        assert header[1].endswith(token)


def test_labels_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="argument"):
        csv_bytes(np.eye(2), ["0 a"], ["0 a", "1 b"])


def test_a_whole_head_comes_back_from_numpy():
    head = {
        "q": np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32),
        "mask": np.tri(3, dtype=bool),
        "tokens": ["0 Once", "1 ·upon", "2 ⏎"],
        "description": "layer 2, head 5 of tiny-gpt",
    }
    back = np.load(io.BytesIO(npz_bytes(head)), allow_pickle=False)
    assert set(back.files) == set(head)
    assert back["q"].tobytes() == head["q"].tobytes()
    assert back["q"].dtype == np.float32
    np.testing.assert_array_equal(back["mask"], head["mask"])
    assert back["tokens"].tolist() == head["tokens"]
    assert str(back["description"]) == head["description"]


def test_what_could_only_be_pickled_is_refused_by_name():
    with pytest.raises(ValueError, match="neither numbers nor texts: odd"):
        npz_bytes({"q": np.eye(2), "odd": {"a": 1}})


class Outline(HTMLParser):
    """The title, the scripts and every address that a page would fetch."""

    def __init__(self):
        super().__init__()
        self.title, self.scripts, self.fetched, self._in = "", [], [], None

    def handle_starttag(self, tag, attributes):
        self._in = tag
        if tag == "script":
            self.scripts.append("")
        self.fetched += [value for name, value in attributes if name in ("src", "href")]

    def handle_endtag(self, tag):
        self._in = None

    def handle_data(self, data):
        if self._in == "title":
            self.title += data
        elif self._in == "script":
            self.scripts[-1] += data


def page_of(labels, title="weights", **more):
    options = more | {"row_axis": "query", "column_axis": "key", "title": title, "scale": "sequential"}
    figure = matrix_figure(np.eye(2), labels, labels, low=0, high=1, theme="dark", **options)
    content = html_bytes(figure).decode()
    outline = Outline()
    outline.feed(content)
    return content, outline


def test_the_page_needs_nothing_from_elsewhere_and_has_the_theme_of_its_figure():
    content, outline = page_of(["0 a", "1 b"])
    assert outline.fetched == []
    assert any("plotly.js v" in script for script in outline.scripts)
    assert "background: #0e1117" in content


def test_no_token_and_no_title_can_break_out_of_the_page():
    evil = "</title></script><script>document.title = 'broken'</script>"
    _, expected = page_of(["0 a", "1 b"])
    content, outline = page_of([f"0 {evil}", "1 b"], title=evil)
    assert outline.title == evil
    assert len(outline.scripts) == len(expected.scripts)
    assert evil not in content


def test_the_page_describes_what_it_shows():
    caption = 'Mask: causal. Text: "Once" & <b>upon</b> ' + "a time " * 300
    content, _ = page_of(["0 a", "1 b"], caption=caption)
    [description] = re.findall(r'<meta name="description" content="(.*?)">', content, re.S)
    assert unescape(description) == caption
