"""A copy of modules that shares their numbers, for whoever changes what some of them compute."""

import copy

from torch import nn


def sharing_copy(module: nn.Module) -> nn.Module:
    """The module and all below it copied, but for their parameters and buffers, which are those of the original."""
    shared = [*module.parameters(), *module.buffers()]
    return copy.deepcopy(module, {id(tensor): tensor for tensor in shared})
