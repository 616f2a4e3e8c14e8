"""What a page keeps is kept under all that it is of: two views that differ are never taken for one."""

from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest

import viz_model as vm
from pages.flash_attention import run as flash
from pages.flash_attention.run import Tiling
from pages.heads import grid, head_values
from pages.masks import sides
from pages.masks.sides import Side
from pages.misconceptions import taking_over, weight
from pages.over_a_text import measured, shown_windows, texts
from pages.patching import maps
from pages.patching.maps import MapChoice
from pages.patching.prompts import ComparedRuns
from pages.prediction import lens
from pages.quantization import choice, effects, savings
from pages.shapes import opened_tensor
from pages.switch_off import choice as switch_off_choice
from pages.switch_off.choice import PREDICTION, Effect, Replaced
from tests.support.page_parts import Noted, page_module, view_of
from tests.support.small_models import small_model
from viz_model.intervention.patching import HEAD_POSITIONS, HEADS, STREAM
from viz_model.intervention.replacement import TEXT_MEAN, ZERO
from viz_model.masking.choice import MaskChoice
from viz_model.quantization.twin import INT8, NF4, Choice
from viz_ui.frame import jobs
from viz_ui.frame import view as view_module
from viz_ui.parts import why_here
from viz_ui.parts.weight_colours import WeightColours

SOURCE, TARGET = (5, 9, 11, 9, 4), (3, 7, 2)


@cache
def pair() -> vm.Model:
    return vm.Model("pair", small_model(layout="encoder-decoder", n_encoder_layers=3))


def view(**changes):
    return view_of(pair(), **({"prompt": SOURCE, "target": TARGET, "part": "decoder", "layer": 1, "head": 2} | changes))


OTHERS = {
    "name": {"name": "another model"},
    "prompt": {"prompt": (5, 9, 11, 9, 6)},
    "target": {"target": (3, 7, 4)},
    "part": {"part": "cross"},
    "mask": {"mask": "bidirectional"},
    "edits": {"edits": [vm.SwitchOff(0, 1, part="decoder")]},
}
WAYS = {
    "report of a text": lambda view: measured.reading_key(view, texts.of_prompt(view), 16),
    "thumbnails": grid._passed,
    "quantized pass": lambda view: (*view.pass_key, view.trace.part),
    "masked pass": lambda view: sides._pass(view, Side("A", MaskChoice(view.trace.mask_name), None, ""), None)[0],
}


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("way", WAYS)
def test_another_model_text_part_mask_or_edit_is_another_key(way, other):
    assert WAYS[way](view()) == WAYS[way](view())
    assert WAYS[way](view()) != WAYS[way](view(**OTHERS[other]))


class Asked(Exception):
    """Ends a page where it asks for what is kept, with the key."""


def runs(view):
    return ComparedRuns(view.trace, view.trace, 1, 2, 0, False)


def head_map(view, sites=HEADS, *, reverse=False):
    return maps.patched(view, runs(view), MapChoice(sites, reverse, "key"))


def ablations(view, key=(ZERO,)):
    page = page_module("switch_off")
    page.kept_result = maps.kept_result
    return page.ablations(view, Replaced(ZERO, key), Effect(PREDICTION))


def examples(view, pattern="first token"):
    found = SimpleNamespace(words=lambda *_: "", windows=(1, 2))
    shown_windows.draw_windows(view, found, pattern, "a report")


PLACES = {"layer": {"layer": 0}, "head": {"head": 1}, "query": {"query": 2}, "key": {"key": 1}}
PASS = tuple(OTHERS)
ROUNDED = SimpleNamespace(choice=Choice(NF4))
KEPT = {  # what is kept, and what its key is to tell apart
    "effects of cells": (weight.draw, (*PASS, "query")),
    "pairs of heads": (taking_over.draw, (*PASS, "layer", "head", "query")),
    "lens": (lambda view: lens.lens(view, range(3)), tuple(name for name in PASS if name != "part")),
    "terms of a score": (why_here.draw_why_here, (*PASS, *PLACES)),
    "ablations": (ablations, (*PASS, "query")),
    "map of heads": (head_map, PASS),
    "map of a layer": (lambda view: head_map(view, HEAD_POSITIONS), ("layer",)),
    "examples of a head": (examples, ("layer", "head")),
    "ways to save": (lambda view: savings.measured_ways(view, ROUNDED, view.trace.ids, 3), ("name", "target", "edits")),
    "losses before and after": (lambda view: effects.draw_loss(view, ROUNDED), ("name", "prompt", "target", "edits")),
    "pictures before and after": (lambda view: effects._pictures_of(view, None, ROUNDED), PASS),
}


@pytest.mark.parametrize("kept", KEPT)
def test_what_is_kept_for_a_visitor_is_kept_under_all_that_it_is_of(monkeypatch, kept):
    def ask(*_, of, **__):
        raise Asked(of)

    for module in (weight, taking_over, lens, why_here, maps, savings, shown_windows):
        monkeypatch.setattr(module, "kept_result", ask)
    for name in ("_pictures", "_losses"):
        monkeypatch.setattr(effects, name, lambda _, __, *key: ask(of=key))
    monkeypatch.setattr(why_here, "_compared", lambda _: "row")
    monkeypatch.setattr(shown_windows, "linked", lambda *_, **__: True)
    monkeypatch.setattr(shown_windows, "st", Noted())
    look, names = KEPT[kept]

    def key(**changes):
        with pytest.raises(Asked) as asked:
            look(view(**changes))
        return asked.value.args[0]

    assert key() == key()
    for name in names:
        assert key() != key(**(OTHERS | PLACES)[name]), name


def test_a_choice_that_changes_the_numbers_changes_the_key(monkeypatch):
    keys = []
    here, noted = view(), Noted(linked="a text")
    monkeypatch.setattr(effects, "_pictures", lambda *key: keys.append(key[2:]))
    for scheme in (NF4, INT8):
        effects._pictures_of(here, None, SimpleNamespace(choice=Choice(scheme)))
    monkeypatch.setattr(maps, "kept_result", lambda *_, of, **__: keys.append(of))
    for sites, reverse in ((HEADS, False), (HEADS, True), (STREAM, False)):
        head_map(here, sites, reverse=reverse)
    for given in ((ZERO,), (TEXT_MEAN, "a text")):
        ablations(here, given)
    monkeypatch.setattr(lens, "kept_result", lambda *_, of, **__: keys.append(of))
    for positions in (range(2), range(1, 3)):
        lens.lens(here, positions)
    for name in ("st", "linked", "shaded_texts"):
        monkeypatch.setattr(shown_windows, name, noted)
    monkeypatch.setattr(shown_windows, "kept_result", lambda *_, of, **__: keys.append(of) or [])
    for pattern in ("first token", "previous token"):
        examples(here, pattern)
    monkeypatch.setattr(switch_off_choice, "st", noted)
    for typed in ("a text", "another text", ""):
        monkeypatch.setattr(switch_off_choice, "linked", lambda *_, typed=typed, **__: typed)
        keys.append(switch_off_choice._text(view_of(vm.Model("small", small_model()))).key)
    assert len(set(keys)) == len(keys) == 14


def test_a_search_that_was_asked_for_is_not_made_again_at_another_query(monkeypatch):
    noted, made = Noted(), []
    monkeypatch.setattr(taking_over, "st", noted)
    monkeypatch.setattr(taking_over, "kept_result", lambda *_, of, **__: made.append(of))
    taking_over.draw_search(view())
    [(_, button)] = noted.of("button")
    button["on_click"]()
    taking_over.draw_search(view())
    assert len(made) == 1
    for changes in (*(one for name, one in OTHERS.items() if name != "mask"), PLACES["query"]):
        taking_over.draw_search(view(**changes))
    assert len(made) == 1
    assert len(noted.of("button")) == 1 + len(OTHERS)


def test_a_masked_pass_of_changed_tokens_is_another_one():
    side = Side("A", MaskChoice("causal"), None, "")
    keys = [sides._pass(view(), side, ids)[0] for ids in (None, (3, 7, 4), (3, 8, 2))]
    keys += [sides._pass(view(part="encoder", mask="causal"), side, ids)[0] for ids in (None, SOURCE[::-1])]
    assert len(set(keys)) == len(keys)


def test_thumbnails_are_of_what_is_drawn_in_which_colours_and_of_which_tokens(monkeypatch):
    keys, here = [], view()
    monkeypatch.setattr(grid, "_kept", lambda *key: keys.append(key))
    monkeypatch.setattr(grid, "_of_each_layer", lambda trace, *_: [(np.zeros(1), None)] * trace.n_layers)
    colours = WeightColours("linear"), WeightColours("logarithmic"), WeightColours("linear", is_own=True)
    asked = [(head_values.WEIGHTS, one, "shown") for one in colours]
    asked += [(head_values.RAW, colours[0], "shown"), (head_values.WEIGHTS, colours[0], "hidden")]
    for name, colour, hiding in asked:
        grid.grid_pictures(here, name, colour, hiding)
    assert len({key for key in keys if key[0] == "pictures"}) == len(asked)


def test_tiles_are_worked_out_again_for_whatever_is_chosen(monkeypatch):
    monkeypatch.setattr(flash, "st", Noted())
    tiling = Tiling(2, 2, "queries outside")
    chosen = [({}, tiling), ({"part": "cross"}, tiling), ({}, tiling), ({"head": 1}, tiling)]
    chosen += [({"head": 1, "layer": 0}, tiling)]
    chosen += [
        ({}, replace(tiling, rows=1)),
        ({}, replace(tiling, columns=1)),
        ({}, replace(tiling, order="keys outside")),
    ]
    traces = view()
    for changes, asked in chosen:
        here = replace(traces, trace=traces.trace.of(changes.get("part", "decoder")),
                       **{name: value for name, value in changes.items() if name != "part"})  # fmt: skip
        run, agrees = flash.current_run(here, asked)
        weights = here.trace.weights(here.layer, here.head)
        value = here.trace.v(here.layer)[pair().config.kv_head(here.head)]
        np.testing.assert_allclose(run.output, weights @ value, atol=1e-5)
        first = run.tiles[0]
        assert (len(first.rows), len(first.columns)) == (min(asked.rows, 3), asked.columns)
        assert agrees.difference < 1e-5
        assert flash.current_run(here, asked)[0] is run


def test_the_task_is_done_again_for_other_tokens_or_another_scheme(monkeypatch):
    noted = Noted()
    monkeypatch.setattr(jobs, "st", noted)
    monkeypatch.setattr(savings, "compare_ways", lambda _, quantized, ids, new, *more: [(quantized.choice, ids, new)])
    quantized = {scheme: Noted() for scheme in (NF4, INT8)}
    for scheme, one in quantized.items():
        one.choice = Choice(scheme)
    asked = [(NF4, (1, 2), 3), (NF4, (1, 2), 4), (NF4, (1, 3), 4), (INT8, (1, 3), 4), (NF4, (1, 2), 3)]
    for scheme, ids, new in asked:
        assert savings.measured_ways(view(), quantized[scheme], ids, new) == [(Choice(scheme), ids, new)]
    other = savings.measured_ways(view(name="other"), quantized[NF4], (1, 2), 3)
    assert other is not savings.measured_ways(view(), quantized[NF4], (1, 2), 3)


def test_what_does_not_apply_leaves_choices_equal():
    here = view(part="encoder", layer=2)
    assert choice.current_choice(here, NF4, "all", 5.0) == Choice(NF4)
    assert choice.current_choice(here, "LLM.int8", "all", 5.0) == Choice("LLM.int8", threshold=5.0)
    assert choice.current_choice(here, NF4, "one layer", 6.0) == Choice(NF4, "one layer", layer=2, stack="encoder")


def keyed(monkeypatch, module, function, call, *, place):
    """What `function` of a module was given as its key by each of these calls."""
    keys = []
    monkeypatch.setattr(module, function, lambda *given, **_: keys.append(place(given)) or view().trace)
    call()
    return keys


def test_a_pass_is_kept_under_its_model_prompt_mask_part_and_target(monkeypatch):
    monkeypatch.setattr(view_module, "load_model", lambda _: pair())
    asked = [("m", SOURCE, "causal", "decoder", TARGET), ("other", SOURCE, "causal", "decoder", TARGET),
             ("m", SOURCE[1:], "causal", "decoder", TARGET), ("m", SOURCE, "bidirectional", "decoder", TARGET),
             ("m", SOURCE, "causal", "encoder", TARGET), ("m", SOURCE, "causal", "decoder", TARGET[1:])]  # fmt: skip
    edits = [(), (vm.SwitchOff(0, 1, part="decoder"),), (vm.SwitchOff(0, 1, "mean", part="decoder"),)]
    monkeypatch.setattr(view_module, "edited_model", lambda *_: pair())
    keys = keyed(
        monkeypatch, view_module, "kept_pass",
        lambda: [view_module.traced(*one) for one in asked]
        + [view_module.traced(*asked[0], edits=some) for some in edits[1:]],
        place=lambda given: given[1],
    )  # fmt: skip
    assert len(set(keys)) == len(asked) + len(edits) - 1
    own = [("m", SOURCE, "causal", "decoder", TARGET), ("m", SOURCE, "bidirectional", "cross", TARGET)]
    masks = keyed(monkeypatch, view_module, "kept_pass", lambda: [view_module.traced(*one) for one in own],
                  place=lambda given: given[1][3])  # fmt: skip
    assert masks == [None, None]  # each part's own mask: one pass, seen through either


def test_an_opened_tensor_is_of_its_pass_and_its_node(monkeypatch):
    node = SimpleNamespace(name="one", local="one", shape=(1, 2), axes=("T", "C"))
    here = view()
    others = [
        {},
        {"name": "other"},
        {"prompt": SOURCE[::-1]},
        {"target": (3, 7, 4)},
        {"mask": "bidirectional"},
        OTHERS["edits"],
    ]
    keys = []

    def note(_, __, *key):
        keys.append(key)
        return SimpleNamespace(heads=1)

    monkeypatch.setattr(opened_tensor, "_node_values", note)
    for changes in others:
        opened_tensor.opened_tensor(view(**changes), node)
    opened_tensor.opened_tensor(here, SimpleNamespace(**vars(node) | {"name": "another"}))
    assert len(set(keys)) == len(others) + 1


def test_tensors_of_a_pass_are_of_its_texts_part_and_layer(monkeypatch):
    page, keys = page_module("shape_reference"), []
    page.kept_pass = lambda kind, of, *_, **__: keys.append(of)
    for changes in (
        {},
        {"name": "other"},
        {"prompt": SOURCE[::-1]},
        {"target": (3, 7, 4)},
        {"part": "cross"},
        {"layer": 0},
        OTHERS["edits"],
    ):
        page.rows_of(view(**changes))
    assert len(set(keys)) == len(keys)


def test_a_head_of_a_tensor_is_the_key_value_head_where_its_axis_is_g(monkeypatch):
    monkeypatch.setattr(opened_tensor, "_node_values", lambda *_: SimpleNamespace(heads=4))
    for axis, head in (("H", 2), ("G", 1)):  # heads 2 and 3 read key/value head 1
        node = SimpleNamespace(name=axis, local=axis, shape=(1, 4, 3, 6), axes=("B", axis, "T", "D"))
        opened = opened_tensor.opened_tensor(view(), node)
        assert opened.head == head
        assert opened.head_words == ("head 2" if axis == "H" else "key/value head 1")
