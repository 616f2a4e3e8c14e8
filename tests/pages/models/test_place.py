"""Where models compute: chosen on the page Models, said above every page, and refused in a sentence."""

import os

import pytest
import streamlit as st

import viz_model as vm
from tests.support.app import at, opened, switch_page
from viz_ui.look.text import number
from viz_ui.sharing.settings import sharing

PROMPT = "Once upon a time there was a king"


@pytest.fixture(autouse=True)
def own_place(monkeypatch):
    """Each test begins with a server that has no models, and leaves none behind."""
    monkeypatch.setenv("VIZ_DEVICE", "cpu float32")
    st.cache_resource.clear()
    sharing.cache_clear()
    yield
    st.cache_resource.clear()
    sharing.cache_clear()


def said(test):
    return " ".join(element.value for element in (*test.main.markdown, *test.main.caption, *test.main.info))


def test_what_is_chosen_holds_for_every_page_which_says_it_with_the_difference():
    test = opened("models", **at(prompt=PROMPT))
    assert "bfloat16]" not in said(test)
    test.selectbox(key="place").set_value("cpu bfloat16").run()
    assert not test.exception
    switch_page(test, "heads").run()
    model = vm.load("tiny-gpt", "bfloat16")
    difference = model.difference(model.trace(PROMPT))
    words = said(test)
    line = ":violet-badge[cpu bfloat16] The passes are computed on the processor (cpu) in bfloat16."
    assert line in words
    assert f"Logits of the next token differ from float32 by at most {number(difference, 2)}." in words
    assert "computed on the processor (cpu) in bfloat16" in " ".join(one.value for one in test.sidebar.caption)
    switch_page(test, "models").run()
    test.selectbox(key="place").set_value("cpu float32").run()
    switch_page(test, "heads").run()
    assert "bfloat16" not in said(test)


@pytest.mark.parametrize("page", ["inside_a_head", "prediction", "generate", "quantization", "shapes", "switch_off"])
def test_each_page_has_its_numbers_in_bfloat16_too(page, monkeypatch):
    monkeypatch.setenv("VIZ_DEVICE", "bfloat16")
    words = said(opened(page, **at(prompt="Once upon a time")))
    assert ":violet-badge[cpu bfloat16]" in words
    assert ("The quantized copy computes in float32" in words) == (page == "quantization")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [("mps", "There is no Apple graphics chip here"), ("gpu", "does not say where a model computes")],
)
def test_a_device_that_is_not_there_is_said_and_another_can_be_chosen(words, sentence, monkeypatch):
    monkeypatch.setenv("VIZ_DEVICE", words)
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: False)
    assert sentence in said(opened("heads", **at(prompt=PROMPT)))
    test = opened("models", **at(prompt=PROMPT))
    assert sentence in said(test)
    test.selectbox(key="place").set_value("cpu float32").run()
    assert os.environ["VIZ_DEVICE"] == "cpu float32"
    assert sentence not in said(test)


def test_visitors_of_a_shared_server_are_not_asked(monkeypatch):
    monkeypatch.setenv("VIZ_SHARE", "lab.example.edu")
    sharing.cache_clear()
    assert not [box for box in opened("models", **at(prompt=PROMPT)).selectbox if box.key == "place"]
