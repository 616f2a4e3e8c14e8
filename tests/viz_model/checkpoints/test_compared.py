"""What is said of the families that were compared, read from the file that the tests write."""

import json

import pytest

from viz_model import checkpoints
from viz_model.checkpoints.compared import COMPARED_FILE, Compared, read_compared

TOLD = {"date": "2026-01-02", "largest_difference": 1.5e-6, "cases": 12, "transformers": "5.24.0"}


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "FOLDER", tmp_path)
    return tmp_path / COMPARED_FILE


def test_families_by_name(file):
    file.write_text(json.dumps({"gptoss": TOLD, "Llama": TOLD | {"cases": 3}, "Bert": TOLD}))
    found = read_compared()
    assert [each.family for each in found] == ["Bert", "gptoss", "Llama"]
    assert found[2] == Compared("Llama", "2026-01-02", 1.5e-6, 3, "transformers 5.24.0")


@pytest.mark.parametrize(
    "text", [None, "", "{", "[]", "3", '{"Llama": {}}', '{"Llama": 3}', '{"Llama": {"date": "x"}}']
)
def test_without_a_whole_file_nothing_is_claimed(file, text):
    if text is not None:
        file.write_text(text)
    assert read_compared() == []
