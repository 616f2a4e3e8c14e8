"""The file with the names of a model's heads: what is written is read, part by part; a damaged one is passed over."""

import json
import os
from types import SimpleNamespace

import pytest

import viz_model as vm
from viz_model.checkpoints.head_names import HEAD_NAMES_FILE, head_names, keep_head_names
from viz_model.heads.names import HeadName, HeadNames

CONFIG = SimpleNamespace(parts=("encoder", "cross"), n_heads=2, layers_of=lambda part: 1 if part == "encoder" else 2)


def names(layers, share, windows=16):
    one = HeadName(("first token",), "first token", share, share, share)
    return HeadNames("of a text", windows, 100, ((one, one),) * layers)


def test_parts_are_kept_beside_each_other(tmp_path):
    assert head_names(tmp_path, CONFIG) == {}
    keep_head_names(tmp_path, CONFIG, {"encoder": names(1, 0.75)})
    keep_head_names(tmp_path, CONFIG, {"cross": names(2, 0.5)})
    assert head_names(tmp_path, CONFIG) == {"encoder": names(1, 0.75), "cross": names(2, 0.5)}
    keep_head_names(tmp_path, CONFIG, {"cross": names(2, 0.625, windows=64)})
    assert head_names(tmp_path, CONFIG) == {"encoder": names(1, 0.75), "cross": names(2, 0.625, windows=64)}
    assert os.listdir(tmp_path) == [HEAD_NAMES_FILE]


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe", b'{"encoder": 3}', b"[" * 100_000])
def test_a_damaged_file_has_no_names_and_is_written_anew(tmp_path, content, caplog):
    (tmp_path / HEAD_NAMES_FILE).write_bytes(content)
    assert head_names(tmp_path, CONFIG) == {}
    keep_head_names(tmp_path, CONFIG, {"encoder": names(1, 0.75)})
    assert head_names(tmp_path, CONFIG) == {"encoder": names(1, 0.75)}


def test_names_of_another_model_are_passed_over(tmp_path):
    other = SimpleNamespace(parts=("encoder",), n_heads=2, layers_of=lambda _: 3)
    keep_head_names(tmp_path, other, {"encoder": names(3, 0.75)})
    assert json.loads((tmp_path / HEAD_NAMES_FILE).read_text())
    assert head_names(tmp_path, CONFIG) == {}


def test_a_folder_that_is_not_there_keeps_nothing(tmp_path):
    with pytest.raises(vm.CheckpointError, match="cannot be kept"):
        keep_head_names(tmp_path / "gone", CONFIG, {"encoder": names(1, 0.75)})
