"""What the page Switch off says and draws of effects that are given: which number, with which sign, of which other."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

import viz_model as vm
from pages.switch_off import choice
from pages.switch_off.band_figure import band_figure
from pages.switch_off.choice import DIFFERENCE, LOGIT, LOSS, PREDICTION, Effect
from tests.support.page_parts import Noted, page_module, view_of
from tests.support.small_models import small_model
from viz_model.heads.alignment import align
from viz_model.intervention.ablation import FEED_FORWARD, HEAD, LAYER, Ablation
from viz_model.intervention.replacement import OTHER, TEXT_MEAN, ZERO, Replacement

IDS = (5, 9, 11, 9, 4)
EFFECTS = [Effect(PREDICTION), Effect(LOGIT, 5, names=("a",)), Effect(DIFFERENCE, 5, 6, ("a", "b")), Effect(LOSS)]


@pytest.fixture(scope="module")
def view():
    return view_of(vm.Model("small", small_model(n_layers=3)), IDS, layer=1, head=2, query=3, key=1)


@pytest.fixture
def page():
    page = page_module("switch_off")
    page.noted = Noted()
    page.st = page.noted
    for name in ("draw_head_matrix", "draw_next_tokens", "band_figure", "choose"):
        setattr(page, name, getattr(page.noted, name))
    return page


def ablation(unit=HEAD, how=ZERO, **replaced):
    """Three layers, four heads; all numbers are other ones, and each edit makes another token the likeliest."""
    columns = 4 if unit == HEAD else 1
    places = tuple((layer, column) for layer in range(3) for column in range(columns))
    kl = torch.linspace(0.5, 2.7, len(places)).double().reshape(3, columns)
    edited = torch.zeros(len(places), 29) + torch.eye(29)[: len(places)] * torch.arange(2, 2.0 + len(places))[:, None]
    logits = torch.zeros(29)
    logits[20] = 1.0
    return Ablation(
        part="self", unit=unit, replaced=Replacement(how, {}, **replaced), heads=places, kl=kl, logits=logits,
        edited=edited, again=logits, loss=kl + 2, loss_before=3.0, loss_again=3.0,
    )  # fmt: skip


def test_an_effect_is_named_by_what_changes_its_sign_and_its_unit():
    said = [(effect.title, effect.subject, effect.words(-0.5), effect.words(0.25), effect.range_words(-0.5, 0.25))
            for effect in EFFECTS]  # fmt: skip
    of_logits = ("falls by **0.5000**", "rises by **0.2500**", "by −0.5000 to +0.2500")
    assert said == [
        ("change of the prediction, bits", "The prediction", "changes by **−0.5000 bits**",
         "changes by **0.2500 bits**", "by −0.5000 to 0.2500 bits"),
        ("change of the logit of “a”", "The logit of “**a**”", *of_logits),
        ("change of logits: “a” − “b”", "The logit of “**a**” minus that of “**b**”", *of_logits),
        ("change of the loss, nats per token", "The mean loss of the prompt", "falls by **0.5000 nats**",
         "rises by **0.2500 nats**", "by −0.5000 to +0.2500 nats"),
    ]  # fmt: skip
    assert EFFECTS[3].range_words(0.25, 0.25) == "by +0.2500 nats"


def test_an_effect_has_its_own_table_and_its_own_rounding():
    found = ablation()
    tables = [found.kl, found.logit_change(5), found.logit_change(5, 6), found.loss_change]
    roundings = [found.kl_rounding, found.logit_rounding(5), found.logit_rounding(5, 6), found.loss_rounding]
    for effect, table, rounding in zip(EFFECTS, tables, roundings, strict=True):
        torch.testing.assert_close(effect.of(found), table)
        assert effect.rounding(found) == 10 * rounding


@pytest.mark.parametrize(("middle", "law"), [(0.5, "linear"), (0.05, "square root"), (0.002, "logarithmic")])
def test_colours_end_at_the_largest_effect_and_are_told_apart_where_most_are_small(page, middle, law):
    values = np.array([[middle, -4.0 * 1, middle * 4], [middle * 4, np.nan, middle * 4]])
    values[0, 0] = 2.0
    look = page.look(values, EFFECTS[1], 1e-6)
    assert (look["low"], look["high"], look["scale"], look["role"]) == (-4.0, 4.0, "diverging", "scores")
    assert look["law"] == law
    assert look["caption"].startswith("The largest is −4.000;")
    plain = page.look(np.abs(values), EFFECTS[0], 1e-6)
    assert (plain["low"], plain["high"], plain["role"], plain["law"]) == (0.0, 4.0, "weights", law)
    assert plain["caption"].startswith("The largest is 4.000;")
    assert page.look(values, EFFECTS[1], 7.0)["high"] == 7.0


@pytest.mark.parametrize("unit", [HEAD, FEED_FORWARD, LAYER])
def test_a_unit_is_compared_with_the_same_edit_elsewhere(page, view, unit):
    found = {unit: ablation(unit)}
    off = page.Off(unit, 1, 2)
    place, own = ((1, 2), 6) if unit == HEAD else ((1, 0), 1)
    page.draw_answer(view, found, Effect(LOSS), off)
    table = ablation(unit).loss_change
    words = {HEAD: "head 2 of layer 1", FEED_FORWARD: "the feed-forward of layer 1", LAYER: "layer 1"}[unit]
    first, second = page.noted.words.splitlines()[:2]
    after = float(ablation(unit).loss[place])
    change = float(table[place])
    does = "rises" if change > 0 else "falls"
    assert first == (
        f"Without {words}, the likeliest token after token 3 is “<{own}>” and no longer “<20>”. The mean loss of the "
        f"prompt {does} by {abs(change):#.4g} nats per token, from 3.000 to {after:#.4g}."
    )
    others = [float(value) for at, value in enumerate(table[1] if unit == HEAD else table[:, 0])
              if at != (2 if unit == HEAD else 1)]  # fmt: skip
    each = {HEAD: "head of layer 1", FEED_FORWARD: "layer’s feed-forward", LAYER: "layer"}[unit]
    by = Effect(LOSS).range_words(min(others), max(others))
    assert second == f"Each other {each} changes the mean loss of the prompt {by}."
    [((name, value, drawn, title), _)] = page.noted.of("band_figure")
    names = {HEAD: "layer 1, head {}", FEED_FORWARD: "feed-forward, layer {}", LAYER: "whole layer, layer {}"}[unit]
    at = 2 if unit == HEAD else 1
    assert (name, value, title) == (names.format(at), change, "change of the loss, nats per token")
    line = [n for n in range(4 if unit == HEAD else 3) if n != at]
    assert drawn == dict(zip(map(names.format, line), others, strict=True))


def test_heads_stand_apart_from_feed_forwards_and_layers_and_a_click_is_what_stands_there(page, view):
    found = {unit: ablation(unit) for unit in (HEAD, FEED_FORWARD, LAYER)}
    found[LAYER].kl.mul_(10)
    page.draw_picture(view, found, EFFECTS[0], page.Off(LAYER, 1, 2))
    [((_, _, title, heads, _), options)] = page.noted.of("draw_head_matrix")
    assert title == "Change of the prediction, bits"
    np.testing.assert_array_equal(heads, found[HEAD].kl)
    [(named, wholes)] = options["beside"].items()
    assert named.file_name == "small_switched_off_layers"
    assert named.title.endswith("without each feed-forward and layer")
    np.testing.assert_array_equal(wholes.values, torch.cat((found[FEED_FORWARD].kl, found[LAYER].kl), 1))
    assert (wholes.column_labels, wholes.high) == (["feed-forward", "whole layer"], pytest.approx(27))
    assert (options["marked"], options["high"]) == ({"layer": 1, "part": 1}, pytest.approx(2.7))
    for panel, row, column, chosen in (
        ("effect", 0, 3, {"off": HEAD, "head": (0, 3)}), ("effect", None, 3, {"off": HEAD, "head": (1, 3)}),
        ("wholes", 2, 0, {"off": FEED_FORWARD, "head": (2, 2)}), ("wholes", 0, None, {"off": LAYER, "head": (0, 2)}),
    ):  # fmt: skip
        options["on_pick"]({"panel": panel, "row": row, "column": column})
        assert page.noted.of("choose")[-1] == ((), chosen)


@pytest.mark.parametrize(("unit", "row"), [(HEAD, 6), (FEED_FORWARD, 1)])
def test_the_prediction_below_is_that_of_the_pass_without_what_is_chosen(page, view, unit, row):
    found = {one: ablation(one) for one in (HEAD, FEED_FORWARD, LAYER)}
    page.current_view, page.chosen_off = lambda: view, lambda *_: page.Off(unit, 1, 2)
    for name in ("main_picture", "draw_picture", "draw_answer", "draw_replacement", "bring_sidebar_along"):
        setattr(page, name, getattr(page.noted, name))
    page.draw_effects.__wrapped__(found, EFFECTS[0], choice.Replaced(ZERO, (ZERO,)))
    [((_, before, after, names, where), _)] = page.noted.of("draw_next_tokens")
    torch.testing.assert_close(before, found[unit].logits)
    torch.testing.assert_close(after, found[unit].edited[row])
    assert (names, where) == (("everything on", "switched off"), "After token 3")


def test_what_stands_in_its_place_is_said_with_its_tokens(page, view):
    page.draw_replacement(view, ablation(how=TEXT_MEAN, tokens=1024), choice.Replaced(TEXT_MEAN, (), "the text"))
    assert page.noted.words == "The mean is taken over 1,024 tokens: the text."
    for other, words in (
        ((5, 9, 7, 3, 9, 4), "yours. Of 5 tokens, 4 have a counterpart"),
        ((1, 2, 3, 4, 5), "yours. All 5 tokens"),
    ):
        page.draw_replacement(
            view, ablation(how=OTHER, alignment=align(other, IDS)), choice.Replaced(OTHER, (), "yours.")
        )
        assert page.noted.words.splitlines()[-1].startswith(words)


def test_the_band_ends_at_the_smallest_and_the_largest_of_the_others():
    figure = band_figure("own", 5.0, {"x": -1.0, "y": 3.0, "z": 2.0}, "bits", theme="light")
    [shape] = figure.layout.shapes
    others, own = figure.data
    assert (shape.x0, shape.x1) == (-1.0, 3.0)
    assert (list(others.x), list(own.x)) == ([-1.0, 3.0, 2.0], [5.0])
    assert [list(one) for one in (*others.customdata, *own.customdata)] == [
        ["x", "−1.000"], ["y", "3.000"], ["z", "2.000"], ["own", "5.000"],
    ]  # fmt: skip
    low, high = figure.layout.xaxis.range
    assert low < -1
    assert high > 5
    assert band_figure("own", 5.0, {"x": 3.0}, "bits", theme="dark").layout.xaxis.range[0] < 0


def test_the_prediction_is_that_of_the_query_and_of_an_encoder_that_of_the_last_token(page):
    two = vm.Model("pair", small_model(layout="encoder-decoder", n_encoder_layers=3))
    asked = {"target": (3, 7, 2), "query": 1}
    words = {}
    for part in ("encoder", "decoder", "cross"):
        view = view_of(two, IDS, part=part, **asked)
        words[part] = page.place(view), page.where(view), page.part_words(view, HEAD), page.part_words(view, LAYER)
    assert words == {
        "encoder": (2, "after token 2 of the target", " (encoder)", " (encoder)"),
        "decoder": (1, "after token 1", " (decoder)", " (decoder)"),
        "cross": (1, "after token 1", " (cross-attention)", " (decoder)"),
    }
    alone = view_of(vm.Model("bert", small_model(layout="encoder-only")), IDS, query=3)
    assert (page.place(alone), page.where(alone), page.part_words(alone, HEAD)) == (3, "in the place of token 3", "")


def test_what_is_put_in_is_told_apart_by_way_and_text(view, monkeypatch):
    monkeypatch.setattr(choice, "traced", lambda *_, **__: SimpleNamespace(ids=(1, 2), key_ids=(3, 4)))
    monkeypatch.setattr(choice, "with_one_token_replaced", lambda _: None)
    monkeypatch.setattr(choice, "st", Noted())
    keys = []
    for way, typed in (("zero", ""), ("its mean over the prompt", ""), ("its mean over a text", ""),
                       ("its mean over a text", "a"), ("another prompt", "a")):  # fmt: skip
        monkeypatch.setattr(choice, "linked", lambda widget, label, *_, way=way, typed=typed, **__: (
            way if label == "What stands in its place" else typed))  # fmt: skip
        keys.append(choice.draw_replaced(view).key)
    assert len(set(keys)) == 5
    assert keys[-1][1:] == ((1, 2), (3, 4))
