import torch

# Small shapes gain nothing from a pool of workers, and eight threads with a pool each are ten times slower.
torch.set_num_threads(1)
