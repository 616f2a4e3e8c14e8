"""What the sidebar says of a model in one line: its sizes, each under its own name."""

from types import SimpleNamespace

import pytest

import viz_model as vm
from tests.support.page_parts import Noted
from tests.support.small_models import make_model, small_config, small_model
from viz_ui.frame import sidebar

STACKS = {
    "encoder-decoder": ({"n_encoder_layers": 2, "n_layers": 3}, "2 encoder and 3 decoder layers"),
    "decoder-only": ({"n_layers": 3}, "3 layers"),
    "encoder-only": ({"n_layers": 1}, "1 layer"),
}


@pytest.mark.parametrize("layout", STACKS)
def test_layers_heads_and_widths(layout, monkeypatch):
    sizes, words = STACKS[layout]
    config = small_config(layout=layout, d_model=20, n_heads=5, n_kv_heads=5, **sizes)
    model, noted = vm.Model("small", make_model(config)), Noted()
    numbers = sum(parameter.numel() for parameter in model.transformer.parameters())
    monkeypatch.setattr(noted, "sidebar", noted, raising=False)
    monkeypatch.setattr(sidebar, "st", noted)
    for name, answer in {"linked": "small", "model_names": ["small"], "arriving": None, "load_model": model}.items():
        monkeypatch.setattr(sidebar, name, lambda *_, answer=answer, **__: answer)
    for name in ("draw_fetch", "_say_missing"):
        monkeypatch.setattr(sidebar, name, lambda *_: None)
    assert sidebar._choose_model() is model
    assert f"{numbers:,} parameters · {words} × 5 heads · C = 20, D = 4 · " in noted.words


def test_the_length_is_of_what_is_read_and_what_is_too_much_is_told(monkeypatch):
    noted = Noted()
    monkeypatch.setattr(noted, "sidebar", noted, raising=False)
    monkeypatch.setattr(sidebar, "st", noted)
    model = SimpleNamespace(name="m", config=SimpleNamespace(context_length=4096))
    model.ids = lambda text: range(len(text))
    sidebar._say_length(model, "a" * 17, "a" * 5)
    sidebar._say_length(model, "a" * 1023, "a" * 1023)
    assert noted.words.splitlines() == ["17 of 4,096 tokens, 5 when sent raw", "1,023 of 4,096 tokens"]
    most = sidebar.LONGEST_DRAWN
    with pytest.raises(
        vm.PromptError, match=f"reads up to 4,096, .* at most {most:,}, .* Shorten the prompt by 3 tokens"
    ):
        sidebar._say_length(model, "a" * (most + 3), "a")


def test_what_the_decoder_reads_of_itself_is_the_target_without_its_start(monkeypatch):
    noted = Noted()
    monkeypatch.setattr(noted, "sidebar", noted, raising=False)
    monkeypatch.setattr(sidebar, "st", noted)
    model = SimpleNamespace(has_source=True, token_bytes=lambda ids: [b"<%d>" % one for one in ids])
    trace = SimpleNamespace(read=SimpleNamespace(ids=(1, 5, 9)), source=SimpleNamespace(ids=(7, 8, 3)))
    sidebar._say_target(model, trace, None)
    sidebar._say_target(model, trace, "typed")
    assert noted.words == "The decoder reads the model's own output: <5><9>"
    written = SimpleNamespace(read=SimpleNamespace(ids=range(sidebar.MOST_WRITTEN + 1)))
    sidebar._say_target(model, written, None)
    assert f"reads the first {sidebar.MOST_WRITTEN} tokens of the model's own output" in noted.words


@pytest.mark.parametrize(
    ("part", "sizes"), [("cross", (2, 4, 3, 5)), ("encoder", (3, 4, 5, 5)), ("decoder", (2, 4, 3, 3))]
)
def test_layers_heads_queries_and_keys_are_those_of_the_chosen_attention(part, sizes, monkeypatch):
    """A source of five tokens, of which a target of three reads all; three encoder layers beside two of the decoder."""
    model = vm.Model("pair", small_model(layout="encoder-decoder", n_encoder_layers=3))
    trace, noted, boxes = model.trace([5, 9, 11, 9, 4], target=[3, 7, 2]).of(part), Noted(), []
    monkeypatch.setattr(noted, "sidebar", noted, raising=False)
    monkeypatch.setattr(sidebar, "st", noted)
    monkeypatch.setattr(sidebar, "fit_head_and_cell", lambda *_: ((1, 2), (sizes[2] - 1, sizes[3] - 1)))
    monkeypatch.setattr(sidebar, "half_of_pair", lambda _, *box, **__: boxes.append(box))
    place = sidebar._choose_head_and_tokens(model, trace)
    assert boxes == [
        (label, pair, half, size - 1)
        for (label, pair, half), size in zip(
            (("Layer", "head", 0), ("Head", "head", 1), ("Query", "cell", 0), ("Key", "cell", 1)), sizes, strict=True
        )
    ]
    assert place == {"layer": 1, "head": 2, "query": sizes[2] - 1, "key": sizes[3] - 1}
    query, key = trace.ids[-1], trace.key_ids[-1]
    assert f"query {sizes[2] - 1} <{query}>" in noted.words
    assert f"key {sizes[3] - 1} <{key}>" in noted.words


def test_a_second_text_begins_after_its_separator(monkeypatch):
    noted = Noted()
    monkeypatch.setattr(noted, "sidebar", noted, raising=False)
    monkeypatch.setattr(sidebar, "st", noted)
    trace = SimpleNamespace(read=SimpleNamespace(ids=(1, 5, 2, 7, 2), pieces=[b"c", b"a", b"s", b"b", b"t"]))
    sidebar._say_segments(SimpleNamespace(segments=lambda _: [0, 0, 0, 1, 1]), trace)
    assert "The tokens up to 2 s are in segment 0" in noted.words
    noted.calls.clear()
    sidebar._say_segments(SimpleNamespace(segments=lambda _: [0] * 5), trace)
    assert noted.words == ""
