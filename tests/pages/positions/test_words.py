"""Numbers in the sentences and curves of the page Positions, against numpy."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

import viz_model as vm
from pages.positions import beyond_trained_length as beyond
from pages.positions import distance_bias, figures, rotation, tables, where_they_enter, word_order
from tests.support.numbers import numbers_in, read_number
from tests.support.page_parts import Noted
from tests.support.small_models import CONTEXT, small_model
from viz_model.positions.beyond_trained_length import Reading
from viz_model.positions.biases import DistanceBias
from viz_model.positions.rotary import RotaryPairs
from viz_model.positions.schemes import SiteChange


def sinusoids(positions: int, width: int) -> np.ndarray:
    angles = np.arange(positions)[:, None] / 10000 ** (np.arange(0, width, 2) / width)
    return np.stack([np.sin(angles), np.cos(angles)], -1).reshape(positions, width)


def test_two_rows_have_their_own_lengths_their_product_and_their_cosine():
    table = torch.tensor([[3.0, 4.0], [1.0, 0.0], [0.0, -2.0]])
    said = tables._pair_words(SimpleNamespace(query=0, key=2), table)
    assert numbers_in(said) == ["0", "2", "−8.00", "5.00", "2.00", "−0.800"]


def test_the_sinusoidal_curve_goes_on_to_twice_the_trained_length(monkeypatch):
    noted, width = Noted(), 8
    monkeypatch.setattr(tables, "st", noted)
    monkeypatch.setattr(tables, "distance_figure", noted.distance_figure)
    learned = torch.randn(CONTEXT, width, generator=torch.Generator().manual_seed(0))
    tables._draw_curve({"learned": learned, "sinusoidal": torch.tensor(sinusoids(CONTEXT, width))}, CONTEXT)
    [((curves,), options)] = noted.of("distance_figure")
    assert options["trained"] == CONTEXT
    mean, band = curves["sinusoidal"]
    rows = sinusoids(2 * CONTEXT, width)
    assert band is None
    np.testing.assert_allclose(mean, rows @ rows[0] / (width / 2), atol=1e-5)
    unit = learned.numpy() / np.linalg.norm(learned, axis=1, keepdims=True)
    found = unit @ unit.T
    mean, (least, largest) = curves["learned"]
    for distance in (0, 1, CONTEXT - 1):
        of_distance = np.diagonal(found, distance)
        expected = of_distance.mean(), of_distance.min(), of_distance.max()
        assert (mean[distance], least[distance], largest[distance]) == pytest.approx(expected, abs=1e-5)


def test_the_first_row_past_the_end_is_that_of_the_formula():
    said = tables.past_the_end(vm.Model("small", small_model()))
    first = sinusoids(CONTEXT + 1, 24)[-1, :4]
    begins = numbers_in(said.partition("begins with")[2])[:4]
    assert [read_number(text) for text in begins] == pytest.approx(first, abs=1e-3)
    assert f"row {CONTEXT} begins" in said
    assert f"Position {CONTEXT} has no row" in said.replace("\\", "")


def test_wavelengths_are_those_of_the_pairs_and_of_another_base(monkeypatch):
    """Pairs of a head of 8 numbers at base 10,000, trained on 24 tokens."""
    noted = Noted()
    monkeypatch.setattr(rotation, "st", noted)
    monkeypatch.setattr(rotation, "linked", lambda *_, **__: 500)
    monkeypatch.setattr(rotation, "wavelength_figure", noted.wavelength_figure)
    theta = 10000 ** (-np.arange(4) / 4)
    pairs = RotaryPairs(**dict.fromkeys(RotaryPairs.__dataclass_fields__) | {"frequencies": torch.tensor(theta)})
    config = SimpleNamespace(context_length=CONTEXT, mask="causal")
    rotation._draw_frequencies(SimpleNamespace(model=SimpleNamespace(config=config, name="small")), pairs)
    [((waves,), options)] = noted.of("wavelength_figure")
    own, other = waves.values()
    np.testing.assert_allclose(own, 2 * np.pi / theta)
    np.testing.assert_allclose(other, 2 * np.pi * 500 ** (np.arange(4) / 4), rtol=1e-6)
    assert options["trained"] == CONTEXT
    new = sum((CONTEXT * one) % (2 * np.pi) > (CONTEXT - 1) * one for one in theta)  # beyond the arc so far
    assert f"{new} of the 4 pairs" in noted.words
    assert "base 10,000" in noted.words


def test_sites_are_those_of_the_chosen_layer_with_what_changed():
    model = vm.Model("small", small_model())
    shown = SimpleNamespace(model=model, layer=1)
    sites = ["embed", "blocks.0.attn.q", "blocks.1.attn.q", "logits"]
    changes = [SiteChange(site, change, 1.0) for site, change in zip(sites, (0.0, 0.5, 1e-7, 0.25), strict=True)]
    table = where_they_enter.change_table(shown, ["learned", "none"], {"learned": changes})
    assert table["site"].tolist() == ["embed", "blocks.1.attn.q", "logits"]
    assert table["learned (its own)"].tolist() == ["0", "1.0×10⁻⁷ ≈ 0", "0.250"]
    assert table["none"].tolist() == ["no row"] * 3


def test_alibi_halves_a_weight_every_so_many_tokens(monkeypatch):
    """Where the bias has fallen by ln 2; of other biases, the distance at which each head adds most."""
    noted, slopes = Noted(), (0.5, 2.0**-8)
    monkeypatch.setattr(distance_bias, "st", noted)
    given = {"rows": torch.zeros(2, 3, 3), "distances": torch.tensor([-2, -1, 0]), "spread": 0.0}
    by_distance = torch.tensor([[0.25, 0.75, 0.0], [-0.5, -1.0, 0.0]])
    distance_bias._draw_heads(DistanceBias(**given, by_distance=by_distance, slopes=slopes))
    distance_bias._draw_heads(DistanceBias(**given, by_distance=by_distance, slopes=None))
    fixed, learned = (table for (table,), _ in noted.of("dataframe"))
    apart = fixed["halved every … tokens"].map(read_number)
    np.testing.assert_allclose(np.exp(-np.array(slopes) * apart), 0.5, rtol=2e-3)
    assert fixed["slope"].map(read_number).tolist() == pytest.approx(slopes, rel=1e-3)
    assert learned["largest bias at j − i"].tolist() == [-1, 0]
    assert learned["that bias"].map(read_number).tolist() == [0.75, 0]


def test_losses_are_means_up_to_the_trained_length_and_beyond_it():
    losses = torch.tensor([[1.0, 3.0, 5.0, 9.0], [2.0, 4.0, 6.0, 10.0]])
    reading = Reading(**dict.fromkeys(Reading.__dataclass_fields__) | {"losses": losses})
    found = beyond.LongTextLosses(losses - 1, {beyond.AS_TRAINED: reading}, (0, 1), True)
    said = beyond._finding(found, 2)
    assert "estarting: 1.50 → **6.50**" in said
    assert "s trained: 2.50 → **7.50**" in said


def test_the_curves_past_the_trained_length_are_of_what_their_titles_say(monkeypatch):
    """Each of its own reading: losses, weights on the previous token and on far keys, four positions a point."""
    noted = Noted()
    for name in ("st", "loss_figure", "read_weights_figure"):
        monkeypatch.setattr(beyond, name, noted if name == "st" else getattr(noted, name))

    def reading(start):
        losses, previous, far = (torch.arange(32.0) + start + first for first in (0, 100, 200))
        given = {"losses": losses.expand(2, 32), "previous": previous, "far": far}
        return Reading(**dict.fromkeys(Reading.__dataclass_fields__) | given)

    asked = beyond.Asked("m", 2, 4, beyond.DIVIDED, 8)
    readings = {beyond.AS_TRAINED: reading(0), asked.words: reading(1000)}
    found = beyond.LongTextLosses(torch.arange(32.0).expand(2, 32) - 50, readings, (3, 5), False)
    beyond._draw_curves(found, None, 16)
    [((losses,), given)] = noted.of("loss_figure")
    assert {name: curve.means[0] for name, curve in losses.items()} == {
        "restarting": -48.5, beyond.AS_TRAINED: 1.5, f"{beyond.DIVIDED}, s = 8": 1001.5,
    }  # fmt: skip
    [((weights,), _)] = noted.of("read_weights_figure")
    (previous, first), (far, second) = weights.items()
    assert previous == "Weight on the previous token, layer 3, head 5"
    assert far == "Weight on keys at least 16 tokens away, mean of all heads"
    assert [curve.means[0] for curve in (*first.values(), *second.values())] == [101.5, 1101.5, 201.5, 1201.5]
    assert given["trained"] == 16
    model = SimpleNamespace(config=SimpleNamespace(context_length=15))
    said = beyond._what_was_read(found, model, asked)
    assert numbers_in(said) == ["4", "30", "3", "15", "8", "0"]
    assert "tiny-gpt’s training" in said


def test_the_chosen_cell_is_framed_where_its_tokens_stand_now(monkeypatch):
    noted, order = Noted(), (2, 0, 1)
    for name in ("panels", "open_noted_matrix", "_name", "st"):
        monkeypatch.setattr(word_order, name, noted if name == "st" else getattr(noted, name))
    monkeypatch.setattr(
        word_order, "order_matrices", lambda *_: [SimpleNamespace(name=name, title="") for name in "abc"]
    )
    shown = SimpleNamespace(query=0, key=2, layer=0, head=0, model=SimpleNamespace(name="m"))
    word_order._draw_matrices(None, shown, SimpleNamespace(order=order))
    assert [options["selected"] for _, options in noted.of("panels")] == [(0, 2), (1, 0), (0, 2)]


def test_the_last_row_that_was_trained_is_marked():
    band = np.zeros(48), np.ones(48)
    figure = figures.distance_figure({"learned": (np.full(48, 0.5), band)}, trained=24, theme="light")
    assert [(line.x0, line.x1) for line in figure.layout.shapes] == [(23, 23)]
    assert [(words.x, words.text.strip()) for words in figure.layout.annotations] == [(23, "row 23")]
    figure = figures.wavelength_figure({"own": np.ones(3), "other": np.ones(3)}, trained=24, theme="dark")
    assert {line.y0 for line in figure.layout.shapes} == {24}
