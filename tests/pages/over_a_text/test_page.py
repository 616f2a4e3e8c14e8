"""The page Over a text: the numbers of `vm.head_report`, for the text, the pattern and the part that are chosen."""

import json
import shutil
from dataclasses import replace
from types import SimpleNamespace
from urllib.parse import parse_qs

import numpy as np
import pytest

import viz_model as vm
from pages.over_a_text import measured, shown_windows, texts
from pages.over_a_text.measured import ReportSoFar
from tests.support.app import address_of, blobs_of, drawn_matrices, opened
from tests.support.page_parts import Session, page_module
from viz_model.checkpoints import FOLDER
from viz_model.checkpoints.head_names import HEAD_NAMES_FILE
from viz_model.heads import reading
from viz_model.heads.report import growing_report
from viz_model.heads.windows import Window, repeats
from viz_model.model.prompts import Tokens
from viz_model.training.held_out import held_out_text
from viz_ui.components.shared.packing import unpack
from viz_ui.components.text_file import FileText
from viz_ui.frame.text_in_address import to_address
from viz_ui.look.text import number, percent

QUICK = {"model": "tiny-gpt", "prompt": "Once upon a time", "read": "random repeats", "head": "1.0"}


def said(test):
    return "\n".join(element.value for element in (*test.markdown, *test.caption, *test.info, *test.subheader))


def test_the_numbers_and_the_name_of_a_head():
    test = opened("over_a_text", model="tiny-gpt", prompt="Once upon a time", head="0.1", pattern="k before")
    model = vm.load("tiny-gpt")
    found = vm.head_report(model, held_out_text(model, "tiny-gpt")[0], windows=16)
    np.testing.assert_allclose(drawn_matrices(test)["pattern_means"][0], found.mean("k before"), atol=1e-4)
    name, low, high = found.name(0, 1), *(ends[0, 1] for ends in found.interval("k before"))
    assert f"Layer 0, head 1 is named **{name.words}**. " in said(test)
    assert f"**{percent(name.share)}** of its attention" in said(test)
    assert f"({percent(name.low)} to {percent(name.high)})" in said(test)
    mean, uniform = found.mean("k before")[0, 1], found.uniform("k before")[0, 1]
    interval = f"({number(low, 3)} to {number(high, 3)})"
    assert f"The mean of this head for **2 before** is **{number(mean, 3)}** {interval}" in said(test)
    assert f"With uniform attention it would be {number(uniform, 3)}." in said(test)
    assert "16 windows (4,096 tokens) of fairy tales that were kept out of training." in said(test)
    assert address_of(test)["pattern"] == "k before"
    table = test.dataframe[-1].value
    assert len(table) == len(found.scores)
    np.testing.assert_array_equal(table["mean"], found.scores["mean"])


def test_the_table_shows_what_is_chosen():
    test = opened("over_a_text", **QUICK, table_patterns=["induction", "entropy"], table_layers=["1", "2"])
    table = test.dataframe[-1].value
    assert set(table.pattern) == {"induction", "entropy"}
    assert set(table.layer) == {1, 2}
    assert len(table) == 2 * 2 * 8
    model = vm.load("tiny-gpt")
    found = vm.head_report(model, repeats(model, 16, 40), windows=16)
    assert str(found.name(1, 0)) in set(table.name)


@pytest.mark.parametrize("read", ["held-out text", "random repeats", "the prompt"])
@pytest.mark.parametrize(
    ("model", "prompt", "more"),
    [
        ("tiny-llama", "a", {}),
        ("tiny-bert", "The king", {"pattern": "next token"}),
        ("induction", "abab", {"pattern": "entropy"}),
        *(("tiny-seq2seq", "5/3/24 (US)", {"part": part}) for part in ("encoder", "decoder", "cross")),
    ],
)
def test_every_kind_of_model_and_text(model, prompt, more, read):
    if read == "held-out text" and model != "tiny-seq2seq":
        read = "the prompt"
    test = opened("over_a_text", model=model, prompt=prompt, read=read, **more)
    assert "of its attention" in said(test)
    assert ("first token" in said(test)) or "pattern" in more or more.get("part") != "cross"


def test_a_second_look_reads_nothing(monkeypatch):
    test = opened("over_a_text", **QUICK)
    monkeypatch.setattr(measured, "growing_report", None)
    test.selectbox(key="pattern").set_value("entropy").run()
    assert not test.exception, test.exception
    assert "bits**" in said(test)


def test_the_text_that_ships_is_read_once_for_all_visitors(monkeypatch):
    one = opened("over_a_text", model="tiny-gpt", prompt="a", pattern="entropy")
    with monkeypatch.context() as patch:
        patch.setattr(measured, "growing_report", None)
        other = opened("over_a_text", model="tiny-gpt", prompt="b", pattern="entropy")
    first, second = (drawn_matrices(test)["pattern_means"][0] for test in (one, other))
    np.testing.assert_array_equal(first, second)
    [key] = other.session_state.readings.keys
    kept = measured._shared().get(model_of(other), key, None)
    assert kept.model is None, "a report that holds its model would keep it for good"
    edited = opened("over_a_text", model="tiny-gpt", prompt="b", pattern="entropy", edits="off:0.0")
    assert not np.array_equal(drawn_matrices(edited)["pattern_means"][0], first)


def model_of(test):
    return test.session_state["view"].model


def test_what_a_stop_leaves_is_shown_as_partial_and_goes_on(monkeypatch):
    test = opened("over_a_text", **QUICK)
    monkeypatch.setattr(reading, "BATCH_BYTES", 4 * 8 * 80**2)
    [key] = test.session_state.readings.keys
    model = vm.load("tiny-gpt")
    some = next(growing_report(model, repeats(model, 16, 40), windows=16))
    whole = test.session_state.readings.get(key, ReportSoFar).report
    test.session_state.readings.get(key, ReportSoFar).report = some
    test.session_state.over_a_text_stopped = key
    test.run()
    assert "only 1 window (80 tokens), taken at random from 16 windows" in said(test)
    assert "A 95 % interval needs at least 8 windows." in said(test)
    test.button(key="over_a_text_again").click().run()
    assert not test.exception, test.exception
    assert "over 16 windows (1,280 tokens)" in said(test)
    again = test.session_state.readings.get(key, ReportSoFar).report
    np.testing.assert_allclose(again.mean("induction"), whole.mean("induction"), atol=1e-5)
    test.session_state.readings.get(key, ReportSoFar).report = None
    test.session_state.over_a_text_stopped = key
    assert "Not finished" in said(test.run())


@pytest.mark.parametrize(
    ("model", "more"),
    [
        ("tiny-gpt", {"read": "a text of yours", "pasted": to_address("The fox met a goose by the old mill. " * 30)}),
        ("tiny-seq2seq", {"part": "cross"}),
        ("tiny-bert", {"read": "the prompt"}),
    ],
)
def test_a_window_opens_on_heads_as_it_was_read(model, more):
    """The page Heads then has the text, the head and the cell whose weight was told."""
    test = opened("over_a_text", model=model, prompt="The king was", head="1.0", examples="true", **more)
    shown = examples_of(test)[0]["texts"][0]
    link = shown["href"]
    assert link.startswith("./?"), "the first page, whatever stands before its address"
    test = opened("heads", **{name: text for name, [text] in parse_qs(link.removeprefix("./?")).items()})
    view = test.session_state["view"]
    assert (view.layer, view.head, view.part) == (1, 0, more.get("part", "self"))
    weights = view.trace.weights(1, 0)[view.query]
    assert shown["words"].endswith(f"with the weight {number(float(weights[view.key]), 3)}")
    [read] = [token for token in shown["tokens"] if token["is_key"]]
    assert read["weight"] == pytest.approx(float(weights[view.key]), abs=1e-4)
    assert f"query {view.labels[view.query]} reads key {view.key_labels[view.key]} " in shown["words"]
    assert read["label"] == view.key_labels[view.key].split(" ", 1)[1].strip("‘’")


def examples_of(test):
    """The groups of texts that the page was given to shade."""
    [groups] = [unpack(blob)[0]["groups"] for blob in blobs_of(test) if "groups" in unpack(blob)[0]]
    return groups


def test_examples_go_from_most_to_least_and_leave_out_what_nothing_reads():
    test = opened("over_a_text", **QUICK, pattern="induction", examples="true")
    groups = examples_of(test)
    assert [len(group["texts"]) for group in groups] == [3] * 5
    assert groups[0]["title"].startswith("The fifth of the windows with the most: mean of induction ")
    assert groups[4]["title"].startswith("The fifth with the least: mean of induction ")
    model = vm.load("tiny-gpt")
    found = vm.head_report(model, repeats(model, 16, 40), windows=16)
    for group, of_report in zip(groups, found.example_groups(1, 0, "induction"), strict=True):
        for text, example in zip(group["texts"], of_report.examples, strict=True):
            shown = [token["weight"] for token in text["tokens"]]
            places = np.cumsum([token["skipped"] + 1 for token in text["tokens"]]) - 1
            np.testing.assert_allclose(shown, example.weights[places], atol=1e-5)
            assert places[-1] + text["left"] == 79
            assert [place for place, token in zip(places, text["tokens"], strict=True) if token["is_query"]] == [
                example.query
            ]
            assert set(np.argsort(-example.weights)[:3]) <= set(places)


def test_a_window_that_a_prompt_cannot_give_is_not_offered():
    model = vm.load("tiny-gpt")
    assert shown_windows.prompt_of(model, Window(tokens_of(model, model.ids(" the king")), None, 0)) == {
        "prompt": " the king"
    }
    halves = [model.ids("a")[0], model.ids("b")[0], model.ids("o")[0], model.ids("u")[0], model.ids("t")[0]]
    assert shown_windows.prompt_of(model, Window(tokens_of(model, halves), None, 0)) is None


def tokens_of(model, ids):
    return Tokens(tuple(ids), tuple(model.token_bytes(ids)))


def test_what_is_known_so_far_is_said_meanwhile():
    said_so_far, page = [], page_module("over_a_text")
    model = vm.load("tiny-gpt")
    for so_far in growing_report(model, repeats(model, 9, 40), windows=9):
        said_so_far.append(page.strongest_words(so_far, "induction"))
    mean = number(so_far.mean("induction")[1, 0], 3)
    assert said_so_far[-1].startswith(
        f"After 9 of 9 windows, the largest means of **induction** are those of layer 1, head 0 ({mean}), layer "
    )


def test_a_text_of_ones_own_comes_with_a_link():
    text = "The fox met a goose. " * 20
    test = opened("over_a_text", model="tiny-gpt", prompt="a", read="a text of yours", pasted=to_address(text))
    assert f"of your text ({len(text)} characters)." in said(test)
    assert address_of(test)["pasted"] == to_address(text)
    without = opened("over_a_text", model="tiny-gpt", prompt="a", read="a text of yours")
    assert "There is no text to read yet" in said(without)


def test_a_file_is_read_and_named_and_a_wrong_one_says_why():
    test = opened("over_a_text", model="tiny-gpt", prompt="a", read="a text of yours")
    text = "The fox met a goose. " * 20
    test.session_state.own_text, test.session_state.own_file = text, FileText("my *novel*.txt", text)
    assert f"of the file “my \\*novel\\*\\.txt” ({len(text)} characters)." in said(test.run())
    test.session_state.own_file = FileText("a.png", problem="“a.png” is not text in UTF-8.")
    assert "The file “a\\.png” is not text in UTF\\-8" in said(test.run())
    long = "goose " * 40_000
    test.session_state.own_text, test.session_state.own_file = long, FileText("long.txt", long)
    assert "The text of the file is too long for the box." in said(test.run())


@pytest.mark.parametrize(("text", "in_box"), [("a goose", "a goose"), ("goose " * 40_000, "")])
def test_a_file_that_is_taken_is_the_text(monkeypatch, text, in_box):
    chosen, state = {}, Session()
    monkeypatch.setattr(texts, "choose", lambda **choices: chosen.update(choices))
    monkeypatch.setattr(texts.st, "session_state", state)
    file = FileText("a.txt", text)
    texts._take_file(file)
    assert (state.own_text, state.own_text_typed, state.own_file) == (text, in_box, file)
    assert chosen == {"pasted": to_address(text)}
    wrong = FileText("b.bin", problem="no text.")
    texts._take_file(wrong)
    assert (state.own_text, state.own_file) == (text, wrong)
    state.own_text_typed = "typed"
    texts._take_typed()
    assert (state.own_text, state.own_file) == ("typed", FileText(""))


def test_means_that_no_query_has_are_masked(monkeypatch):
    """Of a text of one token nothing is known but itself."""
    test = opened("over_a_text", model="tiny-gpt", prompt="a", read="the prompt")
    values, allowed = drawn_matrices(test)["pattern_means"]
    assert values.shape == (4, 8)
    assert allowed.all()
    assert {"itself", "first token", "evenly spread"} <= set(test.dataframe[-1].value.pattern)
    assert "previous token" not in set(test.dataframe[-1].value.pattern)


def test_a_text_that_the_model_cannot_read_is_said():
    test = opened("over_a_text", model="tiny-gpt", prompt="a", read="a text of yours")
    test.session_state.own_text = "\ud800"
    assert "half of a surrogate pair" in said(test.run())


def test_edits_reach_every_window():
    edited = opened("over_a_text", **QUICK, edits="off:1.0", pattern="first token")
    model = vm.load("tiny-gpt")
    rows = repeats(model, 16, 40)
    found = vm.head_report(model.edited([vm.SwitchOff(1, 0)]), rows)
    np.testing.assert_allclose(drawn_matrices(edited)["pattern_means"][0], found.mean("first token"), atol=1e-4)
    assert abs(found.mean("first token") - vm.head_report(model, rows).mean("first token")).max() > 0.001


def test_keys_of_reports():
    view = SimpleNamespace(name="m", part="self", trace=SimpleNamespace(mask_name="causal"), edits=())
    one = texts.ChosenText("a", "", lambda _: "")
    keys = {measured.reading_key(view, text, windows) for text in (one, replace(one, key="b")) for windows in (16, 64)}
    assert len(keys) == 4


def test_the_heads_of_a_fetched_model_are_named_by_their_first_text(monkeypatch, tmp_path):
    """The names lie beside the weights then, and the page Heads says them."""
    monkeypatch.setenv("VIZ_FETCHED", str(tmp_path))
    folder = tmp_path / "fetched-one"
    shutil.copytree(FOLDER / "induction", folder, ignore=shutil.ignore_patterns("head*.json"))
    source = {"source": "s", "licence": "l", "fetched": "f", "parameters": 1, "has_tokenizer": True}
    (folder / "source.json").write_text(json.dumps({"name": folder.name} | source))
    here = {"model": folder.name, "prompt": "abab"}
    assert "The heads of this model have no names yet" in said(opened("heads", **here))
    opened("over_a_text", **here, read="the prompt")
    assert not (folder / HEAD_NAMES_FILE).exists(), "one prompt names no head"
    opened("over_a_text", **here)
    assert (folder / HEAD_NAMES_FILE).exists()
    test = opened("heads", **here)
    assert "The names come from 16 windows (4,096 tokens) of fairy tales." in said(test)
    names = test.dataframe[0].value["name"]
    assert [name.split(" (")[0] for name in names[2:]] == ["induction", "induction"]
