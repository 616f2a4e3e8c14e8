"""Patterns of heads from the library's own attention maps, of families whose attention differs."""

import numpy as np
import pytest
import torch

import viz_model as vm
from tests.reference.families import FAMILIES, library_model, save_small
from tests.support.pattern_scores import Expected, agree
from viz_model.heads.report import head_report

NAMES = {
    "GPT-2": ("self",),
    "Llama": ("self",),
    "Gemma 2": ("self",),  # windows in some layers, and a soft cap
    "gpt-oss": ("self",),  # sinks
    "BERT": ("self",),
    "BLOOM": ("self",),
    "T5": ("encoder", "decoder", "cross"),
}
FIELDS = {"self": "attentions", "encoder": "encoder_attentions", "decoder": "decoder_attentions",
          "cross": "cross_attentions"}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_patterns_of_a_family(name, tmp_path):
    save_small(FAMILIES[name], tmp_path)
    model, theirs = vm.load(tmp_path), library_model(FAMILIES[name], tmp_path)
    is_pair = NAMES[name] != ("self",)
    draw = torch.Generator().manual_seed(3)
    rows = [torch.randint(3, 67, (length,), generator=draw).tolist() for length in (12, 12, 16)]
    sources = [torch.randint(3, 67, (9,), generator=draw).tolist() for _ in rows]
    for row in rows:
        row[-5:] = row[:5]
    for part in NAMES[name]:
        report = head_report(model, list(zip(sources, rows, strict=True)) if is_pair else rows, part=part)
        assert report.has_sinks == (name == "gpt-oss")
        maps = []
        for window in report.windows:
            ids = torch.tensor([window.read.ids])
            given = {"decoder_input_ids": ids} if is_pair else {}
            with torch.inference_mode():
                asked = torch.tensor([window.source.ids]) if is_pair else ids
                known = theirs(asked, output_attentions=True, **given)
            maps.append(getattr(known, FIELDS[part]))
        for layer, head in [(0, 0), (1, 3)]:
            expected = Expected(is_cross=part == "cross", has_sinks=report.has_sinks)
            for window, of_window in zip(report.windows, maps, strict=True):
                weights = of_window[layer][0, head].double().numpy()
                asks = window.source if part == "encoder" else window.read
                keys = window.source if part in ("encoder", "cross") else window.read
                expected.read(weights, weights > 0, asks.ids, keys.ids)
            agree(report, layer, head, expected)
            for pattern in ("largest weight", *(["learned sink"] if report.has_sinks else [])):
                by_start = [id(window) for window in report.windows]
                for one in report.examples(layer, head, pattern):  # a pass that ends behind the layer
                    weights = maps[by_start.index(id(one.window))][layer][0, head].numpy()
                    np.testing.assert_allclose(one.weights, weights[one.query], atol=1e-5)
                    keys = (weights > 0).sum(-1)
                    shown = 1 - weights.sum(-1) if pattern == "learned sink" else weights.max(-1)
                    assert shown[one.query] == pytest.approx(shown[keys >= min(16, keys.max())].max(), abs=1e-5)
