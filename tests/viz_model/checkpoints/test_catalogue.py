"""What is said of a folder's weights before they are loaded."""

import torch
from safetensors.torch import save_file

from viz_model.checkpoints.catalogue import stored_as


def test_the_precision_is_that_of_most_numbers_not_of_most_or_first_tensors(tmp_path):
    few = {f"a{n}": torch.zeros(3) for n in range(4)}
    save_file(few | {"z": torch.zeros(9, 9, dtype=torch.float16)}, tmp_path / "model.safetensors")
    assert stored_as(tmp_path) == "float16"
