"""Checkpoints: there and back, the catalogue, and every kind of damage as a sentence."""

import json
import os
import pickle
import struct
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import viz_model as vm
from tests.support.small_models import make_model, random_ids, small_config, small_model
from tests.support.small_tokenizers import small_tokenizer
from tests.support.sources import ROOT
from viz_model import checkpoints
from viz_model.checkpoints import CONFIG_FILE, HEADS_FILE, WEIGHTS_FILE, files, load, save
from viz_model.errors import CheckpointError
from viz_model.fetching import OFFERS
from viz_model.model.tokenizer import FILE_NAME as TOKENIZER_FILE

TOKENIZER = small_tokenizer()


@pytest.fixture(autouse=True)
def shelf(tmp_path, monkeypatch):
    """The folder of the catalogue, empty."""
    monkeypatch.setattr(checkpoints, "FOLDER", tmp_path / "checkpoints")
    checkpoints.FOLDER.mkdir()
    return checkpoints.FOLDER


@pytest.fixture
def folder(shelf):
    """A whole checkpoint in the catalogue."""
    save(shelf / "whole", small_model(vocab_size=TOKENIZER.vocab_size), TOKENIZER)
    return shelf / "whole"


def catalogue():
    """What is here; what can be fetched besides is always there."""
    return [entry for entry in checkpoints.catalogue() if entry.folder]


def refused(folder, *words):
    """Loading this folder ends with a sentence that holds all the words."""
    with pytest.raises(CheckpointError) as caught:
        load(folder)
    for word in words:
        assert word in str(caught.value)
    assert not isinstance(caught.value.__cause__, CheckpointError)  # one sentence, not two in a row


@pytest.mark.parametrize("position", ["none", "sinusoidal", "learned", "rotary"])
@pytest.mark.parametrize("others", [{}, {"tied_unembedding": False, "norm": "rms", "activation": "swiglu"}])
def test_what_is_saved_comes_back_in_half_precision(shelf, position, others):
    config = small_config(position=position, **others)
    saved = make_model(config)
    save(shelf / "small", saved, None)
    model = load("small")
    assert model.config == config
    assert (model.name, model.tokenizer, model.measured_heads) == ("small", None, {})
    state = model.transformer.state_dict()
    assert state.keys() == saved.state_dict().keys()
    for name, tensor in saved.state_dict().items():
        assert state[name].dtype == torch.float32
        assert torch.equal(state[name], tensor.half().float())
    assert not model.transformer.training
    assert not any(parameter.requires_grad for parameter in model.transformer.parameters())
    ids = random_ids(9)
    rounded = make_model(config)
    rounded.load_state_dict({name: tensor.half().float() for name, tensor in saved.state_dict().items()})
    torch.testing.assert_close(model.trace(ids.tolist()).logits, rounded(ids[None])[0], atol=1e-5, rtol=1e-5)


def test_the_files_are_of_open_formats(folder):
    save(folder, make_model(small_config(vocab_size=TOKENIZER.vocab_size)), TOKENIZER)  # over what is there
    assert {path.name for path in folder.iterdir()} == {CONFIG_FILE, WEIGHTS_FILE, TOKENIZER_FILE}
    assert all(tensor.dtype == torch.float16 for tensor in load_file(folder / WEIGHTS_FILE).values())
    assert json.loads((folder / CONFIG_FILE).read_text())["n_kv_heads"] == 2


def test_the_tokenizer_comes_back(folder):
    text = "the king, naïve 👍"
    model = load(folder)
    assert model.tokenizer.encode(text) == TOKENIZER.encode(text)
    assert model.trace(text).token_bytes == tuple(map(TOKENIZER.token_bytes, TOKENIZER.encode(text)))


def test_float32_weights_of_others_load_exactly(folder):
    weights = {name: tensor.float() + 1e-7 for name, tensor in load_file(folder / WEIGHTS_FILE).items()}
    save_file(weights, folder / WEIGHTS_FILE)
    state = load(folder).transformer.state_dict()
    assert all(torch.equal(state[name], weights[name]) for name in weights)


# The catalogue, and what a name means.


def test_the_catalogue_lists_each_whole_folder_once_and_no_other(shelf, folder):
    save(shelf / "another", small_model(), None)
    (shelf / "empty").mkdir()
    (shelf / "a file").write_text("x")
    (shelf / "broken link").symlink_to(shelf / "nowhere")
    (shelf / "round").symlink_to(shelf / "round")
    for name in ("no-config", "bad-config", "no-weights", "cut-weights", "weights-folder"):
        save(shelf / name, small_model(), None)
    (shelf / "no-config" / CONFIG_FILE).unlink()
    (shelf / "bad-config" / CONFIG_FILE).write_text("{")
    (shelf / "no-weights" / WEIGHTS_FILE).unlink()
    cut = shelf / "cut-weights" / WEIGHTS_FILE
    cut.write_bytes(cut.read_bytes()[:-1])
    (shelf / "weights-folder" / WEIGHTS_FILE).unlink()
    (shelf / "weights-folder" / WEIGHTS_FILE).mkdir()
    found = catalogue()
    assert [entry.name for entry in found] == ["another", "whole"]
    assert [entry.folder for entry in found] == [shelf / "another", shelf / "whole"]
    assert found[0].config == small_config()
    assert [entry.size for entry in found] == [os.path.getsize(entry.folder / WEIGHTS_FILE) for entry in found]
    for entry in found:
        assert load(entry.name).name == entry.name


def test_a_catalogue_without_a_folder_is_empty(shelf):
    shelf.rmdir()
    assert catalogue() == []
    with pytest.raises(CheckpointError, match="Models that are here: none"):
        load("tiny-gpt")


def test_a_name_of_the_catalogue_cannot_be_shadowed(folder, tmp_path, monkeypatch):
    save(tmp_path / "elsewhere" / "whole", small_model(), None)
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert load("whole").tokenizer is not None
    assert load(tmp_path / "elsewhere" / "whole").tokenizer is None
    assert load("../elsewhere/whole").tokenizer is None


def test_a_path_is_a_path_and_starts_where_python_runs(shelf, tmp_path, monkeypatch):
    save(tmp_path / "mine", small_model(), None)
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    for name in ("../mine", tmp_path / "mine", str(tmp_path / "mine"), "../mine/", "../below/../mine"):
        assert load(name).name == "mine"
    monkeypatch.chdir(tmp_path)
    for name in ("mine", "./mine", Path("mine")):
        assert load(name).name == "mine"
    monkeypatch.chdir(tmp_path / "mine")
    assert load(".").name == "mine"
    # Seen from the catalogue, "../mine" is there; it is not where Python runs, so it is not meant.
    (tmp_path / "below" / "deeper").mkdir()
    monkeypatch.chdir(tmp_path / "below" / "deeper")
    with pytest.raises(CheckpointError, match="no model or folder"):
        load("../mine")


@pytest.mark.parametrize(
    "name",
    ["", "nothing", "..", ".", "/", "/nowhere", "../../x", "a\0b", "\ud800", "x" * 5000, "~", "*", "None"],
)
def test_a_name_that_means_nothing_lists_what_there_is(folder, name, tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    with pytest.raises(CheckpointError) as caught:
        load(name)
    assert "whole" in str(caught.value) or CONFIG_FILE in str(caught.value)
    str(caught.value).encode()  # the screen can show it


# Damage.


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "cannot be read"),
        ("{", "cannot be read"),
        ("[" * 100_000, "cannot be read"),
        ('{"n_layers": ' + "9" * 5000 + "}", "cannot be read"),
        (b"\xff\xfe", "cannot be read"),
        ("[]", "it holds no fields"),
        ("null", "it holds no fields"),
        ('"x"', "it holds no fields"),
        ("{}", "lacks the fields context_length, d_model, n_heads, n_layers, vocab_size"),
        ('{"architectures": ["GPT2LMHeadModel"], "n_layer": 12}', "unknown fields architectures, n_layer"),
    ],
    ids=["empty", "cut", "deep", "long number", "bytes", "list", "null", "text", "no fields", "foreign"],
)
def test_a_damaged_config(folder, text, words):
    path = folder / CONFIG_FILE
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    refused(folder, str(path), words)
    assert catalogue() == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"n_heads": 5}, "d_model 24 cannot be split into n_heads 5"),
        ({"n_kv_heads": 3}, "n_kv_heads 3"),
        ({"n_layers": "2"}, "n_layers is '2'"),
        ({"n_layers": 0}, "n_layers is 0"),
        ({"n_layers": None}, "n_layers is None"),
        ({"vocab_size": 10**30}, "below 2⁶³"),
        ({"d_model": 24.5}, "d_model is 24.5"),
        ({"norm": "group"}, "norm is 'group'"),
        ({"layout": ["decoder-only"]}, "layout is"),
        ({"bias": 1}, "bias is 1"),
        ({"norm_epsilon": float("nan")}, "norm_epsilon is nan"),
        ({"colour": "blue"}, "unknown fields colour"),
    ],
)
def test_a_config_that_contradicts_itself(folder, change, words):
    change_config(folder, change)
    refused(folder, CONFIG_FILE, words)
    assert catalogue() == []


def change_config(folder, change):
    values = json.loads((folder / CONFIG_FILE).read_text())
    (folder / CONFIG_FILE).write_text(json.dumps(values | change))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"n_layers": 3}, "'blocks.2"),
        ({"n_layers": 1}, "blocks.1"),
        ({"n_layers": 10**9}, "1,000,000,000 layers"),
        ({"d_ff": 95}, "'blocks.0.ffn.up.weight'"),
        ({"d_ff": 10**15}, "'blocks.0.ffn.up.weight'"),
        ({"vocab_size": 262}, "'tokens.weight'"),
        ({"vocab_size": 10**12}, "'tokens.weight'"),
        ({"context_length": 25}, "'positions.weight'"),
        ({"position": "rotary"}, "positions.weight"),
        ({"position": "sinusoidal", "context_length": 10**15}, "positions.weight"),
        ({"n_kv_heads": 4}, "'blocks.0.attn.key.weight'"),
        ({"bias": False}, "bias"),
        ({"tied_unembedding": False}, "'unembedding.weight'"),
    ],
)
def test_a_config_of_another_model(folder, change, words):
    change_config(folder, change)
    refused(folder, WEIGHTS_FILE, words)


def test_a_context_that_no_memory_can_hold(shelf):
    save(shelf / "long", small_model(position="sinusoidal"), None)
    change_config(shelf / "long", {"context_length": 10**14})
    refused(shelf / "long", "more than this computer can hold")


@pytest.mark.parametrize("name", [CONFIG_FILE, WEIGHTS_FILE])
def test_a_missing_file(folder, name):
    (folder / name).unlink()
    refused(folder, str(folder / name), "is missing")
    assert catalogue() == []


@pytest.mark.parametrize("name", [CONFIG_FILE, WEIGHTS_FILE, TOKENIZER_FILE, HEADS_FILE])
def test_a_folder_in_place_of_a_file(folder, name):
    (folder / name).unlink(missing_ok=True)
    (folder / name).mkdir()
    refused(folder, str(folder / name))


@pytest.mark.parametrize("name", [CONFIG_FILE, WEIGHTS_FILE, TOKENIZER_FILE, HEADS_FILE])
def test_a_file_that_may_not_be_read(folder, name, monkeypatch):
    """As for another user: opening it fails, by whatever means it is opened."""

    def forbidden(*_arguments, **_options):
        raise PermissionError(13, "Permission denied", name)

    (folder / name).touch()
    original = Path.read_text
    monkeypatch.setattr(Path, "read_text", lambda path, *a: forbidden() if path.name == name else original(path, *a))
    if name == WEIGHTS_FILE:
        monkeypatch.setattr(files, "load_file", forbidden)
    refused(folder, str(folder / name), "Permission denied")


def test_weights_cut_off_at_any_length(folder):
    path = folder / WEIGHTS_FILE
    whole = path.read_bytes()
    header = 8 + struct.unpack("<Q", whole[:8])[0]
    lengths = [*range(0, header + 9, 97), header - 1, header, header + 1, *range(header, len(whole), 1777)]
    for length in [*lengths, len(whole) - 1]:
        path.write_bytes(whole[:length])
        refused(folder, str(path), "damaged or cut off")
        assert catalogue() == []
    path.write_bytes(whole + b"\0")
    refused(folder, str(path), "damaged or cut off")


class Evil:
    def __reduce__(self):
        return (open, (os.environ["EVIL"], "w"))


def test_a_pickle_is_never_loaded(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("EVIL", str(tmp_path / "was-here"))
    raw = pickle.dumps({"tokens.weight": Evil()})
    torch.save({"tokens.weight": Evil()}, tmp_path / "evil.pt")
    for data in (raw, (tmp_path / "evil.pt").read_bytes()):
        (folder / WEIGHTS_FILE).write_bytes(data)
        refused(folder, WEIGHTS_FILE, "damaged or cut off")
    assert not (tmp_path / "was-here").exists()


def rewrite(folder, change):
    weights = load_file(folder / WEIGHTS_FILE)
    change(weights)
    save_file(weights, folder / WEIGHTS_FILE)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda w: w.pop("final_norm.weight"), ("'final_norm.weight'", "missing")),
        (lambda w: w.pop("blocks.1.attn.key.bias"), ("'blocks.1.attn.key.bias'", "missing")),
        (lambda w: w.update(extra=torch.zeros(2)), ("extra", "does not know")),
        (
            lambda w: w.update({"blocks.0.attn.query.weight": torch.zeros(24, 23)}),
            ("'blocks.0.attn.query.weight'", "(24, 23)", "(24, 24)"),
        ),
        (
            lambda w: w.update({"final_norm.bias": torch.zeros(1, 24)}),
            ("'final_norm.bias'", "(1, 24)", "(24,)"),
        ),
        (lambda w: w.update({"final_norm.bias": torch.tensor(1.0)}), ("'final_norm.bias'", "()")),
        (lambda w: w["tokens.weight"][3].fill_(torch.nan), ("'tokens.weight'", "finite numbers")),
        (lambda w: w["blocks.0.ffn.up.bias"][0].fill_(-torch.inf), ("'blocks.0.ffn.up.bias'", "finite")),
        (
            lambda w: w.update({"final_norm.bias": torch.full((24,), 1e300, dtype=torch.double)}),
            ("'final_norm.bias'",),
        ),
        (lambda w: w.update({"final_norm.bias": torch.zeros(24, dtype=torch.int64)}), ("'final_norm.bias'",)),
        (lambda w: w.update({"final_norm.bias": torch.zeros(24, dtype=torch.bool)}), ("'final_norm.bias'",)),
        (
            lambda w: w.update({"final_norm.bias": torch.zeros(24, dtype=torch.cfloat)}),
            ("'final_norm.bias'",),
        ),
        (lambda w: w.clear(), ("0 tensors",)),
    ],
)
def test_weights_of_another_model_are_refused_with_the_tensors_name(folder, change, words):
    rewrite(folder, change)
    refused(folder, str(folder / WEIGHTS_FILE), *words)


def test_other_precisions_are_read(folder):
    for kind in (torch.bfloat16, torch.float64, torch.float8_e4m3fn):
        rewrite(folder, lambda w, kind=kind: w.update({name: tensor.to(kind) for name, tensor in w.items()}))
        assert torch.isfinite(load(folder).trace("the").logits).all()


@pytest.mark.parametrize(
    ("text", "words"),
    [("", "damaged"), ("AA== 0\n", "damaged"), ("!", "cannot be read"), ("AA== 0\nAA== 1\n", "damaged")],
)
def test_a_damaged_tokenizer(folder, text, words):
    (folder / TOKENIZER_FILE).write_text(text)
    refused(folder, str(folder / TOKENIZER_FILE), words)


def test_a_tokenizer_cut_at_a_line_or_of_another_model(folder):
    path = folder / TOKENIZER_FILE
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    refused(folder, "tokenizer", "260 tokens", "261", "do not belong together")


@pytest.mark.parametrize(
    "text",
    [
        *("{", "[]", "3", '{"induction": [[1, 2, 3, 4]]}', '{"induction": [[1, 2], [3]]}'),
        *('{"induction": "x"}', '{"induction": [["a", "b", "c", "d"], [1, 2, 3, 4]]}', '{"induction": null}'),
    ],
)
def test_damaged_figures_of_the_heads(folder, text):
    (folder / HEADS_FILE).write_text(text)
    refused(folder, str(folder / HEADS_FILE))


def test_figures_of_the_heads_come_along(folder):
    tables = {"induction": [[0.1, 0.2, 0.3, 0.4], [0, 1, 0.5, 0.25]]}
    (folder / HEADS_FILE).write_text(json.dumps(tables))
    assert load(folder).measured_heads == tables


def test_the_folder_of_the_project_is_the_catalogue(monkeypatch):
    monkeypatch.undo()
    assert ROOT / "checkpoints" == checkpoints.FOLDER
    assert vm.load is load
    assert vm.catalogue is checkpoints.catalogue
    assert vm.catalogue()[0].name == "tiny-gpt"
    assert [entry.name for entry in vm.catalogue() if not entry.folder] == list(OFFERS)
