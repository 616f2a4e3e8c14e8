import pytest
import torch
import transformers

from tests.support.reading import read_bundled_models_once

# Small shapes gain nothing from a pool of workers, and eight threads with a pool each are ten times slower.
torch.set_num_threads(1)
read_bundled_models_once()


@pytest.fixture(autouse=True, scope="module")
def _quiet():
    """The library says nothing of small configs that it finds odd."""
    before = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    yield
    transformers.logging.set_verbosity(before)
