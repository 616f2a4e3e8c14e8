"""The page Generate in every state that a reader can bring it to, its numbers against numpy and transformers."""

import dataclasses

import numpy as np
import pytest
import torch
from streamlit.testing.v1 import AppTest

from tests.support.app import MAIN, PROMPTS, address_of, at, ids, opened, switch_page
from tests.support.blobs import received_generation
from tests.support.plain_sampler import plain_draw, plain_sampler
from tests.support.transformers_tiny_gpt import attentions, gpt2, queries_keys_values
from viz_ui.components.shared.packing import unpack

PROMPT = "The queen gave the girl a ring."


def app(**address) -> AppTest:
    return opened("generate", **at(**({"prompt": PROMPT} | address)))


def blob(test: AppTest) -> bytes:
    """What the component with the steps was given."""
    [found] = [part.proto.bytes for part in test.main.get("bidi_component") if "steps" in unpack(part.proto.bytes)[0]]
    return found


def header(test: AppTest) -> dict:
    return unpack(blob(test))[0]


def chosen(test: AppTest) -> list[int]:
    return [step["chosen"] for step in header(test)["steps"]]


def logits_of(tokens: list[int]) -> np.ndarray:
    """Of the last position, by `transformers`, without a cache."""
    with torch.inference_mode():
        return gpt2()(torch.tensor([tokens])).logits[0, -1].double().numpy()


@pytest.mark.parametrize("prompt", PROMPTS.values(), ids=PROMPTS)
def test_any_prompt_is_continued(prompt):
    test = app(prompt=prompt)
    got = header(test)
    assert got["prompt_length"] == len(ids(prompt))
    assert not got["running"]
    assert len(got["labels"]) == len(ids(prompt)) + len(got["steps"])


@pytest.mark.parametrize(("prompt", "sentence"), [("", "The prompt is empty"), ("word " * 300, "at most 256")])
def test_a_prompt_that_cannot_be_read_gets_a_sentence(prompt, sentence):
    test = AppTest.from_file(MAIN, default_timeout=60)
    for name, value in at(prompt=prompt).items():
        test.query_params[name] = value
    test.run()
    switch_page(test, "generate").run()
    assert not test.exception
    assert sentence in test.info[0].value


def test_a_first_visit_is_alive_and_every_stage_is_there():
    test = app()
    got = header(test)
    assert len(got["steps"]) == 12
    cut = [one for step in got["steps"] for one in step["candidates"] if not one["kept"]]
    assert cut, "the first choices cut something, or nobody sees what cutting is"
    assert test.get("plotly_chart")
    assert not test.info


@pytest.mark.parametrize(
    "choices",
    [
        {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "seed": 0},
        {"temperature": 1.5, "top_k": 5, "top_p": 0.7, "seed": 11},
        {"temperature": 1.0, "top_k": 200, "top_p": 1.0, "seed": 7},
    ],
    ids=["first choices", "narrow", "top-k alone"],
)
def test_every_drawing_is_that_of_a_plain_sampler_on_logits_of_another_library(choices):
    got = header(app(**choices, new=8))
    read, stages = ids(PROMPT), {name: choices[name] for name in ("temperature", "top_k", "top_p")}
    for number, step in enumerate(got["steps"]):
        logits = logits_of(read)
        drawn_from = plain_sampler(logits, **stages)
        draw = np.random.default_rng((choices["seed"], number)).random()
        assert step["draw"] == pytest.approx(draw)
        assert step["chosen"] == plain_draw(logits, drawn_from, draw)
        full = np.exp((logits - logits.max()) / choices["temperature"])
        full /= full.sum()
        assert step["left"][2] == (drawn_from > 0).sum()
        assert step["held"][2] == pytest.approx(full[drawn_from > 0].sum(), abs=1e-4)
        for one in step["candidates"]:
            token = one["token_id"]
            assert one["logit"] == pytest.approx(logits[token], abs=1e-4)
            assert one["scaled"] == pytest.approx(logits[token] / choices["temperature"], abs=2e-4)
            assert one["full"] == pytest.approx(full[token], abs=1e-4)
            assert one["probability"] == pytest.approx(drawn_from[token], abs=1e-4)
        likeliest = [one["token_id"] for one in step["candidates"][:10]]
        assert set(likeliest) == set(np.argsort(-logits, kind="stable")[:10])
        read.append(step["chosen"])


def test_greedy_takes_the_largest_logit_whatever_else_is_chosen():
    read = ids(PROMPT)
    for token in chosen(app(greedy="true", new=6, temperature=2, seed=5)):
        assert token == logits_of(read).argmax()
        read.append(token)


def test_cache_and_weights_of_the_chosen_head_are_those_of_another_implementation():
    test = app(layer=2, head=5, new=9)
    _, keys, values, weights = received_generation(blob(test))
    read = [*ids(PROMPT), *chosen(test)[:-1]]
    _, k, v = queries_keys_values(read, 2, 5)
    np.testing.assert_allclose(keys, k, atol=2e-4)
    np.testing.assert_allclose(values, v, atol=2e-4)
    np.testing.assert_allclose(weights, attentions(read)[2, 5], atol=1e-5)


def test_bytes_and_flops_are_those_that_one_counts_by_hand():
    got, length = header(app(new=3)), len(ids(PROMPT))
    lines = {what: (cached, uncached) for what, cached, uncached in got["steps"][2]["numbers"]}
    read = length + 2
    expected = 2 * 4 * 8 * 32 * read * 4  # K and V, L, G, D, tokens, bytes of a float32
    buffers = expected // read * (length + 3)  # for all 3 new tokens
    assert lines["cache bytes"][0] == f"{expected:,} of {buffers:,}"
    assert lines["by formula"][0] == f"{expected:,}"
    assert lines["tokens read"] == ("1", str(read))
    matrices = 4 * (4 * 256 * 256 + 2 * 256 * 1024)  # L times Q, K, V, output and the two of the feed-forward
    one = 2 * matrices + 4 * 4 * 256 * read + 2 * 256 * 4353  # with QKᵀ, A·V, and the logits of one position
    all_again = 2 * matrices * read + 4 * 4 * 256 * read * read + 2 * 256 * 4353
    assert [float(line.split()[0]) for line in lines["FLOPs"]] == pytest.approx([one / 1e6, all_again / 1e6], rel=2e-3)


def test_an_address_opens_exactly_that_state():
    first = app(new=7, temperature=1.3, top_k=20, top_p=0.9, seed=3)
    token = header(first)["steps"][2]["candidates"][5]["token_id"]
    address = {"new": 7, "temperature": 1.3, "top_k": 20, "top_p": 0.9, "seed": 3, "branches": f"2:{token}", "step": 4}
    one, two = header(app(**address)), header(app(**address))
    assert one["step"] == two["step"] == 4
    for step in one["steps"] + two["steps"]:
        del step["numbers"]  # seconds are measured anew
    assert one == two
    assert one["steps"][2]["chosen"] == token
    assert one["steps"][2]["forced"]
    assert one["steps"][:2] == [
        {name: value for name, value in step.items() if name != "numbers"} for step in header(first)["steps"][:2]
    ]


@pytest.mark.parametrize(
    "address",
    [
        {"new": "0"},
        {"new": "99999"},
        {"new": "x", "temperature": "hot", "top_k": "-1", "top_p": "7", "seed": "1e400"},
        {"temperature": "NaN", "top_p": "inf"},
        {"branches": "1:999999,x,3:,:,,-1:2"},
        {"step": "9999"},
        {"step": "-1", "greedy": "perhaps"},
    ],
    ids=repr,
)
def test_nonsense_in_the_address_is_passed_over(address):
    assert header(app(**address))["steps"]


def test_a_full_context_stops_with_a_sentence_and_the_steps_stay():
    test = app(prompt="king " * 248, new=40)
    length = len(ids("king " * 248))
    assert len(header(test)["steps"]) == 256 - length + 1
    assert "The context is full" in test.info[0].value
    assert test.button(key="more").disabled


def test_more_tokens_go_on_from_what_there_is():
    test = app(new=4)
    first = chosen(test)
    test.button(key="more").click().run()
    assert not test.exception
    assert test.number_input(key="new").value == 14
    assert chosen(test)[:4] == first
    assert len(chosen(test)) == 14


def test_another_head_keeps_the_steps():
    test = app(new=5)
    steps = test.session_state.generation_run.steps
    test.number_input(key="head").set_value(6).run()
    assert test.session_state.generation_run.steps is steps
    _, keys, _, _ = received_generation(blob(test))
    read = [*ids(PROMPT), *chosen(test)[:-1]]
    np.testing.assert_allclose(keys, queries_keys_values(read, 0, 6)[1], atol=2e-4)


def test_another_seed_begins_anew():
    test = app(new=8, temperature=1.5)
    first = chosen(test)
    test.number_input(key="seed").set_value(1).run()
    assert chosen(test) != first
    test.number_input(key="seed").set_value(0).run()
    assert chosen(test) == first


@pytest.mark.parametrize(
    "other",
    [
        lambda test: test.number_input(key="seed").set_value(7),
        lambda test: test.toggle(key="greedy").set_value(True),
        lambda test: test.text_area(key="prompt").set_value("A wolf came"),
    ],
    ids=["seed", "greedy", "prompt"],
)
def test_a_branch_is_not_taken_along_into_another_text(other):
    test = app(new=5, branches="2:88")
    assert chosen(test)[2] == 88
    other(test).run()
    steps = header(test)["steps"]
    assert len(steps) == 5
    assert not any(step["forced"] for step in steps)
    assert "branches" not in address_of(test)


def test_a_stop_belongs_to_its_text():
    test = app(new=5)
    test.session_state.generation_stopped = (5, 9)  # as the button Stop leaves it
    test.run()
    assert test.button(key="more").label == "Continue to 9"
    test.text_area(key="prompt").set_value("A wolf came").run()
    assert test.button(key="more").label == "10 more"


def test_a_foreign_mask_does_not_apply():
    causal, other = app(new=4), app(new=4, mask="bidirectional")
    assert chosen(causal) == chosen(other)
    assert any("does not apply" in caption.value for caption in other.caption)
    assert not any("does not apply" in caption.value for caption in causal.caption)


def test_a_model_that_reads_both_ways_gets_a_sentence(monkeypatch):
    """No checkpoint of that layout is bundled: the config of the loaded one says so for once."""
    test = app(new=2)
    model = test.session_state.view.model
    both = dataclasses.replace(model.config, layout="encoder-only")
    monkeypatch.setattr(type(model), "config", property(lambda self: both))
    test.run()
    assert not test.exception
    assert "no next token" in test.info[0].value


def test_the_text_ends_where_the_model_ends_it(monkeypatch):
    """For once a token that is sure to come counts as the end of the text."""
    first = app(new=10, greedy="true")
    tokens = chosen(first)
    place = next(place for place, token in enumerate(tokens) if place >= 3 and token not in tokens[:place])
    model = first.session_state.view.model
    monkeypatch.setattr(model.tokenizer, "end_of_text", tokens[place])
    test = app(new=10, greedy="true")
    assert chosen(test) == tokens[: place + 1]
    assert test.button(key="more").disabled
