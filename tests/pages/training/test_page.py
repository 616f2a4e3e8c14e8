"""The page Training in every state that a reader can bring it to: targets against `transformers`, a live training."""

import json

import numpy as np
import pytest
import streamlit as st
import torch
from scipy.special import log_softmax
from streamlit.testing.v1 import AppTest

from tests.support.app import PROMPTS, at, blobs_of, ids, opened
from tests.support.blobs import received
from tests.support.transformers_tiny_gpt import gpt2
from tests.support.waiting import PATIENCE, until
from viz_model import checkpoints
from viz_model.jobs import TRAINING, Visitor
from viz_model.training.live import LiveTraining, train
from viz_model.training.live_plans import Size, repeats_plan
from viz_ui.components.shared.packing import unpack
from viz_ui.frame.jobs import turns

PROMPT = "The queen gave the girl a ring, and she thanked her."
ROW = "abcdefabcdef"
LIVE = {"lesson": "Train one, live", "live_steps": 20, "live_width": 16, "live_watched": ROW}


def app(**address) -> AppTest:
    return opened("training", **at(**({"prompt": PROMPT} | address)))


def header(test: AppTest, field: str) -> dict:
    """What the component with this field was given."""
    headers = [unpack(blob)[0] for blob in blobs_of(test)]
    [found] = [one for one in headers if field in one]
    return found


def told(test: AppTest) -> str:
    return "\n".join(markdown.value for markdown in test.markdown)


@pytest.fixture
def desk(monkeypatch):
    """A server of its own for live trainings, which ends what it began."""
    st.cache_resource.clear()
    yield turns(TRAINING)
    for training in turns(TRAINING).jobs:
        training.stop()
    st.cache_resource.clear()


def test_losses_and_ranks_are_those_of_another_implementation():
    row = header(app(), "row")["row"]
    read = ids(PROMPT)
    with torch.inference_mode():
        logits = gpt2()(torch.tensor([read])).logits[0].double().numpy()
    losses = -log_softmax(logits, axis=-1)
    assert len(row) == len(read)
    assert row[-1]["target"] is None
    for place, (one, target) in enumerate(zip(row, read[1:], strict=False)):
        assert one["loss"] == pytest.approx(losses[place, target], abs=2e-4)
        assert one["rank"] == 1 + (logits[place] > logits[place, target]).sum()
        assert one["target"] == row[place + 1]["read"]  # shifted by one


@pytest.mark.parametrize("prompt", PROMPTS.values(), ids=PROMPTS)
def test_any_prompt_is_asked(prompt):
    test = app(prompt=prompt)
    if len(ids(prompt)) == 1:
        assert "no token after it" in test.info[0].value
        return
    assert len(header(test, "row")["row"]) == len(ids(prompt))


def test_decode_steps_say_the_same():
    test = app(query=3)
    assert header(test, "row")["position"] == 3
    test.button(key="compare_steps").click().run()
    assert not test.exception
    assert f"{len(ids(PROMPT)) - 1} steps" in told(test)
    assert "×10⁻" in told(test).split("The losses of the pass and of the steps differ by")[1][:30]


def test_the_last_token_has_no_target_and_the_one_before_it_is_shown():
    """A first visitor's query is the last token, of which training asks nothing."""
    read = ids(PROMPT)
    last, before = (app(query=len(read) - n) for n in (1, 2))
    assert "the text ends there" in "\n".join(caption.value for caption in last.caption)
    assert told(before).split("the target **")[1] == told(last).split("the target **")[1]
    np.testing.assert_array_equal(last.dataframe[0].value["probability"], before.dataframe[0].value["probability"])


def test_a_mask_that_shows_the_target_is_said_to_measure_nothing():
    assert "losses say nothing" in told(app(mask="bidirectional"))
    assert "losses say nothing" not in told(app())


@pytest.mark.parametrize(("model", "layout"), [("tiny-bert", "encoder-only"), ("tiny-seq2seq", "encoder-decoder")])
def test_other_layouts_are_asked_what_they_learned(model, layout):
    if not (checkpoints.FOLDER / model / checkpoints.WEIGHTS_FILE).exists():
        pytest.skip(f"the checkpoint {model} is not here")
    if layout == "encoder-only":
        test = app(model=model, hide=3)
        row = header(test, "row")["row"]
        asked = [one for one in row if one["target"] is not None]
        assert 0 < len(asked) < len(row)
        assert all(one["hidden"] for one in asked)
        test.number_input(key="hide").set_value(4).run()
        assert header(test, "row")["row"] != row
        return
    test = app(model=model, prompt="3 May 2024", target="2024-05-03", part="decoder")
    row = header(test, "row")["row"]
    assert "".join(one["target"].split(" ")[1].strip("‘’") for one in row[:-1]) == "2024-05-03"
    assert all(one["rank"] == 1 for one in row[:-1]), "a model that translates dates knows this one"


def test_a_training_is_watched_to_its_end_and_kept(desk, monkeypatch, tmp_path):
    """Twenty steps: the curve, the chosen head, the weights are those of the same recipe run here."""
    test = app(**LIVE)
    assert "Press **Train**" in told(test)
    test.button(key="live_start").click().run()
    assert not test.exception
    [training] = desk.jobs
    test.run()
    assert training.wait(PATIENCE)
    test.run()
    assert not test.exception
    assert not training.problem
    expected = []
    train(repeats_plan(Size(d_model=16), 20, 0, ROW), expected.append, lambda: False)
    _, *shots, _ = expected
    curves = header(test, "plots")
    assert curves["at"] == [*range(21)]
    assert not curves["running"]
    lines = {line["name"]: line["values"] for plot in curves["plots"] for line in plot["lines"]}
    np.testing.assert_allclose(lines["training loss"][1:], [shot.loss for shot in shots[1:]], atol=1e-3)
    np.testing.assert_allclose(lines["induction"], [shot.induction.max() for shot in shots], atol=1e-3)
    [blob] = [
        blob
        for blob in blobs_of(test)
        if [item.get("name") for item in unpack(blob)[0].get("items", [])] == ["weights"]
    ]
    np.testing.assert_allclose(received(blob)["weights"][0], shots[-1].weights[1, 0], atol=1e-3)
    assert "before and after" in "\n".join(one.value for one in test.subheader)

    (tmp_path / "tiny-gpt").symlink_to(checkpoints.FOLDER / "tiny-gpt")
    monkeypatch.setattr(checkpoints, "FOLDER", tmp_path)
    test.text_input(key="live_name").set_value("no name").run()
    test.button(key="live_keep").click().run()
    assert "Choose another name" in test.info[0].value
    test.text_input(key="live_name").set_value("mine").run()
    test.button(key="live_keep").click().run()
    assert not test.exception
    assert json.loads((tmp_path / "mine" / "config.json").read_text())["d_model"] == 16
    assert test.button(key="live_look")


def test_while_somebody_else_trains_one_waits_and_a_stop_ends_ones_own(desk):
    other = Visitor().start(LiveTraining(repeats_plan(Size(d_model=16), 5000, 0, ROW)), desk)
    test = app(**LIVE | {"live_steps": 5000})
    test.button(key="live_start").click().run()
    [bar] = test.main.get("progress")
    assert bar.proto.text == "This training: waits for its turn, next in the queue …"
    assert desk.jobs[0] is other
    training = desk.jobs[1]
    other.stop()
    assert other.wait(PATIENCE)
    test.run()
    assert not test.info
    assert desk.jobs == (training,)
    until(lambda: training.snapshots)
    test.run()
    test.button(key="live_stop").click().run()
    assert training.wait(PATIENCE)
    test.run()
    assert not test.exception
    assert training.was_stopped
    assert test.button(key="live_start")


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ({"live_heads": 3}, "cannot be split into n_heads 3"),
        ({"live_watched": "a"}, "It must have 2 to 48"),
        ({"live_task": "My own text"}, "There is no text"),
    ],
)
def test_what_cannot_be_trained_gets_a_sentence(desk, address, sentence):
    test = app(**LIVE | address)
    test.button(key="live_start").click().run()
    assert not test.exception
    assert sentence in test.info[0].value.replace("\\", "")
    assert not desk.jobs


@pytest.mark.parametrize(
    "address",
    [
        {"lesson": "none"},
        {"hide": "inf"},
        {"live_layers": "0", "live_heads": "99", "live_width": "7", "live_steps": "1e9", "live_seed": "-1"},
        {"live_layers": "x", "live_ffn": "perhaps", "live_task": "?", "live_matrix": "W"},
    ],
    ids=repr,
)
def test_nonsense_in_the_address_is_passed_over(address):
    test = app(**{"lesson": "Train one, live"} | address)
    assert test.title[0].value == "Training"
    assert not test.info
