"""What the sidebar says of a model in one line: its sizes, each under its own name."""

import pytest

import viz_model as vm
from tests.support.page_parts import Noted
from tests.support.small_models import make_model, small_config
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
