"""What the page Models says of a model in its row, and what its buttons do."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.page_parts import Noted, page_module
from tests.support.small_models import small_config
from viz_model.checkpoints import Entry
from viz_model.memory_limits import RESERVE
from viz_ui.frame import loaded_models

ENTRY = Entry(
    name="pair", state="own", folder=Path("/models/pair"),
    config=small_config(layout="encoder-decoder", n_encoder_layers=3, d_ff=7), parameters=1_000_000, size=2_000_000,
    has_tokenizer=True, licence="MIT", source="here", download=500_000, stored_as="float16",
)  # fmt: skip


@pytest.fixture
def page(monkeypatch):
    """The page's module on a machine with much memory, on which nothing is chosen or loaded."""
    page = page_module("models")
    monkeypatch.setattr(page, "available_bytes", lambda: 10**12)
    monkeypatch.setattr(page, "chosen_value", lambda _: "another")
    monkeypatch.setattr(page, "shelf", lambda: type("Shelf", (), {"names": (), "forget": lambda *_: None})())
    return page


def test_each_number_stands_in_its_own_column(page):
    heads = [head for head, _ in page.COLUMNS]
    assert dict(zip(heads, page.cells(ENTRY), strict=True)) == {
        "L": "3 + 2", "H": "4", "G": "2", "C": "24", "D": "6", "F": "7", "V": "29", "T": "24",
        "Parameters": "1,000,000", "On disk": "2 MB", "In memory": "4 MB",
    }  # fmt: skip
    unknown = page.cells(replace(ENTRY, parameters=0))
    assert unknown[heads.index("Parameters")] == unknown[heads.index("In memory")] == "–"
    assert page.about(ENTRY).endswith("MIT · here · stored as float16")
    assert "stored" not in page.about(replace(ENTRY, folder=None))


def test_the_state_and_the_buttons_of_a_row(page, monkeypatch):
    assert [act.words for act in page.here_row(ENTRY).acts] == ["Look at it"]
    monkeypatch.setattr(page, "chosen_value", lambda _: "pair")
    row = page.here_row(ENTRY)
    assert ([(act.words, act.done) for act in row.acts], row.chosen) == ([("Chosen", True)], True)
    assert page.here_row(replace(ENTRY, has_tokenizer=False)).state == "own, reads only token ids"
    waits = page.to_fetch_row(ENTRY, ["first", "pair"])
    assert (waits.state, [act.words for act in waits.acts]) == ("waits for its turn", ["Cancel"])
    assert page.to_fetch_row(ENTRY, ["pair", "other"]).state == "being fetched"
    assert [act.words for act in page.to_fetch_row(ENTRY, []).acts] == ["Fetch 500 kB"]


@pytest.mark.parametrize(("free", "missing"), [(4_000_000 + RESERVE, 0), (3_000_000 + RESERVE, 1_000_000), (None, 0)])
def test_memory_that_is_missing_is_that_of_the_numbers_and_of_the_run(page, monkeypatch, free, missing):
    monkeypatch.setattr(page, "available_bytes", lambda: free)
    assert page.missing_memory(ENTRY) == missing
    row = page.here_row(ENTRY)
    assert ("needs 1 MB more memory" in row.state) == bool(missing)
    assert bool(row.acts) != bool(missing)


@pytest.mark.parametrize(("chosen", "looked"), [("pair", ["tiny-gpt"]), ("another", [])])
def test_who_looks_at_a_model_that_goes_is_brought_to_a_bundled_one(monkeypatch, chosen, looked):
    noted = Noted(names=())
    monkeypatch.setattr(loaded_models, "chosen_value", lambda _: chosen)
    monkeypatch.setattr(loaded_models, "look_at", noted.look_at)
    monkeypatch.setattr(loaded_models, "shelf", lambda: noted)
    loaded_models._let_go("pair")
    assert [name for (name,), _ in noted.of("look_at")] == looked
    assert [name for (name,), _ in noted.of("forget")] == ["pair"]
