"""The bundled translator of dates keeps what its README says, measured on the committed weights."""

import json
import re
from functools import cache

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import viz_model as vm
from tests.support import torch_tiny_seq2seq as translated
from tests.support.torch_tiny_seq2seq import FOLDER
from viz_model.training.dates import FORMS, forms_of, split_days, written
from viz_model.training.figures.dates import exact_by_form, letters_read, letters_share

SOME_DAYS = split_days()[1][::31]


@cache
def model():
    return vm.load("tiny-seq2seq")


@cache
def by_form():
    return exact_by_form(model(), SOME_DAYS)


@cache
def read():
    return letters_read(model(), split_days()[1])


def test_held_out_days_are_translated_exactly():
    right, count = (sum(column) for column in zip(*by_form().values(), strict=True))
    assert count == sum(len(forms_of(day)) for day in SOME_DAYS) > 2000
    assert right / count >= 0.995


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_understood(form):
    right, count = by_form()[form]
    assert right >= 0.97 * count


def test_generation_writes_what_the_figure_counts():
    """Token by token, through the cache and the public face."""
    for n, day in enumerate(SOME_DAYS[:12]):
        text = written(forms_of(day)[n % len(forms_of(day))], day).text
        steps = list(model().generate(text, max_new_tokens=20, temperature=0.0))
        assert steps[-1].is_end
        assert b"".join(step.token for step in steps[:-1]).decode() == day.isoformat(), text


def test_logits_cross_weights_and_writing_are_those_of_another_implementation():
    for text in ("the 3rd of May 2024", "5/3/24 (US)", "SATURDAY, 29 FEBRUARY 2048"):
        source = list(text.encode())
        ids = translated.greedy(source)
        trace = model().trace(text)
        assert list(trace.ids) == ids
        logits, cross, _ = translated.translation(source, ids)
        ours = torch.stack([trace.logits_at(place) for place in range(len(ids))])
        np.testing.assert_allclose(ours, logits, atol=2e-4)
        for layer, head in np.ndindex(cross.shape[:2]):
            np.testing.assert_allclose(trace.of("cross").weights(layer, head), cross[layer, head], atol=1e-5)


def test_letters_read_are_means_over_days():
    """Against a loop over a few days, with the weights of `torch.nn`."""
    days = split_days()[1][:6]
    sums = {"year": 0.0, "month": 0.0, "day": 0.0}
    for n, day in enumerate(days):
        form = forms_of(day)[n % len(forms_of(day))]
        source = written(form, day)
        _, cross, _ = translated.translation(list(source.text.encode()), [256, *day.isoformat().encode()])
        places = {"year": [0, 1, 2, 3], "month": [5, 6], "day": [8, 9]}
        for field, queries in places.items():
            sums[field] += cross[:, :, queries, source.letters[field]].sum(-1).mean(-1) / len(days)
    found = letters_read(model(), days)
    for field, table in sums.items():
        np.testing.assert_allclose(found[field], table, atol=1e-4)


@pytest.mark.parametrize("field", ["year", "month", "day"])
def test_heads_of_cross_attention_read_the_letters_of_the_right_field(field):
    assert read()[field].max() >= 0.5
    assert read()[field].max() >= 1.4 * letters_share(split_days()[1])[field]


def test_the_heads_file_holds_what_is_measured():
    tables = json.loads((FOLDER / "heads.json").read_text())
    assert tables.keys() == {"year_letters", "month_letters", "day_letters"}
    for field, table in read().items():
        np.testing.assert_allclose(tables[f"{field}_letters"], table, atol=2e-3)


def test_the_readme_tells_the_measured_figures():
    text = (FOLDER / "README.md").read_text()
    for field, table in read().items():
        layer, head = np.unravel_index(int(table.argmax()), table.shape)
        assert re.search(rf"{field}[^\n]*{table.max():.2f}[^\n]*layer {layer}, head {head}", text), field
    assert f"{sum(tensor.numel() for tensor in translated.weights().values()):,} parameters" in text
    assert f"{len(split_days()[1]):,} days" in text
    for form in FORMS:
        day = next(day for day in split_days()[1] if form in forms_of(day))
        assert form in text, f"{form}, as in {written(form, day).text}"


def test_the_file_is_float16_and_about_a_megabyte():
    tensors = load_file(FOLDER / "model.safetensors")
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float16}
    assert (FOLDER / "model.safetensors").stat().st_size < 2e6
    assert model().tokenizer.vocab_size == 257
