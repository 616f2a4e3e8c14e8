"""Numbers that the page Prediction writes of terms that are given."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

import viz_model as vm
from pages.prediction import attribution, lens, sources, through_layers
from tests.support.numbers import numbers_in
from tests.support.page_parts import Noted, view_of
from tests.support.small_models import small_model
from viz_model.attribution.components import BIASES, HEAD, Component
from viz_model.attribution.lens import Lens, TokenLens
from viz_model.attribution.logits import LogitTerms
from viz_model.attribution.sources import LogitSources
from viz_ui.look.text import number


@pytest.fixture(scope="module")
def pair():
    """Two decoder layers, three of the encoder."""
    return vm.Model("pair", small_model(layout="encoder-decoder", n_encoder_layers=3))


@pytest.mark.parametrize("part", ["decoder", "cross"])
def test_each_head_stands_in_its_place_among_those_of_its_own_attention(pair, monkeypatch, part):
    noted, view = Noted(), view_of(pair, (5, 9, 11, 9, 4), target=(3, 7, 2), part=part, query=1)
    for name in ("st", "draw_terms", "draw_head_matrix", "linked"):
        monkeypatch.setattr(attribution, name, noted if name == "st" else getattr(noted, name))
    terms = view.trace.logit_terms(3, 1, "mean")
    attribution.draw_parts(view, terms)
    [((_, _, _, heads, _), options)] = noted.of("draw_head_matrix")
    of = {(c.layer, c.head): float(t) for c, t in zip(terms.components, terms.terms, strict=True)
          if c.kind == HEAD and c.part == part}  # fmt: skip
    assert heads.shape == (2, 4)
    np.testing.assert_allclose(heads, [[of[layer, head] for head in range(4)] for layer in range(2)])
    assert numbers_in(options["caption"]) == [number(sum(of.values()))]
    [((bars,), _)] = noted.of("draw_terms")
    assert bars.numbers.sum() == pytest.approx(terms.terms.sum().item())


IDS = (5, 9, 11, 9, 4)


@pytest.fixture(scope="module")
def view():
    """Two layers, four heads; the chosen layer is the first, query and key are two tokens."""
    return view_of(vm.Model("small", small_model()), IDS, layer=0, head=2, query=3, key=1)


@pytest.fixture
def noted(monkeypatch):
    """All that the page draws."""
    noted = Noted(linked="probability")
    for module in (attribution, lens, sources, through_layers):
        monkeypatch.setattr(module, "st", noted)
        for name in ("panels", "word_matrix", "open_noted_matrix", "draw_token_table", "draw_terms"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, getattr(noted, name))
    return noted


def test_colours_of_the_lens_end_at_the_largest_number_that_is_finite(view, noted, monkeypatch):
    """Of the probability at 1. What is opened large has the numbers that are in colour, and the columns that are."""
    chosen = {}
    for name in ("choose_cell", "choose_head"):
        monkeypatch.setattr(lens, name, lambda **places: chosen.update(places))
    entropy, apart = torch.tensor([[2.0, 4.0], [3.0, 1.0]]), torch.tensor([[5.0, torch.inf], [0.25, 0.0]])
    found = Lens(torch.tensor([[6, 7], [8, 9]]), torch.tensor([[0.25, 0.5], [0.125, 0.75]]), entropy, apart)
    highs = {lens.PROBABILITY: 1.0, lens.ENTROPY: 4.0, lens.DISTANCE: 5.0}
    for colour, high in highs.items():
        lens.draw_words(view, found, range(2, 4), colour)
        (words,), options = noted.of("word_matrix")[-1]
        assert (words.high, next(iter(words.numbers))) == (high, lens.UNITS[colour])
        assert (words.row_labels, words.column_labels) == (["layer 0", "layer 1 = output"], view.labels[2:4])
        assert (words.before, words.after, options["chosen"]) == (2, 1, (0, 1))
        assert words.words == [["<6>", "<7>"], ["<8>", "<9>"]]
        (_, large), options_of_large = noted.of("open_noted_matrix")[-1]
        assert (large["lens"].low, large["lens"].high) == (0.0, high)
        numbers = {lens.PROBABILITY: found.probability, lens.ENTROPY: entropy, lens.DISTANCE: apart.clamp(max=5.0)}
        np.testing.assert_array_equal(large["lens"].values, numbers[colour])
        assert lens.UNITS[colour] in options_of_large["names"]["lens"].title
        assert f"lens_{colour}".replace(" ", "-") in options_of_large["names"]["lens"].file_name
    options["on_pick"](1, 0)
    assert chosen == {"query": 2, "layer": 1}
    for step, query in ((-1, 1), (1, 4)):
        options["on_turn"](step)
        assert chosen["query"] == query


def test_the_likeliest_token_after_a_layer_is_told_with_what_it_gets_in_the_output(view, noted):
    lens.draw_likeliest(view)
    here, output = (view.trace.lens(layer, 3).double().softmax(-1) for layer in (0, 1))
    best = int(here.argmax())
    assert f"After layer 0, the likeliest token after 3 <9> is “<{best}>” with probability" in noted.words
    assert noted.words.endswith(
        f"{number(float(here[best]))}. In the output, its probability is {number(float(output[best]))}."
    )
    [((names, columns), _)] = noted.of("draw_token_table")
    top = here.topk(10).indices
    assert names == [f"<{token}>" for token in top.tolist()]
    assert list(columns) == ["after layer 0", "output"]
    np.testing.assert_allclose([*columns.values()], np.stack((here[top], output[top])))


FOLLOWED = TokenLens(
    tokens=(6, 7),
    rank=torch.tensor([[11, 12], [13, 14], [15, 1600]]),
    logit=torch.tensor([[-1.0, -2.0], [3.0, 4.0], [5.0, 6.0]]).double(),
    probability=torch.tensor([[0.01, 0.02], [0.03, 0.04], [0.05, 0.06]]).double(),
)


def test_a_token_has_its_rank_its_probability_and_its_logit_at_the_chosen_layer(noted, monkeypatch):
    trace = SimpleNamespace(logits_at=lambda query: torch.arange(10.0), lens_of=lambda tokens, query: FOLLOWED)
    config = SimpleNamespace(vocab_size=4353, layout="decoder-only")
    labels = ["0 a", "1 b", "2 c"]
    view = SimpleNamespace(trace=trace, model=SimpleNamespace(config=config), layer=1, query=2, labels=labels)
    monkeypatch.setattr(through_layers, "choose_tokens", lambda *_, **__: [6, 7])
    monkeypatch.setattr(through_layers, "linked", lambda *_, **__: through_layers.RANK)
    monkeypatch.setattr(through_layers, "token_words", lambda _, token: f"word {token}")
    through_layers.draw_through_layers(view)
    assert "Tokens through the layers, after token 2 c" in noted.words
    assert [line for line in noted.words.splitlines() if line.startswith("- ")] == [
        "- “word 6”: rank 13 of 4,353 after layer 1, with probability 0.03000 and logit 3.000; rank 15 in the output.",
        "- “word 7”: rank 14 of 4,353 after layer 1, with probability 0.04000 and logit 4.000; rank 1,600 in the "
        "output.",
    ]


@pytest.mark.parametrize("shown", [through_layers.RANK, through_layers.PROBABILITY, through_layers.LOGIT])
def test_each_token_has_its_own_curve_of_what_is_chosen(shown):
    figure = through_layers.curves(FOLLOWED, ["a", "b"], shown, 1, "light")
    numbers = getattr(FOLLOWED, shown).numpy()
    for line, name, own in zip(figure.data, "ab", numbers.T, strict=True):
        assert line.name == f"“{name}”"
        assert (list(line.x), list(line.y)) == ([0, 1, 2], own.tolist())
        assert list(line.customdata) == [f"{value:,}" if shown == "rank" else number(value) for value in own]
    assert list(figure.layout.xaxis.ticktext) == ["layer 0", "layer 1", "layer 2"]
    assert [(shape.x0, shape.x1) for shape in figure.layout.shapes] == [(1, 1)]
    assert figure.layout.yaxis.title.text == shown
    assert (figure.layout.yaxis.type, figure.layout.yaxis.autorange) == (("log", "reversed") if shown == "rank"
                                                                         else (None, None))  # fmt: skip


@pytest.mark.parametrize(
    ("logit", "than", "words"),
    [
        (2.5, "mean", "is 2.500 above the mean logit of all tokens."),
        (-2.5, "mean", "is 2.500 below the mean logit of all tokens."),
        (-2.5, None, "is −2.500."),
        (-2.5, 7, "is 2.500 below that of “<7>”."),
        (2.5, 7, "is 2.500 above that of “<7>”."),
    ],
)
def test_a_logit_is_above_or_below_what_it_is_compared_with(view, noted, logit, than, words):
    components = Component(HEAD, 1, 2), Component(BIASES), Component(HEAD, 0, 3)
    terms = LogitTerms(components, torch.tensor([1.5, -4.0, 0.5]).double(), logit, than=than)
    attribution.draw_answer(view, terms, 6)
    assert noted.words.startswith(f"The logit of “<6>” {words}")
    assert noted.words.endswith(f"{components[0].name.capitalize()} raises it most: 1.500.")


def test_what_comes_between_the_stream_and_a_logit_is_said():
    terms = LogitTerms((), torch.zeros(0), 0.0, softcap=30.0)
    assert "turns a logit x into 30·tanh(x/30)" in attribution.own_steps(terms)


def given_sources(shares, rest, than=None):
    heads = tuple(Component(HEAD, layer, head) for layer in range(2) for head in range(4))
    return LogitSources(heads, torch.tensor(shares).double(), torch.tensor(rest).double(), than)


def test_the_largest_share_raises_or_lowers_a_logit_or_a_difference(view, noted):
    shares = np.linspace(-0.4, 0.5, 40).reshape(8, 5)
    for sign, does in ((9.0, "raises"), (-9.0, "lowers")):
        shares[6, 2] = sign
        for than, what in (
            (None, "the logit"),
            ("mean", "the logit, relative to the mean of all logits,"),
            (7, "the difference of the two logits"),
        ):
            sources.draw_answer(view, given_sources(shares, np.zeros(8), than))
            said = noted.words.splitlines()[-1]
            name = Component(HEAD, 1, 2).name
            assert f"is that of {name}: what it read at token 2 <11> {does} {what} by 9.000." in said


def test_a_row_is_called_by_its_head_and_its_sum_and_what_is_left_by_its_number(view, noted, monkeypatch):
    """A pass that was edited has a column for what is of no token; the rest of an axis is one more."""
    shares, rest = np.arange(40.0).reshape(8, 5) - 3, np.linspace(0.5, 4, 8)
    sources.draw_matrix(view, given_sources(shares, rest))
    sources.draw_matrix(view, given_sources(shares, np.zeros(8)))
    monkeypatch.setattr(sources, "MOST_HEADS", 3)
    monkeypatch.setattr(sources, "MOST_COLUMNS", 3)
    sources.draw_matrix(view, given_sources(shares, np.zeros(8)))
    (edited, edited_look), (plain, _), (cut, cut_look) = [(one, look) for ([one],), look in noted.of("panels")]
    sums = shares.sum(1)
    assert edited.row_labels[1] == f"1.2: {number(sums[6] + rest[6], 3)}"
    assert edited.column_labels == [*view.labels, "no token"]
    np.testing.assert_array_equal(edited.values[:, -1], rest[::-1])
    assert edited.caption.startswith(f"All cells add up to {number(shares.sum() + rest.sum())},")
    assert edited_look["marked"] == {"layer.head: sum": 5, "token": 1}  # head 0.2 is the sixth by size
    assert plain.column_labels == view.labels
    assert cut.row_labels == [f"1.3: {number(sums[7], 3)}", f"1.2: {number(sums[6], 3)}",
                              f"other 6: {number(sums[:6].sum(), 3)}"]  # fmt: skip
    assert cut.column_labels == ["3 <9>", "4 <4>", "other 3"]
    assert cut_look["marked"] == {"layer.head: sum": None, "token": None}


def test_the_chosen_head_has_its_weight_on_a_token_what_it_took_of_it_and_all_it_adds(view, noted):
    shares = np.arange(40.0).reshape(8, 5)
    sources.draw_chosen(view, given_sources(shares, np.full(8, 0.5)))
    weight = float(view.trace.weights(0, 2)[3, 1])
    name = Component(HEAD, 0, 2).name.capitalize()
    assert noted.words == (
        f"{name} gives token 1 <9> the weight {number(weight)}. The head adds 60.50 in all, and 11.00 of this comes "
        "from that token."
    )
