"""When the names of a report are kept, where, and what is said of them."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

import viz_model as vm
from tests.support.page_parts import Noted, view_of
from tests.support.small_models import small_model
from viz_model.checkpoints.head_names import head_names
from viz_model.heads.names import HeadName, HeadNames
from viz_model.heads.windows import repeats
from viz_ui.parts import head_names as parts

MODEL = vm.Model("small", small_model())


@pytest.fixture(scope="module")
def report():
    return vm.head_report(MODEL, repeats(MODEL, 9, 5))


@pytest.fixture
def place(monkeypatch, tmp_path):
    """A fetched model's folder, and a server that has just begun; what whoever looks may do stands in `may`."""
    place = SimpleNamespace(state="fetched", may=True, memory={})
    entry = SimpleNamespace(name="small", folder=tmp_path, state="fetched")
    monkeypatch.setattr(parts, "_in_memory", lambda: place.memory)
    monkeypatch.setattr(parts, "_entries", lambda _: [replace_state(entry, place.state)])
    monkeypatch.setattr(parts, "may", lambda _: place.may)
    return place


def replace_state(entry, state):
    return SimpleNamespace(**(vars(entry) | {"state": state}))


def in_file(tmp_path):
    return head_names(tmp_path, MODEL.config)


def test_a_fetched_model_keeps_its_names_in_its_folder(report, place, tmp_path):
    view = view_of(MODEL)
    assert parts.kept_names(view) is None
    parts.keep_names(view, report, "of repeats")
    assert in_file(tmp_path)["self"].windows == 9
    place.memory.clear()
    assert parts.kept_names(view).name(1, 2).words == report.name(1, 2).words


@pytest.mark.parametrize(("state", "may"), [("own", True), ("bundled", True), ("fetched", False)])
def test_what_may_not_be_written_is_known_as_long_as_the_server_runs(report, place, tmp_path, state, may):
    place.state, place.may = state, may
    parts.keep_names(view_of(MODEL), report, "of repeats")
    assert in_file(tmp_path) == {}
    assert parts.kept_names(view_of(MODEL)).windows == 9
    assert parts.kept_names(view_of(MODEL, name="another")) is None


def test_more_windows_stay_and_fewer_take_no_place(report, place):
    view = view_of(MODEL)
    parts.keep_names(view, report, "of repeats")
    parts.keep_names(view, report, "of others")
    assert parts.kept_names(view).text == "of repeats"
    more = vm.head_report(MODEL, repeats(MODEL, 10, 5))
    parts.keep_names(view, more, "of more")
    assert parts.kept_names(view).text == "of more"


def test_names_are_of_the_model_as_it_is_and_of_enough_windows(report, place):
    few = vm.head_report(MODEL, repeats(MODEL, 3, 5))
    partial = replace(report, planned=20)
    for view, found in (
        (view_of(MODEL, edits=[vm.SwitchOff(1, 0)]), report),
        (view_of(MODEL, mask="bidirectional"), report),
        (view_of(MODEL), few),
        (view_of(MODEL), partial),
    ):
        parts.keep_names(view, found, "of repeats")
    assert parts.kept_names(view_of(MODEL)) is None


def test_what_is_said_of_a_name():
    name = HeadName(("previous token", "first token"), "previous token and first token", 0.625, 0.5, 0.75)
    assert parts.name_words("cross-attention, layer 1, head 2", name) == (
        "Cross-attention, layer 1, head 2 is named **previous token and first token**. These two patterns get "
        "**62.5%** of its attention (50.0% to 75.0%)."
    )
    mixed = replace(name, patterns=name.patterns[:1], explaining="3 before", share=0.25, low=float("nan"))
    assert parts.name_words("layer 0, head 0", mixed) == (
        "Layer 0, head 0 is named **mixed**. No two patterns together get half of its attention. The largest share "
        "goes to 3 before: **25.0%** of its attention."
    )


def test_where_names_come_from_is_said_with_the_way_to_more(monkeypatch):
    monkeypatch.setattr(parts, "st", noted := Noted())
    names = HeadNames("of a text", 16, 4096, ())
    parts.draw_names_source(view_of(MODEL), names)
    assert noted.words == "The names come from 16 windows (4,096 tokens) of a text."
    parts.draw_names_source(view_of(MODEL, edits=[vm.SwitchOff(1, 0)]), names)
    assert "without your edits" in noted.words
    parts.draw_names_source(view_of(MODEL), None)
    assert "The heads of this model have no names yet" in noted.words
    assert {target for (target,), _ in noted.of("page_link")} == {"../../pages/over_a_text/page.py"}
