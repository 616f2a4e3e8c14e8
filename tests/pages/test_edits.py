"""The list of edits: what it holds, what every page then shows and says, and links with edits that cannot be made."""

import ast
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import viz_model as vm
from tests.support.app import ROOT, address_of, drawn_matrices, opened, switch_page
from viz_model.positions.schemes import site_changes, under_scheme
from viz_model.quantization.twin import NF4, Choice, quantize
from viz_model.training.held_out import held_out_rows
from viz_model.training.loss import loss
from viz_model.training.targets import next_token_targets
from viz_ui.frame.edits import MOST, ListedEdit, ListOfEdits
from viz_ui.frame.navigation import COMPARED, SHOWN_ON_LAYOUTS, UNEDITED, UNEDITED_SECTIONS
from viz_ui.look.text import number
from viz_ui.parts.edit_form import CELL_EDITS, HEAD_EDITS

PROMPT = "The red fox met a grey goose by the old mill. The red fox met a grey goose by the"
PLACE = {"model": "tiny-gpt", "prompt": PROMPT, "head": "1.0", "cell": "20.9"}
OFF, CELL, SCALE = vm.SwitchOff(0, 0), vm.SetWeight(1, 0, 20, 9), vm.ScaleHead(2, 6, 0.5)
PAGES = sorted(path.parent.name for path in (ROOT / "pages").glob("*/page.py"))
QUICK = {"over_a_text": {"read": "the prompt"}}
TITLES = {"flash_attention": "FlashAttention"}


def title(page: str) -> str:
    return TITLES.get(page, page.replace("_", " ").capitalize())


def said(test) -> str:
    """All that the page says, without the signs of Markdown."""
    elements = (*test.main.markdown, *test.main.caption, *test.main.info, *test.main.warning)
    return "\n".join(element.value for element in elements).replace("\\", "")


def banner(test) -> str:
    """What the banner says of the pass; "" where there is none."""
    found = [element.value.replace("\\", "") for element in test.main.markdown]
    return next((words for words in found if words.startswith((":orange-badge[edited", ":blue-badge[unedited"))), "")


def weights(test) -> np.ndarray:
    return drawn_matrices(test)["weights"][0]


def expected(*edits, layer=1, head=0, model="tiny-gpt", prompt=PROMPT) -> np.ndarray:
    return vm.load(model).trace(prompt, edits=edits).weights(layer, head).numpy()


@pytest.mark.parametrize("page", PAGES)
def test_every_page_says_which_pass_it_shows(page):
    for is_embedded in (False, True):
        test = opened(page, is_embedded=is_embedded, **PLACE, **QUICK.get(page, {}), edits=OFF.written)
        if title(page) in UNEDITED:
            assert banner(test) == f":blue-badge[unedited pass] {UNEDITED[title(page)]}"
        else:
            assert banner(test).startswith(":orange-badge[edited pass] Head 0 of layer 0 is switched off.")
    assert banner(opened(page, **PLACE, **QUICK.get(page, {}))) == ""


@pytest.mark.parametrize("page", [page for page in PAGES if title(page) not in UNEDITED])
def test_a_page_of_the_edited_pass_makes_no_pass_without_the_edits(page):
    for path in (ROOT / "pages" / page).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id != "load_model", f"{path}:{node.lineno}: the model as it is; use view.model"
                is_edited = any(keyword.arg == "edits" for keyword in node.keywords)
                assert node.func.id != "traced" or is_edited, f"{path}:{node.lineno}: give edits=view.edits"


def test_heads_shows_the_edited_pass_and_compares():
    test = opened("heads", **PLACE, edits=[OFF.written, CELL.written])
    np.testing.assert_allclose(weights(test), expected(OFF, CELL), atol=1e-6)
    assert weights(test)[20, 9] == 0
    assert "An edit changes the weights of this row after the softmax: here the weight is **0** instead of" in said(
        test
    )
    assert banner(test) == f":orange-badge[edited pass, this head too] {CELL.words} And 1 more edit."
    assert "In the head on screen, the weights of query 20 are not the softmax of the scores." in said(test)
    test.toggle(key="edits_compared").set_value(True).run()
    np.testing.assert_allclose(weights(test), expected(), atol=1e-6)
    assert banner(test) == ":blue-badge[unedited pass] You see the pass without the edits, to compare."
    assert address_of(test)["unedited"] == "true"
    assert address_of(test)["edits"] == [OFF.written, CELL.written]
    np.testing.assert_allclose(weights(opened("heads", **address_of(test))), expected(), atol=1e-6)
    test.toggle(key="edits_compared").set_value(False).run()
    np.testing.assert_allclose(weights(test), expected(OFF, CELL), atol=1e-6)


def by_hand(prompt=PROMPT, mask=None, model="tiny-gpt") -> vm.Trace:
    """The pass without head 0 of layer 0, by a hook of this file."""
    model = vm.load(model) if isinstance(model, str) else model
    with vm.edit(HOOK):
        return model.trace(prompt, mask)


def off_by_hand(mixed):
    mixed[:, 0] = 0
    return mixed


HOOK = {"blocks.0.attn.mixed": off_by_hand}


def test_within_another_page_the_banner_says_all_that_the_list_says():
    test = opened("heads", is_embedded=True, **PLACE, edits=[OFF.written, CELL.written])
    said_there = (
        f"{OFF.words} {CELL.words} In the head on screen, the weights of query 20 are not the softmax of the scores."
    )
    assert banner(test) == f":orange-badge[edited pass] {said_there}"


def test_masks_are_compared_in_the_edited_model():
    test = opened("masks", **PLACE, edits=OFF.written)
    for side, mask in (("A", "causal"), ("B", "bidirectional")):
        drawn = drawn_matrices(test)[f"weights {side}"][0]
        np.testing.assert_allclose(drawn, by_hand(mask=mask).weights(1, 0), atol=1e-6)
    test.toggle(key="edits_compared").set_value(True).run()
    unedited = vm.load("tiny-gpt").trace(PROMPT, "bidirectional").weights(1, 0)
    np.testing.assert_allclose(drawn_matrices(test)["weights B"][0], unedited, atol=1e-6)


def test_a_cell_that_one_of_the_masks_forbids_is_left_out_under_that_one():
    late = vm.SetWeight(1, 0, 5, 9, 0.75)
    test = opened("masks", **PLACE, mask="bidirectional", edits=[OFF.written, late.written])
    drawn = drawn_matrices(test)
    np.testing.assert_allclose(drawn["weights A"][0], by_hand(mask="causal").weights(1, 0), atol=1e-6)
    expected_row = by_hand(mask="bidirectional").weights(1, 0)[5].numpy().copy()
    expected_row *= 0.25 / (1 - expected_row[9])
    expected_row[9] = 0.75
    np.testing.assert_allclose(drawn["weights B"][0][5], expected_row, atol=1e-6)
    assert f"Left out under mask A:] {late.words} The mask already forbids query 5 to read key 9." in said(test)
    assert "Left out under mask B" not in said(test)


def test_tiles_are_of_the_edited_pass_and_cannot_set_a_weight():
    test = opened("flash_attention", **PLACE, edits=[OFF.written, CELL.written])
    trace = by_hand()
    expected_output = trace.weights(1, 0) @ trace.v(1)[0]  # CELL is of this very head, behind its q, k and v
    _, run, agrees = test.session_state.tiled_run
    np.testing.assert_allclose(run.output, expected_output, atol=1e-5)
    assert agrees.difference < 1e-5
    assert "An edit sets weights of query 20 in this head. A tiled softmax never stores its weights" in said(test)
    other = opened("flash_attention", **PLACE | {"head": "1.1"}, edits=[OFF.written, CELL.written])
    assert "not in the tiles" not in said(other)


def test_the_rounded_copy_runs_under_the_same_edits():
    test = opened("quantization", **PLACE, quantization="What they do", edits=OFF.written)
    model, drawn = vm.load("tiny-gpt"), drawn_matrices(test)
    copy = quantize(model, Choice(NF4)).model
    np.testing.assert_allclose(drawn["before"][0], by_hand().weights(1, 0), atol=1e-6)
    np.testing.assert_allclose(drawn["after"][0], by_hand(model=copy).weights(1, 0), atol=1e-5)
    [metric] = test.main.metric
    rows = held_out_rows(model, "tiny-gpt")
    rows = torch.tensor([model.encode(PROMPT)]) if rows is None else rows
    with vm.edit(HOOK):
        nats = [number(loss(one, rows).nats) for one in (model, copy)]
    assert metric.value == " → ".join(nats)
    test.toggle(key="edits_compared").set_value(True).run()
    np.testing.assert_allclose(drawn_matrices(test)["after"][0], copy.trace(PROMPT).weights(1, 0), atol=1e-5)
    assert test.main.metric[0].value != metric.value


def test_the_task_of_three_savings_keeps_the_mean_of_the_prompt_while_it_writes():
    mean = vm.SwitchOff(1, 0, "mean")
    test = opened("quantization", **PLACE, quantization="Three things", written=3, edits=[mean.written, CELL.written])
    _, rows = test.session_state.savings_result
    cached = next(row for row in rows if row.way.cache and not row.way.quantized)
    assert cached.largest_difference < 1e-3, "with the cache, as without it"
    assert "An edit sets attention weights in layer 1. A fused kernel never stores the weights" in said(test)


def test_both_runs_of_patching_are_edited():
    other = PROMPT.replace(" old", " new", 1)
    answers = {"clean_answer": "·old", "corrupted_answer": "·new"}
    test = opened("patching", **PLACE, **answers, other=other, edits=OFF.written)
    with vm.edit(HOOK):
        clean, corrupted = (vm.load("tiny-gpt").trace(text) for text in (PROMPT, other))
    good, bad = (vm.load("tiny-gpt").encode(word)[0] for word in (" old", " new"))
    logits = [trace.logits[good] - trace.logits[bad] for trace in (clean, corrupted)]
    assert f"{number(float(logits[0]))} in the clean run, {number(float(logits[1]))} in the corrupted run" in said(
        test
    ).replace("**", "")
    put = clean.mixed(1)[0]

    def put_in(mixed):
        mixed[0, 0] = put
        return mixed

    with vm.edit(HOOK | {"blocks.1.attn.mixed": put_in}):
        patched = vm.load("tiny-gpt").trace(other).logits
    effect = float((patched[good] - patched[bad] - logits[1]) / (logits[0] - logits[1]))
    assert drawn_matrices(test)["patched_heads"][0][1, 0] == pytest.approx(effect, abs=1e-3)
    test.toggle(key="edits_compared").set_value(True).run()
    assert drawn_matrices(test)["patched_heads"][0][0, 0] != pytest.approx(0, abs=1e-6), "head 0.0 is on again"


def test_an_edit_that_the_corrupted_prompt_has_no_token_for_is_a_sentence():
    test = opened("patching", **PLACE, other="The red fox met a grey goose", edits=CELL.written)
    assert "does not fit the corrupted prompt. The text has 7 tokens, so there is no query 20 in it." in said(test)


def test_words_are_moved_in_the_edited_model():
    order = "-".join(map(str, reversed(range(21))))
    test = opened("positions", **PLACE, order=order, edits=OFF.written)
    model = under_scheme(vm.load("tiny-gpt"), "none")
    ids = model.encode(PROMPT)
    for name, read in (("typed", ids), ("shuffled", ids[::-1])):
        expected_weights = by_hand(read, "bidirectional", model).weights(1, 0)
        np.testing.assert_allclose(drawn_matrices(test)[name][0], expected_weights, atol=1e-5)
    assert "belongs to certain positions" not in said(test)
    of_token = opened("positions", **PLACE, order=order, edits=CELL.written)
    assert drawn_matrices(of_token)["typed"][0][20, 9] == drawn_matrices(of_token)["shuffled"][0][20, 9] == 0
    assert "In the new order, other words may stand at these positions" in said(of_token)


def test_sites_are_compared_in_the_edited_model():
    test = opened("positions", **PLACE, positions="Where they enter", edits=OFF.written)
    model = vm.load("tiny-gpt")
    with vm.edit(HOOK):
        changes = {one.site: one for one in site_changes(model, model.encode(PROMPT), model, 10)}
    [table] = [table.value for table in test.main.dataframe]
    shown_changes = dict(zip(table["site"], table["learned (its own)"], strict=True))
    for site in ("blocks.1.attn.mixed", "blocks.1.resid_post", "logits"):
        assert shown_changes[site] == number(changes[site].change, 3)


def test_only_the_encoder_of_two_stacks_is_edited_where_only_that_is_shown():
    edits = [vm.SwitchOff(0, 1, part=part).written for part in ("encoder", "cross")]
    test = opened("positions", model="tiny-seq2seq", prompt="5/3/24 (US)", edits=edits)
    assert "This section shows the encoder alone, so 1 edit of other parts is not made here." in said(test)


def test_layouts_shows_the_edited_pass_of_the_chosen_model_beside_the_others():
    box = {"box": "tiny-gpt blocks.1.attn.weights"}
    test = opened("layouts", **PLACE, **box, edits=OFF.written)
    np.testing.assert_allclose(weights(test), by_hand().weights(1, 0), atol=1e-6)
    assert "The edits are of tiny-gpt. tiny-bert and tiny-seq2seq are shown without them." in said(test)
    test.toggle(key="edits_compared").set_value(True).run()
    np.testing.assert_allclose(weights(test), expected(), atol=1e-6)
    late = vm.SetWeight(1, 0, 5, 9)
    test = opened("layouts", **PLACE, **box, mask="bidirectional", edits=late.written)
    assert f"Left out:] {late.words} The mask already forbids" in said(test)


@pytest.mark.parametrize("section", SHOWN_ON_LAYOUTS)
def test_a_section_of_layouts_without_the_chosen_model_says_so(section):
    test = opened("layouts", **PLACE | {"model": "tiny-llama"}, layouts=section, edits=OFF.written)
    assert banner(test).startswith(":blue-badge[unedited pass] This section shows tiny-")
    assert banner(test).endswith(", and the edits are of tiny-llama.")
    assert [name for name in COMPARED if name in banner(test)] == [*SHOWN_ON_LAYOUTS[section]]


def test_what_is_asked_in_training_is_asked_of_the_edited_model():
    test = opened("training", **PLACE, edits=OFF.written)
    words = f"Their mean loss is **{number(next_token_targets(by_hand()).loss, 3)} nats**"
    assert words in said(test)
    test.button(key="compare_steps").click().run()
    assert test.session_state.compared.largest_difference < 1e-4
    test.toggle(key="edits_compared").set_value(True).run()
    assert words not in said(test)
    assert "The losses of the pass and of the steps" not in said(test), "that was of another pass"


@pytest.mark.parametrize(
    ("page", "section"), [("positions", {"positions": "Tables"}), ("training", {"lesson": "Train one, live"})]
)
def test_a_section_without_a_pass_of_the_prompt_says_so(page, section):
    [(name, words)] = section.items()
    test = opened(page, **PLACE, **section, edits=OFF.written)
    assert banner(test) == f":blue-badge[unedited pass] {UNEDITED_SECTIONS[title(page)][1][words]}"
    first = next(widget for widget in test.get("button_group") if widget.key == name).options[0]
    [widget] = [widget for widget in test.get("button_group") if widget.key == name]
    widget.set_value(first).run()
    assert banner(test).startswith(":orange-badge[edited pass]")


def test_generate_goes_on_under_the_edits_with_its_cache():
    test = opened("generate", **PLACE, edits=SCALE.written, greedy="true", new=4)
    run = test.session_state.generation_run
    steps = list(vm.load("tiny-gpt").generate(PROMPT, edits=[SCALE], max_new_tokens=4, temperature=0.0))
    assert [step.token for step in run.steps] == [step.token for step in steps]
    assert all(step.cache is not None and step.largest_difference < 1e-4 for step in run.steps)


def test_switch_off_switches_heads_of_the_edited_model_off():
    test = opened("switch_off", **PLACE, edits=OFF.written)
    found = vm.ablate(vm.load("tiny-gpt").edited([OFF]), PROMPT)
    assert drawn_matrices(test)["effect"][0] == pytest.approx(found.kl.numpy(), abs=1e-4)


def test_entries_are_switched_moved_numbered_and_removed():
    put = vm.SetValues(1, 0, "The king had a ring")
    test = opened("heads", **PLACE, edits=[put.written, vm.ScaleHead(1, 0, 0.0).written])
    test.button(key="edit_1_up").click().run()
    assert address_of(test)["edits"] == ["scale:1.0:0", put.written]
    test.number_input(key="edit_0_factor").set_value(3.0).run()
    assert address_of(test)["edits"] == ["scale:1.0:3", put.written]
    test.button(key="edit_1_on").click().run()
    assert address_of(test)["edits"] == ["scale:1.0:3", "!" + put.written]
    assert banner(test) == ":orange-badge[edited pass, this head too] What head 0 of layer 1 writes is multiplied by 3."
    test.button(key="edit_0_remove").click().run()
    assert address_of(test)["edits"] == ["!" + put.written]
    assert banner(test) == ":blue-badge[unedited pass] All edits in the list are off."
    np.testing.assert_allclose(weights(test), expected(), atol=1e-6)
    test.button(key="edits_clear").click().run()
    assert "edits" not in address_of(test)
    assert banner(test) == ""


@pytest.mark.parametrize(("part", "query", "key"), [("self", 3, 1), ("cross", 1, 4)])
def test_what_the_menus_add_is_of_the_chosen_head_and_cell(part, query, key):
    view = SimpleNamespace(part=part, layer=1, head=2, query=query, key=key)
    made = [make(view).written for make in (*HEAD_EDITS.values(), *CELL_EDITS.values())]
    place, cell = ("cross." * (part == "cross") + "1.2"), f"{query}.{key}"
    assert made == [f"off:{place}", f"mean:{place}", f"scale:{place}:2",
                    *(f"weight:{place}:{cell}:{weight}" for weight in ("0", "0.5", "1"))]  # fmt: skip


@pytest.mark.parametrize(
    ("form", "fields", "edit"),
    [
        ("scale", {"edit_factor": 2.5}, vm.ScaleHead(1, 0, 2.5)),
        ("values", {"edit_text": "The king had a ring"}, vm.SetValues(1, 0, "The king had a ring")),
        ("vector", {"edit_plus": "love", "edit_minus": "hate", "edit_strength": 3.0},
         vm.AddVector(1, "love", "hate", 3.0)),
    ],
)  # fmt: skip
def test_forms_add_to_the_list(form, fields, edit):
    test = opened("switch_off", **PLACE)
    for key, value in fields.items():
        kind = test.number_input if isinstance(value, float) else test.text_input
        kind(key=key).set_value(value)
    [submit] = [button for button in test.button if button.form_id == f"edit_{form}"]
    submit.click().run()
    assert not test.exception
    assert address_of(test)["edits"] == [edit.written]
    assert banner(test).startswith(":orange-badge[edited pass")
    assert edit.words in banner(test)


def test_a_form_without_its_text_says_what_is_missing():
    test = opened("switch_off", **PLACE)
    [submit] = [button for button in test.button if button.form_id == "edit_values"]
    submit.click().run()
    assert "The prompt is empty" in said(test)
    assert "edits" not in address_of(test)


@pytest.mark.parametrize(
    ("edits", "words"),
    [
        ("off:9.0", "tiny-gpt has no head 0 of layer 9."),
        ("off:cross.0.0", "There is no part 'cross'"),
        ("weight:0.0:99.0:0", "there is no query 99 in it"),
        ("weight:0.0:0.5:1", "The mask already forbids query 0 to read key 5."),
        ("values:0.0:all:", "The prompt is empty."),
        ("add:0:all:1:" + "a b " * 200 + ":b", "reads at most 256"),
        ("add:7:all:1:a:b", "tiny-gpt has no layer 7"),
    ],
)
def test_an_edit_that_does_not_fit_is_left_out_and_said(edits, words):
    test = opened("heads", **PLACE, edits=[edits, OFF.written])
    assert words in said(test)
    assert said(test).count("Left out:") == 1
    np.testing.assert_allclose(weights(test), expected(OFF), atol=1e-6)
    alone = opened("heads", **PLACE, edits=edits)
    assert banner(alone) == ":blue-badge[unedited pass] No edit of the list can be made here."
    np.testing.assert_allclose(weights(alone), expected(), atol=1e-6)
    assert address_of(alone)["edits"] == [edits], "it waits for a model or a prompt that it fits"


@pytest.mark.parametrize("junk", ["junk", "off:", "off:1.0:2", "scale:1.0:nan", "<b>x</b>", "off:1.0" * 999, "!", "🦊"])
def test_what_is_no_edit_is_left_out_and_said(junk):
    test = opened("heads", **PLACE, edits=[junk, OFF.written])
    assert "These parts of the link are not edits" in said(test)
    assert address_of(test)["edits"] == [OFF.written]
    np.testing.assert_allclose(weights(test), expected(OFF), atol=1e-6)
    test.button(key="edits_read").click().run()
    assert "These parts of the link are not edits" not in said(test)


def test_a_list_that_is_too_long_is_cut_and_said():
    written = [vm.ScaleHead(1, 0, 1 + n / 10).written for n in range(MOST + 3)]
    test = opened("heads", **PLACE, edits=written)
    assert address_of(test)["edits"] == written[:MOST]
    assert f"The list holds {MOST} edits, and the link has 3 more." in said(test)


def test_numbers_that_overflow_leave_the_unedited_pass(monkeypatch):
    from viz_model.model import overflow

    real = overflow._is_finite
    monkeypatch.setattr(
        overflow, "_is_finite", lambda tensor, **more: real(tensor, **more) and tensor.abs().max() < 1e5
    )
    test = opened("heads", **PLACE, edits=vm.ScaleHead(0, 0, 1e6).written)
    assert banner(test).startswith(
        ":blue-badge[unedited pass] With these edits the numbers of tiny-gpt become too large"
    )
    np.testing.assert_allclose(weights(test), expected(), atol=1e-6)


def test_edits_stay_with_another_page_prompt_and_model():
    test = opened("heads", **PLACE, edits=[OFF.written, "off:3.7"])
    switch_page(test, "inside_a_head").run()
    assert address_of(test)["edits"] == [OFF.written, "off:3.7"]
    np.testing.assert_allclose(weights(test), expected(OFF), atol=1e-6)
    test.text_area(key="prompt").set_value("The king had a ring").run()
    assert weights(test) == pytest.approx(expected(OFF, prompt="The king had a ring"), abs=1e-6)
    test.selectbox(key="model").set_value("induction").run()  # two layers
    assert "induction has no head 7 of layer 3" in said(test)
    assert banner(test).startswith(":orange-badge[edited pass] Head 0 of layer 0 is switched off.")


def test_an_empty_prompt_loses_no_edit():
    test = opened("heads", **PLACE, edits=OFF.written)
    test.text_area(key="prompt").set_value("").run()
    assert address_of(test)["edits"] == [OFF.written]
    assert not test.exception


@pytest.mark.parametrize("part", ["encoder", "decoder", "cross"])
def test_the_parts_of_an_encoder_decoder(part):
    edit = vm.SwitchOff(0, 1, part=part)
    test = opened("heads", model="tiny-seq2seq", prompt="5/3/24 (US)", part=part, head="1.1", edits=edit.written)
    trace = vm.load("tiny-seq2seq").trace("5/3/24 (US)", edits=[edit]).of(part)
    np.testing.assert_allclose(weights(test), trace.weights(1, 1), atol=1e-6)
    assert banner(test).startswith(f":orange-badge[edited pass] {edit.words}")


def test_the_form_of_the_list_reads_what_it_writes():
    form, listed = ListOfEdits(), (ListedEdit(OFF), ListedEdit(CELL, False))
    assert form.read(form.write(listed)) == listed
    assert form.fit(listed) == listed
    with pytest.raises(ValueError, match="no list of edits"):
        form.fit(("off:1.0",))
