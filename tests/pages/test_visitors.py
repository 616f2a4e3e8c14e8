"""What a visitor of a shared server sees and can do: look at the models that it offers, and nothing of its disk."""

import json
import re

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

import viz_model as vm
from pages.training import after
from tests.support.app import MAIN, ROOT, at, blobs_of, opened
from tests.support.small_models import make_model, small_config
from tests.support.small_tokenizers import small_tokenizer
from viz_model import fetching
from viz_model.checkpoints import save
from viz_model.fetching import Source
from viz_ui.components.shared.packing import unpack
from viz_ui.frame.loaded_models import (
    begin_fetch,
    cancel_fetch,
    fetcher,
    load_model,
    open_folder,
    opened_folders,
    remove_fetched,
    shelf,
)
from viz_ui.frame.visitors import NotForVisitors, told
from viz_ui.sharing.settings import sharing

TOKENIZER = small_tokenizer()


@pytest.fixture(autouse=True)
def offers(tmp_path, monkeypatch):
    """A shared server with a model of its own and a fetched one; and on its disk what is nobody's business."""
    share(monkeypatch)
    monkeypatch.setenv("VIZ_FETCHED", str(tmp_path / "shelf" / "fetched"))
    make(tmp_path / "shelf" / "fetched" / "fetched-one")
    source = Source("fetched-one", "a package", "MIT", "2026-01-02", 1000, True)
    (tmp_path / "shelf" / "fetched" / "fetched-one" / fetching.SOURCE_FILE).write_text(json.dumps(vars(source)))
    make(tmp_path / "private" / "whole")
    (tmp_path / "private" / "config.json").write_text('{"auths": {}, "credsStore": "x"}')
    yield
    st.cache_resource.clear()
    sharing.cache_clear()


def share(monkeypatch, **settings):
    """From now on the server is shared, with these settings."""
    for name, value in ({"VIZ_SHARE": "lab.example.edu"} | settings).items():
        monkeypatch.setenv(name, value)
    sharing.cache_clear()
    st.cache_resource.clear()


def make(folder):
    save(folder, make_model(small_config(vocab_size=TOKENIZER.vocab_size)), TOKENIZER)


def sent(test) -> str:
    """All that a page sent, letters and bytes."""
    nodes = [node for place in (test.main, test.sidebar) for node in place if node.proto is not None]
    return "\n".join(node.proto.SerializeToString().decode("utf-8", "replace") for node in nodes)


def rows(test) -> dict:
    [head] = [head for blob in blobs_of(test) if "rows" in (head := unpack(blob)[0])]
    return {row["name"]: row for row in head["rows"]}


def buttons(test) -> set[str]:
    words = {act["words"] for row in rows(test).values() for act in row["acts"]}
    return words | {button.label for button in [*test.main.button, *test.sidebar.button]}


def sentences(test) -> str:
    shown = [*test.main.caption, *test.main.info, *test.main.markdown, *test.sidebar.warning, *test.sidebar.caption]
    return "\n".join(element.value for element in shown).replace("\\", "")


def test_a_visitor_chooses_among_the_models_that_are_offered(tmp_path):
    test = opened("models")
    assert {"tiny-gpt", "fetched-one"} <= rows(test).keys()
    assert buttons(test) == {"Look at it", "Chosen"}
    assert not test.text_input
    assert sentences(test).count("This server is shared") == 1
    test = opened("models", **at(model="fetched-one"))
    assert rows(test)["fetched-one"]["chosen"]
    assert str(tmp_path) not in sent(test)


def test_who_sits_at_the_computer_has_all_of_it(monkeypatch):
    share(monkeypatch, VIZ_SHARE="")
    test = opened("models")
    assert {"Look at it", "Remove", "Fetch", "Open", "Fetch 92.9 MB"} <= buttons(test)
    assert len(test.text_input) == 2
    assert "This server is shared" not in sentences(test)


@pytest.mark.parametrize(
    ("acts", "there", "not_there"),
    [
        ("fetch", {"Fetch", "Fetch 92.9 MB"}, {"Open", "Remove"}),
        ("folders", {"Open"}, {"Fetch", "Fetch 92.9 MB", "Remove"}),
        ("remove", {"Remove"}, {"Open", "Fetch"}),
    ],
)
def test_what_visitors_are_allowed_is_there_and_the_rest_is_named_in_one_sentence(monkeypatch, acts, there, not_there):
    share(monkeypatch, VIZ_VISITORS=acts)
    test = opened("models")
    assert there <= buttons(test)
    assert not not_there & buttons(test)
    assert sentences(test).count("This server is shared") == 1


@pytest.mark.parametrize("page", ["heads", "models"])
def test_a_link_to_a_folder_tells_nothing_of_it(tmp_path, page):
    """One that is there, one with a config.json of somebody's, a whole model, one that is not there: all the same."""
    answers = set()
    for place in (
        "/etc",
        str(tmp_path / "private"),
        str(tmp_path / "private" / "whole"),
        "/no/such/place",
        "/etc/passwd",
    ):
        test = opened(page, model=place)
        assert test.sidebar.selectbox(key="model").value == "tiny-gpt"
        assert place not in test.sidebar.selectbox(key="model").options
        assert "auths" not in sent(test)
        said = sentences(test).replace(place, "PLACE")
        answers.add(re.sub(r"[\d.]+ .B of memory is free", "", said))
    [answer] = answers
    assert "The model PLACE is not here" in answer


def test_a_forged_choice_loads_no_folder(tmp_path):
    """A browser can send any text as the choice of a model."""
    whole = str(tmp_path / "private" / "whole")
    test = AppTest.from_file(MAIN, default_timeout=120)
    test.session_state["model"] = whole
    test.session_state["folders"] = [whole]
    test.run()
    assert not test.exception
    assert test.sidebar.selectbox(key="model").value == "tiny-gpt"
    assert whole not in shelf().names


def test_what_is_not_for_visitors_is_refused_where_it_is_done(tmp_path):
    whole = str(tmp_path / "private" / "whole")
    for name in (whole, "/etc", str(ROOT / "checkpoints" / "tiny-gpt"), "checkpoints/tiny-gpt", "."):
        with pytest.raises(vm.CheckpointError, match="does not offer"):
            load_model(name)
        with pytest.raises(NotForVisitors, match="not open folders"):
            open_folder(name)
    assert opened_folders() == []
    with pytest.raises(NotForVisitors, match="not remove models"):
        remove_fetched("fetched-one")
    assert (tmp_path / "shelf" / "fetched" / "fetched-one").is_dir()
    begin_fetch("SmolLM2-135M-Instruct")
    assert not fetcher().coming
    assert "not fetch models" in st.session_state.fetch_problem


def test_a_visitor_cannot_cancel_what_is_being_fetched(monkeypatch):
    asked = []
    monkeypatch.setattr(type(fetcher()), "cancel", lambda self, name: asked.append(name))
    cancel_fetch("SmolLM2-135M-Instruct")
    assert asked == []


@pytest.mark.parametrize("damage", ["config", "weights"])
def test_a_damaged_model_says_nothing_of_its_files(tmp_path, damage, caplog):
    folder = tmp_path / "shelf" / "fetched" / "fetched-one"
    config = folder / "config.json"
    if damage == "config":
        config.write_text(config.read_text().replace("{", '{"credsStore": 1,', 1))
    else:
        vector = folder / "tokenizer.json"
        vector.write_text("{}") if vector.exists() else (folder / "heads.json").write_text("[1]")
    for page in ("heads", "models"):
        test = opened(page, model="fetched-one")
        assert str(tmp_path) not in sent(test)
        for word in ("credsStore", "config.json", "tokenizer.json", "heads.json", "damaged"):
            assert word not in sent(test), word
    if damage == "weights":
        assert "The model fetched-one cannot be used" in sentences(test)
        assert str(folder) in caplog.text


def test_a_page_that_brings_its_own_models_says_nothing_of_their_files(tmp_path, monkeypatch):
    for name in ("tiny-gpt", "tiny-bert"):
        make(tmp_path / "shelf" / name)
    monkeypatch.setattr("viz_model.checkpoints.FOLDER", tmp_path / "shelf")
    (tmp_path / "shelf" / "tiny-bert" / "heads.json").write_text("[1]")
    test = opened("layouts", prompt="a king")
    assert "The model tiny-bert cannot be used" in sentences(test)
    assert "heads.json" not in sent(test)
    assert str(tmp_path) not in sent(test)


def test_a_model_that_was_kept_does_not_say_where(tmp_path, monkeypatch):
    monkeypatch.setattr("viz_model.checkpoints.FOLDER", tmp_path / "shelf")
    make(tmp_path / "shelf" / "tiny-gpt")
    make(tmp_path / "shelf" / "kept-here")
    test = opened("models")
    assert "checkpoints/kept-here" in rows(test)["kept-here"]["about"]
    assert str(tmp_path) not in sent(test)


@pytest.mark.parametrize(
    "problem",
    [
        "The model cannot be written to /srv/app/checkpoints/x. No space left.",
        "[Errno 13] Permission denied: '/root/.cache'",
        r"C:\Users\me\x cannot be read.",
        "There is nothing in ~/models.",
    ],
)
def test_no_problem_names_a_place_to_a_visitor(problem, monkeypatch, caplog):
    assert told(problem) == "That did not work. Whoever runs this server can read the reason in its log."
    assert problem in caplog.text
    share(monkeypatch, VIZ_SHARE="")
    assert told(problem) == problem


@pytest.mark.parametrize(
    "problem",
    [
        "Give ORGANISATION/NAME, such as openai-community/gpt2.",
        "https://huggingface.co/openai-community/gpt2 does not answer.",
        "The prompt has 3,000 tokens.",
    ],
)
def test_other_problems_are_told(problem):
    assert told(problem) == problem


def test_a_trained_model_is_not_kept(monkeypatch):
    test = AppTest.from_string("from pages.training.after import draw_keep\ndraw_keep(None)").run()
    assert not test.exception
    assert not test.text_input
    assert not test.button
    assert "not keep trained models" in test.caption[0].value
    monkeypatch.setattr(after, "keep", lambda training, name: pytest.fail("it was kept"))
    after._keep()
    assert "not keep trained models" in st.session_state.live_keep_problem
