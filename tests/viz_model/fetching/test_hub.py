"""A model of the Hub, fetched by the real huggingface_hub from a server of our own."""

import json

import pytest

import viz_model as vm
from viz_model import fetching
from viz_model.errors import FetchError
from viz_model.fetching import fetch, read_source
from viz_model.fetching.hub import File, wanted_files

NAME = "org/small"
WHOLE = ["config.json", "model.safetensors"]
PARTS = ["config.json", "model.safetensors.index.json"]
PARTS += [f"model-0000{part}-of-00002.safetensors" for part in (1, 2)]
TEXTS = {"README.md": b"# small", "LICENSE": b"The licence."}


def names(*files):
    return [File(name, 1, None, None) for name in files]


def test_what_a_model_is_made_of_and_nothing_else(index, files, shelf, monkeypatch):
    found = json.dumps({"parameters": 1234, "has_tokenizer": False})  # the trial itself is tested in test_wheel
    monkeypatch.setattr(fetching, "_command", lambda *words, **options: found)
    others = dict.fromkeys(["pytorch_model.bin", "tf_model.h5", "evil.py", "onnx/config.json", ".gitattributes"], b"x")
    index.add_repository(NAME, files | TEXTS | others, large=["model.safetensors"])
    folder = fetch(NAME, shelf)
    assert folder == shelf / "org--small"
    assert {path.name for path in folder.iterdir()} == {*files, *TEXTS, "source.json"}
    assert {name: (folder / name).read_bytes() for name in files} == files
    assert not any(path.endswith(tuple(others)) for path in index.sent), "what is not wanted is not asked for"
    source = read_source(folder)
    assert (source.name, source.licence) == (NAME, "apache-2.0")
    assert source.source == "Hugging Face Hub: org/small, revision abc1234"
    assert vm.load(NAME).config == vm.load(folder).config
    [entry] = [entry for entry in vm.catalogue() if entry.name == NAME]
    assert (entry.state, entry.licence, entry.parameters) == ("fetched", "apache-2.0", 1234)


@pytest.mark.parametrize("changed", ["model.safetensors", "config.json"])
def test_a_file_that_is_not_what_the_hub_says(index, files, shelf, changed):
    index.add_repository(NAME, files, large=["model.safetensors"])
    content = index.files[f"/{NAME}/resolve/abc1234def/{changed}"]
    index.files[f"/{NAME}/resolve/abc1234def/{changed}"] = content[:-1] + b"?"
    with pytest.raises(FetchError, match=rf"{changed} is not the file that"):
        fetch(NAME, shelf)
    assert [path.name for path in shelf.iterdir()] == [".lock"]


def test_a_model_that_is_not_there_and_a_hub_that_is_not_there(index, shelf, monkeypatch):
    with pytest.raises(FetchError, match=r"There is no model org/none on the Hub, or it is private"):
        fetch("org/none", shelf)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(FetchError, match=r"The Hub could not be asked for org/small. Check the network"):
        fetch(NAME, shelf)


def test_a_model_that_no_memory_here_can_hold_is_not_fetched(index, files, shelf, monkeypatch):
    monkeypatch.setattr("viz_model.fetching.hub.total_bytes", lambda: 8 * 10**9)
    index.add_repository(NAME, files, safetensors={"parameters": {"F32": 7 * 10**9}, "total": 7 * 10**9})
    with pytest.raises(FetchError, match=r"needs 28 GB of memory, but this machine has 8 GB"):
        fetch(NAME, shelf)
    assert not any("resolve" in path for path in index.sent)


@pytest.mark.parametrize(
    ("there", "gguf", "wanted"),
    [
        ([*WHOLE, "vocab.txt", "x.py"], None, [*WHOLE, "vocab.txt"]),
        ([*PARTS, "consolidated.safetensors", "tokenizer.model"], None, [*PARTS, "tokenizer.model"]),
        ([*WHOLE, "model-00001-of-00001.safetensors", "model.fp16.safetensors"], None, WHOLE),
        (["a.Q4_1.gguf", "a.Q8_0.gguf", "README.md", "config.json"], "a.Q8_0.gguf", ["a.Q8_0.gguf", "README.md"]),
        ([*WHOLE, "source.spm", "target.spm"], None, [*WHOLE, "source.spm", "target.spm"]),
    ],
)
def test_wanted_files(there, gguf, wanted):
    assert sorted(file.name for file in wanted_files("org/m", names(*there), gguf)) == sorted(wanted)


@pytest.mark.parametrize(
    ("there", "gguf", "words"),
    [
        (["config.json", "pytorch_model.bin"], None, "a pickle can run any code"),
        (["model.safetensors"], None, "has no config.json"),
        (["b.gguf", "a.gguf"], None, "Say which file: org/m/a.gguf, or one of b.gguf"),
        (["a.gguf"], "c.gguf", "has no file c.gguf. Its GGUF files: a.gguf"),
    ],
)
def test_models_without_weights_that_may_be_read(there, gguf, words):
    with pytest.raises(FetchError, match=words.replace(".", r"\.")):
        wanted_files("org/m", names(*there), gguf)
