"""Reports of heads: against sums written out query by query, on heads that are made to do something; their limits."""

import numpy as np
import pytest
import torch

import viz_model as vm
from tests.support.pattern_scores import Expected, Facts, agree
from tests.support.real_tokenizers import REAL
from tests.support.small_models import make_model, small_config, small_model
from tests.support.small_tokenizers import small_tokenizer
from viz_model.checkpoints import FOLDER
from viz_model.errors import JobStopped
from viz_model.heads import reading
from viz_model.heads import report as reports
from viz_model.heads.report import growing_report, head_report
from viz_model.heads.resampling import interval
from viz_model.heads.text_marks import text_marks
from viz_model.heads.windows import repeats
from viz_model.hub.tokenizer import HubTokenizer
from viz_model.model import Model
from viz_model.model.prompts import Tokens
from viz_model.training.figures.text import random_repeats

TALES = (FOLDER / "tiny-gpt" / "held-out.txt").read_text("utf-8")[:4000]
DATES = "the 3rd of May 2024\t2024-05-03\n12 June 1999\t1999-06-12\n1/2/2003"
SMALL = Model("small", small_model())
TOKENIZER = small_tokenizer()
READER = Model("reader", make_model(small_config(vocab_size=TOKENIZER.vocab_size)), TOKENIZER)
BUNDLED = [("tiny-gpt", "self"), ("tiny-llama", "self"), ("tiny-bert", "self"), ("induction", "self"),
           ("tiny-seq2seq", "encoder"), ("tiny-seq2seq", "decoder"), ("tiny-seq2seq", "cross")]  # fmt: skip


def expected_of(report, layer, head):
    """From the traces of its windows."""
    model, part = report.model, report.part
    expected = Expected(is_cross=part == "cross", has_sinks=report.has_sinks)
    for window in report.windows:
        asks = window.source if part == "encoder" else window.read
        keys = window.read if part in ("self", "decoder") else window.source
        given = {"target": window.read} if window.source else {}
        trace = model.trace(window.source or window.read, {part: report.mask}, **given).of(part)
        pieces = [b"" if token in model.signs else piece for token, piece in zip(keys.ids, keys.pieces, strict=True)]
        facts = Facts.of(pieces) if model.tokenizer else None
        weights, allowed = trace.weights(layer, head), trace.mask(layer)
        expected.read(weights, allowed, asks.ids, keys.ids, facts, model.signs)
    return expected


@pytest.mark.parametrize(("name", "part"), BUNDLED)
def test_every_pattern_of_bundled_models_as_it_is_written_out(name, part):
    model = vm.load(name)
    text = DATES if model.has_source else TALES
    report = head_report(model, text, part=part, length=40, windows=3)
    assert not report.is_partial
    layers, heads = model.config.layers_of(part), model.config.n_heads
    for layer, head in [(0, 0), (layers // 2, heads // 2)]:
        agree(report, layer, head, expected_of(report, layer, head))
    assert len(report.scores) == layers * heads * len(report.patterns)


@pytest.mark.parametrize("layout", ["decoder-only", "encoder-only"])
def test_patterns_of_ids_alone(layout):
    model = Model("ids", small_model(layout=layout))
    rows = [*repeats(model, 3, 9), [1, 2, 1], [5]]
    report = head_report(model, rows)
    assert sorted(len(window.read) for window in report.windows) == [1, 3, 18, 18, 18]
    assert {"same word", "punctuation", "special token"}.isdisjoint(report.patterns)
    for layer, head in [(0, 0), (1, 3)]:
        agree(report, layer, head, expected_of(report, layer, head))


@pytest.mark.parametrize("part", ["self", "encoder", "cross"])
def test_patterns_under_another_mask(part):
    is_pair = part != "self"
    model = Model("two", small_model(layout="encoder-decoder", n_encoder_layers=2)) if is_pair else SMALL
    mask = "causal" if is_pair else "bidirectional"
    rows = repeats(model, 3, 6)
    report = head_report(model, [(row[:7], row[:5]) for row in rows] if is_pair else rows, part=part, mask=mask)
    agree(report, 1, 2, expected_of(report, 1, 2))
    with pytest.raises(vm.MaskError, match="There is no mask"):
        head_report(SMALL, rows, mask="sliding")


def test_the_figures_of_tiny_gpt_on_random_repeats():
    """Those of the figures, which its README tells; a token that comes again by chance is another place, here."""
    model = vm.load("tiny-gpt")
    rows = random_repeats(model.config.vocab_size)
    report = head_report(model, rows)
    figures = {name: np.array(table) for name, table in model.measured_heads.items()}
    np.testing.assert_allclose(report.mean("previous token"), figures["previous_random"], atol=1e-4)
    np.testing.assert_allclose(report.mean("induction"), figures["induction"], atol=0.01)
    alone = [row for row in rows.tolist() if len(set(row)) == len(row) // 2]
    assert 10 < len(alone) < len(rows)
    halves = head_report(model, alone[:3])
    weights = np.stack([model.trace(row).weights(1, 0).numpy() for row in alone[:3]])
    half = len(alone[0]) // 2
    seen = [weights[:, query, query - half + 1] for query in range(half, 2 * half)]
    np.testing.assert_allclose(halves.mean("induction")[1, 0], np.mean(seen), atol=1e-5)
    assert "induction" in report.name(1, 0).patterns
    assert report.name(0, 0).words == "previous token"


def made(weights):
    """Heads that do what `weights` (H,T,T) say, in every layer and window."""
    return vm.edit({"*.weights": lambda tensor: weights.to(tensor).expand_as(tensor).clone()})


def test_made_heads_have_the_names_of_what_they_do():
    half = 12
    model = Model("wide", small_model(vocab_size=4000))
    rows = repeats(model, 10, half)
    size = 2 * half
    causal = torch.ones(size, size).tril()
    previous = torch.eye(size).roll(-1, 1).tril()
    previous[0, 0] = 1
    sink = torch.zeros(size, size)
    sink[:, 0] = 1
    induction = torch.eye(size).roll(half - 1, 0)
    induction[:half] = sink[:half]
    uniform = causal / causal.sum(-1, keepdim=True)
    with made(torch.stack((previous, induction, uniform, sink))):
        report = head_report(model, rows)
    names = [report.name(1, head) for head in range(4)]
    assert [name.patterns[0] for name in names[:1] + names[2:]] == ["previous token", "evenly spread", "first token"]
    assert set(names[1].patterns) == {"induction", "first token"}
    assert all(name.share > 0.95 and name.words != "mixed" for name in names)
    assert report.mean("induction")[0, 1] == pytest.approx(1)
    assert report.mean("evenly spread")[0, 2] == pytest.approx(1)
    three = torch.eye(size).roll(-3, 1).tril() * 0.7
    with made(torch.stack((three, three + 0.3 * sink, 0.3 * previous, uniform))):
        report = head_report(model, rows)
    assert [report.words("k before", 0, head) for head in (0, 1)] == ["3 before"] * 2
    assert report.name(0, 1).words == "3 before and first token"
    assert report.name(0, 2).words == "mixed"
    assert report.name(0, 2).share == pytest.approx(0.3, abs=0.02)
    assert report.curve(0, 0).set_index("k")["mean"][3] == pytest.approx(0.7)


@pytest.mark.parametrize("windows", [10, 40])
def test_an_interval_has_the_true_value_of_about_95_percent_of_heads(windows):
    """Each head looks at the token before with a weight that differs from window to window; its true mean is 0.3."""
    heads, layers, random = 150, 2, np.random.default_rng(7)
    model = Model("wide", small_model(n_layers=layers, n_heads=heads, n_kv_heads=1, d_model=2 * heads, d_ff=4))

    def looks(tensor):
        shares = torch.from_numpy(random.beta(1.5, 3.5, (windows, heads, 1))).to(tensor)
        tensor[:] = 0
        tensor.diagonal(-1, -2, -1)[:] = shares
        tensor.diagonal(0, -2, -1)[:] = 1 - shares
        return tensor

    with vm.edit({"*.weights": looks}):
        report = head_report(model, random.integers(0, 29, (windows, 8)).tolist())
    low, high = report.interval("previous token")
    assert 0.91 <= np.mean((low <= 0.3) & (high >= 0.3)) <= 0.98


def test_an_interval_of_few_windows_is_not_told():
    low, high = interval(np.ones((7, 2)), np.ones((7, 1)))
    assert np.isnan([low, high]).all()
    counts = np.ones((20, 2))
    counts[3:, 1] = 0
    low, high = interval(np.ones((20, 2)), counts)
    assert (low[0], high[0]) == (1, 1)
    assert np.isnan([low[1], high[1]]).all()


def test_windows_have_the_whole_text_once():
    report = head_report(READER, TALES, windows=4096)
    ids = READER.ids(TALES)
    assert report.n_tokens == len(ids)
    in_order = sorted(report.windows, key=lambda window: window.start)
    assert [token for window in in_order for token in window.read.ids] == ids
    assert max(len(window.read) for window in in_order) == READER.config.context_length
    some = head_report(READER, TALES, windows=5)
    starts = sorted(window.start for window in some.windows)
    assert len(starts) == 5
    assert max(starts) > 0.7 * len(ids)
    assert all(start % READER.config.context_length == 0 for start in starts)


@pytest.mark.parametrize("text", ["word", "日本語のテキスト" * 20, "👍🏽" * 30, "\n", "a\0b", "ü" * 1000])
def test_odd_texts_are_read(text):
    report = head_report(READER, text)
    assert report.n_tokens == len(READER.ids(text))
    assert np.isfinite(report.scores["mean"]).all()
    assert (report.scores["mean"] > -1e-6).all()


def test_every_window_has_the_signs_that_the_model_expects_around_a_text():
    tokenizer = HubTokenizer(REAL["BERT"](), 30522, frozenset())
    model = Model("bert", small_model(vocab_size=30522, layout="encoder-only"), tokenizer)
    report = head_report(model, TALES[:600])
    first, *_, last = model.ids("a king")
    windows = sorted(report.windows, key=lambda window: window.start)
    assert len(windows) > 4
    assert {(window.read.ids[0], window.read.ids[-1]) for window in windows} == {(first, last)}
    assert [token for window in windows for token in window.read.ids[1:-1]] == model.ids(TALES[:600], special=False)
    agree(report, 0, 0, expected_of(report, 0, 0))
    assert {"special token", "next token"} <= set(report.patterns)


def test_a_text_of_five_megabytes_is_read_at_some_windows():
    report = head_report(READER, "Once upon a time. " * 280_000, windows=3)
    assert report.planned == 3


@pytest.mark.parametrize(
    ("model", "text", "words"),
    [
        (READER, "", "The text is empty"),
        (READER, b"\x00\xff", "made of bytes"),
        (READER, "\ud800", "half of a surrogate pair"),
        (READER, [[]], "empty"),
        (READER, [[1] * 25], "reads at most"),
        (SMALL, "no ids", "has no tokenizer"),
        (SMALL, [99], "There is no token 99"),
        (Model("pair", small_model(layout="encoder-decoder", n_encoder_layers=1)), [[1, 2, 3]], "pairs of a source"),
        (Model("pair", small_model(layout="encoder-decoder", n_encoder_layers=1)), 5, "pairs of a source"),
    ],
)
def test_what_is_no_text_is_refused(model, text, words):
    with pytest.raises(vm.PromptError, match=words):
        head_report(model, text)


def test_a_stop_leaves_what_was_read(monkeypatch):
    monkeypatch.setattr(reading, "BATCH_BYTES", 1)
    kept = []

    def stop(done, total):
        if done == 3:
            raise JobStopped("Stopped.")

    with pytest.raises(JobStopped):
        kept.extend(growing_report(READER, TALES, windows=8, tell=stop))
    whole = head_report(READER, TALES, windows=8)
    assert [len(report.windows) for report in kept] == [1, 2]
    assert kept[-1].is_partial
    assert not whole.is_partial
    assert "2 of 8 windows" in repr(kept[-1])
    assert kept[-1].windows == whole.windows[:2]
    *_, continued = growing_report(READER, TALES, windows=8, begun=kept[-1])
    assert continued.windows == whole.windows
    assert continued.scores.equals(whole.scores)
    alone = head_report(READER, [window.read.ids for window in kept[-1].windows])
    np.testing.assert_allclose(kept[-1].mean("induction"), alone.mean("induction"), atol=1e-6)


def test_no_more_than_one_layers_weights_are_held(monkeypatch):
    sizes = []
    original = reports.HeadSums.of

    def measured(cells, seen, weights):
        sizes.append(weights.numel() * 4)
        return original(cells, seen, weights)

    monkeypatch.setattr(reading, "BATCH_BYTES", 30_000)
    monkeypatch.setattr(reports.HeadSums, "of", measured)
    head_report(READER, TALES, windows=20)
    assert max(sizes) <= 30_000
    assert len(sizes) == 2 * 7  # layers · batches of three windows


def shown(pattern, row, may, query, cells):
    """How much of a pattern a query shows, and the keys that belong to it."""
    keys = cells.get({"previous token": 1, "itself": 0}.get(pattern, pattern), range(len(row)))
    keys = [key for key in keys if may[key]]
    shares = row / row.sum()
    return {
        "largest weight": row.max(),
        "entropy": -sum(share * np.log2(share) for share in shares if share > 0),
        "mean distance": (shares * abs(np.arange(len(row)) - query)).sum(),
        "evenly spread": np.minimum(row, may / may.sum()).sum(),
    }.get(pattern, sum(row[key] for key in keys)), keys


@pytest.mark.parametrize(
    "pattern",
    ["previous token", "k before", "punctuation", "evenly spread", "largest weight", "entropy", "mean distance"],
)
def test_examples_are_the_windows_with_most_of_a_pattern(pattern):
    report = head_report(READER, TALES, windows=12)
    found = report.examples(1, 2, pattern)
    name = int(report.best_distance[1, 2]) if pattern == "k before" else pattern
    means, best = {}, {}
    for window in report.windows:
        trace, ids = READER.trace(window.read), window.read.ids
        weights, allowed = trace.weights(1, 2).numpy(), trace.mask(1).numpy()
        expected = Expected()
        facts = Facts.of(window.read.pieces)
        numbers = {}
        for query, (row, may) in enumerate(zip(weights.astype(float), allowed, strict=True)):
            number, keys = shown(name, row, may, query, expected.cells(query, ids, ids, facts, ()))
            if keys:
                numbers[query] = number, max(keys, key=row.__getitem__), may.sum()
        means[window.start] = np.mean([number for number, *_ in numbers.values()] or [-1])
        enough = min(16, max(keys for *_, keys in numbers.values())) if numbers else 0
        best[window.start] = {query: its for query, its in numbers.items() if its[2] >= enough}
    np.testing.assert_allclose([one.mean for one in found], sorted(means.values())[:-4:-1], atol=1e-5)
    for one in found:
        assert one.mean == pytest.approx(means[one.window.start], abs=1e-5)
        weights = READER.trace(one.window.read).weights(1, 2)
        np.testing.assert_allclose(one.weights, weights[one.query], atol=1e-5)
        numbers = best[one.window.start]
        assert numbers[one.query][0] == pytest.approx(max(number for number, *_ in numbers.values()), abs=1e-5)
        assert one.weight == pytest.approx(float(weights[one.query, numbers[one.query][1]]), abs=1e-5)


@pytest.mark.parametrize(("windows", "of"), [(3, 5), (16, 5), (40, 10)])
def test_groups_of_examples_go_from_most_to_least(windows, of):
    report = head_report(READER, TALES, windows=windows)
    told = []
    found = report.example_groups(0, 1, "previous token", tell=lambda *how_far: told.append(how_far))
    sums, counts = (numbers[:, 0, 1] for numbers in report._sums("previous token"))
    ranked = sorted(sums / counts, reverse=True)
    for group in found:
        assert group.of == of
        inside = ranked[len(ranked) * (group.place - 1) // of : len(ranked) * group.place // of]
        assert (group.low, group.high) == pytest.approx((min(inside), max(inside)))
        assert len(group.examples) == min(3, len(inside))
        assert group.examples[0].mean == pytest.approx(max(inside))
        assert group.examples[-1].mean == pytest.approx(min(inside))
    if windows > 3:
        assert [group.place for group in found] == [1, 3, 5, 8, 10] if of == 10 else [1, 2, 3, 4, 5]
    starts = [one.window.start for group in found for one in group.examples]
    assert len(set(starts)) == len(starts) == (3 if windows == 3 else 15)
    assert (told[0], told[-1]) == ((0, len(starts)), (len(starts), len(starts)))


def test_examples_of_windows_of_several_sizes_come_in_their_order(monkeypatch):
    monkeypatch.setattr(reading, "BATCH_BYTES", 1)
    rows = [[1, 2, 1], [5, 6], *repeats(SMALL, 3, 4)]
    report = head_report(SMALL, rows)
    for one in report.examples(1, 1, "itself", most=9):
        weights = SMALL.trace(one.window.read).weights(1, 1)
        np.testing.assert_allclose(one.weights, weights[one.query], atol=1e-5)
        assert one.query == one.key


def test_examples_of_no_head_and_no_pattern_are_refused():
    report = head_report(SMALL, repeats(SMALL, 3, 4))
    with pytest.raises(vm.VizError, match="There is no pattern"):
        report.examples(0, 0, "no such")
    with pytest.raises(vm.VizError, match="The head"):
        report.example_groups(0, 9)


def test_marks_of_a_text():
    text = "“Don't!” he said.\nWhy? Übermäßig 日本 x2 -- a_b"
    pieces = tuple(letter.encode() for letter in text)
    marks = text_marks(Tokens(tuple(range(len(pieces))), pieces), ())
    word = {
        text.index(part): marks.words[text.index(part)] for part in ("D", "n't", "'t", "h", "Ü", "g 日", "日", "本")
    }
    assert word[text.index("D")] == word[text.index("'t")]
    assert word[text.index("Ü")] == word[text.index("g 日")]
    assert word[text.index("日")] == word[text.index("本")] != word[text.index("g 日")]
    assert marks.words[text.index("a_b")] != marks.words[text.index("_b") + 1]
    assert "".join(letter for letter, is_mark in zip(text, marks.punctuation, strict=True) if is_mark) == "“!”.\n?--_"
    starts = sorted({int(place) for place in marks.sentences})
    assert "".join(text[start] for start in starts if start >= 0) == "hWÜ"


def test_marks_of_parts_of_characters():
    pieces = (
        "日".encode()[:2],
        "日".encode()[2:],
        b" ",
        "é".encode()[:1],
        "é".encode()[1:],
        b"\xff",
        "日".encode()[:1],
    )
    marks = text_marks(Tokens(tuple(range(7)), pieces), ())
    assert marks.words[0] == marks.words[1] != marks.words[3] == marks.words[4] == marks.words[5]
    assert not marks.punctuation.any()
