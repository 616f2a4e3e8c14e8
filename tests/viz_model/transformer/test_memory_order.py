"""The order of a model's numbers in memory: another one gives the same model."""

import torch

import viz_model as vm
from tests.support.small_models import random_ids, small_model
from viz_model.transformer.memory_order import order_for_decoding


def test_matrices_lie_along_their_longer_axis_and_give_the_same_numbers():
    host, ids = small_model(tied_unembedding=True, position="learned"), random_ids(2, 7)
    names = {name: (parameter.shape, parameter.clone()) for name, parameter in host.named_parameters()}
    before = host(ids, logits="all")
    order_for_decoding(host)
    assert host.blocks[0].ffn.up.weight.stride() == (1, host.config.d_ff)
    assert host.blocks[0].ffn.down.weight.is_contiguous()
    assert host.tokens.weight.stride()[0] == 1, "it makes the logits"
    assert host.positions.weight.is_contiguous(), "its rows are only looked up"
    for name, parameter in host.named_parameters():
        shape, numbers = names[name]
        assert parameter.shape == shape
        assert torch.equal(parameter, numbers)
    torch.testing.assert_close(host(ids, logits="all"), before, atol=1e-6, rtol=1e-5)


def test_a_model_that_is_loaded_is_ordered_and_can_be_saved_again(tmp_path):
    model = vm.load("tiny-gpt")
    assert model.transformer.blocks[0].ffn.up.weight.stride()[0] == 1
    vm.checkpoints.save(tmp_path / "again", model.transformer, model.tokenizer)
    again = vm.load(tmp_path / "again")
    torch.testing.assert_close(again.trace("Once upon").logits, model.trace("Once upon").logits, atol=1e-4, rtol=1e-4)
