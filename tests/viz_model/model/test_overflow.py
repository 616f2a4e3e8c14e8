"""Weights that are finite, and numbers of a pass that are not: one sentence, whatever is asked of the model."""

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

import viz_model as vm
from tests.support.small_models import make_model, small_config
from viz_model.model import Model

KINDS = {
    "GPT-2's": {},
    "Llama's": {"position": "rotary", "norm": "rms", "activation": "swiglu", "tied_unembedding": False},
    "no positions": {"position": "none"},
    "BERT's": {"layout": "encoder-only", "embedding_norm": True, "norm_place": "post"},
    "two stacks": {"layout": "encoder-decoder", "n_encoder_layers": 2},
}


def scaled(config, factor) -> Model:
    transformer = make_model(config)
    with torch.no_grad():
        for parameter in transformer.parameters():
            parameter.mul_(factor)
    assert all(parameter.isfinite().all() for parameter in transformer.parameters())
    return Model("scaled", transformer)


@pytest.mark.parametrize("factor", [1e18, 1e36])
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_one_sentence_that_names_where_it_begins(kind, factor):
    model = scaled(small_config(**kind), factor)
    uses = [lambda: model.trace([1, 2, 3]), lambda: model.trace([1, 2, 3], stored_weights_bytes=0)]
    if model.config.layout != "encoder-only":
        uses.append(lambda: list(model.generate([1, 2, 3], max_new_tokens=2)))
    if model.has_source:
        uses.append(lambda: model.trace([1, 2, 3], target=[4, 5]))
    for use in uses:
        with pytest.raises(vm.CheckpointError, match=r"scaled become too large .* those of [\w.]+ are larger"):
            use()


def test_a_model_of_the_library_is_not_said_to_differ_from_itself(tmp_path):
    library = GPT2LMHeadModel(GPT2Config(vocab_size=67, n_embd=16, n_layer=1, n_head=2, n_positions=32))
    with torch.no_grad():
        for parameter in library.parameters():
            parameter.mul_(1e30)
    library.save_pretrained(tmp_path)
    with pytest.raises(vm.CheckpointError, match="become too large in this pass"):
        vm.load(tmp_path)


def test_large_numbers_that_are_finite_are_drawn():
    model = scaled(small_config(position="rotary", norm="rms"), 1e3)
    assert model.trace([1, 2, 3]).logits.isfinite().all()
