"""What an address opens, and what a choice makes of it: old links, nonsense, models that are not here, Back."""

import ast

import pytest
from streamlit.testing.v1 import AppTest

import viz_model as vm
from tests.support.app import address_of, opened, switch_page
from tests.support.sources import ROOT
from viz_ui.frame.examples import EXAMPLES
from viz_ui.frame.forms import OneOf, SomeOf, SomeTexts, Switch, Text

PAGES = sorted(path.parent.name for path in (ROOT / "pages").glob("*/page.py"))
SOURCES = sorted(path for folder in ("pages", "viz_ui") for path in (ROOT / folder).rglob("*.py"))

PROMPT = "The red fox met a grey goose by the old mill. The red fox met a grey goose by the"
WHOLE = {"model": "tiny-gpt", "prompt": PROMPT}

SHORT = {"model": "tiny-seq2seq", "prompt": "5/3/24 (US)"}  # a model that reads little where a page reads by itself

MODELS = ["tiny-gpt", "tiny-bert", "tiny-seq2seq", "tiny-llama"]  # of each layout, and with rotary positions

UNREACHED = {  # parameters of states that no link alone brings about
    "sent": "a model with a chat template, and none of the bundled ones has one",
    "live_matrix": "a training that has ended",
}

HOSTILE = ["inf", "", "10" * 30, "-7", "٣", "<script>", "0.0.0", "none of these"]


def back_to(test: AppTest, page: str, monkeypatch, **former) -> AppTest:
    """What Back shows: the browser has this address again, and tells Streamlit that it comes from its history."""
    from viz_ui.frame import address as frame_address

    test.query_params.clear()
    for name, value in former.items():
        test.query_params[name] = value
    with monkeypatch.context() as patched:
        patched.setattr(frame_address, "_is_history", lambda: True)
        switch_page(test, page).run()
    assert not test.exception, test.exception
    return test


def chosen(test: AppTest) -> list[int]:
    return [test.number_input(key=key).value for key in ("layer", "head", "query", "key")]


OLD_LINKS = [
    ({"layer": "2", "head": "6", "query": "12", "key": "11"}, [2, 6, 12, 11], {"head": "2.6", "cell": "12.11"}),
    ({"layer": "0", "head": "6", "query": "0", "key": "0"}, [0, 6, 0, 0], {"head": "0.6", "cell": "0.0"}),
    ({"head": "6", "key": "3"}, [0, 6, 0, 3], {"head": "0.6", "cell": "0.3"}),
    ({"layer": "99", "head": "99", "query": "99", "key": "99"}, [3, 7, 20, 20], {"head": "3.7", "cell": "20.20"}),
    ({"head": "2.6", "cell": "12.11"}, [2, 6, 12, 11], {"head": "2.6", "cell": "12.11"}),
]


@pytest.mark.parametrize("page", ["heads", "inside_a_head"])
@pytest.mark.parametrize(("old", "numbers", "new"), OLD_LINKS, ids=repr)
def test_a_link_of_before_opens_the_same_head_and_cell(page, old, numbers, new):
    test = opened(page, **WHOLE, **old)
    assert chosen(test) == numbers
    assert address_of(test) == WHOLE | new


def test_old_pairs_of_pages_open():
    test = opened("quantization", **WHOLE, matrix_row="3", matrix_column="70")
    assert [test.number_input(key=f"matrix_{axis}").value for axis in ("row", "column")] == [3, 70]
    assert address_of(test)["matrix_cell"] == "3.70"
    test = opened("layouts", **WHOLE, layouts="Cross-attention", cross_layer="1", cross_head="3", digit="2", letter="4")
    assert (address_of(test)["cross_head"], address_of(test)["cross_cell"]) == ("1.3", "2.4")
    test = opened("training", **WHOLE, lesson="Train one, live", live_layer="1", live_head="2")
    assert address_of(test)["live_head"] == "1.2"


def test_a_choice_is_one_parameter_and_back_gives_it_again(monkeypatch):
    test = opened("heads", **WHOLE, head="2.6", cell="12.11")
    before = address_of(test)
    test.number_input(key="layer").set_value(3).run()
    assert address_of(test) == dict(test.query_params) == before | {"head": "3.6"}
    test.button_group(key="drawn").set_value("raw scores").run()
    after = before | {"head": "3.6", "drawn": "raw scores"}
    assert address_of(test) == dict(test.query_params) == after
    back_to(test, "heads", monkeypatch, **before)
    assert chosen(test) == [2, 6, 12, 11]
    assert test.button_group(key="drawn").value == "weights"
    assert address_of(test) == before
    back_to(test, "heads", monkeypatch, **after)  # Forward
    assert chosen(test) == [3, 6, 12, 11]
    assert test.button_group(key="drawn").value == "raw scores"


def test_back_across_pages_and_models_gives_what_was_there(monkeypatch):
    test = opened("masks", **WHOLE, head="1.2", cell="5.4", mask_a="prefix", prefix_a="7")
    before = address_of(test)
    switch_page(test, "heads").run()
    assert "mask_a" not in address_of(test)
    test.selectbox(key="model").set_value("induction").run()
    assert address_of(test)["model"] == "induction"
    back_to(test, "masks", monkeypatch, **before)
    assert address_of(test) == before
    assert (test.selectbox(key="model").value, test.selectbox(key="mask_a").value) == ("tiny-gpt", "prefix")
    assert test.number_input(key="prefix_a").value == 7
    assert chosen(test) == [1, 2, 5, 4]


def test_what_was_chosen_on_a_page_is_there_again_when_a_reader_comes_back_to_it():
    test = opened("heads", **WHOLE, drawn="raw scores")
    switch_page(test, "inside_a_head").run()
    assert "drawn" not in address_of(test)
    switch_page(test, "heads").run()
    assert test.button_group(key="drawn").value == address_of(test)["drawn"] == "raw scores"


@pytest.mark.parametrize(("typed", "becomes"), [(99, 3), (-1, 0), (2, 2)])
def test_a_number_out_of_range_becomes_the_nearest(typed, becomes):
    test = opened("heads", **WHOLE, head="1.6")
    test.number_input(key="layer").set_value(typed).run()
    assert test.number_input(key="layer").value == becomes
    assert address_of(test)["head"] == f"{becomes}.6"


def test_an_empty_prompt_loses_neither_head_nor_cell_nor_what_the_page_has():
    link = WHOLE | {"head": "2.6", "cell": "12.11", "drawn": "raw scores"}
    test = opened("heads", **link)
    test.text_area(key="prompt").set_value("").run()
    assert test.info
    assert address_of(test) == dict(test.query_params) == link | {"prompt": ""}
    test = opened("heads", **link | {"prompt": ""})  # the same as a link
    assert address_of(test) == link | {"prompt": ""}
    test.text_area(key="prompt").set_value(PROMPT).run()
    assert address_of(test) == link


@pytest.mark.parametrize("prompt", EXAMPLES.values(), ids=EXAMPLES)
def test_a_prompt_without_a_cell_begins_with_one_that_teaches(prompt):
    """As after each example: neither query 0, whose weight is 1, nor the last one, after which nothing is asked."""
    test = opened("heads", model="tiny-gpt", prompt=prompt)
    layer, head, query, key = chosen(test)
    trace = vm.load("tiny-gpt").trace(prompt)
    assert 0 < query < trace.length - 1
    assert key not in (0, query)
    assert trace.weights(layer, head)[query, key] > 1 / (query + 1)
    assert address_of(test)["cell"] == f"{query}.{key}"


@pytest.mark.parametrize("missing", ["no-such-model", "/no/such/folder", "\x00", "a" * 5000])
def test_a_model_that_is_not_here_is_said_so(missing):
    test = opened("heads", model=missing, prompt=PROMPT)
    [warning] = test.sidebar.warning
    assert "is not here" in warning.value
    assert "tiny\\-gpt" in warning.value
    assert len(warning.value) < 1000
    assert address_of(test)["model"] == "tiny-gpt"
    test.selectbox(key="model").set_value("induction").run()
    assert not test.sidebar.warning


def test_a_model_that_is_removed_while_it_is_looked_at_is_said_so(monkeypatch):
    test = opened("heads", model="tiny-llama", prompt=PROMPT)
    assert not test.sidebar.warning
    rest = [entry for entry in vm.catalogue() if entry.name != "tiny-llama"]
    monkeypatch.setattr(vm, "catalogue", lambda: rest)
    test.run()
    [warning] = test.sidebar.warning
    assert "tiny\\-llama is not here" in warning.value
    assert test.selectbox(key="model").value == address_of(test)["model"] == "tiny-gpt"


def hostile(parameters, keep, turn: int) -> dict[str, str]:
    """A hostile text for every parameter but those in `keep`; which one it is depends on the turn."""
    names = [name for name in parameters if name not in keep]
    return {name: HOSTILE[(n + turn) % len(HOSTILE)] for n, name in enumerate(names)}


def holds_against_nonsense(page: str, keep: dict[str, str], turns: int) -> AppTest:
    """Every parameter of the page in that state with hostile texts: it opens, and each is at its default or possible;
    gives the page as `keep` alone opens it."""
    test = opened(page, **keep)
    parameters = dict(test.session_state.visit.parameters)
    for turn in range(turns):
        wrong = opened(page, **keep | hostile(parameters, keep, turn))
        there = address_of(wrong)
        for name, parameter in wrong.session_state.visit.parameters.items():
            if name in keep or isinstance(parameter.form, Text | SomeTexts):
                continue
            if name in there and not parameter.is_always_there and name not in ("head", "cell", "matrix_cell"):
                raise AssertionError(f"{page}: {name} is {there[name]!r} where nonsense was asked for")
            if name in there:
                texts = there[name]
                parameter.form.read([texts] if isinstance(texts, str) else texts)
    return test


@pytest.mark.parametrize("page", PAGES)
def test_nonsense_in_any_parameter_of_a_page_is_passed_over(page):
    holds_against_nonsense(page, SHORT if page == "over_a_text" else dict(WHOLE), turns=2)


def options(parameter) -> list:
    """What a parameter can be in a link, other than its default: each option of a few, of many the last."""
    form = parameter.form
    if isinstance(form, Switch):
        return [form.write(not parameter.default)]
    if not isinstance(form, OneOf | SomeOf):
        return []
    others = [option for option in form.options if option != parameter.default]
    words = [OneOf(form.options, form.words).write(option) for option in others]
    return words if len(words) < 8 else words[-1:]


def declared_names() -> set[str]:
    """The names of all parameters in the sources; of one that is put together, what it begins with."""
    names = set()
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("linked", "held"):
                given = [keyword.value for keyword in node.keywords if keyword.arg == "key"]
                name = given[0] if given else node.args[0]
                if isinstance(name, ast.Constant):
                    names.add(name.value)
    return names


@pytest.mark.slow
def test_nonsense_in_any_parameter_of_any_state_is_passed_over():
    """States are found by what the pages themselves declare: each option of each choice, and what it brings along."""
    found = set()
    for page in PAGES:
        models = MODELS if page in ("heads", "training", "positions", "circuits") else ["tiny-gpt"]
        states, seen = [{"model": model, "prompt": PROMPT} for model in models], set()
        while states:
            state = states.pop()
            test = holds_against_nonsense(page, state, turns=1)
            parameters = test.session_state.visit.parameters
            fresh = {name for name in parameters if (page, name) not in seen}
            seen |= {(page, name) for name in fresh}
            found |= set(parameters)
            states += [
                state | {name: option} for name in fresh - {"model", "mask"} for option in options(parameters[name])
            ]
    assert declared_names() - found == UNREACHED.keys()


def test_every_widget_of_the_address_is_declared_where_it_stands():
    """No widget is bound by Streamlit itself, and nobody else reads or writes the address."""
    found = []
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            bound = isinstance(node, ast.keyword) and node.arg == "bind"
            bound |= isinstance(node, ast.Constant) and node.value == "query-params"
            own = isinstance(node, ast.Attribute) and node.attr == "query_params"
            if bound or (own and path.name != "address.py"):
                found.append(f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}")
    assert not found, f"bound without a declaration: {found}"
    assert len(declared_names()) > 50


SENTENCE = "The wolf met a girl in the wood."


def test_a_model_of_another_kind_of_text_begins_with_its_own_and_the_prompt_comes_back():
    test = opened("heads", model="tiny-gpt", prompt=SENTENCE)
    test.selectbox(key="model").set_value("tiny-bert").run()
    assert test.text_area(key="prompt").value == SENTENCE, "the same kind of text"
    test.selectbox(key="model").set_value("tiny-seq2seq").run()
    assert test.text_area(key="prompt").value in vm.load("tiny-seq2seq").examples.values()
    [said] = [info.value for info in test.sidebar.info]
    assert "another kind of text" in said
    assert "tiny\\-bert" in said
    test.selectbox(key="model").set_value("tiny-gpt").run()
    assert test.text_area(key="prompt").value == address_of(test)["prompt"] == SENTENCE
    assert not test.sidebar.info


def test_a_link_keeps_its_prompt_whatever_the_model_was_trained_on():
    test = opened("heads", model="tiny-seq2seq", prompt=SENTENCE)
    assert test.text_area(key="prompt").value == SENTENCE
    assert not test.sidebar.info


@pytest.mark.parametrize("how", ["pasted", "in a link"])
def test_a_text_longer_than_its_box_is_cut_and_that_is_said(how):
    text = "a " * 2047 + "b"  # 4,095 characters
    test = opened("heads", **{"model": "tiny-gpt"} | ({"prompt": text} if how == "in a link" else {}))
    if how == "pasted":
        [box] = [area.proto for area in test.sidebar.text_area if area.key == "prompt"]
        assert not box.max_chars, "the browser would drop a longer text"
        test.text_area(key="prompt").set_value(text).run()
    assert test.text_area(key="prompt").value == text[:4000]
    [said] = [warning.value for warning in test.sidebar.warning]
    assert "had 4,095 characters" in said
    assert "last 95 are cut off" in said
    test.run()  # whatever else is clicked
    assert [warning.value for warning in test.sidebar.warning] == [said]
    test.text_area(key="prompt").set_value("short").run()
    assert not test.sidebar.warning
