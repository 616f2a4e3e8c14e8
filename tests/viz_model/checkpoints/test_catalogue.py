"""What is said of a folder's weights before they are loaded; and that a bad folder hurts none beside it."""

import json
import struct
from importlib import import_module
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel

from tests.support.damage import unreadable
from tests.support.small_models import make_model, small_config
from viz_model import checkpoints
from viz_model.checkpoints.catalogue import stored_as
from viz_model.errors import CheckpointError, VizError
from viz_model.paths import ROOT


def test_the_precision_is_that_of_most_numbers_not_of_most_or_first_tensors(tmp_path):
    few = {f"a{n}": torch.zeros(3) for n in range(4)}
    save_file(few | {"z": torch.zeros(9, 9, dtype=torch.float16)}, tmp_path / "model.safetensors")
    assert stored_as(tmp_path) == "float16"


SOURCE = {"name": "n", "source": "s", "licence": "l", "fetched": "f", "parameters": 1, "has_tokenizer": True}


def nested_gguf(folder: Path) -> None:
    """A field that is an array of an array of … 5,000 times."""
    field = struct.pack("<Q3sI", 3, b"key", 9) + struct.pack("<IQ", 9, 1) * 5000
    (folder / "deep.gguf").write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + field)


def with_source(**values):
    def damage(folder: Path) -> None:
        checkpoints.save(folder, make_model(small_config()), None)
        (folder / "source.json").write_text(json.dumps(SOURCE | values))

    return damage


def deep_json(name: str):
    def damage(folder: Path) -> None:
        with_source()(folder)
        (folder / name).write_text("[" * 100_000)

    return damage


def foreign(name: str, value: object):
    def damage(folder: Path) -> None:
        with_source()(folder)
        (folder / name).write_text(json.dumps(value))

    return damage


DAMAGE = {
    "nested gguf": nested_gguf,
    "deep config": deep_json("config.json"),
    "deep source": deep_json("source.json"),
    "source is a list": foreign("source.json", [1, 2]),
    "source lacks fields": foreign("source.json", {"name": "n"}),
    "config of lists": foreign("config.json", {"model_type": ["llama"], "hidden_size": [1], "architectures": {}}),
    "a family that is a number": foreign(
        "config.json",
        {"model_type": 7, "vocab_size": 5, "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2},
    ),
    **{f"{field} is {value!r}": with_source(**{field: value})
       for field in SOURCE for value in (None, [], {"a": 1}, "x" if field in ("parameters", "has_tokenizer") else 3)},
    "parameters are negative": with_source(parameters=-1),
}  # fmt: skip


@pytest.fixture
def shelf(monkeypatch, tmp_path):
    monkeypatch.setattr(checkpoints, "FOLDER", tmp_path / "checkpoints")
    monkeypatch.setenv("VIZ_FETCHED", str(tmp_path / "checkpoints" / "fetched"))
    checkpoints.save(checkpoints.FOLDER / "whole", make_model(small_config()), None)
    (checkpoints.FOLDER / "whole" / checkpoints.WEIGHTS_FILE).chmod(0o644)
    return checkpoints.FOLDER


def here() -> list[str]:
    return [entry.name for entry in checkpoints.catalogue() if entry.folder]


@pytest.mark.parametrize("place", [".", "fetched"])
@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_folder_is_left_out_and_named_with_a_sentence(shelf, damage, place):
    folder = shelf / place / "bad"
    folder.mkdir(parents=True)
    damage(folder)
    assert here() == ["whole"]
    [found] = checkpoints.damaged()
    assert found.folder == folder
    assert str(Path("checkpoints", place, "bad")) in found.problem
    assert str(shelf) not in found.problem, "a visitor reads this"
    assert found.problem.endswith(".")
    with pytest.raises(VizError):
        checkpoints.describe(folder)


def test_a_folder_that_nobody_may_look_into_is_named_too(shelf):
    checkpoints.save(shelf / "closed", make_model(small_config()), None)
    (shelf / "link").symlink_to(shelf / "closed" / "deeper")
    with unreadable(shelf / "closed"):
        assert here() == ["whole"]
        [found] = checkpoints.damaged()
        assert found.folder == shelf / "closed"
        assert "Permission denied" in found.problem


def test_a_fault_of_a_reader_is_that_of_one_folder(shelf, monkeypatch):
    checkpoints.save(shelf / "bad", make_model(small_config()), None)
    whole = checkpoints.describe(shelf / "whole")

    def describe(folder):
        if folder.name == "bad":
            raise ZeroDivisionError("of a library")
        return whole

    monkeypatch.setattr(import_module("viz_model.checkpoints.catalogue"), "describe", describe)
    assert here() == ["whole"]
    [found] = checkpoints.damaged()
    assert "ZeroDivisionError: of a library" in found.problem


def test_a_folder_is_read_again_where_one_of_its_files_has_changed_and_only_there(shelf, monkeypatch):
    read = []
    catalogue = import_module("viz_model.checkpoints.catalogue")
    original = catalogue.describe
    monkeypatch.setattr(catalogue, "describe", lambda folder: read.append(folder.name) or original(folder))
    folder = shelf / "whole"
    config = folder / checkpoints.CONFIG_FILE

    def looked(times: int) -> list[str]:
        read.clear()
        for _ in range(times):
            here()
        return read

    assert looked(3) == ["whole"]
    assert looked(3) == []
    changes = [
        lambda: config.write_text(config.read_text() + " "),
        lambda: config.chmod(0o600),
        lambda: (folder / "heads.json").write_text("{}"),
        lambda: (folder / "heads.json").unlink(),
        lambda: config.rename(folder / "other.json"),
    ]
    for change in changes:
        change()
        assert looked(3) == ["whole"]
    assert here() == []
    (folder / "other.json").rename(config)
    assert here() == ["whole"]


def test_what_holds_nothing_of_a_model_is_no_damaged_one(shelf):
    (shelf / "fetched").mkdir()
    (shelf / "notes").mkdir()
    (shelf / "notes" / "README.md").touch()
    (shelf / ".half.unfinished").mkdir()
    assert here() == ["whole"]
    assert checkpoints.damaged() == []


@pytest.mark.parametrize("name", ["", checkpoints.CONFIG_FILE, checkpoints.WEIGHTS_FILE])
@pytest.mark.parametrize("of", ["ours", "library"])
def test_what_may_not_be_read_is_said_as_such(shelf, of, name):
    folder = shelf / "whole"
    if of == "library":
        sizes = {"vocab_size": 67, "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 32}
        GPT2LMHeadModel(GPT2Config(**sizes)).save_pretrained(folder)
    for path in folder.iterdir():
        path.chmod(0o644)
    with unreadable(folder / name):
        for use in (checkpoints.describe, checkpoints.load):
            with pytest.raises(CheckpointError, match="Permission denied") as caught:
                use(folder)
            assert str(folder / name) in str(caught.value)
            assert "missing" not in str(caught.value)
            assert "No such file" not in str(caught.value)


def test_a_folder_of_ones_own_with_the_name_of_a_bundled_model_is_ones_own(tmp_path):
    (tmp_path / "tiny-gpt").mkdir()
    for path in (ROOT / "checkpoints" / "induction").iterdir():
        (tmp_path / "tiny-gpt" / path.name).symlink_to(path)
    own, bundled = checkpoints.describe(tmp_path / "tiny-gpt"), checkpoints.describe(ROOT / "checkpoints" / "tiny-gpt")
    assert (own.state, own.licence, own.source) == ("own", "licence not stated", str(tmp_path / "tiny-gpt"))
    assert (bundled.state, bundled.licence, bundled.source) == ("bundled", "MIT", "checkpoints/tiny-gpt")
