"""The page Patching: the numbers of `vm.patch` and `vm.patch_paths` for the prompts, map and cell that are chosen."""

import json

import numpy as np
import pytest
from transformers import BertConfig, BertModel

import viz_model as vm
from pages.patching import examples as examples_module
from pages.patching.examples import EXAMPLES, examples
from tests.reference.families import FAMILIES, save_small
from tests.support.app import address_of, drawn_matrices, opened, switch_page
from viz_model.heads.comparison import with_token
from viz_ui.components.shared.packing import unpack
from viz_ui.look.text import number

BLUE = EXAMPLES["tiny-gpt"][0]
LINK = {"model": "tiny-gpt", "prompt": BLUE.clean, "other": BLUE.corrupted, "head": "1.0", "cell": "12.2"}
ANSWER = (" bird", " wolf")
STORY = "Once upon a time there was a king who had three daughters."


def page(**choices):
    return opened("patching", **(LINK | choices))


def said(test):
    return "\n".join(element.value for element in (*test.markdown, *test.caption, *test.info, *test.subheader))


def patched(*given, **options):
    return vm.patch(vm.load("tiny-gpt"), BLUE.clean, BLUE.corrupted, *given, answer=ANSWER, **options)


def aligned(test):
    """What the component with both prompts was given."""
    headers = [unpack(element.proto.bytes)[0] for element in test.main.get("bidi_component")]
    return next(header for header in headers if "differing" in header)


def test_who_comes_without_a_prompt_begins_with_a_pair_in_which_both_heads_light_up():
    test = opened("patching", model="tiny-gpt")
    now = address_of(test)
    assert (now["prompt"], now["other"], now["head"], now["cell"]) == (BLUE.clean, BLUE.corrupted, "1.0", "12.2")
    effect = drawn_matrices(test)["patched_heads"][0]
    assert effect == pytest.approx(patched("heads").effect.numpy(), abs=1e-4)
    assert sorted(effect.flatten().argsort()[-2:]) == [0, 8]
    assert "brings back **0.996** of the clean answer" in said(test)
    assert "the logit of **·bird** minus that of **·wolf**, after token 12" in said(test)


def test_who_comes_by_the_menu_keeps_what_they_typed_and_else_begins_with_the_pair():
    test = opened("heads", model="tiny-gpt", prompt=STORY)  # an example of the menu
    switch_page(test, "patching").run()
    assert address_of(test)["prompt"] == BLUE.clean
    test = opened("heads", model="tiny-gpt", prompt="The king had a ring and")
    switch_page(test, "patching").run()
    assert address_of(test)["prompt"] == "The king had a ring and"


def test_a_link_opens_as_it_was_sent():
    test = opened("patching", model="tiny-gpt", prompt=STORY)
    assert address_of(test)["prompt"] == STORY
    assert address_of(test)["other"] == "Once upon a time there was a great who had three daughters."
    assert [n for n, is_other in enumerate(aligned(test)["differing"]) if is_other] == [7]


@pytest.mark.parametrize(
    ("words", "sites"),
    [("stream", "resid_pre"), ("attention outputs", "attn.out"), ("feed-forward outputs", "ffn.out")],
)
@pytest.mark.parametrize("reverse", [False, True])
def test_a_map_of_layers_and_positions(words, sites, reverse):
    direction = {"direction": "corrupted into clean"} if reverse else {}
    test = page(map=words, cell="2.1", **direction)
    found = patched(sites, reverse=reverse)
    assert drawn_matrices(test)["patched"][0] == pytest.approx(found.effect.numpy(), abs=1e-4)
    effect, d = float(found.effect[1, 2]), float(found.difference[1, 2])
    does = "takes away" if reverse else "brings back"
    assert f"at token **2 ·bird** {does}" in said(test)
    assert f"when it is put from the {'corrupted' if reverse else 'clean'} run into the" in said(test)
    assert f"{does} **{number(effect, 3)}** of the clean answer" in said(test)
    assert f"**{number(d)}** with this value put in" in said(test)
    formula = test.get("latex")[0].value if test.get("latex") else said(test)
    assert number(effect, 3).replace("−", "-").split("×")[0] in formula


def test_an_effect_that_is_rounding_is_called_so():
    """Before the first token that differs, both runs have the same stream: nothing is put in, and 0 comes back."""
    start, words = page(map="stream", head="2.0", cell="0.0"), "That is no more than rounding"
    found = patched("resid_pre")
    assert 0 < abs(float(found.effect[2, 0])) == abs(found.nothing) < 1e-4
    assert words in said(start)
    assert words not in said(page(map="stream", head="0.0", cell="1.0"))


def test_heads_at_each_token():
    test = page(map="heads × positions", head="0.0", cell="6.5")
    found = patched("head_positions", layers=[0])
    assert drawn_matrices(test)["patched"][0] == pytest.approx(found.effect[0].numpy(), abs=1e-4)
    assert f"brings back **{number(float(found.effect[0, 0, 6]), 3)}**" in said(test)


@pytest.mark.parametrize("into", ["query", "key", "value"])
def test_paths_into_a_head(into):
    test = page(map="paths into a head", into=into)
    found = vm.patch_paths(vm.load("tiny-gpt"), BLUE.clean, BLUE.corrupted, (1, 0), into, ANSWER)
    assert drawn_matrices(test)["paths"][0] == pytest.approx(found.effect[:1].numpy(), abs=1e-4)
    sender = int(found.effect[0].argmax())
    assert f"What **head {sender} of layer 0** adds to the {into} of **head 0 of layer 1**" in said(test)
    assert f"brings back **{number(float(found.effect[0, sender]), 3)}** of the clean answer" in said(test)
    other = page(map="paths into a head", into=into, sender="0.6")
    assert f"brings back **{number(float(found.effect[0, 6]), 3)}** of the clean answer" in said(other)
    assert address_of(other)["sender"] == "0.6"


@pytest.mark.parametrize("reverse", [False, True])
def test_paths_into_the_logits(reverse):
    test = page(map="paths into the logits", **({"direction": "corrupted into clean"} if reverse else {}))
    found = vm.patch_paths(
        vm.load("tiny-gpt"), BLUE.clean, BLUE.corrupted, "logits", answer=ANSWER, reverse=reverse
    ).effect
    assert drawn_matrices(test)["patched_heads"][0] == pytest.approx(found.numpy(), abs=1e-4)
    assert int(found.argmax()) == 8, "the induction head"
    assert "What **head 0 of layer 1** adds to the logits directly" in said(test)
    does = "takes away" if reverse else "brings back"
    assert f"{does} **{number(float(found[1, 0]), 3)}** of the clean answer" in said(test)
    assert "run, so no later layer reacts to what the head writes." in said(test)


def test_both_runs_rows_of_the_head_of_a_cell():
    test = page()
    rows = drawn_matrices(test)["layer1_head0"][0]
    model = vm.load("tiny-gpt")
    expected = [model.trace(text).weights(1, 0)[12].numpy() for text in (BLUE.clean, BLUE.corrupted)]
    np.testing.assert_allclose(rows, expected, atol=1e-4)
    assert rows.argmax(1).tolist() == [2, 6]
    path = drawn_matrices(page(map="paths into a head"))
    assert {"layer0_head0", "layer1_head0"} <= path.keys()
    assert path["layer0_head0"][0][0, 1] == pytest.approx(float(model.trace(BLUE.clean).weights(0, 0)[2, 1]), abs=1e-4)


def test_the_ends_of_the_scale_are_measured():
    assert (
        "With the whole residual stream put in, it is 1.0000: the pass then is the clean run, up to rounding."
        in said(page())
    )
    assert "the pass then is the corrupted run" in said(page(direction="corrupted into clean"))


def test_prompts_of_unequal_length():
    pair = EXAMPLES["tiny-gpt"][3]
    test = page(prompt=pair.clean, other=pair.corrupted, map="stream", cell="11.2")
    found = vm.patch(vm.load("tiny-gpt"), pair.clean, pair.corrupted, answer=ANSWER)
    places = [second for _, second in found.alignment.pairs]
    assert drawn_matrices(test)["patched"][0] == pytest.approx(found.effect[:, places].numpy(), abs=1e-4)
    assert "The prompts have 12 and 14 tokens." in said(test)
    assert [None, "5 ·big"] in aligned(test)["columns"]
    assert "Attention weights; on tokens without counterpart: clean" in json.dumps(
        [unpack(element.proto.bytes)[0] for element in test.main.get("bidi_component")], ensure_ascii=False
    )
    alone = page(prompt=pair.clean, other=pair.corrupted, map="stream", cell="2.1")
    assert "Token 2 is not among the aligned tokens" in said(alone)


def test_what_nobody_typed_follows_the_clean_prompt():
    test = opened("patching", model="tiny-gpt", prompt=STORY)
    test.sidebar.text_area(key="prompt").set_value("The old queen was so angry that").run()
    assert address_of(test)["other"] == "The old king was so angry that"
    test.main.text_input(key="other").set_value("The old man was so angry that").run()
    test.sidebar.text_area(key="prompt").set_value("The old woman was so angry that").run()
    assert address_of(test)["other"] == "The old man was so angry that"
    test.main.text_input(key="other").set_value("").run()
    assert address_of(test)["other"] not in ("", "The old man was so angry that")
    assert not test.info


def test_answers_may_be_typed():
    test = page(clean_answer="·bird", corrupted_answer=" goose")
    found = vm.patch(vm.load("tiny-gpt"), BLUE.clean, BLUE.corrupted, "heads", (" bird", " goose"))
    assert drawn_matrices(test)["patched_heads"][0] == pytest.approx(found.effect.numpy(), abs=1e-4)
    for wrong, sentence in [("xylophones", "Type a text that is one token"), ("·wolf", "are the same token")]:
        assert sentence in said(page(clean_answer=wrong)).replace("\\", "")


@pytest.mark.parametrize(
    ("choices", "sentence"),
    [
        ({"other": BLUE.clean}, "Both prompts are the same"),
        ({"other": "Once upon a time"}, "Choose prompts of equal length"),
        ({"map": "paths into a head", "head": "0.3"}, "No head comes before layer 0"),
        ({"other": "king " * 300}, "Shorten it"),
    ],
)
def test_what_cannot_be_compared_is_a_sentence(choices, sentence):
    test = page(**choices)
    assert sentence in said(test).replace("\\", "")
    assert "patched_heads" not in drawn_matrices(test)


def test_a_model_of_attention_alone_has_no_feed_forward():
    test = opened("patching", model="induction", map="feed-forward outputs")
    assert "induction has no feed-forward output that could be patched" in said(test).replace("\\", "")


def test_an_encoder_guesses_the_hidden_last_token():
    test = opened("patching", model="tiny-bert", map="stream")
    pair, model = EXAMPLES["tiny-bert"][0], vm.load("tiny-bert")
    ids = [with_token(tuple(model.ids(text)), 7, model.mask_token) for text in (pair.clean, pair.corrupted)]
    found = vm.patch(model, *ids, answer=(" he", " she"))
    assert drawn_matrices(test)["patched"][0] == pytest.approx(found.effect.numpy(), abs=1e-4)
    assert "in the place of token 7, which is hidden from the model" in said(test)


@pytest.mark.parametrize("part", ["encoder", "decoder", "cross"])
def test_the_parts_of_an_encoder_decoder(part):
    test = opened("patching", model="tiny-seq2seq", part=part, map="stream", cell="0.0")
    shape = drawn_matrices(test)["patched"][0].shape
    assert shape == ((2, 18) if part == "encoder" else (2, 7)), "2024-0 is what both dates begin with"
    assert "the logit of **5** minus that of **6**" in said(test)
    path = opened("patching", model="tiny-seq2seq", part=part, map="paths into a head", head="1.0")
    assert ("encoder output" in said(path)) == (part == "cross")
    direct = opened("patching", model="tiny-seq2seq", part=part, map="paths into the logits", head="1.0")
    assert ("encoder output" in said(direct)) == (part == "encoder")


@pytest.mark.parametrize(("model", "pair"), [(name, pair) for name, pairs in EXAMPLES.items() for pair in pairs])
def test_every_pair_shows_something(model, pair):
    """A head brings back a good part of the answer, and the cell to begin with is in the prompt."""
    if model == "tiny-seq2seq":  # no single head does
        return
    test = opened("patching", model=model, prompt=pair.clean, other=pair.corrupted)
    assert not test.info
    assert drawn_matrices(test)["patched_heads"][0].max() > 0.4
    assert max(pair.cell) < vm.load(model).trace(pair.clean).length


def test_another_mask_is_not_lost():
    test = page(mask="bidirectional", clean_answer="·bird", corrupted_answer="·wolf")
    model = vm.load("tiny-gpt")
    traces = [model.trace(text, "bidirectional") for text in (BLUE.clean, BLUE.corrupted)]
    found = vm.patch(model, *traces, "heads", ANSWER)
    assert drawn_matrices(test)["patched_heads"][0] == pytest.approx(found.effect.numpy(), abs=1e-4)


def test_models_without_a_pair_say_so(tmp_path):
    """One with experts, which reads ids; and one that predicts nothing."""
    save_small(FAMILIES["Mixtral"], tmp_path / "experts")
    sizes = {"vocab_size": 67, "hidden_size": 36, "num_hidden_layers": 2, "num_attention_heads": 6}
    BertModel(BertConfig(**sizes, intermediate_size=44, max_position_embeddings=20)).save_pretrained(
        tmp_path / "silent"
    )
    test = opened("patching", model=tmp_path / "experts", prompt="3 4 5 6 7 8")
    assert "No pair of prompts was tried with experts" in said(test)
    assert drawn_matrices(test)["patched_heads"][0].shape == (2, 6)
    assert len(address_of(test)["other"].split()) == 6
    silent = opened("patching", model=tmp_path / "silent", prompt="3 4 5 6 7 8")
    assert "silent predicts no token" in said(silent)


def test_other_decoders_are_offered_the_pairs_of_the_small_ones():
    fetched = vm.Model("fetched", vm.load("tiny-gpt").transformer, vm.load("tiny-gpt").tokenizer)
    assert [pair.clean for pair in examples(fetched)] == [pair.clean for pair in examples_module.OF_STORIES]
    assert all(pair.head is None for pair in examples(fetched))
    assert examples(vm.Model("ids", vm.load("tiny-gpt").transformer)) == ()
