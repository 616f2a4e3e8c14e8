"""The bundled model with Llama's parts keeps what its README says, and is Llama of `transformers` with its weights."""

from functools import cache

import torch

import viz_model as vm
from tests.support.transformers_tiny_gpt import FOLDER as GPT
from tests.support.transformers_tiny_llama import llama

FOLDER = GPT.parent / "tiny-llama"
README = (FOLDER / "README.md").read_text()


@cache
def model():
    return vm.load("tiny-llama")


def test_it_is_llama_of_another_library():
    ids = model().encode("Once upon a time there was a king who had three daughters.")
    trace = model().trace(ids)
    with torch.inference_mode():
        theirs = llama()(torch.tensor([ids]), output_attentions=True)
    torch.testing.assert_close(trace.logits, theirs.logits[0, -1], atol=1e-4, rtol=1e-4)
    for layer, maps in enumerate(theirs.attentions):
        for head in range(model().config.n_heads):
            torch.testing.assert_close(trace.weights(layer, head), maps[0, head], atol=1e-5, rtol=1e-4)
