"""A copy of modules that shares their numbers, for whoever changes what some of them compute."""

import copy

from torch import nn


def sharing_copy(module: nn.Module, *also: object) -> nn.Module:
    """The module and all below it copied, but for their parameters and buffers, which are those of the original.

    also: what else the copy shall share with it.
    """
    shared = [*module.parameters(), *module.buffers(), *also]
    return copy.deepcopy(module, {id(one): one for one in shared})
