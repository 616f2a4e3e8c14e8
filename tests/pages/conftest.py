from types import SimpleNamespace

import pytest

from tests.support.reading import read_bundled_models_once
from viz_model.checkpoints import shelf

read_bundled_models_once()


@pytest.fixture(autouse=True, scope="module")
def _small_models_take_no_room():
    """A model is loaded without a search for garbage, which walks through all of torch: half of a page's work."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(shelf, "garbage", SimpleNamespace(collect=lambda: None, freeze=lambda: None))
        yield
