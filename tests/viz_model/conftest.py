import torch

from tests.support.reading import read_bundled_models_once

# Small shapes gain nothing from a pool of workers, and eight threads with a pool each are ten times slower.
torch.set_num_threads(1)
read_bundled_models_once()
