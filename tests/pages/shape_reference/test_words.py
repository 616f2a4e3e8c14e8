"""The totals and the tables of the page Shape reference, in a model whose sizes are all other ones."""

import pytest

import viz_model as vm
from tests.support.page_parts import Noted, page_module, view_of
from tests.support.small_models import small_model

IDS = (5, 9, 11, 9, 4)


@pytest.fixture
def page():
    page = page_module("shape_reference")
    page.st = page.noted = Noted()
    return page


@pytest.fixture(scope="module")
def model():
    return vm.Model("small", small_model(n_layers=3, d_ff=44))


def test_totals_are_of_all_layers_heads_and_cells(page, model):
    """L = 3, H = 4, G = 2, D = 6, T = S = 5; the cache holds keys and values of G heads, the products are of H."""
    page.draw_costs(view_of(model, IDS, layer=1))
    [((table,), _)] = page.noted.of("table")
    parameters = sum(one.numel() for one in model.transformer.parameters())
    assert table["here"].tolist() == [
        f"{parameters:,}", f"{4 * 3 * 4 * 5 * 5:,}", f"{4 * 3 * 4 * 6 * 5 * 5:,}", f"{2 * 3 * 2 * 6 * 5 * 4:,}",
    ]  # fmt: skip


def test_a_stack_has_its_own_number_of_layers(page):
    pair = vm.Model("pair", small_model(layout="encoder-decoder", n_encoder_layers=3))
    for part, cells in (("encoder", 3 * 4 * 5 * 5), ("decoder", 2 * 4 * 3 * 3), ("cross", 2 * 4 * 3 * 5)):
        page.draw_costs(view_of(pair, IDS, target=(3, 7, 2), part=part))
        (table,), _ = page.noted.of("table")[-1]
        assert table["here"].tolist()[1:] == [f"{4 * cells:,}", f"{4 * cells * 6:,}"]


def test_letters_stand_over_their_sizes_and_a_row_has_its_own_axes(page, model):
    view = view_of(model, IDS, layer=1)
    page.draw_letters(view)
    [((letters,), _)] = page.noted.of("table")
    sizes = {name.split("**")[1]: value.strip("*") for name, value in letters.iloc[0].items()}
    assert sizes == {
        "B": "1",
        "T": "5",
        "S": "5",
        "C": "24",
        "H": "4",
        "G": "2",
        "D": "6",
        "L": "3",
        "V": "29",
        "F": "44",
    }
    assert all(page.MEANINGS[name.split("**")[1]] in name for name in letters)
    page.draw_group("Attention", page.quantities(model, view.trace, 1))
    (table,), _ = page.noted.of("table")[-1]
    rows = {row["hook site"].strip("`"): row for _, row in table.iterrows()}
    keys = rows["blocks.1.attn.k"]
    assert (keys["letters"], keys["here"], keys["numbers"]) == ("(B, G, S, D)", "(1, 2, 5, 6)", "60")
    assert rows["blocks.1.ffn.hidden"]["numbers"] == f"{5 * 44:,}"
